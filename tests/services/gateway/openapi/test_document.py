"""The document is there, is OpenAPI, and says of the routes and of their replies what is so."""

import jsonschema
import msgspec
import pytest

from services.gateway.openapi import anthropic_replies, replies, response_replies
from services.gateway.openapi.bodies import BODIES
from services.gateway.openapi.document import document
from services.gateway.openapi.operations import OPERATIONS
from services.gateway.schemas.native import read_native
from tests.support.gateway_terms import TERMS
from tests.support.served_gateway import serving

HELLO = [{"role": "user", "content": "Hi"}]
CALLED = [
    {"role": "assistant", "content": [{"type": "tool_use", "id": "1", "name": "f", "input": {}}]},
    {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "1", "content": None, "is_error": True}]},
]


@pytest.fixture
async def served(tmp_path, tiny_card):
    async with serving(tmp_path, tiny_card) as found:
        yield found


@pytest.fixture
async def told(served):
    status, reply, _ = await served.get("/openapi.json")
    assert status == 200
    return reply


def references(value):
    if isinstance(value, dict):
        yield from [value["$ref"]] if "$ref" in value else []
        value = list(value.values())
    if isinstance(value, list):
        for part in value:
            yield from references(part)


def valid(told, name, value):
    schema = {"$ref": f"#/components/schemas/{name}", "components": told["components"]}
    return jsonschema.Draft202012Validator(schema).is_valid(value)


async def test_its_routes_are_the_servers(served, told):
    routes = {
        (route.method, route.resource.canonical) for route in served.routes if route.method not in ("HEAD", "OPTIONS")
    }
    described = {(method.upper(), path) for path, methods in told["paths"].items() for method in methods}
    assert described == routes


async def test_what_is_off_is_not_described(tmp_path, tiny_card):
    async with serving(tmp_path, tiny_card, enable_metrics=False) as served:
        assert "/metrics" not in (await served.get("/openapi.json"))[1]["paths"]


async def test_every_reference_leads_somewhere(told):
    for reference in references(told):
        place = told
        for name in reference.removeprefix("#/").split("/"):
            place = place[name]


async def test_every_schema_is_one(told):
    for schema in told["components"]["schemas"].values():
        jsonschema.Draft202012Validator.check_schema(schema)


def test_no_name_stands_for_two_schemas():
    described = {name for name, kind in vars(replies).items() if isinstance(kind, type)}
    assert described.isdisjoint(BODIES)
    named = [operation.body for operation in OPERATIONS if operation.body is not None]
    assert set(named) <= BODIES.keys()
    ids = [
        operation["operationId"]
        for path in document("1", [operation.path for operation in OPERATIONS], [])["paths"].values()
        for operation in path.values()
    ]
    assert len(set(ids)) == len(OPERATIONS)


@pytest.mark.parametrize(
    ("name", "body"),
    [
        ("ChatRequest", {"messages": HELLO, "max_tokens": None, "user": 3, "best_of": 1, "tools": None}),
        ("ChatRequest", {"messages": [{"role": "user", "content": [{"type": "text", "text": "x"}]}]}),
        ("CompletionRequest", {"prompt": ["a", "b"], "suffix": ""}),
        (
            "MessagesRequest",
            {"model": "tiny", "max_tokens": 1, "messages": HELLO, "stop_sequences": ["x"], "system": "S"},
        ),
        ("MessagesRequest", {"model": "tiny", "max_tokens": 1, "messages": CALLED, "tool_choice": {"type": "any"}}),
        ("CountTokensRequest", {"model": "tiny", "messages": HELLO, "cache_control": {"type": "ephemeral"}}),
        ("GenerateRequest", {"text": ["a", "b"], "sampling_params": [{"n": 1}, {"top_p": 0.5}], "log_metrics": True}),
        ("GenerateRequest", {"input_ids": [[1], [2]], "temperature": 0}),
        ("GenerateRequest", {"messages": HELLO, "model": "tiny"}),
        ("GenerateRequest", {"messages": [HELLO, HELLO], "rid": ["a", "b"]}),
        ("TokenizeRequest", {"messages": HELLO, "add_generation_prompt": True}),
        ("ResponseRequest", {"input": "x", "truncation": "disabled", "text": {"verbosity": "medium"}}),
        ("ResponseRequest", {"input": [{"role": "user", "content": [{"type": "input_text", "text": "x"}]}]}),
        ("ResponseRequest", {"input": [{"type": "function_call_output", "call_id": "c", "output": "x"}]}),
        ("DetokenizeRequest", {"tokens": [[1], [2]]}),
    ],
)
async def test_what_is_taken_is_described(told, name, body):
    assert valid(told, name, body)


@pytest.mark.parametrize(
    ("name", "body"),
    [
        ("ChatRequest", {}),
        ("ChatRequest", {"messages": HELLO, "temperature": 3}),
        ("ChatRequest", {"messages": HELLO, "tempperature": 1}),
        ("ChatRequest", {"messages": HELLO, "best_of": 2}),
        ("ChatRequest", {"messages": HELLO, "model": "other"}),
        ("ChatRequest", {"messages": [{"role": "robot", "content": "x"}]}),
        ("GenerateRequest", {"text": "x", "sampling_params": {"guided_regex": "x"}}),
        ("GenerateRequest", {"text": "x", "prompt": "y"}),
        ("TokenizeRequest", {"model": "tiny"}),
        ("MessagesRequest", {"model": "tiny", "messages": HELLO}),
        ("MessagesRequest", {"model": "tiny", "max_tokens": 1, "messages": HELLO, "stop": ["x"]}),
        ("MessagesRequest", {"model": "tiny", "max_tokens": 1, "messages": HELLO, "tools": [{"name": "f"}]}),
        ("CountTokensRequest", {"messages": HELLO}),
        ("ResponseRequest", {"input": []}),
        ("ResponseRequest", {"input": "x", "max_tokens": 3}),
        ("ResponseRequest", {"input": "x", "tools": [{"type": "web_search"}]}),
    ],
)
async def test_what_is_refused_is_not(told, name, body):
    assert not valid(told, name, body)


def test_generate_is_described_as_it_reads():
    properties = BODIES["GenerateRequest"]["properties"]
    body = dict.fromkeys(properties) | {"text": "x", "sampling_params": None}
    read_native(msgspec.json.encode(body), TERMS)


@pytest.mark.parametrize(
    ("path", "body", "reply", "event"),
    [
        ("/v1/chat/completions", {"messages": HELLO}, replies.ChatCompletion, replies.ChatCompletionChunk),
        (
            "/v1/chat/completions",
            {"messages": HELLO, "logprobs": True, "top_logprobs": 2, "n": 2},
            replies.ChatCompletion,
            replies.ChatCompletionChunk,
        ),
        (
            "/v1/responses",
            {"input": "x", "include": ["message.output_text.logprobs"]},
            *(response_replies.Response, response_replies.ResponseEvent),
        ),
        ("/v1/responses", {"input": "x", "background": True}, response_replies.Response, None),
        (
            "/v1/messages",
            {"model": "tiny", "max_tokens": 9, "messages": HELLO},
            *(anthropic_replies.AnthropicMessage, anthropic_replies.MessageEvent),
        ),
        ("/v1/messages/count_tokens", {"model": "tiny", "messages": HELLO}, anthropic_replies.TokenCount, None),
        ("/v1/completions", {"prompt": "x", "logprobs": 1}, replies.Completion, replies.CompletionChunk),
        ("/generate", {"text": "x", "return_logprob": True, "top_logprobs_num": 1}, *[replies.Generation] * 2),
        ("/generate", {"text": ["x", "y"]}, list[replies.Generation], replies.Generation),
        ("/tokenize", {"prompt": ["x", "y"], "return_token_strs": True}, replies.Tokenized, None),
        ("/tokenize", {"prompt": "x"}, replies.Tokenized, None),
        ("/detokenize", {"tokens": [72]}, replies.Detokenized, None),
        ("/abort_request", {"rid": "x"}, replies.Nothing, None),
        ("/flush_cache", None, replies.Flushed, None),
        ("/generate", {"text": 3}, replies.Error, None),
        ("/v1/messages/nowhere", {}, replies.AnthropicError, None),
    ],
)
async def test_replies_and_events_are_as_described(served, path, body, reply, event):
    _, told, _ = await served.post(path, body)
    msgspec.convert(told, reply)
    if event is not None:
        events, _ = await served.events(path, body)
        assert msgspec.convert(events, list[event])


GOT = [each for each in OPERATIONS if each.method == "GET" and each.path != "/dashboard/events"]  # that one never ends


@pytest.mark.parametrize("operation", GOT, ids=lambda each: each.path)
async def test_what_can_be_got_is_as_described(served, operation):
    _, stored, _ = await served.post("/v1/responses", {"input": "x"})
    path = operation.path.format(model_id="tiny", response_id=stored["id"], name="main.js")
    async with served.client.get(path) as response:
        assert response.status == 200
        if operation.reply is not None:
            msgspec.convert(await response.json(), operation.reply)
