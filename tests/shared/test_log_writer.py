import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from shared.log_writer import LineWriter

PIPE_BYTES = 1 << 20  # more than any pipe holds
LINE = b"x" * 999 + b"\n"
LONG = 60.0

BROKEN_STDOUT = """
import sys
from shared import logging
logging.configure("gateway", level="info")
for number in range(3000):
    logging.get().info("request", number=number, text="x" * 100)
    logging.get().info("request", number=number, text="x" * 100)
sys.stderr.write("went on")
"""


@pytest.fixture
def pipe():
    reading, writing = os.pipe()
    with open(reading, "rb") as reader:
        yield reader, writing
        os.close(writing)


def test_all_lines_are_written_in_order(pipe):
    reader, writing = pipe
    writer = LineWriter(writing)
    for number in range(100):
        writer.write(f"{number}\n")
    assert writer.drain(LONG)
    assert [int(reader.readline()) for _ in range(100)] == list(range(100))


def test_a_reader_that_does_not_read_costs_lines_which_are_counted(pipe):
    reader, writing = pipe
    writer = LineWriter(writing, most_bytes=10 * len(LINE))
    for _ in range(PIPE_BYTES // len(LINE)):
        writer.write(LINE)
    assert not writer.drain(0)
    with ThreadPoolExecutor() as pool:
        reading = pool.submit(list, iter(reader.readline, b"the last\n"))
        assert writer.drain(LONG)
        writer.write(b"the last\n")
    read = reading.result()
    reports = [json.loads(line) for line in read if line != LINE]
    assert {report["event"] for report in reports} == {"log_lines_lost"}
    assert sum(report["count"] for report in reports) + read.count(LINE) == PIPE_BYTES // len(LINE)


def test_a_full_disk_costs_lines():
    with open("/dev/full", "wb", buffering=0) as full:
        writer = LineWriter(full.fileno())
        writer.write("a\n"), writer.write("b\n")
        assert writer.drain(LONG)
        assert writer._lost == 2


def test_a_lost_line_is_told_of_once():
    taken, room = [], [False, True, False, True, True]  # for each write: a line, a report, a line, a report, a line

    def write(line):
        if not room.pop(0):
            raise OSError
        taken.append(line)
        return len(line)

    writer = LineWriter(write)
    for line in ("a\n", "b\n", "c\n"):
        writer.write(line)
        assert writer.drain(LONG)
    assert [json.loads(line)["count"] for line in taken if line != b"c\n"] == [1, 1]
    assert (taken[-1], writer._lost) == (b"c\n", 0)


def test_a_reader_that_is_gone_costs_lines(pipe):
    reader, writing = pipe
    reader.close()
    writer = LineWriter(writing)
    writer.write("a\n")
    assert writer.drain(LONG)
    assert writer._lost == 1


@pytest.mark.parametrize("stdout", ["full", "unread"])
def test_a_process_goes_on_when_its_lines_cannot_be_written(repository, stdout):
    reading, writing = os.pipe()
    with open("/dev/full", "wb") as full, open(reading, "rb"), open(writing, "wb") as unread:
        target = full if stdout == "full" else unread
        command = [sys.executable, "-c", BROKEN_STDOUT]
        done = subprocess.run(command, cwd=repository, stdout=target, stderr=subprocess.PIPE, timeout=60)
    assert (done.returncode, done.stderr) == (0, b"went on")
