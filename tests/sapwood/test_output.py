"""Commands as a shell starts them, with streams that are closed, full or of few characters."""

import subprocess
import sys

import pytest

from sapwood.output import EXIT_NO_OUTPUT, EXIT_NO_TEXT

SAPWOOD = f"{sys.executable} -m sapwood"


def run(shell: str, given: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(["bash", "-c", shell], input=given, capture_output=True, check=False)


def test_a_full_disk() -> None:
    ended = run(f"{SAPWOOD} --help > /dev/full")
    assert ended.returncode == EXIT_NO_OUTPUT
    assert ended.stderr == b"sapwood: [Errno 28] No space left on device\n"


def test_input_that_is_no_text() -> None:
    ended = run(f"PYTHONUTF8=0 LC_ALL=C.UTF-8 PYTHONIOENCODING=utf-8:strict {SAPWOOD} generate -", b"\xff")
    assert ended.returncode == EXIT_NO_TEXT
    assert b"the input is no text" in ended.stderr
    assert b"Traceback" not in ended.stderr


@pytest.mark.parametrize(
    ("shell", "code"),
    [
        ("--help >&-", 0),
        ("--help <&- >&- 2>&-", 0),
        ("generate - --url http://127.0.0.1:9 <&-", 69),
        ("chat --url http://127.0.0.1:9 <&- >&-", 69),
        ("top --url http://127.0.0.1:9 >&-", 69),
    ],
)
def test_streams_that_are_closed(shell: str, code: int) -> None:
    ended = run(f"{SAPWOOD} {shell}")
    assert ended.returncode == code
    assert b"Traceback" not in ended.stderr


def test_a_terminal_that_has_ascii_alone() -> None:
    ended = run(f"PYTHONIOENCODING=ascii {SAPWOOD} --help")
    assert ended.returncode == 0
    assert b"usage: sapwood COMMAND ?" in ended.stdout
