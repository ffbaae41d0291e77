"""The responses API: chat, streamed with usage, tools, an output as a pydantic model."""

import os
from typing import Literal

from langchain_openai import ChatOpenAI
from pydantic import BaseModel

model = ChatOpenAI(
    base_url=f"{os.environ['SERVER_URL']}/v1",
    model=os.environ["MODEL"],
    temperature=0,
    max_tokens=60,
    use_responses_api=True,
)
question = "What is the capital of France?"


class Stay(BaseModel):
    """Where to stay."""

    city: Literal["Paris", "Rome"]


whole = model.invoke(question)
assert "Paris" in whole.text
first, *others = model.stream(question)
streamed = sum(others, start=first)
assert streamed.text == whole.text
assert streamed.usage_metadata["output_tokens"] == whole.usage_metadata["output_tokens"]

forced = model.bind_tools([Stay], tool_choice="Stay", parallel_tool_calls=False)
first, *others = forced.stream(question)
(call,) = sum(others, start=first).tool_calls
assert Stay(**call["args"])
assert isinstance(model.with_structured_output(Stay).invoke(question), Stay)
