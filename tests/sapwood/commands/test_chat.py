import io
import json

import pytest

from sapwood.backends.protocol import Generation, Sampling
from sapwood.commands import chat as command
from sapwood.commands.chat import HELP, Chat
from sapwood.commands.terminal import Paint
from sapwood.errors import ServerError
from tests.support.fake_backend import FakeBackend, plain


def lines_of(*said):
    """What is said, one after the other; exceptions are raised, at last the end of input."""
    left = list(said)

    def read():
        line = left.pop(0) if left else EOFError()
        if isinstance(line, BaseException):
            raise line
        return line

    return read


@pytest.fixture
def talk(capsys):
    """Says these things, and returns the chat, what its backend was asked and what was printed."""

    def talk(*said, answer=None, system=None, backend=None):
        backend = backend or FakeBackend(answer)
        chat = Chat(backend, Sampling(temperature=0.0), system, Paint(False), clock=lambda: 0.0)
        chat.converse(lines_of(*said))
        return chat, [plain(request) for request in backend.requests], capsys.readouterr().out

    return talk


def test_each_turn_goes_on_from_all_before_it(talk):
    _, asked, out = talk("Hello", "And now?", system="Be kind.", answer=lambda request: f"answer {len(request.prompt)}")
    first = [("system", "Be kind."), ("user", "Hello")]
    assert asked == [first, [*first, ("assistant", "answer 2"), ("user", "And now?")]]
    assert out.splitlines()[:3:2] == ["answer 2", "answer 4"]


def test_a_line_behind_an_answer_says_what_it_took(talk):
    _, _, out = talk("Hello")
    assert out.splitlines()[1] == "0 tokens in 0 ms · 0 of 7 before them were cached"


def test_an_answer_that_was_cut_says_so():
    cut = Generation(text="a", finish_reason="length", completion_tokens=5, prompt_tokens=9, cached_tokens=8)
    assert command.remark(cut, 2.0) == "5 tokens in 2 s · 8 of 9 before them were cached · cut at the limit"


def test_reset_leaves_what_the_model_is_told_first(talk):
    _, asked, _ = talk("Hello", "/reset", "Again", system="Be kind.")
    assert asked[1] == [("system", "Be kind."), ("user", "Again")]


def test_save(talk, tmp_path):
    talk("Hello", f"/save {tmp_path / 'talk.json'}")
    saved = json.loads((tmp_path / "talk.json").read_text())
    assert saved == [{"role": "user", "content": "Hello"}, {"role": "assistant", "content": "1"}]


def test_a_place_where_nothing_can_be_saved_is_named(talk):
    _, _, out = talk("/save /no/such/folder/talk.json")
    assert "/no/such/folder/talk.json: No such file or directory" in out


def test_after_exit_nothing_is_said(talk):
    _, asked, _ = talk("/exit", "Hello")
    assert asked == []


@pytest.mark.parametrize("said", ["/help", "/save", "/nonsense"])
def test_commands_are_explained(talk, said):
    assert HELP in talk(said)[2]


def test_empty_lines_and_interrupts_between_answers_ask_nothing(talk):
    _, asked, out = talk("", "   ", KeyboardInterrupt(), "Hello")
    assert len(asked) == 1
    assert "/exit to leave" in out


def test_of_an_error_nothing_stays(talk):
    def refuse(_request):
        raise ServerError("the prompt is too long", status=400)

    chat, _, out = talk("Hello", answer=refuse)
    assert chat.messages == []
    assert "the prompt is too long" in out


class Interrupted(FakeBackend):
    """An interrupt comes after some of the answer."""

    def __init__(self, *pieces):
        super().__init__()
        self._pieces = pieces

    async def stream(self, request):
        self.requests.append(request)
        for piece in self._pieces:
            yield Generation(text=piece)
        raise KeyboardInterruptHere


class KeyboardInterruptHere(Exception):
    """Becomes an interrupt where the answer is shown: raised in the event loop, a real one would end its thread."""


@pytest.fixture
def interrupts(monkeypatch):
    following = command.following

    class Shown:
        def __init__(self, *arguments):
            self._block = following(*arguments)

        def __enter__(self):
            return self._each(self._block.__enter__())

        def __exit__(self, *error):
            return self._block.__exit__(*error)

        def _each(self, generations):
            try:
                yield from generations
            except KeyboardInterruptHere:
                raise KeyboardInterrupt from None

    monkeypatch.setattr(command, "following", Shown)


@pytest.mark.usefixtures("interrupts")
def test_an_interrupt_ends_the_answer_and_not_the_conversation(talk):
    backend = Interrupted("Once", "Once upon")
    chat, asked, out = talk("Tell me", "More", backend=backend)
    assert asked[1] == [("user", "Tell me"), ("assistant", "Once upon"), ("user", "More")]
    assert out.count("stopped") == 2
    assert [message.content for message in chat.messages] == ["Tell me", "Once upon", "More", "Once upon"]


@pytest.mark.usefixtures("interrupts")
def test_an_answer_that_was_interrupted_before_it_began_leaves_nothing(talk):
    chat, _, out = talk("Tell me", backend=Interrupted())
    assert chat.messages == []
    assert "stopped" in out


async def test_the_command(served, command_with_input):
    code, out, _ = await command_with_input(command.main, "Hello\\\nworld\n", "--max-tokens", "4")
    assert code == 0
    assert out.splitlines()[:2] == [f"tiny at {served.url} · /help for commands", "Hello, world!"]
    (encode,) = served.pipeline.encodes
    assert [message.content for message in encode.messages] == ["Hello\nworld"]
    assert encode.max_new_tokens == 4


@pytest.fixture
def command_with_input(command, monkeypatch):
    async def run(main, text, *arguments):
        monkeypatch.setattr("sys.stdin", io.StringIO(text))
        return await command(main, *arguments)

    return run


def test_no_server(capsys):
    assert command.main(["--url", "http://127.0.0.1:9"]) == 69
    assert "is a server there?" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["a\0b", "~nobody-of-this-name/x", "no/such/folder"])
def test_where_nothing_can_be_saved(talk, name):
    _, _, out = talk(f"/save {name}")
    assert out.startswith(name)


async def test_a_line_that_goes_on_where_the_input_ends(served, command_with_input):
    await command_with_input(command.main, "Hello\\")
    assert [message.content for message in served.pipeline.encodes[0].messages] == ["Hello"]
