"""`sapwood chat`: a conversation in the terminal. Answers stream; an interrupt ends an answer, not the conversation."""

from __future__ import annotations

import argparse
import contextlib
import re
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from sapwood.backends.protocol import Backend, GenerateRequest, Generation, Message, Sampling
from sapwood.client import Client
from sapwood.commands import connection, sampling
from sapwood.commands.follow import following
from sapwood.commands.terminal import Paint, paint_for, seconds
from sapwood.errors import SapwoodError

HELP = """\
/reset        forget all that was said
/save FILE    write the conversation into a file, as JSON
/exit         end it, as does the end of input
A line that ends in \\ goes on in the next one. Ctrl-C ends an answer."""


def main(argv: Sequence[str]) -> int:
    arguments = _parse(argv)
    with contextlib.suppress(ImportError):
        import readline  # noqa: F401 - lines can be edited and come back
    with Client(arguments.url, api_key=arguments.api_key, max_retries=connection.MAX_RETRIES) as client:
        try:
            model = ", ".join(client.models())
        except SapwoodError as error:
            return connection.failed(error)
        paint = paint_for(sys.stdout)
        print(paint(f"{model} at {arguments.url}", "bold") + paint(" · /help for commands", "dim"))
        chat = Chat(client.backend, sampling.sampling(arguments), arguments.system, paint)
        chat.converse(_reader(paint))
    return 0


def _parse(argv: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="sapwood chat", description="Talk to the model of a server.")
    connection.add_arguments(parser)
    parser.add_argument("--system", help="what the model is told before anything is said")
    sampling.add_arguments(parser)
    return parser.parse_args(argv)


class Chat:
    """Args:
    clock: seconds, for the line behind an answer.
    """

    def __init__(
        self,
        backend: Backend,
        asked: Sampling,
        system: str | None,
        paint: Paint,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._backend = backend
        self._sampling = asked
        self._first = [Message("system", system)] if system else []
        self._paint = paint
        self._clock = clock
        self._shown = Generation(text="")  # of the answer that comes
        self.messages = list(self._first)

    def converse(self, read: Callable[[], str]) -> None:
        """Until /exit or the end of input.

        Args:
            read: the next thing said. Raises EOFError at the end, KeyboardInterrupt to drop a line.
        """
        while True:
            try:
                said = read().strip()
            except EOFError:
                print()
                return
            except KeyboardInterrupt:
                print(self._paint("  /exit to leave", "dim"))
                continue
            if said == "/exit":
                return
            if said.startswith("/"):
                self._obey(said)
            elif said:
                self._answer(said)

    def _obey(self, command: str) -> None:
        name, _, argument = command.partition(" ")
        match name:
            case "/reset":
                self.messages = list(self._first)
            case "/save" if argument:
                self._save(argument.strip())
            case _:
                print(HELP)

    def _save(self, path: str) -> None:
        try:
            text = msgspec.json.format(msgspec.json.encode(self.messages)) + b"\n"
            Path(path).expanduser().write_bytes(text)
        except (OSError, ValueError, RuntimeError) as error:  # the latter: no file's name, nobody's home
            print(self._paint(f"{path}: {getattr(error, 'strerror', error)}", "red"))

    def _answer(self, said: str) -> None:
        """What was answered stays, also if it was cut short; where nothing was, nothing stays."""
        self.messages.append(Message("user", said))
        self._shown, start_s, trouble = Generation(text=""), self._clock(), ""
        try:
            self._show(GenerateRequest(prompt=tuple(self.messages), sampling=self._sampling))
        except KeyboardInterrupt:
            trouble = "stopped"
        except SapwoodError as error:
            trouble = str(error)
        if self._shown.text:
            self.messages.append(Message("assistant", self._shown.text))
            print(f"\n{self._paint(remark(self._shown, self._clock() - start_s), 'dim')}")
        else:
            self.messages.pop()
        if trouble:
            print(self._paint(trouble, "red"))

    def _show(self, request: GenerateRequest) -> None:
        with following(self._backend, request) as generations:
            for generation in generations:
                print(generation.text[len(self._shown.text) :], end="", flush=True)
                self._shown = generation


def remark(answer: Generation, elapsed_s: float) -> str:
    """The line behind an answer."""
    counts = f"{answer.completion_tokens} tokens in {seconds(elapsed_s)}"
    cached = f"{answer.cached_tokens} of {answer.prompt_tokens} before them were cached"
    return f"{counts} · {cached}" + (" · cut at the limit" if answer.finish_reason == "length" else "")


def _reader(paint: Paint) -> Callable[[], str]:
    prompt = _invisible(paint("› ", "bold", "cyan")) if sys.stdin.isatty() else ""
    more = _invisible(paint("… ", "dim")) if prompt else ""

    def read() -> str:
        lines = [input(prompt)]
        while lines[-1].endswith("\\"):
            lines[-1] = lines[-1][:-1]
            with contextlib.suppress(EOFError):
                lines.append(input(more))
        return "\n".join(lines)

    return read


def _invisible(text: str) -> str:
    """readline has to know which characters take no place."""
    return re.sub("(\x1b\\[[0-9;]*m)", "\x01\\1\x02", text) if "readline" in sys.modules else text
