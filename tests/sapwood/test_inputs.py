"""Values among what other statements are given."""

import asyncio
import threading

import pytest

from sapwood import ProgramError, call_api, function, gen, select
from tests.support.fake_backend import FakeBackend


@pytest.fixture
def backend():
    return FakeBackend()


@pytest.mark.parametrize(
    ("options", "field", "became"),
    [
        (lambda v: {"choices": [v, "b"]}, "choices", ("1", "b")),
        (lambda v: {"choices": (v + "!", v)}, "choices", ("1!", "1")),
        (lambda v: {"stop": v}, "stop", ("1",)),
        (lambda v: {"stop": ["\n", v]}, "stop", ("\n", "1")),
        (lambda v: {"stop_regex": v}, "stop_regex", ("1",)),
        (lambda v: {"regex": "a" + v}, "regex", "a1"),
        (lambda v: {"ebnf": v}, "ebnf", "1"),
        (lambda v: {"json_schema": {"enum": [v, {"x": v}]}}, "json_schema", '{"enum":["1",{"x":"1"}]}'),
        (lambda v: {"logit_bias": {"7": v}}, "logit_bias", {"7": 1.0}),
    ],
)
def test_an_option_may_be_a_value_or_hold_one(options, field, became, backend):
    @function
    def program(s):
        s += "a" + gen("x", **options(gen("first")))

    program.run(backend=backend)
    assert backend.prompts == ["", "1a"]
    assert getattr(backend.requests[1].sampling, field) == became


def test_a_number_may_be_one_and_a_list_of_samples_be_choices(backend):
    @function
    def program(s):
        s += gen("x", max_tokens=gen("count", dtype=int))
        s += gen("y", choices=gen("samples", n=2))

    program.run(backend=backend)
    assert backend.requests[1].sampling.max_tokens == 1
    assert backend.requests[3].sampling.choices == ("3", "3")


def test_choices_of_numbers_are_their_texts(backend):
    @function
    def program(s):
        s += gen("x", choices=[gen("count", dtype=int), 5])

    program.run(backend=backend)
    assert backend.requests[1].sampling.choices == ("1", "5")


def test_the_program_does_not_wait_for_them():
    """All is put in line before anything is answered: this backend answers the first only once it has."""
    written = threading.Event()

    class Late(FakeBackend):
        async def generate(self, request):
            assert await asyncio.to_thread(written.wait, 10)
            return await super().generate(request)

    backend = Late()

    @function
    def program(s):
        first = gen("first")
        left, right = s.fork(2)
        left += gen("x", stop=first)
        right += select("y", choices=[first, "b"])
        written.set()

    program.run(backend=backend)
    assert len(backend.requests) == 3


def test_what_fails_in_one_is_raised_where_the_other_is_read():
    def answer(request):
        raise ZeroDivisionError

    @function
    def program(s):
        gen("x", stop=gen("first"))

    backend = FakeBackend(answer)
    state = program.stream(backend=backend)
    with pytest.raises(ZeroDivisionError):
        state["x"]
    assert len(backend.requests) == 1


def test_what_makes_no_sense_with_values_is_told_where_it_is_read(backend):
    @function
    def program(s):
        gen("x", stop=gen("first"), tempreature=1)

    with pytest.raises(ProgramError, match="did you mean temperature"):
        program.run(backend=backend)


def test_an_option_of_an_inner_run_may_be_one(backend):
    @function
    def inner(s):
        s += gen("y")

    @function
    def outer(s):
        inner.run(stop=[gen("x")], backend=backend)

    outer.run(backend=backend)
    assert backend.requests[1].sampling.stop == ("1",)


def test_in_a_drawing_they_are_read():
    @function
    def program(s):
        s += gen("first", choices=["a"])
        s += select("x", choices=[s["first"], "b"])
        kept = gen("kept")
        call_api("y", "https://api.example.com/" + kept, {"of": [kept]})

    graph = program.trace()
    labels = [node.label for node in graph.nodes]
    edges = [(labels[edge.source], labels[edge.target]) for edge in graph.edges if edge.kind == "reads"]
    assert edges == [("first", "x"), ("kept", "y")]
    assert graph.nodes[1].details == {"choices": "a, b"}
    assert graph.nodes[3].details == {"url": "GET https://api.example.com/[%E2%80%A6]"}
