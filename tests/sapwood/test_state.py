import asyncio
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sapwood import ProgramError, assistant, function, gen, role, run, select, system, user
from sapwood.backends.protocol import Message
from sapwood.deferred import Deferred
from sapwood.roles import assistant_begin, assistant_end, user_begin
from sapwood.values import Value
from tests.support.fake_backend import FakeBackend


@pytest.fixture
def backend():
    return FakeBackend()


def program_text(program, backend):
    return run(function(program), backend=backend).text()


def test_an_expression_keeps_its_order(backend):
    def program(s):
        s += "A: " + gen("x") + " B: " + gen("y") + "."

    assert program_text(program, backend) == "A: 1 B: 2."
    assert backend.prompts == ["A: ", "A: 1 B: "]


def test_a_bare_generation_stands_where_the_program_goes_on(backend):
    def program(s):
        s += "a"
        gen("x")
        s += "b"
        later = gen("y")
        s += "c" + later
        gen("z")

    assert program_text(program, backend) == "a1bc23"
    assert backend.prompts == ["a", "a1bc", "a1bc2"]


def test_a_value_that_is_used_is_attached_first_with_all_that_was_made_before_it(backend):
    def program(s):
        s += "a"
        gen("x")
        second = gen("y")
        assert second == "2"
        s += "b" + second

    assert program_text(program, backend) == "a12b2"


def apply(operation, s, place):
    match operation:
        case "text":
            s += f"t{place}"
        case "attached":
            s += gen(f"g{place}")
        case "joined":
            s += "(" + gen(f"g{place}") + ")"
        case "bare":
            gen(f"g{place}")
        case "read":
            assert str(gen(f"g{place}"))
        case "kept":
            kept = gen(f"g{place}")
            s += f"t{place}" + kept


WRITTEN = {
    "text": "t{place}",
    "attached": "{n}",
    "joined": "({n})",
    "bare": "{n}",
    "read": "{n}",
    "kept": "t{place}{n}",
}


@given(st.lists(st.sampled_from(list(WRITTEN)), max_size=12))
def test_the_text_follows_the_program(operations):
    backend = FakeBackend()

    def program(s):
        for place, operation in enumerate(operations):
            apply(operation, s, place)

    state = run(function(program), backend=backend)
    text, prompts = "", []
    for place, operation in enumerate(operations):
        before, made, after = WRITTEN[operation].format(place=place, n="\0").partition("\0")
        text += before
        if made:
            prompts.append(text)
            text += f"{len(prompts)}{after}"
    assert state.text() == text
    assert backend.prompts == prompts


def test_a_fork_can_be_told_what_another_generated(backend):
    def program(s):
        first, second = s.fork(2)
        made = gen("x")
        first += "a" + made
        second += "b" + made + gen("y")
        s += "c" + second["y"]

    state = run(function(program), backend=backend)
    assert backend.prompts == ["a", "b1"]
    assert state.text() == "c2"


def test_each_generation_waits_for_the_one_before_it_alone(backend, monkeypatch):
    waited = []
    wait = Deferred.wait
    monkeypatch.setattr(Deferred, "wait", lambda self: waited.append(self.name) or wait(self))

    def program(s):
        for place in range(9):
            s += "-" + gen(f"x{place}")

    assert program_text(program, backend) == "-1-2-3-4-5-6-7-8-9"
    assert sorted(waited) == [f"x{place}" for place in range(8)]


def test_a_value_of_another_branch_is_waited_for_too():
    class Slow(FakeBackend):
        async def generate(self, request):
            for _ in range(9 if request.prompt.endswith("slow") else 0):
                await asyncio.sleep(0)
            return await super().generate(request)

    backend = Slow()

    def program(s):
        s += "a" + gen("x")
        slow, quick = s.fork(2)
        slow += " slow" + gen("y")
        made = slow._writer.names["y"]
        quick._writer._put_value(Value(made, slow))
        quick += " and " + gen("z")
        return quick.text()

    assert run(function(program), backend=backend).result == "a12 and 3"


@pytest.mark.parametrize("as_block", [False, True])
def test_a_tools_message_names_the_call(as_block, backend):
    def program(s):
        s += user("Hi")
        if as_block:
            with role("tool", tool_call_id="call_1"):
                s += "12"
        else:
            s += role("tool", "12", tool_call_id="call_1")
        s += assistant(gen("x"))

    messages = run(function(program), backend=backend).messages()
    assert messages[1:] == [
        {"role": "tool", "content": "12", "tool_call_id": "call_1"},
        {"role": "assistant", "content": "1"},
    ]
    assert backend.requests[0].prompt[1] == Message("tool", "12", "call_1")


def test_in_every_fork_it_does_too(backend):
    def program(s):
        forks = s.fork(2)
        forks += role("tool", "12", tool_call_id="call_1") + assistant(gen("x"))

    run(function(program), backend=backend)
    assert {request.prompt for request in backend.requests} == {(Message("tool", "12", "call_1"),)}


def test_roles_as_values_make_messages(backend):
    def program(s):
        s += system("Be short.") + user("Hi")
        s += assistant("I " + gen("x") + "!")

    state = run(function(program), backend=backend)
    assert backend.prompts == [[("system", "Be short."), ("user", "Hi"), ("assistant", "I ")]]
    assert backend.requests[0].continues
    assert state.messages()[-1] == {"role": "assistant", "content": "I 1!"}
    assert state.text() == "system: Be short.\nuser: Hi\nassistant: I 1!"


def test_a_generation_at_the_beginning_of_an_answer_continues_nothing(backend):
    def program(s):
        s += user("Hi")
        s += assistant(gen("x"))

    program_text(program, backend)
    assert backend.prompts == [[("user", "Hi")]]
    assert not backend.requests[0].continues


def test_a_role_in_a_block_is_a_message_of_its_own(backend):
    def program():
        with assistant() as a:
            a += user("Hi")
            gen("x")
            a += " and"
            a += user("Bye")
            a += gen("y")

    state = run(program, backend=backend)
    roles = [(message["role"], message["content"]) for message in state.messages()]
    assert roles == [("user", "Hi"), ("assistant", "1 and"), ("user", "Bye"), ("assistant", "2")]


def test_blocks_by_the_state_and_by_marks(backend):
    def program(s):
        with s.user():
            s += "Hi"
        s += assistant_begin()
        s += "I " + gen("x")
        s += assistant_end()

    state = run(function(program), backend=backend)
    assert [message["content"] for message in state.messages()] == ["Hi", "I 1"]


def test_a_bare_generation_at_the_end_of_a_block_is_in_it(backend):
    def program():
        with user() as u:
            u += "Hi"
        with assistant():
            gen("x")
        with user() as u:
            u += "Bye"

    assert [message["content"] for message in run(program, backend=backend).messages()] == ["Hi", "1", "Bye"]


def test_a_block_that_is_left_by_an_error_has_ended(backend):
    def program():
        with suppress(ZeroDivisionError), assistant() as a:
            a += "I"
            raise ZeroDivisionError
        with user() as u:
            u += "What?"

    assert [message["content"] for message in run(program, backend=backend).messages()] == ["I", "What?"]


def test_what_was_written_in_a_block_before_an_error_stays_in_it(backend):
    def program():
        with suppress(ZeroDivisionError), assistant() as a:
            a += "I "
            gen("x")
            raise ZeroDivisionError
        with user() as u:
            u += "What?"

    assert [message["content"] for message in run(program, backend=backend).messages()] == ["I 1", "What?"]


def test_an_error_in_a_block_ends_those_within(backend):
    def program(s):
        with suppress(ZeroDivisionError), s.assistant():
            s += "I" + user_begin() + "you"
            raise ZeroDivisionError
        s += user("What?") + assistant(gen("x"))

    messages = run(function(program), backend=backend).messages()
    assert [message["content"] for message in messages] == ["I", "you", "What?", "1"]


def test_what_does_not_fit_is_told_and_the_program_may_go_on(backend):
    def program(s):
        asked = gen("x")
        with suppress(ProgramError):
            s += user("Hi" + asked)
        s += assistant("I am " + gen("y"))
        with pytest.raises(ProgramError, match="did not fit"):
            str(asked)

    messages = run(function(program), backend=backend).messages()
    assert [(message["role"], message["content"]) for message in messages] == [("user", "Hi"), ("assistant", "I am 1")]


def test_after_an_interrupt_a_block_begins_nothing(backend):
    def program():
        with assistant():
            gen("x")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(program, backend=backend)
    assert not backend.requests


def text_after_roles(s):
    s += user("Hi")
    s += "text"


def roles_after_text(s):
    s += "text"
    s += user("Hi")


def the_user_generates(s):
    s += user(gen("x"))


def an_empty_role(s):
    s += user()


def a_number(s):
    s += 5


def another_end(s):
    s += assistant_end()


@pytest.mark.parametrize(
    ("program", "words"),
    [
        (text_after_roles, "nobody's"),
        (roles_after_text, "cannot have any now"),
        (the_user_generates, "only the assistant"),
        (an_empty_role, "is a block"),
        (a_number, "int cannot be attached"),
        (another_end, "no block of assistant"),
    ],
)
def test_what_makes_no_sense_is_refused(program, words, backend):
    with pytest.raises(ProgramError, match=words):
        run(function(program), backend=backend)


def test_forks_go_on_from_what_was_there(backend):
    def program(s):
        s += "a" + gen("x")
        forks = s.fork(2)
        for place, fork in enumerate(forks):
            fork += f" {place}:"
            fork += gen("y")
        s += " then " + " ".join(sorted(fork["y"] for fork in forks))

    assert program_text(program, backend) == "a1 then 2 3"
    assert set(backend.prompts[1:]) == {"a1 0:", "a1 1:"}


def test_forks_are_joined_to_lists(backend):
    def program(s, n):
        s += "a"
        forks = s.fork(n)
        forks += "b" + gen("x") + "\n"
        forks += assistant_free(gen("tool", choices=["p", "q"]))
        forks.join()

    def assistant_free(value):
        return "c" + value

    state = run(function(program), backend=backend, n=3)
    assert len(state["x"]) == len(state["tool"]) == 3
    assert sorted(state["x"] + state["tool"]) == ["1", "2", "3", "4", "5", "6"]


def test_forks_are_joined_to_text(backend):
    def program(s):
        s += "a"
        forks = s.fork(2)
        forks += "b" + gen("x")
        forks.join("concat")
        s += "c"

    assert program_text(program, backend) in ("ab1b2c", "ab2b1c")


def test_a_branch_without_the_name_gives_nothing_to_its_list(backend):
    def program(s):
        s += "a" + gen("x")
        forks = s.fork(3)
        forks[0] += "b" + gen("x")
        forks[2] += "c" + gen("y")
        assert forks[2]["x"] == "1"
        forks.join()

    state = run(function(program), backend=backend)
    assert sorted(state["x"] + state["y"]) == ["2", "3"]


def test_what_branches_do_not_name_stays_what_it_was(backend):
    def program(s):
        s += "a" + gen("x")
        forks = s.fork(2)
        forks += "b" + gen("y")
        forks.join()

    assert run(function(program), backend=backend)["x"] == "1"


def test_lists_of_branches_within_branches(backend):
    def program(s):
        outer = s.fork(2)
        for place, fork in enumerate(outer):
            inner = fork.fork(place + 1)
            inner += f"{place}" + gen("x")
            inner.join()
        outer.join()

    state = run(function(program), backend=FakeBackend(lambda request: request.prompt))
    assert state["x"] == [["0"], ["1", "1"]]
    assert len(state.generations("x")) == 3


def test_a_later_join_of_the_same_name_takes_its_place(backend):
    def program(s):
        for place in range(2):
            forks = s.fork(2)
            forks += f"{place}" + gen("x")
            forks.join()

    assert run(function(program), backend=FakeBackend(lambda request: request.prompt))["x"] == ["1", "1"]


def whole_messages(s):
    with s.assistant():
        s += "a"
    return user("b") + assistant(gen("x"))


def an_open_message(s):
    with s.assistant():
        s += "a"
    return user_begin() + "b"


def the_end_of_a_message(s):
    s += assistant_begin() + "a"
    return gen("x") + assistant_end()


@pytest.mark.parametrize("added", [whole_messages, an_open_message, the_end_of_a_message])
def test_messages_are_not_joined_to_text(added, backend):
    def program(s):
        forks = s.fork(2)
        for fork in forks:
            fork += added(fork)
        forks.join("concat")

    with pytest.raises(ProgramError, match="takes text"):
        run(function(program), backend=backend)


@pytest.mark.parametrize("before", ["", "a"])
def test_text_within_a_message_is_joined(before, backend):
    def program(s):
        s += user("Hi")
        with s.assistant():
            s += before
            forks = s.fork(2)
            forks += "b" + gen("x")
            forks.join("concat")

    state = run(function(program), backend=FakeBackend(lambda _: "1"))
    assert [message["content"] for message in state.messages()] == ["Hi", before + "b1b1"]


def test_a_copy_goes_its_own_way(backend):
    def program(s):
        s += "a"
        copy = s.copy()
        copy += "b"
        s += "c"
        s += copy.text()

    assert program_text(program, backend) == "acab"


def test_a_value_handed_to_all_forks_is_read_there(backend):
    def program(s):
        made = gen("x")
        forks = s.fork(2)
        forks += "a" + gen("y") + made
        late = gen("z")
        forks += late
        str(late)

    with pytest.raises(ProgramError, match="every fork"):
        run(function(program), backend=backend)


def test_a_name_that_there_is_not(backend):
    def program(s):
        s += "a" + gen("x")

    with pytest.raises(ProgramError, match="no value is named z: there are x"):
        run(function(program), backend=backend)["z"]


def test_what_goes_wrong_is_raised_where_it_is_read_and_other_branches_end():
    def answer(request):
        if request.prompt.endswith("bad"):
            raise ZeroDivisionError("bad")
        return "good"

    seen = []

    def program(s):
        bad, good = s.fork(2)
        bad += "bad" + gen("x")
        good += "fine" + gen("x")
        seen.append(good["x"])
        bad["x"]
        raise AssertionError("not reached")

    backend = FakeBackend(answer)
    with pytest.raises(ZeroDivisionError):
        run(function(program), backend=backend)
    assert seen == ["good"]


def fails_at(word):
    def answer(request):
        if request.prompt.endswith(word):
            raise ZeroDivisionError(word)
        return "good"

    return FakeBackend(answer)


def test_what_the_program_has_an_answer_to_is_not_raised_again():
    def program(s):
        bad, good = s.fork(2)
        bad += "bad" + gen("x") + " and " + gen("y")
        good += "fine" + gen("x")
        with suppress(ZeroDivisionError):
            s += bad["y"]
        s += good["x"]

    assert run(function(program), backend=fails_at("bad")).text() == "good"


def test_a_branch_can_be_asked_what_went_wrong_in_it():
    def program(s):
        bad, good = s.fork(2)
        bad += "bad" + gen("x")
        good += "fine" + gen("x")
        assert good.error() is None
        assert isinstance(bad.error(), ZeroDivisionError)

    assert run(function(program), backend=fails_at("bad")).error() is None


def test_another_failure_is_raised_all_the_same():
    def program(s):
        bad, worse = s.fork(2)
        bad += "bad" + gen("x")
        worse += "worse, bad" + gen("x")
        bad.error()

    with pytest.raises(ZeroDivisionError):
        run(function(program), backend=fails_at("bad"))


def test_what_nobody_reads_is_raised_at_the_end():
    def program(s):
        s.fork(1)[0].__iadd__("a" + gen("x"))
        s += "b"

    def answer(_request):
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        run(function(program), backend=FakeBackend(answer))


def test_the_work_after_a_failure_is_not_begun():
    def answer(_request):
        raise ZeroDivisionError

    backend = FakeBackend(answer)
    with pytest.raises(ZeroDivisionError):
        run(function(lambda s: s.__iadd__("a" + gen("x") + gen("y"))), backend=backend)
    assert len(backend.requests) == 1


def test_selection(backend):
    backend.likely = "b"

    def program(s):
        s += "x" + select("choice", choices=["a", "b"])
        assert s.scores("choice") == {"a": (-2.0,), "b": (-1.0,)}

    assert program_text(program, backend) == "xb"


def test_what_a_backend_says_of_a_generation(backend):
    state = run(function(lambda s: s.__iadd__("a" + gen("x", n=2))), backend=backend)
    assert state["x"] == ["1", "1"]
    assert state.text() == "a1"
    assert state.generation("x").prompt_tokens == 7
    assert len(state.generations("x")) == 2


def test_a_choice_was_not_generated(backend):
    state = run(function(lambda s: s.__iadd__("a" + select("x", ["a"]))), backend=backend)
    with pytest.raises(ProgramError, match="x was not generated"):
        state.generation("x")


@pytest.mark.parametrize("given", [["a", "b"], lambda place: "ab"[place]])
def test_forks_that_are_each_given_something(given, backend):
    def program(s):
        s += "-"
        forks = s.fork(2)
        forks += given
        forks += gen("x")
        forks += lambda _place: gen("y")
        return [fork.text() for fork in forks]

    assert run(function(program), backend=backend).result == ["-a13", "-b24"]


def test_forks_that_are_given_too_few(backend):
    def program(s):
        forks = s.fork(2)
        forks += ["a"]

    with pytest.raises(ProgramError, match="a list of 1 for 2 forks"):
        run(function(program), backend=backend)
