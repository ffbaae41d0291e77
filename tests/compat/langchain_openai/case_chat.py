"""Chat, whole and streamed with usage; a batch; log-probabilities; plain completions."""

import os

from langchain_openai import ChatOpenAI, OpenAI

where = {"base_url": f"{os.environ['SERVER_URL']}/v1", "model": os.environ["MODEL"], "temperature": 0}
model = ChatOpenAI(**where, max_tokens=30, stream_usage=True)
question = "What is the capital of France?"

whole = model.invoke(question)
assert "Paris" in whole.content
assert whole.usage_metadata["total_tokens"] == sum(
    whole.usage_metadata[key] for key in ("input_tokens", "output_tokens")
)

first, *others = model.stream(question)
streamed = sum(others, start=first)
assert streamed.content == whole.content
assert streamed.usage_metadata["output_tokens"] == whole.usage_metadata["output_tokens"]
assert streamed.response_metadata["finish_reason"] == whole.response_metadata["finish_reason"]

assert [answer.content for answer in model.batch([question, question])] == [whole.content] * 2

short = model.bind(logprobs=True, top_logprobs=2, max_tokens=5).invoke(question)
entries = short.response_metadata["logprobs"]["content"]
assert b"".join(bytes(entry["bytes"]) for entry in entries).decode() == short.content
assert all(entry["top_logprobs"][0]["token"] == entry["token"] for entry in entries)

plain = OpenAI(**where, max_tokens=5)
assert plain.invoke("Paris is") == "".join(plain.stream("Paris is"))
