"""Runs that are left: by an interrupt, by a cancelled task, by nobody holding their state."""

import asyncio
import threading

import pytest

from sapwood import ProgramError, function, gen
from tests.support.fake_backend import FakeBackend


class Stalled(FakeBackend):
    """Says one word, and nothing more."""

    def __init__(self):
        super().__init__()
        self.began, self.ended = threading.Event(), threading.Event()

    async def stream(self, request):
        async for whole in super().stream(request):
            yield whole
        self.began.set()
        try:
            await asyncio.Event().wait()
        finally:
            self.ended.set()


@function
def question(s):
    s += "a" + gen("x")


@pytest.mark.parametrize("name", [None, "x"])
def test_a_cancelled_task_ends_the_run(name):
    backend = Stalled()
    state = question.stream(backend=backend)

    async def main():
        async def read():
            async for _ in state.text_async_iter(name):
                pass

        task = asyncio.create_task(read())
        assert await asyncio.to_thread(backend.began.wait, 30)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    assert backend.ended.wait(30)


def test_an_interrupt_while_it_is_followed_ends_the_run(monkeypatch):
    backend = Stalled()
    state = question.stream(backend=backend)
    pieces = state.text_iter()
    assert [next(pieces), next(pieces)] == ["a", "1"]
    assert backend.began.wait(30)
    bell = state._writer.session.bell
    monkeypatch.setattr(bell, "wait", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        next(pieces)
    assert backend.ended.wait(30)


def test_a_run_that_nobody_can_read_any_more_ends():
    backend = Stalled()
    state = question.stream(backend=backend)
    assert backend.began.wait(30)
    assert not backend.ended.is_set()
    del state
    assert backend.ended.wait(30)


def test_whoever_waits_for_a_program_that_does_not_notice_is_told():
    let = threading.Event()

    @function
    def program(s):
        s += "a"
        assert let.wait(30)

    state = program.stream(backend=FakeBackend())
    state._writer.session.cancel()
    for read in (state.wait, state.text, lambda: state["x"], lambda: list(state.text_iter())):
        with pytest.raises(Exception, match="run of program was cancelled"):
            read()
    let.set()


def test_a_program_that_exits_ends_itself_alone():
    @function
    def program(s, topic):
        if topic == "b":
            raise SystemExit(3)
        s += topic + gen("x")

    states = program.run_batch([{"topic": "a"}, {"topic": "b"}], backend=FakeBackend())
    assert states[0]["x"] == "1"
    for state in (states[1], program.stream("b", backend=FakeBackend())):
        with pytest.raises(ProgramError, match=r"sys.exit\(3\)"):
            state.wait()
    with pytest.raises(SystemExit):
        program.run("b", backend=FakeBackend())
