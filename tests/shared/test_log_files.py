import json
import subprocess
import sys

import pytest

from shared.config import ConfigError, LoggingConfig
from shared.log_files import RotatedFile, log_file

LONG = 60.0

WRITER = """
import sys
from shared import logging
from shared.config import LoggingConfig
from shared.log_files import log_file
settings = LoggingConfig(directory="{run_dir}/logs")
logging.configure(
    "tokenizer-1", form=sys.argv[2], file=log_file(settings, sys.argv[1], "tokenizer-1")
)
logging.get().info("encoded", request_id="r", text="a\\nb")
logging.drain()
"""


@pytest.mark.parametrize("form", ["json", "console"])
def test_a_file_has_the_lines_of_stdout_as_json(repository, tmp_path, form):
    command = [sys.executable, "-c", WRITER, str(tmp_path), form]
    done = subprocess.run(command, cwd=repository, capture_output=True, text=True, check=True)
    (line,) = (tmp_path / "logs" / "tokenizer-1.jsonl").read_text().splitlines()
    fields = json.loads(line)
    assert fields.items() >= {"event": "encoded", "service": "tokenizer-1", "level": "info", "text": "a\\nb"}.items()
    assert (done.stdout.strip() == line) == (form == "json")


def test_a_full_file_becomes_the_older_one_and_no_line_is_torn(tmp_path):
    path = tmp_path / "gateway.jsonl"
    file = RotatedFile(path, 100)
    for number in range(12):
        line = b"%29d\n" % number
        assert file.write(line) == len(line)
    older = tmp_path / "gateway.jsonl.1"
    assert [int(line) for line in older.read_text().splitlines()] == [6, 7, 8]
    assert [int(line) for line in path.read_text().splitlines()] == [9, 10, 11]
    assert len(list(tmp_path.iterdir())) == 2


def test_a_process_that_starts_again_goes_on_in_its_file(tmp_path):
    path = tmp_path / "gateway.jsonl"
    RotatedFile(path, 100).write(b"x" * 59 + b"\n")
    RotatedFile(path, 100).write(b"y\n")
    RotatedFile(path, 100).write(b"z" * 49 + b"\n")
    assert path.read_bytes() == b"z" * 49 + b"\n"


def test_a_line_longer_than_a_file_is_kept_whole(tmp_path):
    path = tmp_path / "gateway.jsonl"
    file = RotatedFile(path, 10)
    file.write(b"x" * 20 + b"\n")
    file.write(b"y\n")
    assert (tmp_path / "gateway.jsonl.1").read_bytes() == b"x" * 20 + b"\n"
    assert path.read_bytes() == b"y\n"


def test_a_file_that_was_removed_comes_back_when_it_is_full(tmp_path):
    path = tmp_path / "gateway.jsonl"
    file = RotatedFile(path, 10)
    file.write(b"x" * 9 + b"\n")
    path.unlink()
    file.write(b"y\n")
    assert path.read_bytes() == b"y\n"


def test_nowhere(tmp_path):
    assert log_file(LoggingConfig(), str(tmp_path), "gateway") is None
    assert log_file(LoggingConfig(directory=""), str(tmp_path), "gateway") is None
    assert list(tmp_path.iterdir()) == []


def test_names_stay_in_the_folder(tmp_path):
    writer = log_file(LoggingConfig(directory=str(tmp_path / "logs")), "", "../a/b")
    assert writer is not None
    writer.write("x\n")
    assert writer.drain(LONG)
    assert [path.name for path in tmp_path.rglob("*.jsonl")] == [".._a_b.jsonl"]
    assert (tmp_path / "logs" / ".._a_b.jsonl").read_text() == "x\n"


def test_a_folder_that_cannot_be_written_to_is_said_at_the_start(tmp_path):
    (tmp_path / "logs").write_text("a file")
    with pytest.raises(ConfigError, match=r"logging\.directory"):
        log_file(LoggingConfig(directory="{run_dir}/logs"), str(tmp_path), "gateway")


def test_a_link_is_not_followed(tmp_path):
    (tmp_path / "gateway.jsonl").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ConfigError, match=r"logging\.directory"):
        log_file(LoggingConfig(directory=str(tmp_path)), "", "gateway")
    assert not (tmp_path / "elsewhere").exists()
