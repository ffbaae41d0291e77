"""Tools, whole and streamed; an output as a pydantic model."""

import json
import os
from typing import Literal

import litellm
from pydantic import BaseModel, Field


class Stay(BaseModel):
    city: Literal["Paris", "Rome"]
    days: int = Field(ge=1, le=9)


messages = [{"role": "user", "content": "What is the weather in Paris?"}]
request = {
    "api_base": f"{os.environ['SERVER_URL']}/v1",
    "model": f"openai/{os.environ['MODEL']}",
    "messages": messages,
    "temperature": 0,
    "max_tokens": 100,
}
tool = {"type": "function", "function": {"name": "get_weather", "parameters": Stay.model_json_schema()}}
named = {"type": "function", "function": {"name": "get_weather"}}
forced = request | {"tools": [tool], "tool_choice": named, "parallel_tool_calls": False}

(whole,) = litellm.completion(**forced).choices[0].message.tool_calls
streamed = litellm.stream_chunk_builder(list(litellm.completion(**forced, stream=True)), messages=messages)
(call,) = streamed.choices[0].message.tool_calls
assert streamed.choices[0].finish_reason == "tool_calls"
assert (call.function.name, call.function.arguments) == (whole.function.name, whole.function.arguments)
Stay.model_validate_json(call.function.arguments)

answer = {"role": "tool", "tool_call_id": whole.id, "content": json.dumps({"weather": "sunny"})}
turn = {"role": "assistant", "tool_calls": [whole.model_dump()], "content": None}
again = request | {"messages": [*messages, turn, answer], "tools": [tool], "tool_choice": "none"}
assert litellm.completion(**again).choices[0].message.content

parsed = litellm.completion(**request, response_format=Stay).choices[0].message.content
Stay.model_validate_json(parsed)
