import httpx
import msgspec
import pytest

from sapwood.backends.openai import OpenAI
from sapwood.backends.protocol import GenerateRequest, Message, Sampling
from sapwood.backends.scoring import AT_ONCE
from sapwood.errors import BackendError, ProgramError

USAGE = {"prompt_tokens": 4, "completion_tokens": 1, "prompt_tokens_details": {"cached_tokens": 3}}


class Server:
    def __init__(self, owner, *replies):
        self.owner = owner
        self.replies = list(replies)
        self.asked = []

    def __call__(self, request):
        if request.url.path == "/v1/models":
            return httpx.Response(200, json={"data": [{"id": "m", "owned_by": self.owner}]})
        self.asked.append((request.url.path, msgspec.json.decode(request.content)))
        reply = self.replies.pop(0)
        return httpx.Response(200, text=reply) if isinstance(reply, str) else httpx.Response(200, json=reply)

    def backend(self):
        return OpenAI(base_url="http://server/v1", api_key="k", transport=httpx.MockTransport(self))


CHAT = {"choices": [{"index": 0, "message": {"content": "x"}, "finish_reason": "stop"}], "usage": USAGE, "id": "c1"}
TEXT = {"choices": [{"index": 0, "text": "x", "finish_reason": "stop"}], "usage": USAGE, "id": "c1"}
HI = (Message("user", "Hi"),)


async def test_a_chat():
    server = Server("someone", CHAT)
    sampling = Sampling(temperature=0, json_schema='{"type": "object"}')
    (generation,) = await server.backend().generate(GenerateRequest(prompt=HI, sampling=sampling))
    assert (generation.text, generation.cached_tokens, generation.request_id) == ("x", 3, "c1")
    ((path, body),) = server.asked
    assert path == "/v1/chat/completions"
    assert body["model"] == "m"
    assert body["messages"] == [{"role": "user", "content": "Hi"}]
    assert body["response_format"]["json_schema"]["schema"] == {"type": "object"}
    assert "json_schema" not in body


async def test_text():
    server = Server("someone", TEXT)
    await server.backend().generate(GenerateRequest(prompt="a", sampling=Sampling(max_tokens=3)))
    assert server.asked == [("/v1/completions", {"model": "m", "prompt": "a", "max_tokens": 3})]


@pytest.mark.parametrize(
    "request_",
    [
        GenerateRequest(prompt=HI, sampling=Sampling(regex="a")),
        GenerateRequest(prompt=HI, continues=True),
        GenerateRequest(prompt=HI, cache_salt="s"),
    ],
)
async def test_what_only_our_servers_have(request_):
    server = Server("sapwood", CHAT)
    await server.backend().generate(request_)
    other = Server("someone")
    with pytest.raises(ProgramError, match="a Sapwood server has"):
        await other.backend().generate(request_)
    assert not other.asked


async def test_a_stream():
    pieces = [{"choices": [{"index": 0, "delta": {"content": each}, "finish_reason": None}]} for each in "xy"]
    text = "".join(f"data: {msgspec.json.encode(each).decode()}\n\n" for each in pieces) + "data: [DONE]\n\n"
    server = Server("someone", text)
    assert [each.text async for each in server.backend().stream(GenerateRequest(prompt=HI))] == ["x", "xy"]


async def test_scores_are_of_the_choice_alone():
    echoed = {
        "token_logprobs": [None, -9.0, -1.0, -8.0],
        "tokens": ["of", " it", " is", "!"],
        "text_offset": [0, 2, 5, 8],
    }
    anew = {"token_logprobs": [None, -2.0, -3.0], "tokens": ["of", " its", "elf"], "text_offset": [0, 2, 6]}
    server = Server("someone", {"choices": [{"index": 1, "logprobs": anew}, {"index": 0, "logprobs": echoed}]})
    scores = await server.backend().score(GenerateRequest(prompt="of it"), [" is", "self"])
    assert [each.logprobs for each in scores] == [(-1.0,), (-2.0, -3.0)]


async def test_what_cannot_be_scored():
    backend = Server("someone").backend()
    with pytest.raises(ProgramError, match="scores no messages"):
        await backend.score(GenerateRequest(prompt=HI), ["a"])
    with pytest.raises(ProgramError, match="scores no tokens"):
        await backend.score(GenerateRequest(prompt="a"), ["a"], unconditional=True)


@pytest.mark.parametrize("reply", ["{}", "[]", "", '{"choices": []}', '{"choices": [5]}', "[" * 100_000])
async def test_whatever_is_no_answer_is_an_error_of_the_tree(reply):
    with pytest.raises(BackendError):
        await Server("someone", reply).backend().generate(GenerateRequest(prompt="a"))


def without_models(status, body, model=None):
    def handle(request):
        found = httpx.Response(status, json=body)
        return found if request.url.path == "/v1/models" else httpx.Response(200, json=TEXT)

    return OpenAI(model, base_url="http://server/v1", transport=httpx.MockTransport(handle))


@pytest.mark.parametrize(("status", "body"), [(200, {}), (200, {"data": []}), (404, {})])
async def test_an_endpoint_without_models(status, body):
    with pytest.raises(BackendError):
        await without_models(status, body).generate(GenerateRequest(prompt="a"))


async def test_a_model_that_is_named_need_not_be_listed():
    (generation,) = await without_models(404, {}, "m").generate(GenerateRequest(prompt="a"))
    assert generation.text == "x"


async def test_more_choices_than_a_request_takes_are_divided():
    def echo(count):
        logprobs = {"token_logprobs": [None, -1.0], "tokens": ["a", "b"], "text_offset": [0, 1]}
        return {"choices": [{"index": index, "logprobs": logprobs} for index in range(count)]}

    server = Server("someone", echo(AT_ONCE), echo(1))
    scores = await server.backend().score(GenerateRequest(prompt="a"), ["b"] * (AT_ONCE + 1))
    assert len(scores) == AT_ONCE + 1
    assert [len(body["prompt"]) for _, body in server.asked] == [AT_ONCE, 1]
