"""Tools by its own library, which cannot force a call: whether the model calls or not, and what it answers with."""

import os

import llm
from llm.default_plugins.openai_models import Chat


def get_weather(city: str) -> str:
    """The weather of a city."""
    return f"Sunny in {city}."


model = Chat(
    "ours",
    model_name=os.environ["MODEL"],
    api_base=f"{os.environ['SERVER_URL']}/v1",
    supports_tools=True,
    supports_schema=True,
)
options = {"temperature": 0, "max_tokens": 60, "key": "unused"}
question = "What is the weather in Paris? Use the tool get_weather."

for stream in (True, False):
    response = model.prompt(question, tools=[get_weather], stream=stream, **options)
    calls = response.tool_calls()
    assert calls or response.text()
    assert all(call.name == "get_weather" for call in calls)
    assert response.usage().output > 0

conversation = model.conversation(tools=[get_weather])
assert conversation.chain(question, options={"temperature": 0, "max_tokens": 60}, key="unused").text()
result = llm.ToolResult(name="get_weather", output="Sunny in Paris.", tool_call_id="call_1")
assert model.prompt("And now?", tools=[get_weather], tool_results=[result], **options).text()
