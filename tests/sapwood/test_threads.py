"""Programs that start threads of their own."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from sapwood import ProgramError, function, gen, set_default_backend, user
from tests.support.fake_backend import FakeBackend


def in_threads(work, forks):
    with ThreadPoolExecutor(len(forks)) as pool:
        return list(pool.map(work, range(len(forks))))


@pytest.mark.parametrize("stream", [False, True])
def test_each_writes_to_the_state_that_it_has_entered(stream):
    backend = FakeBackend(lambda request: f"({request.prompt})")

    @function
    def program(s):
        s += "a"
        forks = s.fork(3)

        def work(place):
            with forks[place] as branch:
                branch += f"{place}" + gen("x")
                gen("y")
                return branch["x"], branch.error()

        return in_threads(work, forks), [fork.text() for fork in forks]

    state = program.run(backend=backend, stream=stream).wait()
    assert state.result == (
        [(f"(a{place})", None) for place in range(3)],
        [f"a{place}(a{place})(a{place}(a{place}))" for place in range(3)],
    )


def test_what_is_generated_in_no_program_is_not_attached_to_one():
    backend = FakeBackend()
    set_default_backend(backend)

    @function
    def program(s):
        forks = s.fork(2)

        def work(place):
            forks[place] += f"{place}" + gen("answer")

        in_threads(work, forks)

    with pytest.raises(ProgramError, match="within `with state:`"):
        program.run(backend=backend)


def test_a_state_that_is_entered_has_what_is_made_in_it():
    @function
    def program(s):
        s += user("Hi")
        with s.copy() as branch:
            with branch.assistant():
                gen("x")
            assert branch["x"] == "1"
        return "x" in s

    state = program.run(backend=FakeBackend())
    assert state.result is False
    assert len(state.messages()) == 1
