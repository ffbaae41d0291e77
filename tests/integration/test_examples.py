"""The documents' tutorial programs against the real model: what they give, and that they run as they are shown to."""

import json
import subprocess
import sys
from itertools import pairwise

import pytest

from docs.examples import (
    agent_with_api,
    few_shot_classifier,
    json_extraction,
    multi_turn_chat,
    parallel_tips,
    self_consistency,
    ticket_routing,
    tree_of_thought,
)
from docs.examples.agent_with_api import Exchange
from docs.examples.json_extraction import Item, Order
from sapwood import CallRefused, set_api_hosts, set_default_backend
from tests.support.loopback_json import answering

RATES = {"USD": 1.1, "EUR": 0.9, "GBP": 0.8, "JPY": 150.0}


@pytest.fixture(autouse=True)
def default(server):
    set_default_backend(server.url)


@pytest.fixture(scope="module")
def rates_host():
    with answering(lambda path: {"asked": path, "rates": RATES}) as host:
        yield host


@pytest.fixture
def listed(rates_host):
    set_api_hosts([rates_host])
    yield rates_host
    set_api_hosts([])


def roles(state):
    return [message["role"] for message in state.messages()]


def test_multi_turn_chat():
    state = multi_turn_chat.chat.run(multi_turn_chat.QUESTIONS, temperature=0)
    assert roles(state) == ["system", *["user", "assistant"] * 3]
    asked = [message["content"] for message in state.messages() if message["role"] == "user"]
    assert asked == list(multi_turn_chat.QUESTIONS)
    assert "Paris" in state["answer_1"]
    assert state.messages()[-1]["content"] == state["answer_3"]
    turns = [state.generation(f"answer_{turn}") for turn in (1, 2, 3)]
    for before, after in pairwise(turns):
        assert after.cached_tokens >= before.prompt_tokens


def test_few_shot_classifier():
    moods = few_shot_classifier.moods_of(few_shot_classifier.REVIEWS)
    assert moods == ["positive", "negative"] * 2
    assert few_shot_classifier.moods_of(few_shot_classifier.REVIEWS[::-1]) == moods[::-1]


@pytest.mark.parametrize("ticket", ticket_routing.TICKETS)
def test_ticket_routing(ticket):
    state = ticket_routing.route.run(ticket, temperature=0)
    desk = ticket_routing.DESKS[ticket_routing.TICKETS.index(ticket)]
    assert state["desk"] == desk
    assert ("parcel" in state, "amount" in state) == (desk == "delivery", desk == "refund")
    if desk == "delivery":
        assert json.loads(state["parcel"])["status"] in ("packed", "on its way", "lost")
    if desk == "refund":
        assert float(state["amount"].removeprefix("$")) >= 0
    branch = [] if desk == "praise" else ["user", "assistant"]
    assert roles(state) == ["system", "user", "assistant", *branch, "user", "assistant"]
    assert state.messages()[-1]["content"] == state["reply"] != ""


def test_tree_of_thought():
    state = tree_of_thought.solve.run(tree_of_thought.PROBLEM, depth=3, width=3, temperature=0)
    graded = state.result
    assert len(graded) == 27
    grades = [grade for grade, _ in graded]
    assert grades == sorted(grades, reverse=True)
    assert set(grades) <= {1, 2, 3, 4, 5}
    assert all(int(leaf["grade"]) == grade for grade, leaf in graded)
    assert all(roles(leaf) == ["user", "assistant"] * 5 for _, leaf in graded)
    ways = [tuple(message["content"] for message in leaf.messages()[:-2]) for _, leaf in graded]
    assert len({way[:4] for way in ways}) <= 3
    assert len({way[:6] for way in ways}) <= 9


def test_parallel_tips():
    state = parallel_tips.advise.run(parallel_tips.TIPS, temperature=0)
    reasons = state["reason"]
    assert len(reasons) == 3
    assert all(reasons)
    lines = state.text().splitlines()
    tips = [tip.capitalize() for tip in parallel_tips.TIPS]
    assert lines[2:5] == [f"{i}. {tip}:{reason}" for i, tip, reason in zip((1, 2, 3), tips, reasons, strict=True)]
    assert lines[-1] == "In short, a healthy life" + state["summary"]


def test_json_extraction():
    state = json_extraction.extract.run(json_extraction.ORDER, temperature=0)
    order = state.result
    assert type(order) is Order
    assert order.customer == "Ada"
    assert order.is_urgent is True
    assert all(type(item) is Item and item.size in ("small", "large") for item in order.items)
    assert [item.count for item in order.items] == [2, 1]
    assert json.loads(state.messages()[-1]["content"])["customer"] == "Ada"


def test_agent_with_api(listed):
    state = agent_with_api.exchange.run(agent_with_api.QUESTION, f"http://{listed}/latest", temperature=0)
    assert state["asked"] == Exchange(amount=20, base="USD", wanted="EUR")
    assert state["rates"] == {"asked": "/latest?base=USD&symbols=EUR", "rates": RATES}
    assert state.result == pytest.approx(18)
    assert "18.00 EUR" in state.text()
    assert roles(state) == ["system", "user", "assistant", "user", "user", "assistant"]
    assert state["answer"]


def test_the_agent_says_if_nobody_answers(server):
    with pytest.raises(SystemExit, match=r"^no rates: 127\.0\.0\.1:9"):
        agent_with_api.main(server.url, "http://127.0.0.1:9/latest")


def test_the_agent_calls_nobody_else(rates_host):
    with pytest.raises(CallRefused):
        agent_with_api.exchange.run(agent_with_api.QUESTION, f"http://{rates_host}/latest", temperature=0)


def test_self_consistency():
    state = self_consistency.vote.run(self_consistency.QUESTION, samples=8, temperature=0.7, seed=1)
    assert len(state["thoughts"]) == 8
    assert len(set(state["thoughts"])) > 1
    votes = state.result
    assert votes.total() == 8
    assert votes.most_common(1)[0][0] == 8


SAID = {
    "multi_turn_chat": ["Paris", "tokens in the cache"],
    "few_shot_classifier": ["positive: What a wonderful", "negative: Terrible"],
    "ticket_routing": ["the desk: delivery", "the desk: refund", "the desk: praise"],
    "tree_of_thought": ["The best of 27 ways"],
    "parallel_tips": ["1. Eat well:", "2. Move every day:", "3. Sleep enough:", "In short"],
    "json_extraction": ["Ada urgently wants:", "- 2 ×", "- 1 ×"],
    "agent_with_api": ["18.00 EUR"],
    "self_consistency": ["of 8"],
}


@pytest.mark.parametrize("name", SAID)
def test_as_a_command(name, server, rates_host, repository):
    command = [sys.executable, f"docs/examples/{name}.py", server.url]
    if name == "agent_with_api":
        command.append(f"http://{rates_host}/latest")
    done = subprocess.run(command, cwd=repository, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    places = [done.stdout.find(text) for text in SAID[name]]
    assert -1 not in places, done.stdout
    assert places == sorted(places)


def test_every_example_is_here(repository):
    assert {path.stem for path in (repository / "docs/examples").glob("*.py")} == set(SAID)
