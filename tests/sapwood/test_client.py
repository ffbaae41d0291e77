import httpx
import msgspec
import pytest

from sapwood import AsyncClient, Client, Message, ProgramError, gen, set_default_backend
from sapwood.client import request_of


def reply(request):
    path = request.url.path
    if path == "/v1/models":
        return httpx.Response(200, json={"data": [{"id": "m"}]})
    if path == "/health":
        return httpx.Response(200, json={"status": "healthy"})
    body = msgspec.json.decode(request.content)
    texts = ["ab", "abc"] if body.get("stream") else [msgspec.json.encode(body).decode()]
    meta = {"id": "r", "finish_reason": None, "prompt_tokens": 1, "completion_tokens": 1, "cached_tokens": 0}
    answers = [{"text": text, "output_ids": [], "meta_info": meta} for text in texts]
    if body.get("stream"):
        lines = [f"data: {msgspec.json.encode(each).decode()}\n\n" for each in answers]
        return httpx.Response(200, text="".join([*lines, "data: [DONE]\n\n"]))
    return httpx.Response(200, json=answers[0])


@pytest.fixture
def client():
    with Client("http://server", transport=httpx.MockTransport(reply)) as client:
        yield client


def test_text_ids_and_messages(client):
    assert msgspec.json.decode(client.complete("a", temperature=0)) == {
        "text": "a",
        "sampling_params": {"temperature": 0},
    }
    assert msgspec.json.decode(client.generate([1, 2]).text)["input_ids"] == [1, 2]
    hello = {"role": "user", "content": "Hi"}
    for messages in ("Hi", [hello], [Message("user", "Hi")]):
        assert msgspec.json.decode(client.chat(messages))["messages"] == [hello]


def test_a_stream(client):
    assert list(client.stream("a")) == ["ab", "c"]


def test_a_stream_that_is_left(client):
    for piece in client.stream("a"):
        assert piece == "ab"
        break


def test_what_the_server_says_of_itself(client):
    assert client.models() == ["m"]
    assert client.health() == {"status": "healthy"}


def test_it_is_a_backend(client):
    set_default_backend(client)
    assert "Hi" in gen("Hi")


async def test_async():
    async with AsyncClient("http://server", transport=httpx.MockTransport(reply)) as client:
        assert [piece async for piece in client.stream("a")] == ["ab", "c"]
        assert len(await client.generate_all("a")) == 1


@pytest.mark.parametrize(
    "prompt",
    [
        b"a",
        None,
        ["a"],
        [1, {"role": "user", "content": "Hi"}],
        [1.5],
        [{"role": "user"}],
        [{"role": "user", "content": 5}],
    ],
)
def test_what_is_no_prompt(client, prompt):
    with pytest.raises(ProgramError, match="a prompt is text"):
        client.generate(prompt)


def test_what_is_no_backend():
    with pytest.raises(ProgramError, match="5 is no backend"):
        set_default_backend(5)


def test_a_message_keeps_its_call_and_what_it_cannot_keep_is_refused():
    (message,) = request_of([{"role": "tool", "content": "12", "tool_call_id": "call_1"}], {}).prompt
    assert message.tool_call_id == "call_1"
    with pytest.raises(ProgramError, match="name"):
        request_of([{"role": "user", "content": "Hi", "name": "Ann"}], {})


@pytest.mark.parametrize(("given", "sent"), [(None, "Bearer of-the-environment"), ("its-own", "Bearer its-own")])
def test_its_key(monkeypatch, given, sent):
    seen = []

    def answer(request):
        seen.append(request.headers["Authorization"])
        return httpx.Response(200, json={})

    monkeypatch.setenv("SAPWOOD_API_KEY", "of-the-environment")
    with Client("http://server", api_key=given, transport=httpx.MockTransport(answer)) as client:
        client.health()
    assert seen == [sent]
