"""Which server a command is about."""

from pathlib import Path

import pytest

from sapwood.local_server import local_run_dir
from shared.server_command import EXIT_CONFIG, about_server


@pytest.mark.parametrize(
    ("arguments", "run_dir"),
    [(["--run-dir", "/mine", "--port", "7"], Path("/mine")), (["--port", "7"], local_run_dir(7))],
)
def test_that_of_the_run_directory_or_of_the_port(arguments, run_dir):
    asked = []
    assert about_server("ask", arguments, lambda folder: asked.append(folder) or 3) == 3
    assert asked == [run_dir]


def test_a_configuration_that_cannot_be_used_is_one_clear_line(capsys):
    assert about_server("ask", ["--set", "gateway.prt=1"], lambda _: 0) == EXIT_CONFIG
    assert capsys.readouterr().err == "sapwood: unknown key 'gateway.prt'; did you mean 'port'?\n"
