import json
import subprocess
import sys

WRITER = """
import threading
from shared import logging
logging.configure("tokenizer-1", level="info")
log = logging.get(request_id="r1")
log.debug("unseen")
threading.Thread(target=lambda: log.info("encoded", tokens=3, text="line\\nbreak \\x1b", odd=object)).start()
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
        "text": "line\nbreak \x1b",
    }
