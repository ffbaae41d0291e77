"""The responses API: text, the events of a stream, a pydantic model, function tools and their answers, errors."""

import os
from typing import Literal

import openai
from pydantic import BaseModel

client = openai.OpenAI(base_url=f"{os.environ['SERVER_URL']}/v1", max_retries=0)
question = "What is the capital of France?"
request = {"model": os.environ["MODEL"], "temperature": 0, "max_output_tokens": 60}


class Stay(BaseModel):
    city: Literal["Paris", "Rome"]
    long: bool


whole = client.responses.create(**request, input=question)
assert whole.status == "completed"
assert "Paris" in whole.output_text
assert whole.usage.total_tokens == whole.usage.input_tokens + whole.usage.output_tokens

events = list(client.responses.create(**request, input=question, stream=True))
assert "".join(event.delta for event in events if event.type == "response.output_text.delta") == whole.output_text
assert (events[0].type, events[-1].type) == ("response.created", "response.completed")
assert events[-1].response.output_text == whole.output_text
assert [event.sequence_number for event in events] == list(range(len(events)))
with client.responses.stream(**request, input=question) as stream:
    assert stream.until_done().get_final_response().output_text == whole.output_text

short = client.responses.create(**request | {"max_output_tokens": 2}, input=question)
assert (short.status, short.incomplete_details.reason) == ("incomplete", "max_output_tokens")
assert isinstance(client.responses.parse(**request, input=question, text_format=Stay).output_parsed, Stay)

tool = openai.pydantic_function_tool(Stay, name="plan")["function"] | {"type": "function"}
asked = [{"role": "user", "content": question}]
forced = request | {"tools": [tool], "tool_choice": "required", "parallel_tool_calls": False}
with client.responses.stream(**forced, input=asked) as stream:
    called = stream.until_done().get_final_response()
call = next(item for item in called.output if item.type == "function_call")
Stay.model_validate_json(call.arguments)
answer = {"type": "function_call_output", "call_id": call.call_id, "output": "Planned."}
again = [*asked, call.to_dict(), answer]
assert client.responses.create(**request, input=again, tools=[tool], tool_choice="none").output_text

try:
    client.responses.create(**request | {"temperature": -1}, input=question)
except openai.BadRequestError as error:
    param = error.param
assert param == "temperature"
