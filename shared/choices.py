"""What a field may say, for who has said something else: msgspec names what came and the place, not what is allowed.

Knows msgspec's words and its view of types, no field.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Any

import msgspec
from msgspec import inspect

_STEP = re.compile(r"\.(?P<field>[\w-]+)|(?P<item>\[[^\]]*\])")


def one_of(message: str, struct: type[msgspec.Struct], place: str) -> str:
    """To be put behind msgspec's message of such a field; else empty.

    Args:
        place: as msgspec has it, without the `$`: ".messages[0].role".
    """
    if not message.startswith("Invalid enum value"):
        return ""
    found = [_type_of(struct)]
    for step in _STEP.finditer(place):
        found = [inner for outer in found for inner in _inside(outer, step["field"])]
    allowed = [str(value) for kind in found if isinstance(kind, inspect.LiteralType) for value in kind.values]
    return f"; one of {', '.join(allowed)}" if allowed else ""


_type_of = cache(inspect.type_info)  # as many as there are structs in the code


def _inside(outer: inspect.Type, field: str | None) -> list[inspect.Type]:
    """The types of a struct's field, or of a collection's items; one for each way to be there."""
    found: Any = []
    match outer:
        case inspect.StructType(fields=fields):
            found = [each.type for each in fields if each.encode_name == field]
        case inspect.ListType(item_type=item) | inspect.VarTupleType(item_type=item):
            found = [item]
        case inspect.DictType(value_type=value):
            found = [value]
    return [way for kind in found for way in _ways(kind)]


def _ways(kind: inspect.Type) -> list[inspect.Type]:
    match kind:
        case inspect.UnionType(types=types):
            return [way for each in types for way in _ways(each)]
        case inspect.Metadata(type=inner):
            return _ways(inner)
        case _:
            return [kind]
