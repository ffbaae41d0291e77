"""A disk that is full and a terminal that has stopped: the log suffers, and nobody else."""

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.faults import census
from tests.support.deployment import Deployment, wait_until

pytestmark = [pytest.mark.integration, pytest.mark.soak]

MORE_THAN_A_PIPE_HOLDS = 400  # requests, each of some log lines


class Muted(Deployment):
    """Its stdout takes nothing, or no more than a little."""

    def __init__(self, run_dir, stdout, *before):
        super().__init__(run_dir)
        self._stdout = stdout
        self._before = before

    def start(self):
        (self.run_dir / "tmp").mkdir(parents=True)
        serve = [sys.executable, "-m", "sapwood", "serve", "--port", str(self.port), "--run-dir", str(self.run_dir)]
        serve += census.SMALL_POOL
        environment = os.environ | {"TMPDIR": str(self.run_dir / "tmp")}
        self.process = subprocess.Popen(
            [*self._before, *serve], stdout=self._stdout, stderr=subprocess.STDOUT, env=environment
        )
        wait_until(lambda: census.answers_ready(self.url), 120, "ready")


def unread_pipe(_folder):
    return subprocess.PIPE, ()


def full_disk(_folder):
    return open("/dev/full", "wb"), ()


def file_of_8_kib(folder):
    return (folder / "log").open("wb"), ("bash", "-c", 'ulimit -f 8; exec "$@"', "bash")


@pytest.mark.filterwarnings("ignore::ResourceWarning")  # the pipe is left unread, and so unclosed
@pytest.mark.parametrize("surrounding", [unread_pipe, full_disk, file_of_8_kib])
def test_a_log_that_takes_no_more(tmp_path, surrounding):
    stdout, before = surrounding(tmp_path)
    server = Muted(tmp_path / "run", stdout, *before)
    server.start()
    try:
        server.generate("Hi", max_new_tokens=1)
        base = census.take(server)
        with ThreadPoolExecutor(16) as pool:
            replies = list(pool.map(lambda n: server.generate(f"{n}", max_new_tokens=1), range(MORE_THAN_A_PIPE_HOLDS)))
        assert len(replies) == MORE_THAN_A_PIPE_HOLDS
        server.kill("detokenizer-1")
        server.wait_restarted("detokenizer-1")
        census.take(server).check(base)
    finally:
        server.stop()
