"""What `import sapwood` gives: quickly, alone, and with types."""

import subprocess
import sys

import pytest

import sapwood

SERVER_ONLY = ("aiohttp", "numpy", "services", "shared", "structlog", "torch", "yaml", "zmq")

PROGRAM = """
from dataclasses import dataclass

from sapwood import Client, Forks, State, assistant, function, gen, run, select, set_default_backend, user


@dataclass
class Trip:
    days: int


@function
def plan(s: State, place: str) -> str:
    s += user("Plan " + place)
    with assistant():
        s += "First " + gen("way", max_tokens=5, temperature=0, stop=["."]) + "."
        kind: str = select("kind", choices=["a", "b"])
        trip = gen("trip", json_schema=Trip)
        s += trip
    forks: Forks = s.fork(2)
    forks += user("Why?") + assistant(gen("why"))
    forks.join()
    return kind.upper()


def bare() -> None:
    with assistant() as a:
        a += user("Hi")
        if gen("mood", choices=["glad", "sad"]) == "glad":
            gen("more")


set_default_backend("http://127.0.0.1:30000")
state: State = plan.run(place="Ulm", temperature=0.5)
batch: list[State] = plan.run_batch([{"place": "Ulm"}], num_threads=4, progress_bar=True)
for piece in plan.stream("Ulm").text_iter("way"):
    print(piece.upper())
print(run(bare).messages()[0]["content"], state["trip"].days, state.generation("way").finish_reason)
client = Client("http://127.0.0.1:30000")
answer: str = client.chat([{"role": "user", "content": "Hi"}], max_tokens=3)
"""


def test_every_name_is_there():
    for name in sapwood.__all__:
        assert getattr(sapwood, name) is not None
    assert dir(sapwood) == sorted(sapwood.__all__)


def test_another_name_is_not():
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = sapwood.nothing


def imported_after(statement):
    command = f"import sys\n{statement}\nprint(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", command], capture_output=True, text=True, check=True)
    return {name.split(".")[0] for name in done.stdout.split()}


def test_the_language_needs_nothing_of_the_server():
    assert not imported_after("from sapwood import *").intersection(SERVER_ONLY)


def test_importing_it_imports_nothing_else():
    assert not imported_after("import sapwood").intersection({"httpx", "msgspec", "asyncio"})


def test_a_users_program_passes_a_strict_checker(tmp_path, repository):
    (tmp_path / "program.py").write_text(PROGRAM)
    command = [sys.executable, "-m", "mypy", "--strict", "--config-file=", "--cache-dir", str(tmp_path), "program.py"]
    done = subprocess.run(
        command, cwd=tmp_path, env={"MYPYPATH": str(repository), "PATH": ""}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
