"""Constraints that have hurt servers, as requests. Knows bodies and the statuses that are right, no server."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

Json = dict[str, Any]
REFUSED = (400,)
EITHER = (200, 400)  # contained is as good as refused


@dataclass(frozen=True)
class Attack:
    name: str
    fields: Json
    statuses: tuple[int, ...] = REFUSED

    def body(self) -> Json:
        message = {"role": "user", "content": "x"}
        return {"model": "default", "messages": [message], "max_tokens": 24, "temperature": 1, **self.fields}


def attacks() -> Iterator[Attack]:
    yield from _patterns()
    yield from _schemas()
    yield from _others()


def _patterns() -> Iterator[Attack]:
    for pattern, statuses in (
        ("((a{0,100}){0,100}){0,100}b", REFUSED),
        ("(a?){500}a{500}", EITHER),
        ("(.*a){20}", EITHER),
        (r"[\s\S]*x.{2000}y", EITHER),
        ("(x+x+)+y", EITHER),
        (r"(\w+\s?)*\d", EITHER),
        (r"((\d{1,50}[a-f]){1,50}\w){1,50}", REFUSED),
        (".*(a|b).{200}", EITHER),
        ("[a-z", REFUSED),
        ("(?=a)b", REFUSED),
        (r"(a)\1", REFUSED),
        (r"\bfoo", REFUSED),
        ("(" * 500 + "a" + ")" * 500, REFUSED),
        ("a\x00b", EITHER),
        ("\ud800".encode("utf-8", "surrogatepass").decode("utf-8", "replace"), EITHER),
        ("|".join(f"word{n}" for n in range(1200)), EITHER),
        ("a" * 100_000, REFUSED),
    ):
        yield Attack(f"regex {pattern[:40]!r}", {"regex": pattern}, statuses)


def _schemas() -> Iterator[Attack]:
    deep: Json = {"type": "string"}
    for _ in range(200):
        deep = {"type": "object", "properties": {"a": deep}}
    ring = {"$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}, "$ref": "#/$defs/a"}
    wide = {"type": "object", "properties": {f"p{n}": {"type": "string"} for n in range(5000)}}
    for name, schema, statuses in (
        ("a type that is none", {"type": "object", "properties": {"a": {"type": "hiccup"}}}, REFUSED),
        ("an enum of 100,000", {"enum": [f"value {n}" for n in range(100_000)]}, REFUSED),
        ("a reference to itself", {"$ref": "#"}, REFUSED),
        ("references in a ring", ring, REFUSED),
        ("a reference to elsewhere", {"$ref": "http://127.0.0.1:1/schema"}, REFUSED),
        ("an unknown format", {"type": "string", "format": "no-such-format"}, REFUSED),
        ("a keyword that is not enforced", {"not": {"type": "string"}}, REFUSED),
        ("nested 200 deep", deep, REFUSED),
        ("5,000 properties", wide, EITHER),
        ("a hostile pattern", {"type": "string", "pattern": "((a{0,100}){0,100}){0,100}b"}, REFUSED),
        ("2 ** 31 items", {"type": "array", "items": {"type": "integer"}, "minItems": 2**31}, REFUSED),
        ("a long minimal string", {"type": "string", "minLength": 10**6}, EITHER),
        ("nothing allowed", False, REFUSED),
    ):  # fmt: skip
        form = {"type": "json_schema", "json_schema": {"name": "b", "schema": schema}}
        yield Attack(f"schema: {name}", {"response_format": form}, statuses)


def _others() -> Iterator[Attack]:
    endless = "start: a\n" + "\n".join(f"a{'' if n == 0 else n}: a{n + 1} a{n + 1}" for n in range(60)) + '\na60: "x"'
    for name, source, statuses in (
        ("left recursion", 'start: start "a" | start', EITHER),
        ("no end", 'start: "a" start', EITHER),
        ("2 ** 60 letters", endless, EITHER),
        ("no grammar", "))((", REFUSED),
        ("a special token", "start: <|im_start|>", REFUSED),
    ):
        yield Attack(f"EBNF: {name}", {"ebnf": source}, statuses)
    yield Attack("choices: 100,000", {"choices": [f"choice {n}" for n in range(100_000)]})
    yield Attack("choices: none", {"choices": []})
    tool = {"name": "f", "parameters": {"type": "object", "properties": {"a": {"type": "nonsense", "pattern": "("}}}}
    yield Attack("tools: a type that is none", {"tools": [{"type": "function", "function": tool}]})
    yield Attack("a format that is none", {"response_format": {"type": "sound"}})


def distinct_schemas() -> Iterator[Json]:
    """No two alike, without end."""
    for number in itertools.count():
        schema = {"const": f"unique {number} {json.dumps(number * 7919)}"}
        form = {"type": "json_schema", "json_schema": {"name": "b", "schema": schema}}
        yield Attack("distinct", {"response_format": form, "max_tokens": 1}, (200,)).body()
