"""The one internal form of a request and of what becomes of it, between the APIs and the journal.

Knows no API, no transport and no clock: every API converts into and out of these.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import msgspec

from shared import wire


class GenerateRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Exactly one of prompt, messages and prompt_token_ids is given."""

    sampling: wire.Sampling
    text: wire.TextOptions
    prompt: str | None = None
    messages: tuple[wire.ChatMessage, ...] | None = None
    prompt_token_ids: tuple[int, ...] | None = None
    tools: tuple[dict[str, Any], ...] | None = None  # as the model's template shows them, with messages
    template_options: dict[str, Any] = {}  # with messages: see wire.Encode
    constraint: wire.Constraint | None = None
    max_new_tokens: int | None = None  # None: the room that the context leaves
    namespace: str = ""
    priority: int = 0
    timeout_s: float | None = None  # None: as long as the server allows
    client_id: str | None = None  # what this client calls it, to abort it by
    samples: int = 1  # of this prompt, with this one


class Usage(msgspec.Struct, frozen=True):
    """Counted once a request, however many attempts it took."""

    prompt_tokens: int = 0
    cached_tokens: int = 0
    completion_tokens: int = 0

    @property
    def total_tokens(self) -> int:
        return self.prompt_tokens + self.completion_tokens


class Work(msgspec.Struct, frozen=True):
    """What a generation has cost in the stages, over all its attempts; what was lost with one is not known."""

    forward_steps: int = 0
    forced_tokens: int = 0
    preemptions: int = 0
    queue_s: float = 0.0
    compile_s: float = 0.0
    encode_s: float = 0.0
    tokenizer_wait_s: float = 0.0

    def plus(self, other: Work) -> Work:
        return Work(*(getattr(self, name) + getattr(other, name) for name in self.__struct_fields__))


class Delta(msgspec.Struct, frozen=True):
    """A piece of output. `usage` is what was used up to its end; `logprobs` has one entry a token, if asked for."""

    text: str
    token_ids: tuple[int, ...]
    usage: Usage
    logprobs: tuple[wire.TextLogprob, ...] = ()
    prompt_logprobs: tuple[wire.TextLogprob, ...] = ()  # all that were asked for, in one of the pieces


NOTHING = Delta("", (), Usage())


class Ending(msgspec.Struct, frozen=True):
    """The one terminal of a request: a finish_reason or an error."""

    usage: Usage
    attempts: int
    tokenizer: str | None  # by name: who encoded it
    finish_reason: Literal["stop", "length", "abort"] | None = None
    matched_stop: int | str | None = None
    error: wire.Error | None = None
    executor: str | None = None  # by name: where it ran last
    work: Work = Work()


def merge(deltas: Sequence[Delta]) -> Delta:
    """Neighbouring pieces as one."""
    if len(deltas) == 1:
        return deltas[0]
    return Delta(
        "".join(delta.text for delta in deltas),
        tuple(token_id for delta in deltas for token_id in delta.token_ids),
        deltas[-1].usage if deltas else Usage(),
        tuple(logprob for delta in deltas for logprob in delta.logprobs),
        tuple(logprob for delta in deltas for logprob in delta.prompt_logprobs),
    )


def total(usages: Mapping[int, Usage], samples: int) -> Usage:
    """Of several generations by number, `samples` neighbours for each prompt: a prompt counts once.

    Of its tokens those were cached that the first sample found; the others also find what the first has computed.
    """
    prompts: dict[int, list[Usage]] = {}
    for index, usage in usages.items():
        prompts.setdefault(index // samples, []).append(usage)
    return Usage(
        sum(max(usage.prompt_tokens for usage in prompt) for prompt in prompts.values()),
        sum(min(usage.cached_tokens for usage in prompt) for prompt in prompts.values()),
        sum(usage.completion_tokens for usage in usages.values()),
    )
