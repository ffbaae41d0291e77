"""Tools, whole and streamed, and their answers sent back."""

import os

import anthropic

client = anthropic.Anthropic(base_url=os.environ["SERVER_URL"], api_key="unused", max_retries=0)
question = {"role": "user", "content": "What is the weather in Paris?"}
schema = {
    "type": "object",
    "properties": {"city": {"type": "string", "enum": ["Paris", "Rome"]}},
    "required": ["city"],
    "additionalProperties": False,
}
request = {
    "model": os.environ["MODEL"],
    "extra_body": {"temperature": 0},
    "max_tokens": 100,
    "tools": [{"name": "get_weather", "description": "The weather of a city.", "input_schema": schema}],
}
forced = {"type": "any", "disable_parallel_tool_use": True}

whole = client.messages.create(**request, messages=[question], tool_choice=forced)
(call,) = whole.content
assert (whole.stop_reason, call.type, call.name) == ("tool_use", "tool_use", "get_weather")
assert call.input["city"] in ("Paris", "Rome")

with client.messages.stream(**request, messages=[question], tool_choice=forced) as stream:
    pieces = [event.partial_json for event in stream if event.type == "input_json"]
    final = stream.get_final_message()
assert pieces
assert [(block.name, block.input) for block in final.content] == [(call.name, call.input)]
named = client.messages.create(
    **request,
    messages=[question],
    tool_choice={"type": "tool", "name": "get_weather", "disable_parallel_tool_use": True},
)
assert named.content[0].name == "get_weather"

answer = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": call.id, "content": "Sunny."}]}
turn = {"role": "assistant", "content": whole.content}
reply = client.messages.create(**request, messages=[question, turn, answer], tool_choice={"type": "none"})
assert reply.content[0].text
