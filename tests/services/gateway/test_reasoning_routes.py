"""A model whose chat template knows thoughts, over HTTP."""

import msgspec
import pytest

from tests.support.served_gateway import serving

HELLO = [{"role": "user", "content": "Hi you"}]
TEMPLATE = "{% if add_generation_prompt %}<think>\n{% endif %}"


@pytest.fixture
async def served(tmp_path, tiny_card):
    card = msgspec.structs.replace(tiny_card, chat_template=TEMPLATE)
    async with serving(tmp_path, card, pieces=("Hm", ".\n</", "think>\n\n", "Yes", ".")) as found:
        yield found


async def test_chat(served):
    _, reply, _ = await served.post("/v1/chat/completions", {"messages": HELLO, "n": 2})
    assert [choice["message"] for choice in reply["choices"]] == [
        {"role": "assistant", "content": "Yes.", "refusal": None, "reasoning_content": "Hm."}
    ] * 2
    _, reply, _ = await served.post("/v1/chat/completions", {"messages": HELLO, "separate_reasoning": False})
    assert reply["choices"][0]["message"]["content"] == "Hm.\n</think>\n\nYes."


async def test_a_chat_stream(served):
    events, _ = await served.events("/v1/chat/completions", {"messages": HELLO})
    deltas = [event["choices"][0]["delta"] for event in events]
    assert "".join(delta.get("reasoning_content", "") for delta in deltas) == "Hm."
    assert "".join(delta.get("content", "") for delta in deltas) == "Yes."


async def test_messages(served):
    body = {"model": "tiny", "max_tokens": 9, "messages": HELLO}
    _, reply, _ = await served.post("/v1/messages", body)
    assert reply["content"] == [{"type": "text", "text": "Yes."}]
    _, reply, _ = await served.post("/v1/messages", {**body, "thinking": {"type": "enabled", "budget_tokens": 1024}})
    assert [block["type"] for block in reply["content"]] == ["thinking", "text"]


async def test_a_model_that_does_not_think_is_left_alone(tmp_path, tiny_card):
    text = "<think>Hm.</think>Yes."
    async with serving(tmp_path, tiny_card, pieces=(text,)) as served:
        _, reply, _ = await served.post("/v1/chat/completions", {"messages": HELLO})
        assert reply["choices"][0]["message"]["content"] == text
