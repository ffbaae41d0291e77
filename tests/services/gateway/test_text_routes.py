"""Tokenizing over HTTP, in the shapes of vLLM and SGLang."""

import asyncio

import aiohttp
import pytest

from services.gateway.dispatch import TEXTS_AT_ONCE
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
