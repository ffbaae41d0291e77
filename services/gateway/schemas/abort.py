"""The body of /abort_request, with SGLang's names."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from services.gateway.schemas.decode import FieldRules, convert, decode_object

RULES = FieldRules(unsupported={"abort_all": (False,)}, ignored=frozenset({"abort_message"}))


class AbortFields(msgspec.Struct, frozen=True, kw_only=True):
    rid: Annotated[str, Meta(min_length=1, max_length=256)]


def read_abort(body: bytes) -> str:
    """The `rid` whose requests are to end: exactly this one."""
    return convert(decode_object(body), AbortFields, RULES).rid
