"""A body of /generate whose prompt is a list, as bodies of one prompt each.

Some of its other fields may be lists too, with one entry for each prompt; what is no list holds for all of them.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import msgspec

from services.gateway.errors import InvalidRequest
from services.gateway.limits import Limits
from services.gateway.schemas.call import check_choices

PROMPTS = ("text", "prompt", "input_ids", "messages")
LISTS = ("sampling_params", "rid", "return_logprob", "logprob_start_len", "top_logprobs_num")


class Bodies(msgspec.Struct, frozen=True):
    bodies: list[dict[str, Any]]
    listed: frozenset[str] = frozenset()  # the fields that are lists; none if there is but one prompt, by itself

    def name(self, param: str, place: int) -> str:
        """What the client calls a field of the body at `place`."""
        head, dot, rest = param.partition(".")
        return f"{head}.{place}{dot}{rest}" if head in self.listed else param

    @contextlib.contextmanager
    def naming(self, place: int) -> Iterator[None]:
        """What is found invalid in this block lies in the body at `place`."""
        try:
            yield
        except InvalidRequest as error:
            param = error.error.param
            raise error.called(self.name(param, place) if param is not None else None) from None


def split(raw: dict[str, Any], limits: Limits) -> Bodies:
    name = next((name for name in PROMPTS if _is_several(name, raw.get(name))), None)
    if name is None:
        return Bodies([raw])
    size = len(raw[name])
    if not size:
        raise InvalidRequest("an empty prompt", name)
    check_choices(size, 1, name, limits)
    listed = frozenset({name, *(each for each in LISTS if isinstance(raw.get(each), list))})
    for each in listed:
        if len(raw[each]) != size:
            raise InvalidRequest(f"{len(raw[each])} entries for {size} prompts", each)
    bodies = [{each: value[place] if each in listed else value for each, value in raw.items()} for place in range(size)]
    return Bodies(bodies, listed)


def _is_several(name: str, value: Any) -> bool:
    """A list of token ids is one prompt, and so is one of messages."""
    return isinstance(value, list) and (name in ("text", "prompt") or isinstance(next(iter(value), None), list))
