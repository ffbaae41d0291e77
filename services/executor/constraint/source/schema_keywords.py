"""Which keywords of JSON schema are kept, which ask nothing of the output, which cannot be kept. Knows names only.

The lists are of what has been tried against a validator. What is in none of them is unknown, and refused like what
cannot be kept.
"""

from __future__ import annotations

from typing import Any

from shared.nearest import did_you_mean

APPLICATORS = frozenset({"$ref", "allOf", "anyOf", "oneOf", "enum", "const", "type"})
NUMBERS = frozenset({"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "format"})
STRINGS = frozenset({"minLength", "maxLength", "pattern", "format"})
ARRAYS = frozenset({"prefixItems", "items", "minItems", "maxItems"})
OBJECTS = frozenset(
    {
        "properties",
        "required",
        "additionalProperties",
        "patternProperties",
        "propertyNames",
        "minProperties",
        "maxProperties",
    }
)
ENFORCED = APPLICATORS | NUMBERS | STRINGS | ARRAYS | OBJECTS

ANNOTATIONS = frozenset(
    {
        "$anchor",
        "$comment",
        "$defs",
        "$schema",
        "contentEncoding",
        "contentMediaType",
        "contentSchema",
        "default",
        "definitions",
        "deprecated",
        "description",
        "discriminator",
        "example",
        "examples",
        "externalDocs",
        "readOnly",
        "title",
        "writeOnly",
    }
)

UNENFORCED = frozenset(
    {
        "$dynamicAnchor",
        "$dynamicRef",
        "$recursiveAnchor",
        "$recursiveRef",
        "additionalItems",
        "contains",
        "dependencies",
        "dependentRequired",
        "dependentSchemas",
        "else",
        "if",
        "maxContains",
        "minContains",
        "not",
        "then",
        "unevaluatedItems",
        "unevaluatedProperties",
        "uniqueItems",
    }
)
KNOWN = ENFORCED | ANNOTATIONS | UNENFORCED
ALIKE = 0.6  # as difflib counts it: keywords are long, and few

# Values with which a keyword that cannot be kept asks for nothing.
_IDLE: dict[str, tuple[Any, ...]] = {
    "uniqueItems": (False,),
    "unevaluatedItems": (True, {}),
    "unevaluatedProperties": (True, {}),
    "dependentRequired": ({},),
    "dependentSchemas": ({},),
    "dependencies": ({},),
    "not": (False,),
}


def is_annotation(keyword: str) -> bool:
    return keyword in ANNOTATIONS or keyword.startswith("x-")


def objection(keyword: str, value: Any) -> str | None:
    """Why this keyword cannot be kept; None if it can, or asks for nothing."""
    if keyword in ENFORCED or is_annotation(keyword):
        return None
    if keyword in UNENFORCED:
        idle = any(value is item or (isinstance(item, dict) and value == item) for item in _IDLE.get(keyword, ()))
        return None if idle else f"{keyword!r} cannot be enforced"
    return f"unknown keyword {keyword!r}{did_you_mean(keyword, KNOWN, ALIKE)}"
