"""JSON schemas of requests' bodies, from the structs and rules that read them. Names each once, for references."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import msgspec

from services.gateway.replies.openai import StreamOptions
from services.gateway.schemas import abort, chat, completions, messages, native, native_lists, text
from services.gateway.schemas.decode import NO_RULES, FieldRules

Json: TypeAlias = dict[str, Any]

NULL: Json = {"type": "null"}
REF = "#/components/schemas/{name}"


def ref(name: str) -> Json:
    return {"$ref": REF.format(name=name)}


def one_or_more(schema: Json) -> Json:
    return {"anyOf": [schema, {"type": "array", "items": schema}]}


def array(schema: Json) -> Json:
    return {"type": "array", "items": schema}


def body_schema(struct: type[msgspec.Struct], rules: FieldRules = NO_RULES, parts: Mapping[str, Json] = {}) -> Json:
    """Args:
    parts: what the struct leaves open, by field.
    """
    schema: Json = msgspec.json.schema(struct)["$defs"][struct.__name__]
    required = schema.get("required", [])
    fields = {**schema["properties"], **parts}
    properties = _foreign(rules) | {
        name: field if name in required else _or_null(field) for name, field in fields.items()
    }
    return schema | {"properties": properties, "additionalProperties": False}


def _or_null(schema: Json) -> Json:
    """A field that is null counts as absent."""
    default = {"default": schema["default"]} if "default" in schema else {}
    bare = {key: value for key, value in schema.items() if key != "default"}
    kinds = bare["anyOf"] if bare.keys() == {"anyOf"} else [bare]
    return {"anyOf": [*kinds, *([] if NULL in kinds else [NULL])]} | default


def _foreign(rules: FieldRules) -> Json:
    """What is accepted though it does nothing."""
    ignored: Json = {name: {"description": "Ignored."} for name in sorted(rules.ignored)}
    refused = {name: rules.unsupported.get(name, ()) for name in sorted({*rules.unsupported, *rules.instead})}
    return ignored | {
        name: {"enum": [*values, None], "description": _instead(name, rules)} for name, values in refused.items()
    }


def _instead(name: str, rules: FieldRules) -> str:
    return f"Not supported: use {rules.instead[name]}." if name in rules.instead else "Not supported."


MESSAGES: Json = array(ref("Message")) | {"minItems": 1}


def exactly_one(*names: str) -> Json:
    """Of these fields one is there, and not null."""
    return {"oneOf": [{"required": [name], "properties": {name: {"not": NULL}}} for name in names]}


MESSAGE_PARTS: Mapping[str, Json] = {
    "content": {"anyOf": [{"type": "string"}, array(ref("ContentPart"))]},
    "tool_calls": array(ref("MessageToolCall")),
    "tool_call_id": {"type": "string"},
}


def _message(*roles: str, needed: Sequence[str], optional: Sequence[str] = ()) -> Json:
    """What messages of these roles hold."""
    schema = body_schema(messages.MessageFields, messages.MESSAGE_RULES, MESSAGE_PARTS)
    others = {
        name: field for name, field in schema["properties"].items() if name in optional or name not in MESSAGE_PARTS
    }
    properties = others | {"role": {"enum": roles}} | {name: MESSAGE_PARTS[name] for name in needed}
    return schema | {"properties": properties, "required": ["role", *needed]}


def _generate() -> Json:
    sampling = body_schema(native.NativeSampling, native.SAMPLING_RULES)["properties"]
    schema = body_schema(native.NativeFields, native.BODY_RULES)
    own = schema["properties"]
    for name in native_lists.LISTS:
        own[name] = _or_null(one_or_more(own.get(name) or ref("NativeSampling")))
    for name in ("text", "prompt"):
        own[name] = _or_null(one_or_more({"type": "string"}))
    own["input_ids"] = _or_null(one_or_more(array({"type": "integer"})))
    return schema | {"properties": own | sampling} | exactly_one("text", "prompt", "input_ids")


BODIES: Mapping[str, Json] = {
    "ChatRequest": body_schema(
        chat.ChatFields,
        chat.BODY_RULES,
        {
            "messages": MESSAGES,
            "tools": array(ref("Tool")),
            "stream_options": ref("StreamOptions"),
        },
    ),
    "Message": {
        "anyOf": [
            _message("system", "developer", "user", needed=["content"]),
            _message("assistant", needed=["content"], optional=["tool_calls"]),
            _message("assistant", needed=["tool_calls"], optional=["content"]),
            _message("tool", needed=["content", "tool_call_id"]),
        ]
    },
    "ContentPart": body_schema(messages.PartFields),
    "MessageToolCall": body_schema(
        messages.CallFields,
        messages.CALL_RULES,
        {"function": body_schema(messages.FunctionCallFields, messages.FUNCTION_RULES)},
    ),
    "CompletionRequest": body_schema(
        completions.CompletionFields,
        completions.BODY_RULES,
        {
            "prompt": {"anyOf": [{"type": "string"}, array({"type": ["string", "integer", "array"]})]},
            "stream_options": ref("StreamOptions"),
        },
    ),
    "StreamOptions": body_schema(StreamOptions),
    "Tool": {
        "type": "object",
        "properties": {
            "type": {"const": "function"},
            "function": {
                "type": "object",
                "properties": {
                    "name": {"type": "string", "pattern": "^[a-zA-Z0-9_-]{1,64}$"},
                    "description": {"type": ["string", "null"]},
                    "parameters": {"type": ["object", "null"]},
                    "strict": {"type": ["boolean", "null"]},
                },
                "required": ["name"],
            },
        },
        "required": ["type", "function"],
    },
    "GenerateRequest": _generate(),
    "NativeSampling": body_schema(native.NativeSampling, native.SAMPLING_RULES),
    "AbortRequest": body_schema(abort.AbortFields, abort.RULES),
    "TokenizeRequest": body_schema(
        text.TokenizeFields, text.TOKENIZE_RULES, {"messages": MESSAGES, "tools": array(ref("Tool"))}
    )
    | exactly_one("prompt", "messages"),
    "DetokenizeRequest": body_schema(text.DetokenizeFields),
}
