"""An output as a pydantic model, whole and streamed."""

import os
from typing import Literal

import anthropic
from pydantic import BaseModel

client = anthropic.Anthropic(base_url=os.environ["SERVER_URL"], api_key="unused", max_retries=0)
request = {
    "model": os.environ["MODEL"],
    "messages": [{"role": "user", "content": "Which city is in France, and shall I stay long?"}],
    "max_tokens": 60,
    "extra_body": {"temperature": 0},
}


class Stay(BaseModel):
    city: Literal["Paris", "Rome"]
    long: bool


whole = client.messages.parse(**request, output_format=Stay)
assert isinstance(whole.parsed_output, Stay)
with client.messages.stream(**request, output_format=Stay) as stream:
    assert stream.get_final_message().parsed_output == whole.parsed_output
