"""Structural tags as a client writes them, and what they come to. Knows nothing of grammars.

Two forms are read: `{"type": "structural_tag", "structures": [{begin, schema, end}], "triggers": []}`, and
`{"type": "structural_tag", "format": {"type": "triggered_tags" | "tags_with_separator" | "tag" | "json_schema", …}}`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Literal

import msgspec

from services.executor.constraint.source.refused import Path, Refused

_WHERE = re.compile(r"(.*?)(?: - at `\$(.*)`)?", re.DOTALL)
_STEP = re.compile(r"\.([^.\[]+)|\[(\d+)\]")


class JsonSchema(msgspec.Struct, tag_field="type", tag="json_schema", forbid_unknown_fields=True):
    json_schema: Any
    strict: bool | None = None  # of this schema alone; None: as for all


class Tag(msgspec.Struct, tag_field="type", tag="tag", forbid_unknown_fields=True):
    begin: str
    content: JsonSchema
    end: str


class TriggeredTags(msgspec.Struct, tag_field="type", tag="triggered_tags", forbid_unknown_fields=True):
    triggers: list[str]
    tags: list[Tag]
    at_least_one: bool = False
    stop_after_first: bool = False
    separator: str | None = None  # between tags, with at_least_one; None: any whitespace


class TagsWithSeparator(msgspec.Struct, tag_field="type", tag="tags_with_separator", forbid_unknown_fields=True):
    tags: list[Tag]
    separator: str
    at_least_one: bool = False
    stop_after_first: bool = False


class Structure(msgspec.Struct, forbid_unknown_fields=True):
    begin: str
    schema: Any
    end: str


class Source(msgspec.Struct, forbid_unknown_fields=True):
    type: Literal["structural_tag"]
    structures: list[Structure] | None = None
    triggers: list[str] | None = None
    format: TriggeredTags | TagsWithSeparator | Tag | JsonSchema | None = None


@dataclass(frozen=True, slots=True)
class Call:
    """A tag: what stands around a value, and the schema of the value."""

    begin: str
    schema: Any
    end: str
    strict: bool | None
    path: Path  # of the schema in the source


@dataclass(frozen=True, slots=True)
class Calls:
    """With triggers, free text may stand around the calls; without, there is nothing but calls."""

    calls: tuple[Call, ...]
    triggers: tuple[str, ...] = ()
    at_least_one: bool = False
    stop_after_first: bool = False
    separator: str | None = None


def read(source: str) -> Calls:
    """Raises Refused: neither of the two forms."""
    try:
        decoded = msgspec.json.decode(source, type=Source)
    except msgspec.ValidationError as error:
        raise _refused(str(error)) from None
    except (msgspec.DecodeError, UnicodeEncodeError) as error:
        raise Refused(f"not JSON: {error}") from None
    except RecursionError:
        raise Refused("nested too deeply") from None
    if decoded.format is not None and decoded.structures is None and decoded.triggers is None:
        return _of_format(decoded.format)
    if decoded.format is None and decoded.structures is not None and decoded.triggers is not None:
        return Calls(
            tuple(
                Call(item.begin, item.schema, item.end, None, ("structures", index, "schema"))
                for index, item in enumerate(decoded.structures)
            ),
            tuple(decoded.triggers),
        )
    raise Refused("either `structures` with `triggers`, or `format`")


def _of_format(form: TriggeredTags | TagsWithSeparator | Tag | JsonSchema) -> Calls:
    match form:
        case TriggeredTags():
            return Calls(
                _calls(form.tags),
                () if form.at_least_one else tuple(form.triggers),
                form.at_least_one,
                form.stop_after_first,
                form.separator,
            )
        case TagsWithSeparator():
            return Calls(_calls(form.tags), (), form.at_least_one, form.stop_after_first, form.separator)
        case Tag():
            call = Call(form.begin, form.content.json_schema, form.end, form.content.strict, ("format", *_CONTENT))
            return Calls((call,), at_least_one=True, stop_after_first=True)
        case JsonSchema():
            call = Call("", form.json_schema, "", form.strict, ("format", "json_schema"))
            return Calls((call,), at_least_one=True, stop_after_first=True)


_CONTENT: Path = ("content", "json_schema")


def _calls(tags: list[Tag]) -> tuple[Call, ...]:
    return tuple(
        Call(tag.begin, tag.content.json_schema, tag.end, tag.content.strict, ("format", "tags", index, *_CONTENT))
        for index, tag in enumerate(tags)
    )


def _refused(message: str) -> Refused:
    """With the place that is at the end of the message."""
    found = _WHERE.fullmatch(message)
    text, place = found.groups() if found else (message, None)
    steps = _STEP.findall(place or "")
    return Refused(str(text), tuple(key if key else int(index) for key, index in steps))
