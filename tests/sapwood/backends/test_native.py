import httpx
import msgspec
import pytest

from sapwood.backends.native import END_TOKENS, NativeBackend, body_of
from sapwood.backends.protocol import GenerateRequest, Message, Sampling, TokenLogprob
from sapwood.backends.scoring import AT_ONCE
from sapwood.errors import BackendError


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
        raw = isinstance(reply, str | bytes)
        return httpx.Response(200, content=reply) if raw else httpx.Response(200, json=reply)

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


def scored(*tokens):
    return answer("", input_token_logprobs=tokens)


async def test_scores_are_of_the_choice_alone():
    end = scored([-9.0, 1, "of"], [-9.0, 2, " it"])
    choices = [
        scored([-9.0, 1, "of"], [-9.0, 2, " it"], [-1.0, 3, " is"]),
        scored([-9.0, 1, "of"], [-2.0, 4, " its"], [-3.0, 5, "elf"]),  # one token anew
    ]
    alone = [scored([None, 3, None]), scored([None, 4, None], [-7.0, 5, None])]
    server = Server(answer("", prompt_tokens=10), end, choices, alone)
    scores = await server.backend().score(GenerateRequest(prompt="out of it"), [" is", "self"], unconditional=True)
    assert [each.logprobs for each in scores] == [(-1.0,), (-2.0, -3.0)]
    assert [each.unconditional for each in scores] == [(0.0,), (0.0, -7.0)]
    prefix, begun, batch, tokens = server.bodies
    assert prefix["sampling_params"] == batch["sampling_params"] == {"max_new_tokens": 0}
    assert begun["text"] == ["out of it"]
    assert batch["text"] == ["out of it is", "out of itself"]
    assert begun["logprob_start_len"] == batch["logprob_start_len"] == 10 - END_TOKENS
    assert tokens["input_ids"] == [[3], [4, 5]]


async def test_a_choice_that_changes_tokens_from_long_before_is_scored_from_the_beginning():
    end, choice = scored([-9.0, 1, " "], [-9.0, 1, " "]), scored([-5.0, 2, "   "])
    whole, again = scored([-9.0, 3, "x"], [-9.0, 1, " "], [-9.0, 1, " "]), scored([-9.0, 3, "x"], [-5.0, 2, "   "])
    server = Server(answer("", prompt_tokens=99), end, choice, whole, again)
    (score,) = await server.backend().score(GenerateRequest(prompt="x  "), [" "])
    assert score.logprobs == (-5.0,)
    assert [body.get("logprob_start_len") for body in server.bodies] == [None, 91, 91, 0, 0]


async def test_more_choices_than_a_request_takes_are_divided():
    choices = [str(number) for number in range(AT_ONCE + 1)]
    replies = [scored([-1.0, 1, ":"], [-float(number), 2, str(number)]) for number in range(AT_ONCE + 1)]
    server = Server(answer(""), scored([-1.0, 1, ":"]), replies[:AT_ONCE], replies[AT_ONCE:])
    scores = await server.backend().score(GenerateRequest(prompt=":"), choices)
    assert [each.logprobs for each in scores] == [(-float(number),) for number in range(AT_ONCE + 1)]
    assert [len(body["text"]) for body in server.bodies[2:]] == [AT_ONCE, 1]


@pytest.mark.parametrize("reply", ["{}", "[]", "null", "", '{"text": "x"}', "[" * 100_000, '"\xff', b"\xff"])
async def test_whatever_is_no_answer_is_an_error_of_the_tree(reply):
    with pytest.raises(BackendError):
        await Server(reply).backend().generate(GenerateRequest(prompt="a"))


@pytest.mark.parametrize("event", ["null", "{}", '{"error": "no"}', '{"error": {}}', "[" * 100_000])
async def test_whatever_is_no_event_is_an_error_of_the_tree(event):
    with pytest.raises(BackendError):
        [each async for each in Server(f"data: {event}\n\n").backend().stream(GenerateRequest(prompt="a"))]


async def test_fewer_samples_than_were_asked_for():
    with pytest.raises(BackendError, match="asked for 2 outputs, the server gave 1"):
        await Server([answer("x")]).backend().generate(GenerateRequest(prompt="a", sampling=Sampling(n=2)))


async def test_choices_of_a_chat_begin_or_continue_an_answer():
    tokens = [[-9.0, 1, "ant"], [-9.0, 2, "\n"], [-1.0, 3, "yes"]]
    server = Server(*[answer(""), scored(*tokens[:2]), [scored(*tokens)]] * 2)
    for prompt, continues in ((CHAT[:1], False), (CHAT, True)):
        await server.backend().score(GenerateRequest(prompt=prompt, continues=continues), ["yes"])
    begun, went_on = server.bodies[2], server.bodies[5]
    assert begun["messages"][0][-1] == {"role": "assistant", "content": "yes"}
    assert went_on["messages"][0][-1] == {"role": "assistant", "content": "I yes"}
    assert begun["continue_final_message"]
    assert went_on["continue_final_message"]
