"""Structural tags as a grammar for the engine: free text, and calls whose values follow a schema.

Free text runs until one of the triggers is complete. From there a tag that begins with this trigger follows whole: its
beginning, a value by its schema, its end. So no trigger ever stands in the text without a tag behind it. Where no
trigger is given, or one tag at least is asked for, there is no free text at all.

All of it is text: a trigger that is also a special token of the model is spelt out.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

from services.executor.constraint.source import json_schema, structural_tag_source
from services.executor.constraint.source.json_schema import Whitespace
from services.executor.constraint.source.refused import Path, Refused
from services.executor.constraint.source.structural_tag_source import Call, Calls
from shared.config import ConstraintsConfig

MAX_TEXT = 1024  # characters of a beginning, an end, a trigger or a separator


def grammar(source: str, *, strict: bool, whitespace: Whitespace, caps: ConstraintsConfig) -> str:
    """Raises Refused: not structural tags, or a schema is refused; see `json_schema.grammar`."""
    found = structural_tag_source.read(source)
    _check(found, caps)
    bodies = [_body(call, strict, whitespace, caps) for call in found.calls]
    rules = _with_text(found, bodies) if found.triggers else _calls_only(found, bodies, caps)
    return "\n".join(["%llguidance {}", *rules, ""])


def _check(found: Calls, caps: ConstraintsConfig) -> None:
    if not found.calls:
        raise Refused("there are no tags")
    if len(found.calls) > caps.max_tools:
        raise Refused(f"{len(found.calls)} tags; at most {caps.max_tools} are taken")
    texts = [text for call in found.calls for text in (call.begin, call.end)]
    for text in [*texts, *found.triggers, found.separator or ""]:
        if len(text) > MAX_TEXT:
            raise Refused(f"a beginning, end or trigger of {len(text)} characters; at most {MAX_TEXT} are taken")
    if not all(found.triggers):
        raise Refused("a trigger is empty")


def _body(call: Call, strict: bool, whitespace: Whitespace, caps: ConstraintsConfig) -> str:
    try:
        wanted = strict if call.strict is None else call.strict
        schema = json_schema.prepared(call.schema, strict=wanted, whitespace=whitespace, caps=caps)
    except Refused as refused:
        raise refused.within(*call.path) from None
    return f"%json {json.dumps(schema)}"


def _calls_only(found: Calls, bodies: Sequence[str], caps: ConstraintsConfig) -> Iterator[str]:
    between, after = _between(found.separator, caps)
    more = "" if found.stop_after_first else f" ({between} call)* {after}"
    yield f"start: call{more}" if found.at_least_one else f"start: (call{more})?"
    yield f"call: {_choice('tag', len(bodies))}"
    for index, (call, body) in enumerate(zip(found.calls, bodies, strict=True)):
        yield f"tag_{index}: {_literal(call.begin)} {body} {_literal(call.end)}"


def _with_text(found: Calls, bodies: Sequence[str]) -> Iterator[str]:
    triggers = _first_to_complete(found.triggers)
    calls = f"({_choice('tag', len(bodies))})"
    yield f"start: TEXT | {calls}" if found.stop_after_first else f"start: {calls}* TEXT"
    yield "ANY: /(?s:.*)/"
    yield "SOME: /(?s:.+)/"
    for index, trigger in enumerate(triggers):
        yield f"TRIGGER_{index}: {_literal(trigger)}"
    yield f"TEXT: ANY{_none_of(range(len(triggers)))}"
    for index in range(len(triggers)):
        yield f"HEAD_{index}: {_head(index, len(triggers))}"
    for index, (call, body) in enumerate(zip(found.calls, bodies, strict=True)):
        head = _head_of(call, triggers)
        rest = call.begin[len(triggers[head]) :]
        yield f"tag_{index}: HEAD_{head} {_literal(rest)} {body} {_literal(call.end)}"


def _head(index: int, count: int) -> str:
    """Free text up to the first trigger, which is this one."""
    others = _none_of([other for other in range(count) if other != index])
    return f"(ANY TRIGGER_{index}) & ~(ANY TRIGGER_{index} SOME){others}"


def _between(separator: str | None, caps: ConstraintsConfig) -> tuple[str, str]:
    """What stands between two calls, and what may stand after the last one."""
    if separator is not None:
        return _literal(separator), ""
    space = f"/[ \\n\\r\\t]{{1,{caps.max_whitespace}}}/"
    return f"({space})?", f"({space})?"


def _literal(text: str) -> str:
    """The engine takes no DEL in a string."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", r"\u007f") if text else ""


def _choice(name: str, count: int) -> str:
    return " | ".join(f"{name}_{index}" for index in range(count))


def _none_of(triggers: Sequence[int]) -> str:
    return "".join(f" & ~(ANY TRIGGER_{index} ANY)" for index in triggers)


def _first_to_complete(triggers: Sequence[str]) -> list[str]:
    """Without those that another one begins, since that one is complete first.

    Raises:
        Refused: one is within another, so that the other could never be complete.
    """
    kept = [
        one for one in dict.fromkeys(triggers) if not any(one != other and one.startswith(other) for other in triggers)
    ]
    for one in kept:
        if any(one != other and other in one for other in kept):
            raise Refused(f"the trigger {one!r} has another one in it", ("triggers",))
    return kept


def _head_of(call: Call, triggers: Sequence[str]) -> int:
    for index, trigger in enumerate(triggers):
        if call.begin.startswith(trigger):
            return index
    raise Refused("no trigger is at its beginning", (*_tag_path(call), "begin"))


def _tag_path(call: Call) -> Path:
    return call.path[:2] if call.path[0] == "structures" else call.path[:3]
