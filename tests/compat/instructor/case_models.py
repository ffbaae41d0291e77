"""Outputs as pydantic models, by each of its modes, whole and streamed as partial ones; log-probabilities beside."""

import os
from typing import Literal

import instructor
import openai
from pydantic import BaseModel, Field

client = openai.OpenAI(base_url=f"{os.environ['SERVER_URL']}/v1", max_retries=0)
request = {
    "model": os.environ["MODEL"],
    "messages": [{"role": "user", "content": "Which city is in France, and how many days shall I stay?"}],
    "temperature": 0,
    "max_tokens": 100,
    "max_retries": 1,
}


class Stay(BaseModel):
    city: Literal["Paris", "Rome"]
    days: int = Field(ge=1, le=9)


for mode in (instructor.Mode.TOOLS, instructor.Mode.TOOLS_STRICT, instructor.Mode.JSON_SCHEMA):
    asking = instructor.from_openai(client, mode=mode)
    whole, completion = asking.create_with_completion(response_model=Stay, **request)
    assert isinstance(whole, Stay), mode
    assert completion.usage.completion_tokens > 0
    *_, last = asking.create_partial(response_model=Stay, **request)
    assert last.model_dump() == whole.model_dump(), mode

asking = instructor.from_openai(client, mode=instructor.Mode.JSON_SCHEMA)
whole, completion = asking.create_with_completion(response_model=Stay, logprobs=True, **request)
tokens = [entry.token for entry in completion.choices[0].logprobs.content]
assert "".join(tokens).startswith(completion.choices[0].message.content)
