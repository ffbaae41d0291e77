"""Which schemas are taken, which are refused, and where the error points."""

from __future__ import annotations

from typing import Any

import pytest

from services.executor.constraint.source.json_schema import grammar, prepared
from services.executor.constraint.source.refused import Refused
from shared.config import ConstraintsConfig
from tests.services.executor.constraint.source.engine_walks import allowed, bundled_tokenizer, matcher, takes

CAPS = ConstraintsConfig()
BY_ITSELF = {"$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}, "$ref": "#/$defs/a"}
ENDLESS = {"type": "object", "properties": {"next": {"$ref": "#"}}, "required": ["next"]}


def made(schema: Any, **options: Any) -> str:
    return grammar(schema, **{"strict": True, "whitespace": "fixed", "caps": CAPS, **options})


def refusal(schema: Any, **options: Any) -> Refused:
    with pytest.raises(Refused) as caught:
        made(schema, **options)
    return caught.value


UNENFORCED: list[tuple[dict[str, Any], tuple[str | int, ...]]] = [
    ({"not": {"type": "string"}}, ("not",)),
    ({"if": {}, "then": {}}, ("if",)),
    ({"dependentSchemas": {"a": {}}}, ("dependentSchemas",)),
    ({"dependentRequired": {"a": ["b"]}}, ("dependentRequired",)),
    ({"type": "array", "uniqueItems": True}, ("uniqueItems",)),
    ({"type": "array", "contains": {"type": "null"}}, ("contains",)),
    ({"type": "array", "unevaluatedItems": False}, ("unevaluatedItems",)),
    ({"type": "object", "unevaluatedProperties": False}, ("unevaluatedProperties",)),
    ({"type": "object", "propertyNames": {"pattern": "a", "maxLength": 3}}, ("propertyNames",)),
    (
        {"type": "object", "properties": {"a": {}}, "propertyNames": {"format": "date"}},
        ("propertyNames",),
    ),
    ({"type": "string", "format": "hostess"}, ("format",)),
    ({"type": "string", "format": "int32"}, ("format",)),
    ({"type": "number", "multipleOf": 0.1}, ("multipleOf",)),
    ({"oneOf": [{"type": "integer"}, {"type": "number"}]}, ("oneOf",)),
    ({"type": "object", "minProperties": 2}, ("minProperties",)),
    ({"type": "object", "properties": {"a": {}}, "maxProperties": 2}, ("maxProperties",)),
    (
        {"type": "object", "properties": {"ab": {}}, "patternProperties": {"^a": {"type": "null"}}},
        ("patternProperties", "^a"),
    ),
    ({"type": "object", "propertes": {}}, ("propertes",)),
    ({"enum": [2**60, 1]}, ("enum",)),
    ({"enum": ["\x01", "a"]}, ("enum",)),
    ({"type": "string", "pattern": "(?=a)"}, ("pattern",)),
    ({"type": "string", "pattern": "a^"}, ("pattern",)),
    ({"type": "object", "patternProperties": {r"\ba": {"type": "null"}}}, ("patternProperties", r"\ba")),
    ({"type": "number", "multipleOf": 0.01}, ("multipleOf",)),
    ({"type": "string", "format": "email", "allOf": [{"pattern": "@a\\.org$"}]}, ("format",)),
    ({"enum": ["a", "b"], "format": "color"}, ("format",)),
    ({"enum": [{"a": "x"}], "properties": {"a": {"format": "color"}}}, ("properties", "a", "format")),
    ({"enum": [{"a": "x"}], "properties": {"a": {"patern": "x"}}}, ("properties", "a", "patern")),
    ({"enum": ["a", "b"], "pattern": "(?=a)"}, ("pattern",)),
]


@pytest.mark.parametrize(("schema", "path"), UNENFORCED, ids=lambda value: str(value)[:40])
def test_what_cannot_be_enforced_is_refused_with_its_place_or_left_to_the_model(schema: Any, path: Any) -> None:
    nested = {"type": "object", "properties": {"a": {"type": "array", "items": schema}}}
    assert refusal(nested).path == ("properties", "a", "items", *path)
    matcher(made(nested, strict=False))


@pytest.mark.parametrize(
    ("schema", "path"),
    [
        (False, ()),
        ({"enum": []}, ("enum",)),
        ({"type": "nonsense"}, ("type",)),
        ({"a": {"type": "hiccup"}}, ()),
        ({"properties": {"a": {"type": "hiccup"}}}, ("properties", "a", "type")),
        ({"type": "integer", "minimum": 5, "maximum": 4}, ()),
        ({"type": "integer", "minimum": 1, "maximum": 6, "multipleOf": 7}, ()),
        ({"type": "number", "exclusiveMinimum": 1, "maximum": 1}, ()),
        ({"type": "string", "minLength": 5, "maxLength": 4}, ()),
        ({"type": "array", "minItems": 5, "maxItems": 4}, ()),
        ({"type": "array", "items": False, "minItems": 1}, ("items",)),
        ({"type": "object", "required": ["a"], "additionalProperties": False}, ("additionalProperties",)),
        ({"allOf": [{"type": "string"}, {"type": "null"}]}, ("allOf", 0)),
        ({"$ref": "#"}, ()),
        (BY_ITSELF, ("$defs", "a")),
        ({"anyOf": [{"$ref": "#"}, {"type": "null"}]}, ("anyOf", 0)),
        (ENDLESS, ()),
        ({"$ref": "https://example.org/schema"}, ("$ref",)),
        ({"$id": "https://a.com/s", "$ref": "https://a.com/s2#/$defs/x", "$defs": {"x": {}}}, ("$ref",)),
        ({"$ref": "#/$defs/none"}, ("$ref",)),
        ({"$ref": "#nowhere"}, ("$ref",)),
        ({"type": "object", "x-guidance": {"lenient": True}}, ("x-guidance",)),
        ({"enum": [float("nan")]}, ("enum", 0)),
        ({"const": "\ud800"}, ()),
        ({"type": "string", "pattern": r"^\x01$"}, ("pattern",)),
        ({"enum": [10**400], "multipleOf": 0.5}, ("enum",)),
        ({"type": "integer", "minimum": 10**400}, ()),
        ({"type": "number", "exclusiveMaximum": -(10**400)}, ()),
        ({"type": "string", "allOf": [{"pattern": "^a"}, {"pattern": "^b"}]}, ("allOf", 1, "pattern")),
        ({"type": "string", "pattern": "^ab$", "minLength": 3}, ("pattern",)),
        ({"type": "string", "minLength": 10_001}, ("minLength",)),
        ({"type": "array", "minItems": 1001}, ("minItems",)),
        ({"enum": [*range(4097)]}, ("enum",)),
        ({"properties": {"a": {"const": ["a" * 4000, "b" * 4000]}}}, ("properties", "a", "const")),
    ],
    ids=lambda value: str(value)[:40],
)
@pytest.mark.parametrize("strict", [True, False])
def test_what_is_no_schema_or_has_no_value_is_always_refused(schema: Any, path: Any, strict: bool) -> None:
    assert refusal(schema, strict=strict).path == path


def test_the_nearest_known_keyword_is_named() -> None:
    assert "did you mean 'properties'?" in refusal({"type": "object", "propertes": {}}).message


def test_what_cannot_be_enforced_is_told_with_the_way_out() -> None:
    message = refusal({"not": {"type": "string"}}).message
    assert message == "'not' cannot be enforced; `strict: false`, or `strict_schema: false`, leaves it to the model"


@pytest.mark.parametrize("itself", ["", "#"])
def test_either_way_to_name_the_schema_itself(itself: str) -> None:
    def linked(to: str) -> dict[str, Any]:
        return {"type": "object", "properties": {"next": {"$ref": to}}, "additionalProperties": False}

    assert made(linked(itself)) == made(linked("#"))


def test_a_schema_that_is_too_deep_or_multiplies_is_refused_without_an_overflow() -> None:
    deep: Any = {}
    for _ in range(5000):
        deep = {"items": deep}
    assert "nested more than 64 levels deep" in refusal(deep).message
    chain = {f"d{index}": {"allOf": [{"$ref": f"#/$defs/d{index + 1}"}]} for index in range(3000)}
    assert "nested too deeply" in refusal({"$ref": "#/$defs/d0", "$defs": {**chain, "d3000": {}}}).message
    wide = {"allOf": [{"anyOf": [{"minimum": index}, {"maximum": index}]} for index in range(30)]}
    assert "too large" in refusal(wide).message


TAKEN: list[tuple[Any, list[str], list[str]]] = [
    ({"type": "object"}, ["{}", '{"a": [1, {"b": null}]}'], ["[]", "{ }", '{"a":1}', ' {"a": 1}', '{"a": 1} ']),
    ({"properties": {"a": {"type": "null"}}}, ["3", '{"a": null}'], ['{"a": 3}']),
    (
        {"type": "object", "properties": {"b": {"type": "integer"}, "a": {}}, "required": ["c"]},
        ['{"b": 1, "a": 2, "c": 3, "d": 4}', '{"c": 0}'],
        ['{"b": 1}', '{"c": 1, "b": 1}', '{"b": 1, "b": "x", "c": 1}', '{"c": 1, "\\u0062": "x"}'],
    ),
    ({"$ref": "#x", "$defs": {"a/b": {"$anchor": "x", "const": 1}}}, ["1"], ["2"]),
    ({"$ref": "#/definitions/a~1b%20c", "definitions": {"a/b c": {"const": 1}}}, ["1"], ["2"]),
    ({"items": [{"const": 1}], "additionalItems": False, "type": "array"}, ["[1]", "[]"], ["[2]", "[1, 2]"]),
    ({"type": "string", "pattern": "b+"}, ['"abc"', '"b"'], ['"ac"']),
    ({"type": "string", "pattern": "^$|^a|z$"}, ['""', '"ab"', '"xz"'], ['"b"', '"xa"', '"zx"']),
    ({"type": "string", "pattern": r"^\d$"}, ['"1"'], ['"٣"']),
    ({"type": "string", "pattern": '^"\n$'}, ['"\\"\\n"'], ['"\\""']),
    ({"type": "string", "minLength": 2, "maxLength": 2}, ['"é😀"', '"\\n\\""'], ['"a"', '"abc"', '"\\u0041b"']),
    ({"type": "number"}, ["1", "-0.5", "1.0"], ["1e5", "01", "1000000000000000001", "NaN"]),
    ({"type": "integer"}, ["1", "-7", "0"], ["1.0", "1e2"]),
    ({"type": "integer", "maximum": 2**63 - 1, "minimum": 0}, ["9223372"], ["-1"]),
    ({"type": "integer", "format": "int32"}, ["2147483647"], ["2147483648"]),
    ({"type": "number", "minimum": -10.5, "exclusiveMaximum": -10}, ["-10.25"], ["-10", "-10.0"]),
    ({"type": "number", "exclusiveMinimum": 0, "maximum": 0.5}, ["0.25"], ["0", "0.0", "-0", f"0.{400 * '0'}1"]),
    ({"type": "number", "exclusiveMaximum": 1}, ["0.9", "0.999999999", "-5"], ["1", f"0.{17 * '9'}"]),
    ({"type": "number"}, ["3.1415926535"], ["3.14159265358"]),
    ({"type": "number", "multipleOf": 2.5}, ["5", "7.5", "-2.5"], ["6", "2.4"]),
    ({"type": "integer", "multipleOf": 2.5}, ["5", "10"], ["2.5", "7"]),
    ({"type": "string", "pattern": '^[^"]+$'}, ['"a\\\\"'], ['"\\""', '""']),
    ({"type": "string", "pattern": r"^[\x00-\x1f]+$"}, ['"\\n\\t"'], ['"\\\\"', '"\\""', '"\\u0001"']),
    ({"type": "string", "pattern": r"^\x01$|^a$|^(|b)$"}, ['"a"', '""'], ['"\\u0001"']),
    (
        {"type": "object", "properties": {"a": {}}, "additionalProperties": False, "minProperties": 1},
        ['{"a": 1}'],
        ["{}"],
    ),
    (
        {"type": "object", "additionalProperties": {"type": "null"}, "maxProperties": 1},
        ['{"a": null}', "{}"],
        ['{"a": null, "b": null}'],
    ),
    (
        {"type": "object", "patternProperties": {"^x": {"type": "null"}}, "additionalProperties": False},
        ['{"xy": null}'],
        ['{"y": null}', '{"x": 1}'],
    ),
    (
        {"type": "object", "patternProperties": {r"^\d$": {"type": "null"}}, "additionalProperties": {"const": 1}},
        ['{"5": null}', '{"٣": null}', '{"a": 1}', '{"5\\n": null}'],
        ['{"٣": 1}', '{"5\\n": 1}'],
    ),
    (
        {
            "type": "object",
            "propertyNames": {"$ref": "#/$defs/color"},
            "additionalProperties": {"type": "integer"},
            "$defs": {"color": {"type": "string", "enum": ["red", "blue"]}},
        },
        ["{}", '{"red": 1, "blue": 2}', '{"blue": 2}'],
        ['{"green": 1}', '{"red": 1, "red": 1}', '{"red": "x"}'],
    ),
    (
        {"type": "object", "propertyNames": {"minLength": 1}, "additionalProperties": {"type": "null"}},
        ["{}", '{"a": null}'],
        ['{"": null}', '{"a": 1}'],
    ),
    ({"type": "object", "propertyNames": {"format": "uuid"}}, ["{}"], ['{"a": null}']),
    (
        {
            "oneOf": [{"type": "object", "properties": {"k": {"const": kind, "default": kind}}} for kind in "ab"],
            "discriminator": {"propertyName": "k"},
        },
        ['{"k": "a"}', '{"k": "b", "c": 1}'],
        ["{}", '{"k": "c"}'],
    ),
    ({"type": "string", "format": "password"}, ['"a"'], ["1"]),
    (
        {"type": "string", "pattern": "b", "allOf": [{"pattern": "^a"}], "maxLength": 3},
        ['"ab"'],
        ['"a"', '"bab"', '"abbb"'],
    ),
    ({"anyOf": [{"pattern": "^ab$", "maxLength": 1, "type": "string"}, {"type": "null"}]}, ["null"], ['"ab"']),
    ({"type": "string", "pattern": "^"}, ['"a"', '""'], []),
    ({"enum": ["2024-02-29", "2023-02-29"], "format": "date"}, ['"2024-02-29"'], ['"2023-02-29"']),
    ({"enum": [1, 2**40, "x"], "format": "int32"}, ["1", '"x"'], [str(2**40)]),
    ({"enum": ["a" * 40, "a" * 40 + "!"], "pattern": "^(a+)+$"}, [f'"{"a" * 40}"'], [f'"{"a" * 40}!"']),
    (
        {"type": "object", "properties": {"a" * 40 + "!": {}}, "patternProperties": {"^(a+)+$": {"type": "null"}}},
        ['{"' + "a" * 40 + '!": 1}', '{"a": null}'],
        ['{"a": 1}'],
    ),
    (
        {"oneOf": [{"properties": {"k": {"const": kind}}, "required": ["k"]} for kind in "ab"], "type": "object"},
        ['{"k": "a"}', '{"k": "b"}'],
        ['{"k": "c"}', "{}"],
    ),
]


@pytest.mark.parametrize(("schema", "taken", "others"), TAKEN, ids=lambda value: str(value)[:40])
def test_what_is_taken_and_what_is_not(schema: Any, taken: list[str], others: list[str]) -> None:
    started = matcher(made(schema))
    assert [text for text in taken if not takes(started, text)] == []
    assert [text for text in others if takes(started, text)] == []


def test_a_list_of_itself_ends_where_it_can() -> None:
    tree = {
        "type": "object",
        "properties": {"down": {"anyOf": [{"$ref": "#"}, {"type": "null"}]}},
        "required": ["down"],
    }
    assert takes(matcher(made(tree)), '{"down": {"down": null}}')


def test_flexible_whitespace_is_bounded() -> None:
    started = matcher(made({"type": "array"}, whitespace="flexible"))
    assert takes(started, "[1,\n  2 , 3]")
    assert takes(started, f"[{' ' * CAPS.max_whitespace}1]")
    assert not takes(started, f"[{' ' * (CAPS.max_whitespace + 1)}1]")
    assert not takes(started, " [1]")
    assert not takes(started, "[1] ")


def test_no_string_holds_a_special_token() -> None:
    tokenizer, started = bundled_tokenizer(), matcher(made({"type": "string"}))
    special = {token for token in range(tokenizer.vocab_size) if tokenizer.is_special_token(token)}
    assert special
    assert started.consume_tokens(tokenizer.tokenize_str('"a'))
    assert not special & set(allowed(started).tolist())


def test_what_a_schema_is_silent_about_nests_to_a_bound() -> None:
    started = matcher(made({}))
    assert takes(started, "[" * 16 + "1" + "]" * 16)
    assert not takes(started, "[" * 17 + "1" + "]" * 17)


def test_the_client_s_schema_is_not_changed() -> None:
    schema = {"type": "array", "items": [{"type": "null"}], "additionalItems": False}
    prepared(schema, strict=True, whitespace="fixed", caps=CAPS)
    assert schema == {"type": "array", "items": [{"type": "null"}], "additionalItems": False}


@pytest.mark.parametrize("strict", [True, False])
@pytest.mark.parametrize(
    "beside",
    [
        {"anyOf": [{"$ref": "http://127.0.0.1:9/secret"}]},
        {"allOf": [{"items": {"$ref": "http://127.0.0.1:9/secret"}}]},
        {"anyOf": [{"$ref": "secret"}], "$id": "http://127.0.0.1:9/"},
        {"anyOf": [{"$ref": "#/$defs/nothing"}]},
        {"not": {"$ref": "http://127.0.0.1:9/secret"}},
        {"if": {"$ref": "http://127.0.0.1:9/secret"}, "then": {}},
    ],
)
def test_no_reference_reaches_beyond_the_schema(
    beside: dict[str, Any], strict: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def opened(*_: object, **__: object) -> None:
        reached.append(True)
        raise OSError

    reached: list[bool] = []
    monkeypatch.setattr("urllib.request.urlopen", opened)
    monkeypatch.setattr("socket.create_connection", opened)
    monkeypatch.setattr("socket.socket.connect", opened)
    schema = {"enum": [[1], [2]], **beside}
    if strict or beside.keys() & {"anyOf", "allOf"}:
        refusal(schema, strict=strict)
    else:
        made(schema, strict=False)
    assert not reached
