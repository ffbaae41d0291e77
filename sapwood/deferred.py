"""A value that is not there yet: what has to be done for it, and once it is attached, its result.

Knows the order: the work begins when all that stands before it in the text is there. Does not know what the work is,
nor what a text looks like.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError, Future
from typing import Any, Protocol

import msgspec

from sapwood.backends.protocol import Backend, Generation, Prompt, Score
from sapwood.checks import refuse_to_wait
from sapwood.loop import BACKGROUND
from sapwood.trace import Kind


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    text: str  # what the program's text goes on with
    value: Any
    generations: tuple[Generation, ...] = ()
    scores: tuple[Score, ...] = ()


class Situation(msgspec.Struct, frozen=True, kw_only=True):
    """Where some work is to be done."""

    backend: Backend
    prompt: Prompt
    continues: bool  # the prompt's last message is unfinished
    defaults: Mapping[str, Any]  # options of generations that have none themselves
    show: Callable[[str], None] | None = None  # is told the text so far, where the program streams


class Work(Protocol):
    @property
    def kind(self) -> Kind: ...

    async def outcome(self, situation: Situation) -> Outcome: ...

    def details(self) -> Mapping[str, str]:
        """What a drawing of the program says of it."""


class Deferred:
    """Args:
    bell: rung at each change, for those who follow the program.
    """

    def __init__(self, name: str | None, work: Work, bell: threading.Condition) -> None:
        self.name = name
        self.work = work
        self.reads: tuple[Deferred, ...] = ()  # values that the program looked at before it attached this one
        self._bell = bell
        self._shown = ""
        self._future: Future[Outcome] | None = None

    @property
    def is_attached(self) -> bool:
        return self._future is not None

    @property
    def is_done(self) -> bool:
        return self._future is not None and self._future.done()

    def start(self, before: Sequence[Deferred], situation: Callable[[Callable[[str], None]], Situation]) -> None:
        """Args:
        before: what has to be there.
        situation: made when it is, of the function that shows text.
        """
        self._future = BACKGROUND.submit(self._run(before, situation))
        self._future.add_done_callback(self._ring)

    def outcome(self) -> Outcome:
        """Waits for it. Raises what went wrong."""
        self._refuse_to_wait()
        return self._started().result()

    def error(self) -> BaseException | None:
        self._refuse_to_wait()
        try:
            return self._started().exception()
        except CancelledError as error:
            return error

    def cancel(self) -> None:
        self._started().cancel()

    async def wait(self) -> Outcome:
        return await asyncio.shield(asyncio.wrap_future(self._started()))

    def pieces(self) -> Iterator[str]:
        """The text as it comes. Raises what went wrong."""
        self._refuse_to_wait()
        seen = 0
        while True:
            with self._bell:
                while not self.is_done and len(self._shown) <= seen:
                    self._bell.wait()
                text = self._shown
            if self.is_done:
                text = self.outcome().text
            if len(text) > seen:
                yield text[seen:]
                seen = len(text)
            elif self.is_done:
                return

    async def _run(
        self, before: Sequence[Deferred], situation: Callable[[Callable[[str], None]], Situation]
    ) -> Outcome:
        for deferred in before:
            await deferred.wait()
        return await self.work.outcome(situation(self._show))

    def _show(self, text: str) -> None:
        with self._bell:
            self._shown = text
            self._bell.notify_all()

    def _ring(self, _future: Future[Outcome]) -> None:
        with self._bell:
            self._bell.notify_all()

    def _refuse_to_wait(self) -> None:
        if not self.is_done:
            refuse_to_wait(self.name or self.work.kind)

    def _started(self) -> Future[Outcome]:
        assert self._future is not None, "not attached"
        return self._future
