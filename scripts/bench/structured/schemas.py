"""The JSON schemas of the structured workload."""

from __future__ import annotations

from typing import Any

Schema = dict[str, Any]


def closed(properties: Schema) -> Schema:
    """An object with exactly these properties."""
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


WORD: Schema = {"type": "string", "maxLength": 24}
COUNT: Schema = {"type": "integer", "minimum": 0, "maximum": 10_000}

PERSON = closed({"name": WORD, "age": {"type": "integer", "minimum": 0, "maximum": 120}, "city": WORD})

# 42 properties on three levels: numbers, enums, booleans, patterns, arrays and objects in turn.
_ADDRESS = closed({"street": WORD, "zip": {"type": "string", "pattern": "^[0-9]{5}$"}, "city": WORD, "country": WORD})
_FIELDS: dict[str, Schema] = {
    "id": {"type": "string", "pattern": "^[A-Z]{2}-[0-9]{4}$"},
    "status": {"enum": ["open", "paid", "shipped", "closed"]},
    "priority": {"type": "integer", "minimum": 1, "maximum": 5},
    "express": {"type": "boolean"},
    "total": {"type": "number", "minimum": 0, "maximum": 100_000},
    "note": {"type": ["string", "null"], "maxLength": 40},
    "customer": closed({"name": WORD, "email": {"type": "string", "format": "email"}, "address": _ADDRESS}),
    "items": {"type": "array", "minItems": 1, "maxItems": 2, "items": closed({"sku": WORD, "count": COUNT})},
    "created": {"type": "string", "format": "date"},
}
_PLAIN = {f"{name}_{number}": schema for number in range(1, 6) for name, schema in (("tag", WORD), ("count", COUNT))}
_FLAGS = {f"flag_{number}": {"type": "boolean"} for number in range(1, 15)}
ORDER = closed({**_FIELDS, **_PLAIN, **_FLAGS})  # 9 + 10 + 14, and 9 within: 42
ORDER_EXAMPLE = {
    "id": "AB-1234",
    "status": "paid",
    "priority": 2,
    "express": False,
    "total": 49.9,
    "note": None,
    "customer": {
        "name": "Aiko",
        "email": "aiko@example.com",
        "address": {"street": "Main Street 5", "zip": "60001", "city": "Kyoto", "country": "Japan"},
    },
    "items": [{"sku": "rake", "count": 2}],
    "created": "2024-03-01",
    **{f"{name}_{number}": value for number in range(1, 6) for name, value in (("tag", "green"), ("count", 7))},
    **dict.fromkeys(_FLAGS, True),
}

ARTICLE = closed(
    {
        "title": {"type": "string"},
        "author": closed({"name": {"type": "string"}, "born": {"type": "integer"}}),
        "tags": {"type": "array", "items": {"type": "string"}},
        "summary": {"type": "string"},
        "rating": {"type": "number"},
        "published": {"type": "boolean"},
    }
)
ARTICLE_EXAMPLE = {
    "title": "The moss garden",
    "author": {"name": "Aiko", "born": 1970},
    "tags": ["garden", "moss"],
    "summary": "How a small garden grows green without a flower.",
    "rating": 4.5,
    "published": True,
}

TREE: Schema = {
    "$defs": {
        "node": closed(
            {"label": WORD, "children": {"type": "array", "maxItems": 2, "items": {"$ref": "#/$defs/node"}}},
        )
    },
    "$ref": "#/$defs/node",
}
MATRIX: Schema = {
    "type": "array",
    "minItems": 2,
    "maxItems": 3,
    "items": {"type": "array", "minItems": 2, "maxItems": 3, "items": {"type": "array", "maxItems": 2, "items": COUNT}},
}
CHINESE = closed(
    {
        "姓名": {"type": "string", "pattern": "^[一-龥]{2,4}$"},
        "年龄": {"type": "integer", "minimum": 0, "maximum": 120},
        "城市": {"enum": ["北京", "上海", "杭州", "成都"]},
    }
)
WEATHER = closed({"city": WORD, "unit": {"enum": ["celsius", "fahrenheit"]}, "days": {"type": "integer", "maximum": 9}})
REFUND = closed({"order_id": {"type": "string", "pattern": "^[A-Z]{2}-[0-9]{4}$"}, "reason": WORD})


def properties(schema: Schema) -> int:
    """All that the schema names, on all levels."""
    own = schema.get("properties", {})
    items = [schema["items"]] if "items" in schema else []
    return len(own) + sum(properties(part) for part in [*own.values(), *items])
