"""What OpenAI's completions and chat completions answer, as it stands on the wire, and as generations. Asks nothing.

Of what an endpoint leaves out, only what nothing can be made of without is missed.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from sapwood.backends.protocol import Generation, Score, TokenLogprob
from sapwood.errors import BackendError


class Details(msgspec.Struct, frozen=True):
    cached_tokens: int | None = None


class Usage(msgspec.Struct, frozen=True):
    prompt_tokens: int = 0
    completion_tokens: int = 0
    prompt_tokens_details: Details | None = None


class ChatToken(msgspec.Struct, frozen=True):
    token: str
    logprob: float


class Logprobs(msgspec.Struct, frozen=True):
    """Of chat the content, of text the lists."""

    content: list[ChatToken] | None = None
    tokens: list[str] | None = None
    token_logprobs: list[float | None] | None = None

    def listed(self) -> tuple[TokenLogprob, ...]:
        chat = [TokenLogprob(each.logprob, None, each.token) for each in self.content or ()]
        pairs = zip(self.token_logprobs or (), self.tokens or (), strict=False)
        return (*chat, *(TokenLogprob(logprob, None, token) for logprob, token in pairs))


class Written(msgspec.Struct, frozen=True):
    content: str | None = None


class Choice(msgspec.Struct, frozen=True):
    index: int = 0
    text: str | None = None
    message: Written | None = None
    delta: Written | None = None
    finish_reason: str | None = None
    logprobs: Logprobs | None = None

    @property
    def written(self) -> str:
        """Of a whole answer or of a piece, of text or of chat."""
        return self.text or (self.message or self.delta or Written()).content or ""


class Answer(msgspec.Struct, frozen=True):
    choices: list[Choice]
    id: str | None = None
    usage: Usage | None = None


class EchoedTokens(msgspec.Struct, frozen=True):
    tokens: list[str]
    token_logprobs: list[float | None]
    text_offset: list[int]


class EchoedChoice(msgspec.Struct, frozen=True):
    logprobs: EchoedTokens
    index: int = 0


class Echo(msgspec.Struct, frozen=True):
    choices: list[EchoedChoice]


class Model(msgspec.Struct, frozen=True):
    id: str
    owned_by: str | None = None


class Models(msgspec.Struct, frozen=True):
    data: list[Model]


ANSWER = msgspec.json.Decoder(Answer)
ECHO = msgspec.json.Decoder(Echo)
MODELS = msgspec.json.Decoder(Models)


def generations_of(answer: Answer, count: int) -> list[Generation]:
    """Raises BackendError if they are not as many."""
    choices = sorted(answer.choices, key=lambda choice: choice.index)
    if len(choices) != count:
        raise BackendError(f"asked for {count} outputs, the endpoint gave {len(choices)}", request_id=answer.id)
    return [_generation(choice, answer) for choice in choices]


def scores_of(echo: Echo, prompt: str, choices: Sequence[str]) -> list[Score]:
    """Raises BackendError if they are not as many."""
    echoed = sorted(echo.choices, key=lambda each: each.index)
    if len(echoed) != len(choices):
        raise BackendError(f"asked for {len(choices)} scores, the endpoint gave {len(echoed)}")
    return [_score(prompt, choice, each.logprobs) for choice, each in zip(choices, echoed, strict=True)]


def _generation(choice: Choice, answer: Answer) -> Generation:
    usage = answer.usage or Usage()
    return Generation(
        text=choice.written,
        index=choice.index,
        finish_reason=choice.finish_reason,
        prompt_tokens=usage.prompt_tokens,
        completion_tokens=usage.completion_tokens,
        cached_tokens=(usage.prompt_tokens_details or Details()).cached_tokens or 0,
        request_id=answer.id,
        logprobs=(choice.logprobs or Logprobs()).listed(),
    )


def _score(prompt: str, choice: str, echoed: EchoedTokens) -> Score:
    """A token that the prompt's end and the choice's beginning make together is the choice's."""
    end = len(prompt + choice)
    tokens = zip(echoed.token_logprobs, echoed.tokens, echoed.text_offset, strict=False)
    own = tuple(logprob or 0.0 for logprob, token, start in tokens if start + len(token) > len(prompt) and start < end)
    if not own:
        raise BackendError(f"the endpoint echoes no token of {choice!r}")
    return Score(choice=choice, logprobs=own)
