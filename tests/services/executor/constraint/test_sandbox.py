"""The parent's side, with processes made up for the case: they answer, die, hang, grow, or cannot be started."""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import pytest

from services.executor.constraint import sandbox as module
from services.executor.constraint.job import Answer, Broken, Done, Interrupted, TooComplex, Wrong
from services.executor.constraint.sandbox import Sandbox, SandboxDown
from shared import wire
from shared.config import ConstraintsConfig

CAPS = ConstraintsConfig(compile_cpu_s=0.1, compile_memory_bytes=64 * 1024 * 1024)
FAKE = """
import os, resource, signal, sys, time
from services.executor.constraint.job import *
jobs, answers = sys.stdin.buffer, sys.stdout.buffer
def say(message):
    answers.write(framed(message)); answers.flush()
say(Ready(1000))
while (frame := read_frame(jobs)) is not None:
    source = decode_job(frame).constraint.source
"""


def fake(behaviour: str) -> list[str]:
    """A worker that does this with each `source`."""
    return [sys.executable, "-c", FAKE + "    " + behaviour]


def regex(source: str = "a") -> wire.Constraint:
    return wire.Constraint("regex", source)


@asynccontextmanager
async def running(behaviour: str) -> AsyncIterator[Sandbox]:
    sandbox = Sandbox(fake(behaviour), CAPS)
    try:
        yield sandbox
    finally:
        await sandbox.close()


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (Done("text", 5), "Done('text', 5)"),
        (Wrong("no", ("a", 3)), "Wrong('no', ('a', 3))"),
        (TooComplex("much"), "TooComplex('much')"),
        (Broken("oh"), "Broken('oh')"),
    ],
)
async def test_answers_come_from_one_process_that_stays(answer: Answer, said: str) -> None:
    async with running(f"say({said})") as sandbox:
        assert await sandbox.run(regex()) == answer
        pid = sandbox.pid
        assert await sandbox.run(regex()) == answer
        assert sandbox.pid == pid


async def test_jobs_wait_for_one_another_and_each_gets_its_own_answer() -> None:
    async with running("say(Done(source * 2))") as sandbox:
        found = await asyncio.gather(*(sandbox.run(regex(str(number))) for number in range(20)))
    assert found == [Done(str(number) * 2) for number in range(20)]


async def test_a_long_source_and_a_long_answer() -> None:
    async with running("say(Done(source * 10))") as sandbox:
        assert await sandbox.run(regex("😀" * 100_000)) == Done("😀" * 1_000_000)


@pytest.mark.parametrize(
    ("behaviour", "reason"),
    [
        ("os.kill(os.getpid(), signal.SIGPROF)", "0.1 s"),
        ("os.abort()", "64 MiB"),
        ("os.kill(os.getpid(), signal.SIGSEGV)", "fails"),
        ("sys.exit(3)", "fails"),
        ("os.kill(os.getpid(), signal.SIGKILL)", "killed twice"),
    ],
)
async def test_a_job_that_ends_the_process_is_too_complex_and_the_next_one_works(behaviour: str, reason: str) -> None:
    async with running(f"say(Done(source)) if source == 'fine' else {behaviour}") as sandbox:
        answer = await sandbox.run(regex("hostile"))
        assert isinstance(answer, Interrupted if "SIGKILL" in behaviour else TooComplex)
        assert reason in answer.message
        assert await sandbox.run(regex("fine")) == Done("fine")


async def test_the_next_process_is_started_before_anybody_asks() -> None:
    async with running("os.abort()") as sandbox:
        await sandbox.run(regex())
        await until(lambda: sandbox.pid is not None)


async def test_a_process_that_somebody_else_kills_costs_a_second_try(tmp_path: Path) -> None:
    begun = tmp_path / "begun"
    behaviour = "say(Done('text')) if os.path.exists(source) else open(source, 'w') and time.sleep(60)"
    async with running(behaviour) as sandbox:
        job = asyncio.create_task(sandbox.run(regex(str(begun))))
        await until(begun.exists)
        assert sandbox.pid is not None
        os.kill(sandbox.pid, signal.SIGKILL)
        assert await job == Done("text")


async def test_a_process_that_died_at_rest_is_replaced() -> None:
    async with running("say(Done(source))") as sandbox:
        await sandbox.run(regex())
        assert sandbox.pid is not None
        os.kill(sandbox.pid, signal.SIGKILL)
        assert await sandbox.run(regex("b")) == Done("b")


async def test_a_process_that_hangs_is_killed_by_the_clock_on_the_wall(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "WALL_S", 0.0)
    monkeypatch.setattr(module, "WALL_FACTOR", 1.0)
    async with running("time.sleep(60)") as sandbox:
        await sandbox.run(regex())
        first = await sandbox.run(regex())
    assert first == Interrupted("the constraint is too complex: compiling it takes over 0.1 s")


async def test_a_process_that_has_grown_is_replaced() -> None:
    async with running(f"say(Done(source, {2 * module.MAX_GROWTH_BYTES}))") as sandbox:
        sandbox.warm_up()
        await until(lambda: sandbox.pid is not None)
        pid = sandbox.pid
        assert isinstance(await sandbox.run(regex()), Done)
        assert isinstance(await sandbox.run(regex()), Done)
        assert sandbox.pid != pid


async def test_a_job_that_is_given_up_leaves_no_answer_for_the_next_one() -> None:
    async with running("say(Done(source)) if source != 'slow' else time.sleep(60)") as sandbox:
        await sandbox.run(regex())
        job = asyncio.create_task(sandbox.run(regex("slow")))
        await asyncio.sleep(0)
        job.cancel()
        with pytest.raises(asyncio.CancelledError):
            await job
        assert await sandbox.run(regex("next")) == Done("next")


@pytest.mark.parametrize(
    "command",
    [
        ["/nowhere/at/all"],
        [sys.executable, "-c", "pass"],
        [sys.executable, "-c", "import os; os.write(1, b'\\0\\0\\0\\1?')"],
    ],
)
async def test_a_process_that_cannot_be_started_is_tried_again_each_time(command: list[str]) -> None:
    sandbox = Sandbox(command, CAPS)
    for _ in range(2):
        with pytest.raises(SandboxDown):
            await sandbox.run(regex())
    sandbox._command = fake("say(Done(source))")
    assert await sandbox.run(regex("a")) == Done("a")
    await sandbox.close()


async def test_a_process_that_cannot_be_started_ahead_is_no_fault() -> None:
    sandbox = Sandbox(["/nowhere/at/all"], CAPS)
    sandbox.warm_up()
    await asyncio.sleep(0)
    await sandbox.close()


async def test_closed_at_once() -> None:
    sandbox = Sandbox(fake("pass"), CAPS)
    sandbox.warm_up()
    await sandbox.close()
    assert sandbox.pid is None


async def test_no_process_outlives_the_end() -> None:
    async with running("say(Done(source))") as sandbox:
        await sandbox.run(regex())
        pid = sandbox.pid
        assert pid is not None
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        while not condition():
            await asyncio.sleep(0)


def test_the_caps_go_through_msgpack() -> None:
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(CAPS), type=ConstraintsConfig) == CAPS
