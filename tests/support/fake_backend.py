"""A backend that answers from a function, at once or when it is let, and remembers what it was asked."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from queue import SimpleQueue

from sapwood.backends.protocol import GenerateRequest, Generation, Message, Score

Answer = Callable[[GenerateRequest], str]


class FakeBackend:
    """Args:
    answer: the text; "1", "2", … in the order of the requests by default. What it raises is the request's error.
    """

    def __init__(self, answer: Answer | None = None) -> None:
        self._answer = answer or (lambda _request: str(len(self.requests)))
        self.requests: list[GenerateRequest] = []
        self.likely = ""  # the choice that scores highest
        self.closed = False
        self.let: SimpleQueue[None] | None = None  # where there is one, a stream takes from it before each piece

    @property
    def prompts(self) -> list[object]:
        """Text, or for messages a list of (role, content)."""
        return [plain(request) for request in self.requests]

    async def generate(self, request: GenerateRequest) -> list[Generation]:
        self.requests.append(request)
        text = self._answer(request)
        return [
            Generation(text=text, index=index, finish_reason="stop", prompt_tokens=7)
            for index in range(request.sampling.n)
        ]

    async def stream(self, request: GenerateRequest) -> AsyncIterator[Generation]:
        (whole,) = await self.generate(request)
        for end in range(1, len(whole.text)):
            await self._may_go_on()
            yield Generation(text=whole.text[:end])
        await self._may_go_on()
        yield whole

    async def _may_go_on(self) -> None:
        if self.let is not None:
            await asyncio.to_thread(self.let.get)

    async def score(
        self, request: GenerateRequest, choices: Sequence[str], *, unconditional: bool = False
    ) -> list[Score]:
        self.requests.append(request)
        return [
            Score(
                choice=choice,
                logprobs=(-1.0 if choice == self.likely else -2.0,),
                unconditional=(0.0,) if unconditional else (),
            )
            for choice in choices
        ]

    async def aclose(self) -> None:
        self.closed = True


def plain(request: GenerateRequest) -> object:
    if isinstance(request.prompt, str):
        return request.prompt
    return [(each.role, each.content) for each in request.prompt if isinstance(each, Message)]
