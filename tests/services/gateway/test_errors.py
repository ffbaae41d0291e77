"""The shapes of errors, and whether clients are told to try again."""

import pytest

from services.gateway.errors import InvalidRequest, error_form, may_pass, within
from shared import wire
from tests.support.served_gateway import serving

ERROR = wire.Error("too many", "overloaded", status=429)


@pytest.fixture
async def served(tmp_path, tiny_card):
    async with serving(tmp_path, tiny_card) as found:
        yield found


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/messagesx", "/nowhere"])
def test_openais_shape(path):
    expected = {"message": "too many", "type": "rate_limit_error", "param": None, "code": "overloaded"}
    assert error_form(path, "r1")(ERROR) == {"error": expected}


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        *((400, "invalid_request_error"), (401, "authentication_error"), (403, "permission_error")),
        *((404, "not_found_error"), (405, "invalid_request_error"), (413, "request_too_large")),
        *((429, "rate_limit_error"), (500, "api_error"), (503, "overloaded_error"), (504, "api_error")),
    ],
)
def test_anthropics_shape(status, kind):
    body = error_form("/v1/messages/count_tokens", "r1")(wire.Error("no", status=status))
    assert body == {"type": "error", "error": {"type": kind, "message": "no"}, "request_id": "r1"}


@pytest.mark.parametrize(
    ("error", "passes"),
    [
        (wire.Error("busy", "overloaded", status=429), True),
        (wire.Error("draining", "shutting_down", status=503), True),
        (wire.Error("slow", "timeout", status=504), True),
        (wire.Error("too long", "deadline_exceeded", status=504), False),
        (wire.Error("a mistake", "internal_error", status=500), False),
        (wire.Error("not here", "unsupported", status=501), False),
        (wire.Error("wrong"), False),
    ],
)
async def test_what_comes_out_the_same_again_says_so(served, error, passes):
    assert may_pass(error) is passes
    served.pipeline.reject_error = error
    status, _, headers = await served.post("/generate", {"text": "x"})
    assert (status, headers.get("x-should-retry")) == (error.status, None if passes else "false")


async def test_on_anthropics_routes_every_refusal_is_in_their_shape(served):
    status, reply, headers = await served.get("/v1/messages/nowhere")
    assert (status, reply["type"], reply["error"]["type"]) == (404, "error", "not_found_error")
    assert reply["request_id"] == headers["request-id"] == headers["x-request-id"]


def test_a_place_within_a_body():
    with pytest.raises(InvalidRequest) as caught, within("messages.3"), within("content"):
        raise InvalidRequest("is wrong", "text")
    assert caught.value.error.param == "messages.3.content.text"


async def test_who_opens_the_servers_address_is_told_where_there_is_something(served):
    status, reply, _ = await served.get("/")
    assert (status, reply["error"]["code"]) == (404, "not_found")
    assert "/dashboard" in reply["error"]["message"]
    assert "/openapi.json" in reply["error"]["message"]
    assert (await served.get("/nowhere"))[1]["error"]["message"] == "there is no /nowhere"
