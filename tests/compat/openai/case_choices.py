"""Several choices and several prompts, whole and streamed; a prompt that is echoed, with its log-probabilities."""

import os
from collections import defaultdict

import openai

client = openai.OpenAI(base_url=f"{os.environ['SERVER_URL']}/v1", max_retries=0)
request = {"model": os.environ["MODEL"], "max_tokens": 12, "seed": 7}
messages = [{"role": "user", "content": "Name a colour."}]


def streamed(chunks, text):
    """The text of each choice, of which each finishes once."""
    texts, finished = defaultdict(str), []
    for chunk in chunks:
        for choice in chunk.choices:
            texts[choice.index] += text(choice) or ""
            finished += [choice.index] if choice.finish_reason else []
    assert sorted(finished) == sorted(texts)
    return [texts[index] for index in sorted(texts)]


chat = request | {"messages": messages, "n": 3}
whole = client.chat.completions.create(**chat)
assert [choice.index for choice in whole.choices] == [0, 1, 2]
assert len({choice.message.content for choice in whole.choices}) > 1
assert whole.usage.total_tokens == whole.usage.prompt_tokens + whole.usage.completion_tokens
same = [choice.message.content for choice in client.chat.completions.create(**chat, temperature=0).choices]
chunks = client.chat.completions.create(**chat, temperature=0, stream=True)
assert streamed(chunks, lambda choice: choice.delta.content) == same

greedy = request | {"temperature": 0, "prompt": ["The capital of France is", "The capital of Italy is"]}
answers = [choice.text for choice in client.completions.create(**greedy).choices]
assert ["Paris" in answers[0], "Rome" in answers[1]] == [True, True]
assert streamed(client.completions.create(**greedy, stream=True), lambda choice: choice.text) == answers

prompt = "The capital of France is"
(echoed,) = client.completions.create(**greedy | {"prompt": prompt, "max_tokens": 1}, echo=True, logprobs=2).choices
assert echoed.text.startswith(prompt)
assert "".join(echoed.logprobs.tokens) == echoed.text
assert echoed.logprobs.token_logprobs[0] is None
assert all(value <= 0 for value in echoed.logprobs.token_logprobs[1:])
assert echoed.logprobs.text_offset[1] == len(echoed.logprobs.tokens[0])
