"""A JSON schema as a grammar for the engine. The output is one JSON value that the schema takes, and nothing else.

The schema keeps its own meaning: without `type` any type is allowed, without `additionalProperties` any other property.
Only the writing is narrower: properties in the schema's order, numbers without exponents and up to 10^18, no `\\u` in
strings, one separator each (`whitespace="fixed"`: as Python's json.dumps) or up to `max_whitespace` characters between
two tokens.

Strict, whatever cannot be enforced is refused with its place. Otherwise it is left to the model.
"""

from __future__ import annotations

import json
from typing import Any, Literal

from services.executor.constraint.source.refused import Refused
from services.executor.constraint.source.schema_compiler import Compiler
from services.executor.constraint.source.schema_document import Document
from services.executor.constraint.source.schema_matches import WRITING
from shared.config import ConstraintsConfig

Whitespace = Literal["fixed", "flexible"]


def grammar(schema: Any, *, strict: bool, whitespace: Whitespace, caps: ConstraintsConfig) -> str:
    """Args:
    schema: as decoded from JSON.

    Raises:
        Refused: not a schema, too large, unsatisfiable, or (strict) not to be enforced.
    """
    prepared_schema = prepared(schema, strict=strict, whitespace=whitespace, caps=caps)
    return json.dumps({"grammars": [{"json_schema": prepared_schema}]})


def prepared(schema: Any, *, strict: bool, whitespace: Whitespace, caps: ConstraintsConfig) -> dict[str, Any]:
    """The schema that the engine takes, with how to write the values; see `grammar`."""
    try:
        compiled = Compiler(Document(schema, caps.max_depth), caps, strict=strict).compiled()
    except RecursionError:
        raise Refused("references or alternatives are nested too deeply") from None
    return {"x-guidance": _writing(whitespace, caps.max_whitespace), **compiled}


def _writing(whitespace: Whitespace, most: int) -> dict[str, Any]:
    if whitespace == "fixed":
        return {"item_separator": ", ", "key_separator": ": ", "whitespace_flexible": False, **WRITING}
    return {"item_separator": ",", "key_separator": ":", "whitespace_pattern": f"[ \\n\\r\\t]{{1,{most}}}", **WRITING}
