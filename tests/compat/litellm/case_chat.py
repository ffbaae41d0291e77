"""Chat, whole and streamed with usage; log-probabilities; plain completions; several choices."""

import os

import litellm

where = {"api_base": f"{os.environ['SERVER_URL']}/v1", "model": f"openai/{os.environ['MODEL']}", "temperature": 0}
messages = [{"role": "user", "content": "What is the capital of France?"}]
request = where | {"messages": messages, "max_tokens": 30}

whole = litellm.completion(**request)
assert "Paris" in whole.choices[0].message.content
chunks = list(litellm.completion(**request, stream=True, stream_options={"include_usage": True}))
streamed = litellm.stream_chunk_builder(chunks, messages=messages)
assert streamed.choices[0].message.content == whole.choices[0].message.content
assert streamed.choices[0].finish_reason == whole.choices[0].finish_reason
assert streamed.usage.completion_tokens == whole.usage.completion_tokens
assert streamed.usage.prompt_tokens == whole.usage.prompt_tokens

(choice,) = litellm.completion(**request | {"max_tokens": 5}, logprobs=True, top_logprobs=2).choices
assert b"".join(bytes(entry.bytes) for entry in choice.logprobs.content).decode() == choice.message.content

plain = where | {"model": f"text-completion-openai/{os.environ['MODEL']}", "prompt": "Paris is", "max_tokens": 5}
answer = litellm.text_completion(**plain, logprobs=1).choices[0]
assert "".join(answer.logprobs.tokens) == answer.text
assert "".join(chunk.choices[0].text or "" for chunk in litellm.text_completion(**plain, stream=True)) == answer.text
