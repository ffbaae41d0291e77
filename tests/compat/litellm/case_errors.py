"""What is wrong is an exception of its own; that of a prompt too long tells it apart from others."""

import os

import litellm


def refused(text="Hello", **more):
    request = {"api_base": f"{os.environ['SERVER_URL']}/v1", "model": f"openai/{os.environ['MODEL']}"} | more
    try:
        litellm.completion(messages=[{"role": "user", "content": text}], max_retries=0, **request)
    except Exception as error:
        return error
    raise AssertionError(f"not refused: {more}")


assert isinstance(refused(model="openai/other"), litellm.NotFoundError)
negative = refused(temperature=-1)
assert isinstance(negative, litellm.BadRequestError)
assert "temperature" in str(negative)
assert isinstance(refused("word " * 9000), litellm.ContextWindowExceededError)
