"""A type's own checks, and measures: code of the user's that runs beside the programs."""

import threading
from dataclasses import dataclass

import pytest

from sapwood import ProgramError, function, gen, select, set_default_backend
from sapwood.current import current_state
from sapwood.loop import BACKGROUND
from tests.support.fake_backend import FakeBackend


@pytest.fixture
def backend():
    return FakeBackend(lambda _request: '{"count": 1}')


def checked_by(check):
    @dataclass
    class Checked:
        count: int

        def __post_init__(self):
            check()

    return Checked


def typed(check, backend):
    def program(s, kind):
        s += gen("x", json_schema=kind)
        s["x"]

    return function(program).run(checked_by(check), backend=backend)


def test_it_runs_beside_the_programs_requests_and_outside_of_any_program(backend):
    seen = []
    typed(lambda: seen.append((threading.current_thread() is BACKGROUND._thread, current_state())), backend)
    assert seen == [(False, None)]


def test_it_may_ask_a_server(backend):
    set_default_backend(FakeBackend(lambda _request: "yes"))
    asked = []
    typed(lambda: asked.append(gen("Is this right?")), backend)
    assert asked == ["yes"]


def test_a_measure_runs_there_too(backend):
    seen = []

    def measure(scores):
        seen.append(threading.current_thread() is BACKGROUND._thread)
        return 1

    state = function(lambda s: s.__iadd__("a" + select("x", ["b", "c"], method=measure))).run(backend=backend)
    assert (state["x"], seen) == ("c", [False])


@pytest.mark.parametrize(
    "wait",
    [
        lambda s, later: s["later"],
        lambda s, later: s.text(),
        lambda s, later: s.error(),
        lambda s, later: s.generation("later"),
        lambda s, later: str(later),
        lambda s, later: later == "a",
        lambda s, later: list(s.text_iter("later")),
    ],
)
@pytest.mark.parametrize("stream", [False, True])
def test_it_cannot_wait_for_what_may_wait_for_it(wait, stream, backend):
    here = {}
    there = threading.Event()

    def check():
        assert there.wait(30)
        wait(**here)

    @function
    def program(s, kind):
        s += gen("x", json_schema=kind)
        later = gen("later")
        here.update(s=s, later=later)
        s += later
        there.set()

    with pytest.raises(ProgramError, match="is not there yet"):
        program.run(checked_by(check), backend=backend, stream=stream).wait()


def test_it_can_read_what_is_there(backend):
    seen = []

    @function
    def program(s):
        before = gen("before")
        assert before
        s += gen("x", json_schema=checked_by(lambda: seen.append(str(before))))

    program.run(backend=backend)
    assert seen == ['{"count": 1}']
