import json
import os
import pty
import subprocess
import sys

import pytest

WRITER = """
import threading
from shared import logging
logging.configure("tokenizer-1", level="info")
log = logging.get(request_id="r1")
log.debug("unseen")
threading.Thread(target=lambda: log.info("encoded", tokens=3, text="line\\nbreak \\x1b", odd=object)).start()
"""

BREAKS = """
import logging as stdlib, sys, warnings
from shared import logging
logging.configure("gateway", form=sys.argv[1])
try:
    prompt = "se" + "cret"
    {}[prompt[:3] + "\\n\\x1b[2J"]
except KeyError:
    logging.get().exception("internal_error")
logging.get().info("request", path="a\\nb\\x9b\\ud800")
stdlib.getLogger("aiohttp").error("Error in %s\\n\\x1b", "b" * 500, exc_info=OSError("gone"))
warnings.warn("look out")
"""


def test_a_line_is_one_json_object_with_service_and_bound_values(repository):
    done = subprocess.run([sys.executable, "-c", WRITER], cwd=repository, capture_output=True, text=True, check=True)
    (line,) = done.stdout.splitlines()
    assert "\x1b" not in line
    fields = json.loads(line)
    assert fields.pop("timestamp").endswith("Z")
    assert fields.pop("odd") == "<class 'object'>"
    assert fields == {
        "event": "encoded",
        "service": "tokenizer-1",
        "level": "info",
        "request_id": "r1",
        "tokens": 3,
        "text": "line\\nbreak \\x1b",
    }


@pytest.mark.parametrize("form", ["json", "console"])
def test_what_breaks_is_told_without_values_or_control_characters(repository, form):
    done = subprocess.run([sys.executable, "-c", BREAKS, form], cwd=repository, capture_output=True, check=True)
    text = done.stdout.decode()
    assert done.stderr == b""
    assert "secret" not in text
    assert "KeyError: 'sec" in text
    assert "OSError: gone" in text
    assert "look out" in text
    assert "b" * 300 not in text
    assert "\x1b[2J" not in text
    assert "\\nb" in text  # and no line begins there
    assert "\x9b" not in text
    if form == "json":
        events = [json.loads(line)["event"] for line in text.splitlines()]
        assert events == ["internal_error", "request", "library", "library"]


@pytest.mark.parametrize(
    ("environment", "colours"), [({"NO_COLOR": "", "TERM": "xterm"}, True), ({"NO_COLOR": "1", "TERM": "xterm"}, False)]
)
def test_on_a_terminal_lines_are_for_people(repository, environment, colours):
    ours, theirs = pty.openpty()
    with open(ours, "rb", buffering=0) as terminal:
        command = [sys.executable, "-c", 'from shared import logging; logging.configure("a"); logging.get().info("b")']
        subprocess.run(command, cwd=repository, stdout=theirs, env=os.environ | environment, check=True)
        line = terminal.read(1000)
        os.close(theirs)
    assert b"b" in line
    assert not line.startswith(b"{")
    assert (b"\x1b[" in line) == colours


def test_elsewhere_they_have_no_colours(repository):
    command = [sys.executable, "-c", BREAKS, "console"]
    done = subprocess.run(command, cwd=repository, capture_output=True, check=True)
    assert b"\x1b" not in done.stdout
