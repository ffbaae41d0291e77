"""What pydantic's `model_json_schema` gives for ordinary models, by what is in them."""

from __future__ import annotations

from typing import Any


def model(title: str, required: list[str] | None = None, /, **properties: dict[str, Any]) -> dict[str, Any]:
    titled = {
        name: schema if "$ref" in schema else {**schema, "title": name.title()} for name, schema in properties.items()
    }
    names = list(properties) if required is None else required
    return {"properties": titled, **({"required": names} if names else {}), "title": title, "type": "object"}


def nullable(schema: dict[str, Any]) -> dict[str, Any]:
    return {"anyOf": [schema, {"type": "null"}]}


STRING, INTEGER, NUMBER = {"type": "string"}, {"type": "integer"}, {"type": "number"}
ADDRESS = model("Address", street=STRING, zip_code={"pattern": r"^\d{5}(-\d{4})?$", "type": "string"})
COLOR = {"enum": ["red", "blue"], "title": "Color", "type": "string"}
CAT = model("Cat", ["lives"], kind={"const": "cat", "default": "cat", "type": "string"}, lives=INTEGER)
DOG = model("Dog", kind={"const": "dog", "type": "string"}, barks={"type": "boolean"})
PET = {"mapping": {"cat": "#/$defs/Cat", "dog": "#/$defs/Dog"}, "propertyName": "kind"}
PETS = [{"$ref": "#/$defs/Cat"}, {"$ref": "#/$defs/Dog"}]
DECIMAL = {"anyOf": [NUMBER, {"pattern": r"^(?!^[-+.]*$)[+-]?0*\d*\.?\d*$", "type": "string"}]}

TAKEN: dict[str, dict[str, Any]] = {
    "plain": model("User", ["name"], name=STRING, age={"default": 0, "type": "integer"}, ratio=NUMBER),
    "no field": {"properties": {}, "title": "Empty", "type": "object"},
    "optional": model("A", ["a"], a=nullable(INTEGER), b={**nullable(STRING), "default": None}),
    "union": model("A", a={"anyOf": [INTEGER, STRING, {"type": "boolean"}, {"items": NUMBER, "type": "array"}]}),
    "nested": {
        "$defs": {"Address": ADDRESS},
        **model("A", home={"$ref": "#/$defs/Address"}, all={"items": {"$ref": "#/$defs/Address"}, "type": "array"}),
    },
    "described reference": {
        "$defs": {"Address": ADDRESS},
        **model("A", home={"$ref": "#/$defs/Address", "description": "of the user", "examples": [{"street": "x"}]}),
    },
    "enum": {
        "$defs": {"Color": COLOR, "Level": {"enum": [1, 2], "title": "Level", "type": "integer"}},
        **model(
            "A",
            ["a", "b"],
            a={"$ref": "#/$defs/Color"},
            b={"$ref": "#/$defs/Level"},
            c={"$ref": "#/$defs/Color", "default": "red"},
        ),
    },
    "literal": model("A", a={"enum": ["x", "y"], "type": "string"}, b={"enum": [1, "a", None]}, c={"const": 5}),
    "discriminated": {
        "$defs": {"Cat": CAT, "Dog": DOG},
        **model(
            "A",
            ["pet"],
            pet={"discriminator": PET, "oneOf": PETS},
            other={"anyOf": [{"discriminator": PET, "oneOf": PETS}, {"type": "null"}], "default": None},
        ),
    },
    "union of models": {"$defs": {"Cat": CAT, "Dog": DOG}, **model("A", pet={"anyOf": PETS})},
    "dict": model(
        "A",
        counts={"additionalProperties": INTEGER, "type": "object"},
        anything={"additionalProperties": True, "type": "object"},
        lists={"additionalProperties": {"items": STRING, "type": "array"}, "type": "object"},
    ),
    "dict of an enum": {
        "$defs": {"Color": COLOR},
        **model("A", a={"additionalProperties": INTEGER, "propertyNames": {"$ref": "#/$defs/Color"}, "type": "object"}),
    },
    "dict of a literal": model(
        "A", a={"additionalProperties": INTEGER, "propertyNames": {"enum": ["x", "y"]}, "type": "object"}
    ),
    "dict of UUIDs": model(
        "A", a={"additionalProperties": STRING, "propertyNames": {"format": "uuid"}, "type": "object"}
    ),
    "dict of a constrained key": model(
        "A", a={"type": "object", "patternProperties": {r"^[a-z]+$": INTEGER}, "additionalProperties": False}
    ),
    "lists": model(
        "A",
        a={"items": {"items": NUMBER, "type": "array"}, "type": "array"},
        b={"items": INTEGER, "maxItems": 5, "minItems": 1, "type": "array"},
        c={"items": {}, "type": "array", "default": []},
    ),
    "tuples": model(
        "A",
        a={"maxItems": 2, "minItems": 2, "prefixItems": [INTEGER, STRING], "type": "array"},
        b={"items": INTEGER, "type": "array"},
    ),
    "times": model(
        "A",
        a={"format": "date-time", "type": "string"},
        b={"format": "date", "type": "string"},
        c={"format": "time", "type": "string"},
        d={"format": "duration", "type": "string"},
    ),
    "identifiers": model(
        "A",
        a={"format": "uuid", "type": "string"},
        b={"format": "uuid4", "type": "string"},
        e={"format": "ipv4", "type": "string"},
        i={"format": "ipvanyaddress", "type": "string"},
        j={"format": "base64", "maxLength": 40, "type": "string"},
    ),
    "email": model("A", c={"format": "email", "type": "string"}),
    "address": model("A", d={"format": "uri", "maxLength": 40, "minLength": 1, "type": "string"}),
    "texts": model(
        "A",
        f={"format": "path", "type": "string"},
        g={"format": "password", "type": "string", "writeOnly": True},
        h={"format": "binary", "type": "string"},
    ),
    "bounds": model(
        "A",
        a={"exclusiveMaximum": 10, "minimum": 0, "type": "integer"},
        b={"exclusiveMinimum": 0, "maximum": 1, "type": "number"},
        c={"multipleOf": 5, "type": "integer"},
        d={"exclusiveMinimum": 0, "type": "integer"},
        e={"maximum": 90.0, "minimum": -90.0, "type": "number"},
    ),
    "strings": model(
        "A",
        a={"maxLength": 10, "pattern": r"^[A-Z]{2}\d+$", "type": "string"},
        b={"maxLength": 40, "minLength": 1, "type": "string"},
        c={"maxLength": 60, "pattern": r"^[\w\.-]+@[\w\.-]+\.\w+$", "type": "string"},
    ),
    "recursive": {
        "$defs": {
            "Node": model(
                "Node",
                ["value"],
                value=INTEGER,
                children={"default": [], "items": {"$ref": "#/$defs/Node"}, "type": "array"},
            )
        },
        "$ref": "#/$defs/Node",
    },
    "chain": {
        "$defs": {
            "Link": model("Link", ["value"], value=STRING, next={**nullable({"$ref": "#/$defs/Link"}), "default": None})
        },
        **model("A", head={"$ref": "#/$defs/Link"}),
    },
    "closed": {**model("A", a=INTEGER), "additionalProperties": False},
    "open": {**model("A", a=INTEGER), "additionalProperties": True},
    "annotated": {
        **model(
            "A", **{"x y": {"description": "d", "examples": [1], "deprecated": True, "type": "integer", "x-order": 1}}
        ),
        "description": "A model.",
        "examples": [{"x y": 1}],
    },
    "any": model("A", [], a={}, b={"default": None}),
    "list of models": {
        "$defs": {"Address": ADDRESS},
        "items": {"$ref": "#/$defs/Address"},
        "title": "As",
        "type": "array",
    },
    "root": {"items": INTEGER, "title": "Numbers", "type": "array"},
    "JSON in a string": model("A", a={"contentMediaType": "application/json", "contentSchema": {}, "type": "string"}),
}

# and why: what the page on structured output says is refused
REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "Decimal": (model("A", a=DECIMAL), "look-ahead"),
    "set": (model("A", a={"items": STRING, "type": "array", "uniqueItems": True}), "'uniqueItems' cannot be enforced"),
    "hundredths": (model("A", a={"multipleOf": 0.01, "type": "number"}), "multipleOf is kept for"),
    "IPv4 network": (model("A", a={"format": "ipv4network", "type": "string"}), "format 'ipv4network'"),
    "pattern as a value": (model("A", a={"format": "regex", "type": "string"}), "format 'regex'"),
}
