import asyncio
import threading
from concurrent.futures import CancelledError
from queue import SimpleQueue

import pytest

from sapwood import (
    ConnectionFailed,
    InvalidOutput,
    ProgramError,
    assistant,
    function,
    gen,
    image,
    run,
    select,
    set_default_backend,
    user,
)
from sapwood.current import current_state
from tests.support.fake_backend import FakeBackend


@pytest.fixture
def backend():
    return FakeBackend()


@function
def question(s, topic, mood="calm"):
    """Ask."""
    s += f"{mood} {topic}: "
    s += gen("answer", max_tokens=5)
    return "done"


def test_arguments_and_result(backend):
    state = question.run("trees", mood="glad", backend=backend)
    assert state.text() == "glad trees: 1"
    assert state.result == "done"
    assert question.__doc__ == "Ask."


def test_options_hold_where_a_generation_has_none(backend):
    question.run(topic="a", temperature=0, max_tokens=9, stop="\n", backend=backend)
    (request,) = backend.requests
    assert request.sampling.temperature == 0
    assert request.sampling.max_tokens == 5
    assert request.sampling.stop == ("\n",)


def test_samples_may_be_asked_of_the_whole_program(backend):
    assert question.run("a", n=2, backend=backend)["answer"] == ["1", "1"]


def test_an_interrupt_ends_what_is_under_way():
    class Silent(FakeBackend):
        async def generate(self, request):
            started.set()
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                ended.set()
                raise

    started, ended = threading.Event(), threading.Event()

    @function
    def program(s):
        s += "a" + gen("x")
        assert started.wait(30)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        program.run(backend=Silent())
    assert ended.wait(30)


def test_a_cancelled_run_begins_nothing(backend):
    """The program does not notice the end of its run, and goes on."""
    refused = []

    @function
    def program(s):
        s += "a" + gen("x")
        assert s["x"] == "1"
        s._writer.session.cancel()
        for name in "yz":
            with pytest.raises(CancelledError, match="run of program was cancelled"):
                s += gen(name)
            refused.append(name)

    program.run(backend=backend)
    assert refused == ["y", "z"]
    assert len(backend.requests) == 1


def test_the_programs_own_argument_wins_over_an_option(backend):
    @function
    def program(s, n):
        s += f"{n}" + gen("x")

    program.run(n=3, temperature=1, backend=backend)
    assert backend.prompts == ["3"]
    assert backend.requests[0].sampling.n == 1


def test_an_argument_that_there_is_not(backend):
    with pytest.raises(ProgramError, match="did you mean temperature"):
        question.run(topic="a", temprature=0, backend=backend)
    with pytest.raises(ProgramError, match="there is no option tonic; did you mean topic"):
        question.bind(tonic="a")


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda **options: question.run(**options), "question: missing a required argument: 'topic'"),
        (lambda **options: question.bind(mood="sad").stream(**options), "question: missing a required"),
        (lambda **options: question.run("a", "b", "c", **options), "question: too many positional"),
        (lambda **options: question.run("a", topic="b", **options), "question: multiple values"),
        (lambda **options: question.run_batch([{"topic": "a"}, {"mood": "b"}], **options), "question: missing a"),
        (lambda **options: function(lambda s: question(s)).run(**options), "question: missing a required"),
    ],
)
def test_arguments_that_are_missing_or_too_many(call, words, backend):
    with pytest.raises(ProgramError, match=words):
        call(backend=backend)
    assert not backend.requests


def test_an_error_of_the_program_itself_is_not_taken_for_a_missing_argument(backend):
    def program(s):
        len()

    with pytest.raises(TypeError):
        function(program).run(backend=backend)


async def asynchronous(s):
    s += "a"


def generating(s):
    yield


async def both(s):
    yield


@pytest.mark.parametrize("program", [asynchronous, generating, both])
def test_what_is_no_plain_function_is_no_program(program):
    with pytest.raises(ProgramError, match="neither async def nor yield"):
        function(program)
    with pytest.raises(ProgramError, match="neither async def nor yield"):
        run(program)


def test_hosts_are_a_list():
    with pytest.raises(ProgramError, match="not one text"):
        function(api_hosts="api.example.com")(lambda s: None)


def test_bound_arguments(backend):
    bound = question.bind(topic="trees").bind(mood="sad")
    assert bound.run(backend=backend).text() == "sad trees: 1"
    assert bound.run(mood="glad", backend=backend).text() == "glad trees: 2"


def test_a_program_within_a_program_goes_on_in_its_text(backend):
    @function
    def outer(s):
        s += "I am "
        assert question(s, "a") == "done"
        s += "."

    assert outer.run(backend=backend).text() == "I am calm a: 1."


def test_a_program_in_a_fork_writes_to_the_fork(backend):
    @function
    def bare(s):
        gen("x")

    @function
    def outer(s):
        s += "a"
        (fork,) = s.fork(1)
        bare(fork)
        s += "b" + fork["x"]

    assert outer.run(backend=backend).text() == "ab1"


def test_a_run_within_a_program_is_another_text(backend):
    @function
    def outer(s):
        s += "a"
        s += question.run("b", backend=backend)["answer"]

    assert outer.run(backend=backend).text() == "a1"


def test_called_outside_it_runs(backend):
    set_default_backend(backend)
    assert question("trees").text() == "calm trees: 1"


def test_outside_of_programs_gen_is_one_turn(backend):
    set_default_backend(backend)
    assert gen("What is this?", max_tokens=3) == "1"
    assert backend.prompts == [[("user", "What is this?")]]
    backend.likely = "b"
    assert select("Which?", ["a", "b"]) == "b"
    with pytest.raises(ProgramError, match="prompt"):
        gen()


def test_the_state_is_nobodys_after_a_run(backend):
    question.run("a", backend=backend)
    assert current_state() is None


def test_a_batch_keeps_its_order_and_its_errors():
    def answer(request):
        if "bad" in request.prompt:
            raise ZeroDivisionError
        return request.prompt

    topics = ["a", "bad", "c"]
    states = question.run_batch([{"topic": topic} for topic in topics], backend=FakeBackend(answer), num_threads="auto")
    assert [state.error() is None for state in states] == [True, False, True]
    assert states[2]["answer"] == "calm c: "
    with pytest.raises(ZeroDivisionError):
        states[1]["answer"]


def test_a_stream_gives_all_text_in_pieces():
    backend = FakeBackend(lambda _: "red")
    backend.let = SimpleQueue()
    state = question.run("trees", backend=backend, stream=True)
    pieces = []
    for piece in state.text_iter():
        pieces.append(piece)
        backend.let.put(None)
    assert pieces == ["calm trees: ", "r", "e", "d"]
    assert "".join(pieces) == state.text()
    assert "".join(state.text_iter("answer")) == state["answer"]


def test_a_stream_of_a_chat_has_its_headings(backend):
    def program():
        with assistant() as a:
            a += user("Hi")
            a += gen("x")

    state = run(program, backend=backend, stream=True)
    assert "".join(state.text_iter()) == state.text() == "user: Hi\nassistant: 1"


def test_a_value_of_a_stream_is_waited_for():
    let = threading.Event()

    @function
    def program(s):
        assert let.wait(30)
        s += "a" + gen("late")

    state = program.stream(backend=FakeBackend(lambda _: "x"))
    let.set()
    assert state["late"] == "x"
    assert "late" in state


async def test_a_stream_for_async_code():
    state = question.stream("trees", backend=FakeBackend(lambda _: "green"))
    assert "".join([piece async for piece in state.text_async_iter("answer")]) == "green"
    assert await asyncio.to_thread(state.text) == "calm trees: green"


def test_a_stream_raises_what_goes_wrong_in_its_place():
    def answer(_request):
        raise ZeroDivisionError

    state = question.stream("trees", backend=FakeBackend(answer))
    pieces = state.text_iter()
    assert next(pieces) == "calm trees: "
    with pytest.raises(ZeroDivisionError):
        list(pieces)
    with pytest.raises(ZeroDivisionError):
        state["answer"]


def test_a_program_that_raises_ends_its_stream():
    @function
    def program(s):
        s += "a"
        raise ZeroDivisionError

    state = program.stream(backend=FakeBackend())
    with pytest.raises(ZeroDivisionError):
        list(state.text_iter())
    with pytest.raises(ZeroDivisionError):
        state["never"]


def test_typed_values_are_read():
    @function
    def program(s):
        s += "a" + gen("x", dtype=int)
        assert s["x"] + 1 == 13

    assert program.run(backend=FakeBackend(lambda _: "12"))["x"] == 12
    with pytest.raises(InvalidOutput, match="no int") as raised:
        program.run(backend=FakeBackend(lambda _: "-"))
    assert raised.value.text == "-"


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"regex": "a", "dtype": int}, "regex and dtype"),
        ({"images": ["a.png"]}, "images"),
        ({"dtype": list}, "dtype is"),
        ({"tempreature": 1}, "did you mean temperature"),
        ({"choices": ["a"], "choices_method": "best"}, "no method best"),
        ({"choices": "12"}, "a list of texts"),
        ({"json_schema": object()}, "json_schema takes"),
    ],
)
def test_what_does_not_go_together_is_refused(options, words, backend):
    with pytest.raises(ProgramError, match=words):
        run(function(lambda s: gen("x", **options)), backend=backend)
    assert not backend.requests


def test_images_are_refused():
    with pytest.raises(ProgramError, match="images"):
        image("a.png")


def test_blocks_belong_in_programs():
    with pytest.raises(ProgramError, match="belongs in a program"), user():
        pass


def test_a_run_within_a_program_takes_nothing_of_it():
    backend = FakeBackend(lambda _request: "Paris")
    inner = function(lambda s, city: s.__iadd__("Describe " + city))

    @function
    def outer(s):
        s += "City: "
        city = gen("city")
        inner.run(city=city, backend=backend)

    state = outer.run(backend=backend)
    assert backend.prompts[0] == "City: "
    assert state["city"] == "Paris"


def test_the_text_so_far_is_there_within_the_program(backend):
    @function
    def program(s):
        s += "a" + gen("x")
        return "".join(s.text_iter())

    assert program.run(backend=backend).result == "a1"


def test_an_error_that_somebody_else_has_read_stays():
    def broken(_request):
        raise ConnectionFailed("broken")

    (state,) = function(lambda s: s.__iadd__(gen("x"))).run_batch([{}], backend=FakeBackend(broken))
    for _ in range(2):
        with pytest.raises(ConnectionFailed):
            state["x"]
        assert isinstance(state.error(), ConnectionFailed)


def test_a_batch_with_a_wrong_name_sends_nothing(backend):
    program = function(lambda s, q: s.__iadd__(q + gen("x")))
    with pytest.raises(ProgramError, match="tempreature"):
        program.run_batch([{"q": "1"}, {"q": "2", "tempreature": 1}], backend=backend)
    assert not backend.requests


def test_choices_may_be_values(backend):
    @function
    def program(s):
        first = gen("first")
        s += select("best", choices=[first, "b"])

    backend.likely = "b"
    assert program.run(backend=backend)["best"] == "b"


def test_a_mode_of_join_that_is_none_is_refused(backend):
    @function
    def program(s):
        s.fork(2).join("concat_and_append")

    with pytest.raises(ProgramError, match="no mode"):
        program.run(backend=backend).wait()
