"""Messages, whole and streamed with usage; tokens counted; errors."""

import os

import anthropic

client = anthropic.Anthropic(base_url=os.environ["SERVER_URL"], api_key="unused", max_retries=0)
messages = [{"role": "user", "content": "What is the capital of France?"}]
request = {"model": os.environ["MODEL"], "messages": messages, "max_tokens": 30, "extra_body": {"temperature": 0}}

whole = client.messages.create(**request)
(block,) = whole.content
assert "Paris" in block.text
assert whole.stop_reason == "end_turn"
counted = client.messages.count_tokens(model=os.environ["MODEL"], messages=messages)
assert counted.input_tokens == whole.usage.input_tokens + (whole.usage.cache_read_input_tokens or 0)

with client.messages.stream(**request) as stream:
    assert "".join(stream.text_stream) == block.text
    final = stream.get_final_message()
assert final.usage.output_tokens == whole.usage.output_tokens
assert final.stop_reason == whole.stop_reason

stopped = client.messages.create(**request, system="Be short.", stop_sequences=["is"])
assert stopped.stop_reason == "stop_sequence"
assert client.messages.create(**request | {"max_tokens": 1}).stop_reason == "max_tokens"


def refused(text="Hello", **more):
    try:
        client.messages.create(**request | {"messages": [{"role": "user", "content": text}]} | more)
    except anthropic.APIStatusError as error:
        return error
    raise AssertionError(f"not refused: {more}")


assert isinstance(refused(model="other"), anthropic.NotFoundError)
negative = refused(extra_body={"temperature": -1})
assert isinstance(negative, anthropic.BadRequestError)
assert negative.request_id
assert negative.body["error"]["type"] == "invalid_request_error"
assert "temperature" in negative.message
assert isinstance(refused("word " * 9000), anthropic.BadRequestError)
