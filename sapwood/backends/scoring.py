"""Where a prompt ends and a choice begins, among the tokens of both. Pure.

The tokens of a prompt and a choice joined are not always those of the one and then those of the other: where the two
make a token together, that token counts as the choice's.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from sapwood.backends.protocol import GenerateRequest, Message, TokenLogprob
from sapwood.errors import ProgramError

ASSISTANT = "assistant"


def continued(request: GenerateRequest, text: str) -> GenerateRequest:
    """The request whose prompt has the text at its end. Raises ProgramError for a prompt of token ids."""
    prompt = request.prompt
    if isinstance(prompt, str):
        return msgspec.structs.replace(request, prompt=prompt + text)
    messages = [message for message in prompt if isinstance(message, Message)]
    if not messages:
        raise ProgramError("choices go on from text or messages, not from token ids")
    last = messages.pop() if request.continues else Message(ASSISTANT, "")
    whole = (*messages, Message(last.role, last.content + text))
    return msgspec.structs.replace(request, prompt=whole, continues=True)


def tail_of(request: GenerateRequest) -> str:
    """The text right before a choice, as far as it is known here."""
    if isinstance(request.prompt, str):
        return request.prompt
    last = request.prompt[-1] if request.prompt and request.continues else None
    return last.content if isinstance(last, Message) else ""


def own_tokens(tokens: Sequence[TokenLogprob], prompt_tokens: int, tail: str) -> Sequence[TokenLogprob]:
    """Those of the choice.

    Args:
        tokens: of prompt and choice, from the last two of the prompt alone on (all, if it has fewer).
        prompt_tokens: of the prompt alone.
        tail: what the prompt ends with.
    """
    before = min(prompt_tokens, 2)
    if not before:
        return tokens
    text = tokens[before - 1].text or ""
    is_prompts = tail.endswith(text) or text.endswith(tail)
    return tokens[before if is_prompts else before - 1 :]
