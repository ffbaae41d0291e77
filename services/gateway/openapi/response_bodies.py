"""JSON schemas of the body of /v1/responses, by name."""

from __future__ import annotations

from collections.abc import Mapping

from services.gateway.openapi.body_schema import Json, array, body_schema, ref
from services.gateway.schemas import response_items, response_tools, responses

ITEMS = (
    *("ResponseMessageParam", "ResponseCallParam", "ResponseCallOutputParam"),
    *("ResponseItemReferenceParam", "ResponseReasoningParam"),
)
TEXTS: Json = {"anyOf": [{"type": "string"}, array(ref("ResponseTextParam"))]}

RESPONSE_BODIES: Mapping[str, Json] = {
    "ResponseRequest": body_schema(
        responses.ResponseFields,
        responses.BODY_RULES,
        {
            "input": {"anyOf": [{"type": "string"}, array({"anyOf": list(map(ref, ITEMS))}) | {"minItems": 1}]},
            "include": array({"enum": responses.INCLUDABLE}),
            "stream_options": body_schema(responses.ResponseStreamOptions),
            "text": body_schema(responses.TextFields, responses.TEXT_RULES),
            "tools": array(ref("ResponseToolParam")),
        },
    ),
    "ResponseMessageParam": body_schema(response_items.MessageItem, response_items.MESSAGE_RULES, {"content": TEXTS}),
    "ResponseTextParam": body_schema(response_items.TextPart, response_items.PART_RULES),
    "ResponseCallParam": body_schema(response_items.CallItem, response_items.CALL_RULES),
    "ResponseCallOutputParam": body_schema(response_items.AnswerItem, response_items.ANSWER_RULES, {"output": TEXTS}),
    "ResponseItemReferenceParam": body_schema(response_items.ItemReference),
    "ResponseReasoningParam": body_schema(response_items.ReasoningItem, response_items.REASONING_RULES),
    "ResponseToolParam": body_schema(
        response_tools.FunctionTool,
        response_tools.TOOL_RULES,
        {"name": {"type": "string", "pattern": "^[a-zA-Z0-9_-]{1,64}$"}},
    ),
}
