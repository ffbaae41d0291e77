"""Tools, whole and streamed, and their answers sent back; outputs as pydantic models by each of its methods."""

import os
from typing import Literal

from langchain_core.messages import HumanMessage, ToolMessage
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from pydantic import BaseModel, Field

model = ChatOpenAI(base_url=f"{os.environ['SERVER_URL']}/v1", model=os.environ["MODEL"], temperature=0, max_tokens=100)
question = HumanMessage("What is the weather in Paris?")


class Place(BaseModel):
    """A place."""

    city: Literal["Paris", "Rome"]
    days: int = Field(ge=1, le=9)


@tool
def get_weather(city: Literal["Paris", "Rome"]) -> str:
    """The weather of a city."""
    return f"Sunny in {city}."


forced = model.bind_tools([get_weather], tool_choice="required", parallel_tool_calls=False)
whole = forced.invoke([question])
first, *others = forced.stream([question])
streamed = sum(others, start=first)
(call,) = streamed.tool_calls
assert (call["name"], call["args"]) == (whole.tool_calls[0]["name"], whole.tool_calls[0]["args"])
assert call["args"]["city"] in ("Paris", "Rome")

answer = get_weather.invoke(call)
assert isinstance(answer, ToolMessage)
assert model.bind_tools([get_weather], tool_choice="none").invoke([question, streamed, answer]).content

for method in ("json_schema", "function_calling"):
    assert isinstance(model.with_structured_output(Place, method=method).invoke([question]), Place), method
