"""What a backend is asked and what it answers. Knows neither HTTP nor programs: a request holds its whole prompt."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any, Protocol, TypeAlias, runtime_checkable

import msgspec


class Message(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    role: str
    content: str
    tool_call_id: str | None = None  # of a tool: which call it answers


Prompt: TypeAlias = str | tuple[Message, ...] | tuple[int, ...]  # text, a conversation, or token ids


class Sampling(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How to generate. None: as the server does by default. At most one of the constraints."""

    max_tokens: int | None = None
    min_tokens: int | None = None
    n: int = 1
    stop: str | tuple[str, ...] = ()
    stop_token_ids: tuple[int, ...] = ()
    stop_regex: tuple[str, ...] = ()
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    min_p: float | None = None
    repetition_penalty: float | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    logit_bias: Mapping[str, float] | None = None
    ignore_eos: bool = False
    seed: int | None = None
    regex: str | None = None
    json_schema: str | None = None  # JSON text
    ebnf: str | None = None
    choices: tuple[str, ...] | None = None
    json_whitespace: str | None = None


class GenerateRequest(msgspec.Struct, frozen=True, kw_only=True):
    prompt: Prompt
    continues: bool = False  # the last message is unfinished: go on with it
    sampling: Sampling = Sampling()
    logprobs: bool = False
    top_logprobs: int = 0
    prompt_logprobs_from: int | None = None  # first position of the prompt to score, from 0
    chat_template_kwargs: Mapping[str, Any] | None = None
    cache_salt: str | None = None
    extra_key: str | None = None
    priority: int = 0
    request_id: str | None = None


class TokenLogprob(msgspec.Struct, frozen=True, array_like=True):
    logprob: float | None  # None: the first token of a prompt
    token_id: int | None  # None: the backend does not say
    text: str | None = None


class Generation(msgspec.Struct, frozen=True, kw_only=True):
    """One sample; in a stream, all of it so far, and `finish_reason` in the last one."""

    text: str
    token_ids: tuple[int, ...] = ()
    index: int = 0  # among the request's samples
    finish_reason: str | None = None
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cached_tokens: int = 0
    request_id: str | None = None
    logprobs: tuple[TokenLogprob, ...] = ()
    prompt_logprobs: tuple[TokenLogprob, ...] = ()
    top_logprobs: tuple[tuple[TokenLogprob, ...], ...] = ()


class Score(msgspec.Struct, frozen=True, kw_only=True):
    """How likely a choice is: the log-probability of each of its tokens."""

    choice: str
    logprobs: tuple[float, ...]  # after the prompt
    unconditional: tuple[float, ...] = ()  # of the same tokens with nothing before them, where that was asked for


@runtime_checkable
class Backend(Protocol):
    """All methods raise BackendError, and ProgramError for what this backend cannot do."""

    async def generate(self, request: GenerateRequest) -> list[Generation]:
        """As many as `sampling.n`, in order."""

    def stream(self, request: GenerateRequest) -> AsyncIterator[Generation]:
        """The samples as they grow, interleaved by `index`."""

    async def score(
        self, request: GenerateRequest, choices: Sequence[str], *, unconditional: bool = False
    ) -> list[Score]:
        """One for each choice, as the text that goes on where the prompt ends."""

    async def aclose(self) -> None:
        """Ends what is under way. Nothing may be asked after it."""


@runtime_checkable
class HasBackend(Protocol):
    """What stands for a backend: a client, a runtime."""

    @property
    def backend(self) -> Backend: ...


AnyBackend: TypeAlias = Backend | HasBackend | str  # a string is a Sapwood server's URL
