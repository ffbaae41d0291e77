"""OpenAI's own Python client against a real server: its types, its streaming, its exceptions."""

import openai
import pytest

MODEL = "SmolLM2-135M-Instruct"
QUESTION = [{"role": "user", "content": "What is the capital of France?"}]


def test_chat(client):
    reply = client.chat.completions.create(model=MODEL, messages=QUESTION, temperature=0, max_tokens=30)
    assert "Paris" in reply.choices[0].message.content
    assert reply.choices[0].message.role == "assistant"
    assert reply.usage.total_tokens == reply.usage.prompt_tokens + reply.usage.completion_tokens


def test_a_stream_with_usage(client):
    whole = client.chat.completions.create(model=MODEL, messages=QUESTION, temperature=0, max_tokens=30)
    chunks = list(
        client.chat.completions.create(
            model=MODEL,
            messages=QUESTION,
            temperature=0,
            max_tokens=30,
            stream=True,
            stream_options={"include_usage": True},
        )
    )
    deltas = [chunk.choices[0].delta for chunk in chunks if chunk.choices]
    assert "".join(delta.content or "" for delta in deltas) == whole.choices[0].message.content
    assert [delta.role for delta in deltas if delta.role] == ["assistant"]
    reasons = [chunk.choices[0].finish_reason for chunk in chunks if chunk.choices]
    assert reasons[-1] == whole.choices[0].finish_reason
    assert set(reasons[:-1]) == {None}
    assert chunks[-1].usage.completion_tokens == whole.usage.completion_tokens
    assert chunks[-1].usage.prompt_tokens_details.cached_tokens == whole.usage.prompt_tokens - 1
    assert len({chunk.id for chunk in chunks}) == 1


def test_the_stream_helper(client):
    with client.chat.completions.stream(model=MODEL, messages=QUESTION, temperature=0, max_tokens=30) as stream:
        stream.until_done()
        assert "Paris" in stream.get_final_completion().choices[0].message.content


def test_completions_with_logprobs(client):
    reply = client.completions.create(model=MODEL, prompt="Paris is", temperature=0, max_tokens=5, logprobs=3)
    logprobs = reply.choices[0].logprobs
    assert "".join(logprobs.tokens) == reply.choices[0].text
    assert [max(top, key=top.get) for top in logprobs.top_logprobs] == logprobs.tokens
    assert all(value <= 0 for value in logprobs.token_logprobs)


def test_chat_logprobs(client):
    reply = client.chat.completions.create(
        model=MODEL, messages=QUESTION, temperature=0, max_tokens=5, logprobs=True, top_logprobs=2
    )
    content = reply.choices[0].logprobs.content
    assert len(content) == 5
    assert b"".join(bytes(entry.bytes) for entry in content).decode() == reply.choices[0].message.content
    assert all(entry.top_logprobs[0].token == entry.token for entry in content)


def test_models(client):
    assert [model.id for model in client.models.list()] == [MODEL]
    assert client.models.retrieve(MODEL).id == MODEL


def test_errors_are_its_own_exceptions(client):
    with pytest.raises(openai.NotFoundError) as not_found:
        client.chat.completions.create(model="other", messages=QUESTION)
    assert not_found.value.code == "model_not_found"
    with pytest.raises(openai.BadRequestError) as bad:
        client.chat.completions.create(model=MODEL, messages=QUESTION, temperature=-1)
    assert bad.value.param == "temperature"
    with pytest.raises(openai.BadRequestError) as long:
        client.completions.create(model=MODEL, prompt=[5] * 9000)
    assert long.value.code == "context_length_exceeded"


async def test_the_async_client(server):
    async with openai.AsyncOpenAI(base_url=f"{server.url}/v1", api_key="unused") as client:
        reply = await client.chat.completions.create(model=MODEL, messages=QUESTION, temperature=0, max_tokens=30)
    assert "Paris" in reply.choices[0].message.content
