import httpx
import msgspec
import pytest

from sapwood.backends.native import NativeBackend, body_of
from sapwood.backends.protocol import GenerateRequest, Message, Sampling, TokenLogprob


def answer(text, **meta):
    known = {"id": "r1", "finish_reason": {"type": "stop"}, "prompt_tokens": 4, "completion_tokens": 1}
    return {"text": text, "output_ids": [5], "meta_info": known | {"cached_tokens": 3} | meta}


class Server:
    def __init__(self, *replies):
        self.replies = list(replies)
        self.bodies = []

    def __call__(self, request):
        self.bodies.append(msgspec.json.decode(request.content))
        reply = self.replies.pop(0)
        return httpx.Response(200, text=reply) if isinstance(reply, str) else httpx.Response(200, json=reply)

    def backend(self):
        return NativeBackend("http://server", transport=httpx.MockTransport(self))


CHAT = (Message("user", "Hi"), Message("assistant", "I "))


@pytest.mark.parametrize(
    ("request_", "body"),
    [
        (GenerateRequest(prompt="a"), {"text": "a", "sampling_params": {}}),
        (GenerateRequest(prompt=(1, 2)), {"input_ids": (1, 2), "sampling_params": {}}),
        (
            GenerateRequest(prompt=CHAT, continues=True),
            {
                "messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "I "}],
                "continue_final_message": True,
                "sampling_params": {},
            },
        ),
        (
            GenerateRequest(prompt="a", sampling=Sampling(max_tokens=3, min_tokens=1, stop=("x",), temperature=0)),
            {
                "text": "a",
                "sampling_params": {"max_new_tokens": 3, "min_new_tokens": 1, "stop": ["x"], "temperature": 0},
            },
        ),
        (
            GenerateRequest(prompt="a", logprobs=True, top_logprobs=2, priority=1, cache_salt="s"),
            {
                "text": "a",
                "sampling_params": {},
                "return_logprob": True,
                "top_logprobs_num": 2,
                "return_text_in_logprobs": True,
                "logprob_start_len": -1,
                "cache_salt": "s",
                "priority": 1,
            },
        ),
    ],
)
def test_requests(request_, body):
    assert msgspec.json.decode(msgspec.json.encode(body_of(request_))) == msgspec.json.decode(msgspec.json.encode(body))


async def test_one_answer():
    server = Server(answer("x", output_token_logprobs=[[-1.0, 5, "x"]]))
    (generation,) = await server.backend().generate(GenerateRequest(prompt="a"))
    assert (generation.text, generation.token_ids, generation.finish_reason) == ("x", (5,), "stop")
    assert (generation.prompt_tokens, generation.cached_tokens, generation.request_id) == (4, 3, "r1")
    assert generation.logprobs == (TokenLogprob(-1.0, 5, "x"),)


async def test_several_samples():
    server = Server([answer("x"), answer("y")])
    generations = await server.backend().generate(GenerateRequest(prompt="a", sampling=Sampling(n=2)))
    assert [(each.text, each.index) for each in generations] == [("x", 0), ("y", 1)]


async def test_a_stream():
    lines = [answer("x", finish_reason=None), answer("xy"), "[DONE]"]
    text = "".join(
        f"data: {each if isinstance(each, str) else msgspec.json.encode(each).decode()}\n\n" for each in lines
    )
    server = Server(text)
    found = [(each.text, each.finish_reason) async for each in server.backend().stream(GenerateRequest(prompt="a"))]
    assert found == [("x", None), ("xy", "stop")]
    assert server.bodies[0]["stream"]


async def test_scores_are_of_the_choice_alone():
    scored = [
        answer("", input_token_logprobs=[[-9.0, 1, "of"], [-9.0, 2, " it"], [-1.0, 3, " is"]]),
        answer("", input_token_logprobs=[[-9.0, 1, "of"], [-2.0, 4, " its"], [-3.0, 5, "elf"]]),  # one token anew
    ]
    alone = [
        answer("", input_token_logprobs=[[None, 3, None]]),
        answer("", input_token_logprobs=[[None, 4, None], [-7.0, 5, None]]),
    ]
    server = Server(answer(""), scored, alone)
    scores = await server.backend().score(GenerateRequest(prompt="out of it"), [" is", "self"], unconditional=True)
    assert [each.logprobs for each in scores] == [(-1.0,), (-2.0, -3.0)]
    assert [each.unconditional for each in scores] == [(0.0,), (0.0, -7.0)]
    prefix, batch, tokens = server.bodies
    assert prefix["sampling_params"] == batch["sampling_params"] == {"max_new_tokens": 0}
    assert batch["text"] == ["out of it is", "out of itself"]
    assert batch["logprob_start_len"] == 2
    assert tokens["input_ids"] == [[3], [4, 5]]


async def test_choices_of_a_chat_begin_or_continue_an_answer():
    tokens = [[-9.0, 1, "ant"], [-9.0, 2, "\n"], [-1.0, 3, "yes"]]
    server = Server(*[answer(""), [answer("", input_token_logprobs=tokens)]] * 2)
    for prompt, continues in ((CHAT[:1], False), (CHAT, True)):
        await server.backend().score(GenerateRequest(prompt=prompt, continues=continues), ["yes"])
    begun, went_on = server.bodies[1], server.bodies[3]
    assert begun["messages"][0][-1] == {"role": "assistant", "content": "yes"}
    assert went_on["messages"][0][-1] == {"role": "assistant", "content": "I yes"}
    assert begun["continue_final_message"]
    assert went_on["continue_final_message"]
