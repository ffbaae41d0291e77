import httpx
import pytest

from scripts.bench.traffic.client import Target, ask, own_address


@pytest.mark.parametrize("url", ["http://127.0.0.1:8080", "http://127.0.0.1:8080/v1", "http://127.0.0.1:8080/"])
def test_an_address_of_this_machine(url):
    assert own_address(url) == "http://127.0.0.1:8080"


@pytest.mark.parametrize("url", ["http://example.com", "http://10.0.0.1:8080", "nonsense", "http://127.0.0.1.example"])
def test_no_other_address(url):
    with pytest.raises(ValueError, match="this machine"):
        own_address(url)


async def asked(status, content):
    transport = httpx.MockTransport(lambda _request: httpx.Response(status, content=content))
    async with httpx.AsyncClient(base_url="http://127.0.0.1", transport=transport) as client:
        return await ask(client, Target("http://127.0.0.1", "m"), "the prompt", 4)


async def test_a_refusal_is_in_the_reply():
    reply = await asked(503, b"later")
    assert reply.error == "RuntimeError: HTTP 503: later"


async def test_a_stream_that_fails_keeps_what_had_come():
    reply = await asked(200, b'data: {"choices": [{"text": "a"}]}\n\ndata: {"error": {"message": "lost"}}\n\n')
    assert reply.text == "a"
    assert "lost" in reply.error


async def test_a_good_stream():
    reply = await asked(200, b'data: {"choices": [{"text": "a", "finish_reason": "length"}]}\n\ndata: [DONE]\n\n')
    assert (reply.error, reply.text, reply.finish_reason, reply.new_tokens) == (None, "a", "length", 1)
