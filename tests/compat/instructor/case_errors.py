"""What is wrong is an exception of its own, with that of OpenAI's client behind it."""

import os

import instructor
import openai
from instructor.core import InstructorRetryException
from pydantic import BaseModel


class Word(BaseModel):
    word: str


client = instructor.from_openai(openai.OpenAI(base_url=f"{os.environ['SERVER_URL']}/v1", max_retries=0))
messages = [{"role": "user", "content": "Hello"}]


def refused(**more):
    try:
        client.create(response_model=Word, messages=messages, max_retries=1, **more)
    except InstructorRetryException as error:
        return str(error)
    raise AssertionError(f"not refused: {more}")


assert "model_not_found" in refused(model="other")
assert "temperature" in refused(model=os.environ["MODEL"], temperature=-1)
