"""Messages that a program makes: attached, refused, never lost."""

import pytest

from sapwood import ProgramError, assistant, function, gen, role, run, user
from tests.support.fake_backend import FakeBackend


def messages_of(program):
    return [(each["role"], each["content"]) for each in run(function(program), backend=FakeBackend()).messages()]


def test_a_message_of_a_state_is_attached_as_a_generation_is():
    def program(s):
        s.system("Be kind.")
        s.user("Hi")
        s += assistant(gen("a"))
        s.user("And?")
        s.assistant("So " + gen("b"))

    assert messages_of(program) == [
        ("system", "Be kind."),
        ("user", "Hi"),
        ("assistant", "1"),
        ("user", "And?"),
        ("assistant", "So 2"),
    ]


def test_it_is_attached_once_wherever_it_is_put():
    def program(s):
        s += s.system("Be kind.") + s.user("Hi")
        (fork,) = s.fork(1)
        fork += s.user("More?")
        s += s.assistant(gen("a"))

    assert messages_of(program) == [("system", "Be kind."), ("user", "Hi"), ("assistant", "1")]


def test_a_value_in_it_that_is_read_attaches_it():
    def program(s):
        s.user("Hi")
        answer = gen("a")
        s.assistant("So " + answer)
        assert answer == "1"

    assert messages_of(program) == [("user", "Hi"), ("assistant", "So 1")]


@pytest.mark.parametrize("make", [lambda: user("Hi"), lambda: role("tool", "12"), lambda: assistant(user("Hi"))])
def test_one_that_is_made_and_never_attached_is_refused(make):
    def program():
        make()
        with assistant():
            gen("a")

    with pytest.raises(ProgramError, match="made and never attached"):
        run(program, backend=FakeBackend())


def test_one_that_was_handed_to_forks_or_to_another_run_was_attached():
    inner = function(lambda s, said: s.__iadd__(said))

    def program(s):
        forks = s.fork(2)
        forks += user("a")
        inner.run(user("b"), backend=FakeBackend())

    assert messages_of(program) == []


def test_an_error_of_the_program_is_told_before_a_message_that_is_left_over():
    def program(s):
        user("Hi")
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        messages_of(program)


def test_a_block_does_not_begin_with_text():
    def program(s):
        with user("Hi"):
            pass

    with pytest.raises(ProgramError, match="whole message"):
        messages_of(program)


def test_a_message_within_a_message_leaves_no_empty_one():
    def program(s):
        s += assistant(user("Hi") + "So")
        s += assistant("")

    assert messages_of(program) == [("user", "Hi"), ("assistant", "So"), ("assistant", "")]
