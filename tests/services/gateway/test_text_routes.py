"""Tokenizing over HTTP, in the shapes of vLLM and SGLang."""

import asyncio
import json

import aiohttp
import pytest

from services.gateway.dispatch import TEXTS_AT_ONCE
from services.gateway.text_room import TextRoom
from tests.support.served_gateway import serving


@pytest.fixture
async def served(tmp_path, tiny_card):
    async with serving(tmp_path, tiny_card) as found:
        yield found


@pytest.mark.parametrize("prefix", ["", "/v1"])
async def test_there_and_back(served, prefix):
    status, reply, _ = await served.post(f"{prefix}/tokenize", {"prompt": "Hi", "add_special_tokens": False})
    assert status == 200
    assert reply == {"count": 2, "max_model_len": 256, "tokens": [72, 105], "token_strs": None}
    _, reply, _ = await served.post(f"{prefix}/detokenize", {"tokens": reply["tokens"]})
    assert reply == {"prompt": "Hi", "text": "Hi"}


async def test_lists_are_answered_by_lists(served):
    _, reply, _ = await served.post("/tokenize", {"prompt": ["Hi", "x"], "return_token_strs": True})
    assert (reply["count"], reply["tokens"]) == ([2, 1], [[72, 105], [120]])
    assert reply["token_strs"] == [["H", "i"], ["x"]]
    _, reply, _ = await served.post("/detokenize", {"tokens": [[72], []]})
    assert reply["text"] == ["H", ""]


async def test_a_conversation(served):
    _, reply, _ = await served.post("/tokenize", {"messages": [{"role": "user", "content": "Hey"}]})
    assert reply["count"] == 3


async def test_what_a_remote_tokenizer_has_to_know(served):
    _, reply, _ = await served.get("/tokenizer_info")
    assert (reply["bos_token"], reply["eos_token"], reply["pad_token"]) == ("<s>", "</s>", None)
    assert reply["chat_template"] is None
    assert reply["model_max_length"] == 256


async def test_refusals_name_the_field(served):
    status, reply, _ = await served.post("/tokenize", {"promt": "x"})
    assert (status, reply["error"]["param"]) == (400, "promt")


async def test_without_a_tokenizer(served):
    served.pipeline.kill("tokenizer-1")
    await served.until(lambda: served.gateway.progress().peers["tokenizer"] == 0)
    status, reply, headers = await served.post("/tokenize", {"prompt": "x"})
    assert (status, reply["error"]["code"], headers["Retry-After"]) == (503, "unavailable", "1")


async def test_few_are_asked_at_once_and_not_too_many_wait(tmp_path, tiny_card):
    async with serving(tmp_path, tiny_card, max_open_requests=TEXTS_AT_ONCE + 2) as served:
        served.pipeline.answers_texts = False
        asking = [asyncio.create_task(served.post("/tokenize", {"prompt": "x"})) for _ in range(TEXTS_AT_ONCE + 2)]
        await served.until(lambda: len(served.pipeline.texts) == TEXTS_AT_ONCE)

        async def is_full():
            status, reply, _ = await served.post("/tokenize", {"prompt": "x"}, timeout=aiohttp.ClientTimeout(total=1))
            return (status, reply["error"]["code"]) == (429, "overloaded")

        assert await is_full()
        assert len(served.pipeline.texts) == TEXTS_AT_ONCE
        served.pipeline.kill("tokenizer-1")
        await served.until(lambda: served.gateway.progress().peers["tokenizer"] == 0)
        assert {status for status, _, _ in await asyncio.gather(*asking)} == {503}


ALICE, BOB = ({"Authorization": f"Bearer sk-{name}"} for name in ("alice", "bob"))
COUNT = {"model": "default", "messages": [{"role": "user", "content": "Hey"}]}


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/tokenize", {"prompt": ["Hi"]}),
        ("/detokenize", {"tokens": [72]}),
        ("/v1/messages/count_tokens", COUNT),
        ("/v1/completions", {"prompt": [72], "echo": True, "max_tokens": 1}),
    ],
)
async def test_a_tenants_text_waits_for_one_of_anothers_and_finds_room(tmp_path, tiny_card, path, body):
    keys = ("alice: sk-alice", "bob: sk-bob")
    async with serving(tmp_path, tiny_card, api_keys=keys, max_open_requests=32) as served:
        served.pipeline.answers_texts = False
        flood = [asyncio.create_task(served.post("/tokenize", {"prompt": "x"}, headers=ALICE)) for _ in range(30)]
        await served.until(lambda: sum(task.done() for task in flood) == 2)
        assert {task.result()[0] for task in flood if task.done()} == {429}
        asked = asyncio.create_task(served.post(path, body, headers=BOB))
        await served.until(lambda: served.gateway._dispatcher.text_room.open_calls == 29)
        served.pipeline.answer_texts()
        await served.until(lambda: len(served.pipeline.texts) == 2 * TEXTS_AT_ONCE)
        assert [text.prompt for text in served.pipeline.texts].index("x", TEXTS_AT_ONCE + 1) == TEXTS_AT_ONCE + 2
        served.pipeline.answers_texts = True
        served.pipeline.answer_texts()
        assert (await asked)[0] == 200
        await asyncio.gather(*flood)


async def test_what_a_call_holds_is_bounded_and_free_when_it_ends(served):
    room = served.gateway._dispatcher.text_room = TextRoom(8, max_bytes=200)
    assert (await served.post("/tokenize", {"prompt": ["abcdefgh"] * 2}))[0] == 200
    status, reply, _ = await served.post("/tokenize", {"prompt": ["abcdefgh"] * 5})
    assert (status, reply["error"]["code"]) == (429, "overloaded")
    assert len(served.pipeline.texts) < 2 + 5
    assert room.held_bytes == 0


async def test_a_reply_is_held_until_the_client_takes_it(served):
    room = served.gateway._dispatcher.text_room
    body = json.dumps({"prompt": ["x" * 2**18] * 4, "return_token_strs": True}).encode()
    reader, writer = await asyncio.open_connection("127.0.0.1", served.gateway.port, limit=1024)
    writer.write(b"POST /tokenize HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
    assert await reader.readline() == b"HTTP/1.1 200 OK\r\n"
    assert room.open_calls == 1
    assert room.held_bytes > 8 * 2**20
    writer.transport.abort()
    await served.until(lambda: room.open_calls == 0)
    assert room.held_bytes == 0
