"""What reading a body needs to know, and what comes of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

import msgspec

from services.gateway.errors import InvalidRequest
from services.gateway.generation import GenerateRequest
from services.gateway.limits import Limits
from services.gateway.replies.reply import Reply, ReplyHead
from shared.reasoning_format import ReasoningFormat
from shared.tool_format import ToolFormat

Names: TypeAlias = Mapping[str, str]  # of what later stages speak of, dotted: as this client calls it


@dataclass(frozen=True)
class Terms:
    limits: Limits
    tool_format: ToolFormat  # how this model writes calls
    tenant: str
    fresh_seed: Callable[[], int]  # for what names none: fixed now, so that a resumed request draws the same numbers
    reasoning: ReasoningFormat | None = None  # if this model thinks


@dataclass(frozen=True)
class Part:
    """One prompt of a request, in its internal form."""

    request: GenerateRequest
    names: Names  # at least of "prompt", and of "samples" where there may be several

    def name_of(self, param: str) -> str:
        """A later stage's name as the client's, by the longest part of it that is known."""
        head, rest = param, ""
        while head:
            if head in self.names:
                return self.names[head] + rest
            head, dot, last = head.rpartition(".")
            rest = f"{dot}{last}{rest}"
        return param

    def samples(self, count: int) -> list[GenerateRequest]:
        """Each draws numbers of its own; the first draws those that it would draw alone."""
        sampling = self.request.sampling
        seeds = [(sampling.seed + number) % 2**63 for number in range(count)]
        drawn = [msgspec.structs.replace(sampling, seed=seed) for seed in seeds]
        return [msgspec.structs.replace(self.request, sampling=each, samples=count) for each in drawn]


@dataclass(frozen=True)
class Call:
    """A request as its generations, and how its API wants to be answered."""

    parts: tuple[Part, ...]
    stream: bool
    reply: Callable[[ReplyHead], Reply]
    samples: int = 1  # of each prompt; they are neighbours
    echo: bool = False  # the reply repeats the prompts

    @property
    def requests(self) -> list[GenerateRequest]:
        return [request for part in self.parts for request in part.samples(self.samples)]

    def part_of(self, index: int) -> Part:
        """That of a generation."""
        return self.parts[index // self.samples]


def check_choices(prompts: int, samples: int, param: str, limits: Limits) -> int:
    """How many samples of each prompt. `param` is what asks for several."""
    if prompts * samples > limits.max_choices:
        problem = f"at most {limits.max_choices} outputs of one request, asked for {prompts * samples}"
        raise InvalidRequest(problem, param)
    return samples
