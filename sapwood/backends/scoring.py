"""Where a prompt ends and a choice begins, among the tokens of both. Pure.

The tokens of a prompt and a choice joined are not always those of the one and then those of the other: where the two
make a token together, that token counts as the choice's.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import msgspec

from sapwood.backends.protocol import GenerateRequest, Message, TokenLogprob
from sapwood.errors import ProgramError

ASSISTANT = "assistant"
AT_ONCE = 64  # prompts of one request; servers take 128 by default
REPLACEMENT = "\ufffd"


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


def common(tokens: Sequence[TokenLogprob], end: Sequence[TokenLogprob]) -> int:
    """How many tokens they begin with alike."""
    pairs = zip(tokens, end, strict=False)
    return sum(1 for _ in itertools.takewhile(lambda pair: pair[0].token_id == pair[1].token_id, pairs))


def own_tokens(tokens: Sequence[TokenLogprob], end: Sequence[TokenLogprob]) -> tuple[TokenLogprob, ...]:
    """Those of the choice.

    Args:
        tokens: of prompt and choice, from some place in the prompt on.
        end: of the prompt alone, from the same place on.

    Raises ProgramError if there is none: a template may strip what the choice is made of.
    """
    same = common(tokens, end)
    rest, own = "".join(token.text or "" for token in end[same:]), list(tokens[same:])
    while own and _is_whole(own[0].text) and rest.startswith(own[0].text or ""):
        rest = rest.removeprefix(own.pop(0).text or "")
    if not own:
        raise ProgramError("a choice has no token of its own where it stands")
    return tuple(own)


def _is_whole(text: str | None) -> bool:
    """Whether a token's text is known: of a part of a character it is not."""
    return bool(text) and REPLACEMENT not in (text or "")
