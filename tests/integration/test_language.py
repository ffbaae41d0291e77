"""Programs against the real model: the forms that users were shown, as written, and those that SGLang's documents
teach, line for line with our names."""

import asyncio
import json
import re
from dataclasses import dataclass
from typing import Annotated, Literal

import pytest
from msgspec import Meta
from pydantic import BaseModel, Field

from sapwood import (
    Client,
    ProgramError,
    Runtime,
    ServerError,
    assistant,
    assistant_begin,
    assistant_end,
    function,
    gen,
    gen_int,
    gen_string,
    greedy_token_selection,
    image,
    select,
    set_default_backend,
    system,
    token_length_normalized,
    unconditional_likelihood_normalized,
    user,
)
from tests.support.loopback_json import answering

ADDRESS = r"((25[0-5]|2[0-4]\d|[01]?\d\d?).){3}(25[0-5]|2[0-4]\d|[01]?\d\d?)"


@pytest.fixture(scope="module")
def rt(server):
    with Runtime(server.url) as runtime:
        yield runtime


@pytest.fixture(autouse=True)
def default(rt):
    set_default_backend(rt)


@pytest.fixture
def forecast():
    with answering(lambda path: {"forecast": "sunny", "asked": path}) as host:
        yield host


def test_two_turns(rt):
    def two_turns():
        with assistant() as a:
            a += user("Hello, I am a programmer")
            a += gen("greeting", max_tokens=32)
            a += user("I have been studying model deployment")
            a += gen("reply", max_tokens=64)

    out = rt.run(two_turns)
    assert out["greeting"]
    assert out["reply"]
    assert [message["role"] for message in out.messages()] == ["user", "assistant"] * 2
    assert out.generation("reply").cached_tokens >= out.generation("greeting").prompt_tokens


def test_as_json():
    @function
    def as_json(s):
        s += "Give the user as JSON: "
        s += gen("json", max_tokens=100, regex=r'\{\s*"name"\s*:\s*"[^"]+"\s*,\s*"age"\s*:\s*\d+\s*\}')

    state = as_json.run(temperature=0)
    assert set(json.loads(state["json"])) == {"name", "age"}


@pytest.mark.parametrize("likely", ["track", "refund"])
def test_ticket(rt, likely):
    def ticket():
        with assistant() as a:
            a += user("My order has not arrived, can you look?")
            intent = gen("intent", choices=["track", "refund", "address", "other"], logit_bias=bias)
            if intent == "track":
                a += user("Call the tracking API")
                gen("tracking", regex=r'{"carrier": "[^"]+", "status": "[^"]+", "eta": "[^"]+"}')
            a += user("Summarise the outcome")
            gen("summary", max_tokens=16)

    (first, *_) = rt.client.generate([{"role": "user", "content": "x"}], choices=[likely]).token_ids
    bias = {str(first): 100.0}
    out = rt.run(ticket, temperature=0)
    assert out["intent"] == likely
    assert ("tracking" in out) is (likely == "track")
    if likely == "track":
        assert out["tracking"].startswith('{"carrier": "')
    assert out["summary"]


def test_plan_trip(forecast):
    @function(api_hosts=[forecast])
    def plan_trip(s, user_input):
        s += "Plan the trip. The user says: " + user_input
        s += gen("destination", max_tokens=20)
        s += gen("weather", max_tokens=50, api_url=f"http://{forecast}/forecast", params={"location": s["destination"]})
        s += gen("final_plan", max_tokens=200)

    state = plan_trip.run(user_input="three days in Hangzhou", max_tokens=16)
    assert state["weather"]["forecast"] == "sunny"
    assert "location=" in state["weather"]["asked"]
    assert '"forecast":"sunny"' in state.text()
    assert state["final_plan"]


def test_outside_of_any_program():
    result = gen(
        "api_result", regex=r'\{"status": ("success"|"error"), "data": \{.*\}, "code": [0-9]+\}', max_tokens=256
    )
    assert re.match(r'\{"status": "(success|error)", "data": \{', result)
    assert isinstance(gen("What is an LLM?", max_tokens=128), str)
    assert isinstance(gen("How many?", dtype=int, max_tokens=24), int)
    assert select("Is the sky blue?", choices=["yes", "no"]) in ("yes", "no")


@function
def basic_qa(s, question):
    s += system("You are a helpful assistant than can answer questions.")
    s += user(question)
    s += assistant(gen("answer", max_tokens=32))


@function
def multi_turn_question(s, question_1, question_2):
    s += system("You are a helpful assistant.")
    s += user(question_1)
    s += assistant(gen("answer_1", max_tokens=32))
    s += user(question_2)
    s += assistant(gen("answer_2", max_tokens=32))


@function
def text_qa(s, question):
    s += "Q: " + question + "\n"
    s += "A:" + gen("answer", stop="\n")


CAPITALS = [
    {"question": "What is the capital of the United Kingdom?"},
    {"question": "What is the capital of France?"},
    {"question": "What is the capital of Japan?"},
]


def test_basic_answer():
    state = basic_qa("List 3 countries and their capitals.")
    assert state["answer"]


def test_multi_turn_question():
    state = multi_turn_question.run(
        question_1="What is the capital of France?",
        question_2="List two local attractions.",
        temperature=0,
    )
    assert [m["role"] for m in state.messages()] == ["system", "user", "assistant", "user", "assistant"]
    assert "Paris" in state["answer_1"]
    assert state.messages()[-1]["content"] == state["answer_2"]


def test_tool_use():
    @function
    def tool_use(s, question):
        s += "To answer this question: " + question + ". "
        s += "I need to use a " + gen("tool", choices=["calculator", "search engine"]) + ". "

        if s["tool"] == "calculator":
            s += "The math expression is" + gen("expression")
        elif s["tool"] == "search engine":
            s += "The key word to search is" + gen("word")

    state = tool_use.run(question="What is the capital of the United States?", max_tokens=16)
    assert ("expression" in state) is (state["tool"] == "calculator")
    assert ("word" in state) is (state["tool"] == "search engine")


def test_tip_suggestion():
    @function
    def tip_suggestion(s):
        s += "Here are two tips for staying healthy: 1. Balanced Diet. 2. Regular Exercise.\n\n"

        forks = s.fork(2)
        for i, f in enumerate(forks):
            f += f"Now, expand tip {i + 1} into a paragraph:\n"
            f += gen("detailed_tip", max_tokens=64, stop="\n\n")

        s += "Tip 1:" + forks[0]["detailed_tip"] + "\n"
        s += "Tip 2:" + forks[1]["detailed_tip"] + "\n"
        s += "In summary" + gen("summary", max_tokens=32)

    state = tip_suggestion.run(temperature=0)
    assert re.search(r"Tip 1:.*Tip 2:.*In summary", state.text(), re.DOTALL)
    assert state.text().endswith(state["summary"])


def test_tips_in_a_chat():
    @function
    def tip_suggestion(s):
        s += assistant("Here are two tips for staying healthy: 1. Balanced Diet. 2. Regular Exercise.\n\n")

        forks = s.fork(2)
        for i, f in enumerate(forks):
            f += assistant(
                f"Now, expand tip {i + 1} into a paragraph:\n" + gen("detailed_tip", max_tokens=32, stop="\n\n")
            )

        s += assistant("Tip 1:" + forks[0]["detailed_tip"] + "\n")
        s += assistant("Tip 2:" + forks[1]["detailed_tip"] + "\n")
        s += assistant("To summarize the above two tips, I can say:\n" + gen("summary", max_tokens=32))

    assert len(tip_suggestion().messages()) == 4


def test_regular_expression_gen():
    @function
    def regular_expression_gen(s):
        s += user("What is the IP address of the Google DNS servers?")
        s += assistant(gen("answer", temperature=0, regex=ADDRESS))

    assert re.fullmatch(ADDRESS, regular_expression_gen()["answer"])


def test_character_gen():
    character_regex = (
        r"""\{\n"""
        + r"""    "name": "[\w\d\s]{1,16}",\n"""
        + r"""    "house": "(Gryffindor|Slytherin|Ravenclaw|Hufflepuff)",\n"""
        + r"""    "wand": \{\n"""
        + r"""        "length": [0-9]{1,2}\.[0-9]{0,2}\n"""
        + r"""    \}\n"""
        + r"""\}"""
    )

    @function
    def character_gen(s, name):
        s += user(f"{name} is a character in Harry Potter. Please fill in the following information about him.")
        s += assistant(gen("json_output", max_tokens=256, regex=character_regex))

    assert re.fullmatch(character_regex, character_gen("Harry Potter")["json_output"])


def test_batching():
    states = text_qa.run_batch(CAPITALS, progress_bar=True, temperature=0)
    assert ["London" in state["answer"] for state in states] == [True, False, False]
    assert ["Paris" in state["answer"] for state in states] == [False, True, False]


def test_streaming():
    state = text_qa.run(question="What is the capital of France?", temperature=0.1, stream=True)
    assert "".join(state.text_iter()) == state.text()
    state = multi_turn_question.run(question_1="Who?", question_2="Why?", stream=True)
    pieces = list(state.text_iter("answer_2"))
    assert "".join(pieces) == state["answer_2"]


def test_streaming_to_async_code():
    async def stream():
        state = multi_turn_question.run(question_1="Who?", question_2="Why?", stream=True)
        text = "".join([out async for out in state.text_async_iter("answer_2")])
        return text, state

    text, state = asyncio.run(stream())
    assert text == state["answer_2"]


def test_chat_example():
    @function
    def chat_example(s):
        s += system("You are a helpful assistant.")
        # Same as: s += s.system("You are a helpful assistant.")

        with s.user():
            s += "Question: What is the capital of France?"

        s += assistant_begin()
        s += "Answer: " + gen("answer", max_tokens=20, stop="\n")
        s += assistant_end()

    state = chat_example()
    assert state.messages()[-1]["content"] == "Answer: " + state["answer"]


def test_parallel_sample():
    @function
    def parallel_sample(s, question, n):
        s += "Question: Compute 1 + 2 + 3\nReasoning: I need a calculator.\nTool: calculator\nAnswer: 6\n"
        s += "Question: " + question + "\n"
        forks = s.fork(n)
        forks += "Reasoning:" + gen("reasoning", stop="\n", max_tokens=16) + "\n"
        forks += "Tool:" + gen("tool", choices=["calculator", "browser"]) + "\n"
        forks += "Answer:" + gen("answer", stop="\n", max_tokens=8) + "\n"
        forks.join()

    state = parallel_sample.run(question="Compute 5 + 2 + 4.", n=5, temperature=1.0)
    assert len(state["reasoning"]) == len(state["answer"]) == 5
    assert set(state["tool"]) <= {"calculator", "browser"}


def test_images_are_refused():
    @function
    def image_qa(s, image_file, question):
        s += user(image(image_file) + question)
        s += assistant(gen("answer", max_tokens=256))

    with pytest.raises(ProgramError, match="images"):
        image_qa.run("cat.png", "What is in the image?")


@pytest.mark.parametrize(
    "method", [token_length_normalized, greedy_token_selection, unconditional_likelihood_normalized]
)
@pytest.mark.parametrize("chat", [False, True])
def test_select(method, chat, rt):
    @function
    def chosen(s):
        if chat:
            s += user("What is the capital of France?") + assistant("It is" + choice())
        else:
            s += "The capital of France is" + choice()

    def choice():
        return select("city", choices=[" Paris", " Washington", " Rome"], choices_method=method)

    state = chosen.run()
    assert state["city"] == " Paris"
    assert state.text().endswith("is Paris")
    (paris,) = state.scores("city")[" Paris"]
    if not chat:
        scored = rt.client.generate("The capital of France is", choices=[" Paris"], max_tokens=1)
        assert scored.text == " Paris"
        assert paris == max(sum(each) for each in state.scores("city").values())


def test_a_choice_may_share_a_token_with_what_is_before_it():
    @function
    def chosen(s):
        s += "The answer is y"
        s += select("rest", choices=["es", "ear"])

    assert all(state for state in chosen.run().scores("rest").values())


def test_types():
    @function
    def typed(s):
        s += "The year, the count, the truth, the name: "
        s += gen("year", regex=r"(19|20)[0-9]{2}", dtype=None)
        s += " " + gen_int("count", max_tokens=24)
        s += " " + gen("share", dtype=float, max_tokens=40)
        s += " " + gen("truth", dtype=bool)
        s += " " + gen_string("name", max_tokens=200, stop=None)

    state = typed.run(temperature=0)
    assert [type(state[name]) for name in ("count", "share", "truth", "name")] == [int, float, bool, str]
    assert str(state["count"]) in state.text()
    assert f'"{state["name"]}"' in state.text()


@pytest.mark.parametrize("dtype", [int, float])
def test_a_number_in_running_text_ends_as_text_ends_it(dtype):
    @function
    def counted(s):
        s += "One week has 7 days, one year has 12 months, and one day has " + gen("hours", dtype=dtype)
        s += " hours."

    state = counted.run(temperature=0)
    assert state.generation("hours").completion_tokens < 8
    assert state.text().endswith(f"has {state['hours']:g} hours.")


class Home(BaseModel):
    street: str = Field(max_length=8)
    number: int = Field(ge=1, le=999)


class Person(BaseModel):
    name: str = Field(max_length=8)
    age: int = Field(ge=0, le=120)
    mood: Literal["glad", "sad"]
    homes: list[Home] = Field(min_length=1, max_length=2)
    pet: str | None = Field(max_length=8)


@dataclass
class Pet:
    kind: Literal["cat", "dog"]
    name: Annotated[str, Meta(max_length=8)]


@function
def described(s, place, model):
    s += user(f"Describe person {place} as JSON.")
    s += assistant(gen("person", json_schema=model, max_tokens=200))


@pytest.mark.parametrize("count", [40, pytest.param(200, marks=pytest.mark.soak)])
def test_generations_into_a_nested_model(count):
    states = described.run_batch([{"place": place, "model": Person} for place in range(count)])
    people = [state["person"] for state in states]
    assert all(type(person) is Person for person in people)
    assert all(isinstance(home, Home) for person in people for home in person.homes)
    assert len({person.name for person in people}) > count // 20
    assert Person.model_validate_json(states[0].messages()[-1]["content"]) == people[0]


def test_a_dataclass():
    assert isinstance(described.run(1, Pet)["person"], Pet)


def test_several_samples():
    @function
    def sampled(s):
        s += "My name is" + gen("name", n=3, max_tokens=4)

    state = sampled.run()
    assert len(state["name"]) == 3
    assert state.text() == "My name is" + state["name"][0]


SHOTS = "".join(
    f"Review: film {i} was {'fine' if i % 2 else 'bad'}\nMood: {'glad' if i % 2 else 'sad'}\n" for i in range(30)
)


def test_a_batch_computes_its_prefix_once(rt):
    @function
    def classified(s, review):
        s += "A batch.\n" + SHOTS + "Review: " + review + "\nMood:"
        s += gen("mood", choices=[" glad", " sad"])

    prefix = rt.client.generate("A batch.\n" + SHOTS + "Review:", max_tokens=0).prompt_tokens
    states = classified.run_batch([{"review": f"the {i}th was fine"} for i in range(32)])
    cached = [state.generation("mood").cached_tokens for state in states]
    assert sum(cached) >= 0.98 * prefix * (len(states) - 1)


def test_branches_compute_what_they_share_once():
    @function
    def tree(s):
        s += "A tree.\n" + SHOTS + gen("start", max_tokens=16)
        forks = s.fork(8)
        for i, f in enumerate(forks):
            f += f"\nWay {i}:" + gen("way", max_tokens=8)
        forks.join()

    state = tree.run()
    start = state.generation("start")
    shared = start.prompt_tokens + start.completion_tokens
    cached = [branch.cached_tokens for branch in state.generations("way")]
    assert sum(cached) >= 0.98 * 8 * (shared - 2)  # the text's last token may be another one once more follows


def test_a_refusal_names_the_field_and_the_request():
    @function
    def program(s):
        s += "x" + gen("y", regex="(?=a)b", max_tokens=4)

    with pytest.raises(ServerError) as raised:
        program.run()
    assert raised.value.param == "sampling_params.regex"
    assert raised.value.status == 400
    assert raised.value.request_id


def test_the_client(rt):
    question = "What is the capital of France?"
    with Client(rt.url) as client:
        assert client.health()["status"] == "healthy"
        assert client.models()
        answer = client.chat(question, temperature=0, max_tokens=24)
        assert "Paris" in answer
        messages = [{"role": "user", "content": question}]
        assert "".join(client.stream(messages, temperature=0, max_tokens=24)) == answer
        with pytest.raises(ServerError):
            client.complete("x", max_tokens=2, stop=[""])
