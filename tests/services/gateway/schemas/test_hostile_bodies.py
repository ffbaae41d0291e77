"""Whatever a body holds, reading it gives a Call that can travel, or an ApiError that names what is wrong."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.gateway.errors import ApiError, InvalidRequest, error_body
from services.gateway.open_request import OpenRequest
from services.gateway.schemas import anthropic, chat, completions, native, responses
from services.gateway.schemas.decode import field_names
from shared import wire
from tests.support.gateway_terms import TERMS


class NoHistory:
    def conversation(self, name):
        return ()

    def item(self, item_id):
        raise InvalidRequest("not there", "id")


def read_response(body, terms):
    return responses.read_response(body, terms, NoHistory()).call


READERS = [
    (chat.read_chat, chat.ChatFields, chat.BODY_RULES, {"messages": [{"role": "user", "content": "x"}]}),
    (completions.read_completion, completions.CompletionFields, completions.BODY_RULES, {"prompt": "x"}),
    (native.read_native, native.NativeFields, native.BODY_RULES, {"text": "x"}),
    (
        *(anthropic.read_anthropic, anthropic.MessagesFields, anthropic.BODY_RULES),
        {"model": "tiny", "max_tokens": 5, "messages": [{"role": "user", "content": "x"}]},
    ),
    (read_response, responses.ResponseFields, responses.BODY_RULES, {"input": "x"}),
]

leaves = st.one_of(
    *(st.none(), st.booleans(), st.integers(-3, 300), st.integers(), st.text(max_size=8)),
    *(
        st.floats(allow_nan=False, allow_infinity=False),
        st.sampled_from(["user", "text", "x", "default", "", "function", "tool", "json_schema", "required"]),
    ),
)
NAMES = ["role", "content", "type", "text", "temperature", "stop", "5", "function", "name", "parameters", "tool_calls"]
keys = st.one_of(st.text(max_size=8), st.sampled_from([*NAMES, "arguments", "json_schema", "schema", "regex"]))
values = st.recursive(
    leaves, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(keys, inner, max_size=4), max_leaves=12
)


@pytest.mark.parametrize(("read", "struct", "rules", "least"), READERS)
def test_any_body_is_read_or_refused(read, struct, rules, least):
    names = sorted(field_names(struct) | rules.ignored | rules.unsupported.keys() | {"sampling_params"})
    fields = st.dictionaries(st.sampled_from(names) | st.text(max_size=8), values, max_size=4)

    @given(fields)
    def check(found):
        refused = None
        try:
            request = read(msgspec.json.encode({**least, **found}), TERMS).parts[0].request
            msgspec.msgpack.encode(OpenRequest("r", request, 0.0, 0.0).encode(0.0))
        except ApiError as error:
            refused = error.error
        if refused is not None:
            assert refused.status in (400, 404)
            assert refused.param is not None
            msgspec.json.encode(error_body(refused))

    check()


def deep(levels):
    return '{"type":' * levels + '"x"' + "}" * levels


@pytest.mark.parametrize("levels", [100, 250, 260, 500, 900, 5000])
@pytest.mark.parametrize(
    "field",
    [
        '"tools": [{"type": "function", "function": {"name": "f", "parameters": {"a": %s}}}]',
        '"tools": [{"type": "function", "function": {"name": "f", "parameters": {"a": %s}}}], "tool_choice": "none"',
        '"tool_choice": %s',
        '"chat_template_kwargs": %s',
        '"response_format": %s',
        '"response_format": {"type": "json_schema", "json_schema": {"schema": %s}}',
        '"json_schema": %s',
        '"structural_tag": %s',
        '"choices": [%s]',
        '"response_format": {"type": "structural_tag", "format": %s}',
    ],
)
def test_what_is_nested_deeply_travels_or_is_refused(field, levels):
    body = f'{{"messages": [{{"role": "user", "content": "x"}}], {field % deep(levels)}}}'.encode()
    refused = None
    try:
        request = chat.read_chat(body, TERMS).parts[0].request
        msgspec.msgpack.decode(
            msgspec.msgpack.encode(OpenRequest("r", request, 0.0, 0.0).encode(0.0)), type=wire.Encode
        )
    except ApiError as error:
        refused = error.error
    assert refused is None or refused.status == 400
