"""What is wrong is an exception of OpenAI's client, or LangChain's own where it has one."""

import os

import openai
from langchain_core.exceptions import ContextOverflowError
from langchain_openai import ChatOpenAI

where = {"base_url": f"{os.environ['SERVER_URL']}/v1", "max_retries": 0}


def refused(text="Hello", **more):
    try:
        ChatOpenAI(**where, **({"model": os.environ["MODEL"]} | more)).invoke(text)
    except Exception as error:
        return error
    raise AssertionError(f"not refused: {more}")


assert isinstance(refused(model="other"), openai.NotFoundError)
negative = refused(temperature=-1)
assert isinstance(negative, openai.BadRequestError)
assert negative.param == "temperature"
assert isinstance(refused("word " * 9000), ContextOverflowError)
