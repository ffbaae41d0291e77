"""A client's JSON schema: whether it is one at all, and what its references point to. Knows nothing of output."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any
from urllib.parse import unquote

from services.executor.constraint.source.refused import Path, Refused
from services.executor.constraint.source.schema_keywords import KNOWN
from services.executor.constraint.source.schema_shape import Schema, check_schema

_DATA = frozenset({"const", "enum", "default", "examples", "example"})  # what is below is no schema


class Document:
    """Args:
    root: the schema as decoded from JSON; it is not changed.
    max_depth: objects and arrays within each other.

    Raises:
        Refused: not a schema of draft 2020-12, or deeper than that.
    """

    def __init__(self, root: Any, max_depth: int) -> None:
        _check_data(root, max_depth)
        self.root = _modern(root)
        check_schema(self.root)
        if isinstance(self.root, dict) and self.root and not KNOWN & self.root.keys() and "$id" not in self.root:
            raise Refused("no keyword of JSON schema in it")
        self._id = self.root.get("$id", "") if isinstance(self.root, dict) else ""
        self._anchors = dict(_anchors(self.root))
        self._checked: set[Path] = set()

    def resolve(self, reference: str, at: Path) -> tuple[Schema, Path]:
        """The schema that a `$ref` points to, and where it is.

        Raises:
            Refused: nothing is there, or it is in another document.
        """
        path = self._path_of(reference, at)
        schema = self._at(path)
        if not isinstance(schema, (dict, bool)):
            raise Refused(f"{reference!r} points to nothing, or to no schema", at)
        if path not in self._checked and path[:1] not in ((), ("$defs",), ("definitions",)):
            check_schema(schema, path)
        self._checked.add(path)
        return schema, path

    def _path_of(self, reference: str, at: Path) -> Path:
        document, _, fragment = reference.partition("#")
        if document not in ("", self._id.rstrip("#")):
            raise Refused(f"{reference!r} is in another document", at)
        fragment = unquote(fragment)
        if fragment in self._anchors:
            return self._anchors[fragment]
        if fragment and not fragment.startswith("/"):
            raise Refused(f"there is no anchor {fragment!r}", at)
        return tuple(part.replace("~1", "/").replace("~0", "~") for part in fragment.split("/")[1:])

    def _at(self, path: Path) -> Any:
        value: Any = self.root
        for part in path:
            if isinstance(value, list) and str(part).isdecimal() and int(part) < len(value):
                value = value[int(part)]
            elif isinstance(value, dict):
                value = value.get(part)
            else:
                return None
        return value


def _check_data(root: Any, max_depth: int) -> None:
    """Raises Refused for what JSON cannot say, or UTF-8, and for what is too deep. Does not recurse."""
    for value, path in _walk(root):
        if len(path) > max_depth:
            raise Refused(f"nested more than {max_depth} levels deep", path[:8])
        if isinstance(value, float) and not math.isfinite(value):
            raise Refused("a number that is not finite", path)
        for text in (value, *path[-1:]):
            if isinstance(text, str) and not text.isascii() and any("\ud800" <= char <= "\udfff" for char in text):
                raise Refused("half of a surrogate pair", path[:-1])


def _walk(root: Any) -> Iterator[tuple[Any, Path]]:
    pending: list[tuple[Any, Path]] = [(root, ())]
    while pending:
        value, path = pending.pop()
        yield value, path
        if isinstance(value, dict):
            pending += [(item, (*path, key)) for key, item in value.items()]
        elif isinstance(value, list):
            pending += [(item, (*path, index)) for index, item in enumerate(value)]


def _anchors(root: Any) -> Iterator[tuple[str, Path]]:
    for value, path in _walk(root):
        if isinstance(value, dict) and isinstance(value.get("$anchor"), str) and not _DATA & set(path):
            yield value["$anchor"], path


def _modern(schema: Any) -> Any:
    """Arrays in `items` (up to draft 2019-09) as `prefixItems`, with `additionalItems` as `items`."""
    if isinstance(schema, list):
        return [_modern(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    result = {key: value if key in _DATA else _modern(value) for key, value in schema.items()}
    if isinstance(result.get("items"), list) and "prefixItems" not in result:
        rest = result.pop("additionalItems", True)
        result = {"prefixItems" if key == "items" else key: value for key, value in result.items()}
        result["items"] = rest
    return result
