"""Strings of a JSON schema, for the engine. Knows nothing of other types, and leaves patterns to `schema_patterns`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from services.executor.constraint.source.refused import Path, Refused
from services.executor.constraint.source.schema_formats import MAX_LENGTHS, PATTERNS
from services.executor.constraint.source.schema_parts import Context, Emitted, Part, each, greatest, least
from services.executor.constraint.source.schema_patterns import UNWRITABLE, search

_UNWRITABLE = frozenset(chr(point) for start, end in UNWRITABLE for point in range(start, end))


def string(parts: Sequence[Part], context: Context) -> Emitted:
    low, high = _lengths(parts, context)
    if high is not None and low > high:
        return context.never(f"no string is {low} to {high} characters long", parts[0].path)
    lengths: dict[str, Any] = {"minLength": low} if low else {}
    if high is not None:
        lengths["maxLength"] = high
    found = list(_patterns(parts, context))
    for pattern, path in found:
        if pattern is None:
            return context.never("no string that can be written matches the pattern", path)
    patterns = [{"type": "string", "pattern": pattern} for pattern, _ in found]
    if not patterns:
        return {"type": "string", **lengths}
    first: dict[str, Any] = {**patterns[0], **lengths}
    return _together(first, patterns[1:], [path for _, path in found], context) if lengths or patterns[1:] else first


def _together(first: dict[str, Any], others: list[dict[str, Any]], paths: list[Path], context: Context) -> Emitted:
    """What the engine has to take together, tried: an error of its own names no place."""
    together = {"allOf": [first, *others]} if others else first
    has_text = context.matches.has_text(together)
    if has_text is None:
        context.unenforced("this cannot be kept together with the other patterns, formats and lengths", paths[-1])
        return {"type": "string", "pattern": first["pattern"]}
    if not has_text:
        return context.never("no string satisfies this, and the other patterns, formats and lengths", paths[-1])
    return together


def writable(text: str) -> bool:
    r"""Whether the text can stand in JSON without a `\u`."""
    return _UNWRITABLE.isdisjoint(text)


def _lengths(parts: Sequence[Part], context: Context) -> tuple[int, int | None]:
    most = context.caps.max_repeat
    for value, path in each(parts, "minLength"):
        if value > most:
            raise Refused(f"at most {most} characters can be asked for", path)
    highs = [MAX_LENGTHS[name] for name, _ in each(parts, "format") if name in MAX_LENGTHS]
    high = least(parts, "maxLength")
    if high is not None:
        highs.append(min(high, most))
    return greatest(parts, "minLength"), min(highs, default=None)


def _patterns(parts: Sequence[Part], context: Context) -> Iterator[tuple[str | None, Path]]:
    for value, path in each(parts, "pattern"):
        try:
            yield search(value, context.caps), path
        except Refused as refused:
            context.unenforced(refused.message, path)
    for name, path in each(parts, "format"):
        if name in PATTERNS:
            yield f"^(?:{PATTERNS[name]})$", path
