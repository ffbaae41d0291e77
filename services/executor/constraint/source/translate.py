"""From a constraint as clients give it to a grammar as the engine reads it. Knows which kind is whose, and sizes."""

from __future__ import annotations

import json
from typing import Any, NoReturn, assert_never

from services.executor.constraint.source import choices, ebnf, json_schema, regex, structural_tag
from services.executor.constraint.source.refused import Refused
from shared import wire
from shared.config import ConstraintsConfig


def translate(constraint: wire.Constraint, caps: ConstraintsConfig) -> str:
    """Raises:
    Refused: the client's mistake.
    """
    size = len(constraint.source.encode(errors="surrogatepass"))
    if constraint.kind != "regex" and size > caps.max_source_bytes:
        raise Refused(f"{size} bytes; at most {caps.max_source_bytes} are taken")
    source, strict, whitespace = constraint.source, constraint.strict, constraint.whitespace
    match constraint.kind:
        case "regex":
            return f"start: /{regex.to_rust(source, caps)}/"
        case "choices":
            return choices.grammar(decoded(source), caps=caps)
        case "ebnf":
            return ebnf.grammar(source, caps=caps)
        case "json_schema":
            return json_schema.grammar(decoded(source), strict=strict, whitespace=whitespace, caps=caps)
        case "json_object":
            return json_schema.grammar({"type": "object"}, strict=strict, whitespace=whitespace, caps=caps)
        case "structural_tag":
            return structural_tag.grammar(source, strict=strict, whitespace=whitespace, caps=caps)
        case _:
            assert_never(constraint.kind)


def decoded(source: str) -> Any:
    """Raises:
    Refused: not JSON, an object has a key twice, or a number that JSON does not know.
    """
    try:
        return json.loads(source, object_pairs_hook=_object, parse_constant=_unknown_number)
    except json.JSONDecodeError as error:
        raise Refused(f"not JSON: {error.msg} at line {error.lineno}, column {error.colno}") from None
    except ValueError:  # a number of more digits than Python reads
        raise Refused("not usable JSON: a number is too long") from None
    except RecursionError:
        raise Refused("the JSON is nested too deeply") from None


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) < len(pairs):
        names = [name for name, _ in pairs]
        raise Refused(f"not usable JSON: an object has the key {next(n for n in names if names.count(n) > 1)!r} twice")
    return made


def _unknown_number(name: str) -> NoReturn:
    raise Refused(f"not JSON: {name}")
