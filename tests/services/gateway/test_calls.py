"""Questions on the side: who is asked, and what ends the waiting."""

import asyncio

import pytest

from services.gateway.calls import Calls
from services.gateway.errors import ApiError


class Peers:
    """Every question is taken by whom it is sent to, unless that one is deaf."""

    def __init__(self, *deaf):
        self.deaf = deaf
        self.asked = []  # (peer, call_id)

    def send(self, peer, call_id):
        if peer in self.deaf:
            return False
        self.asked.append((peer, call_id))
        return True


async def asking(calls, peers, *names, timeout_s=60.0):
    """A question that is on its way."""
    task = asyncio.create_task(calls.ask(names, peers.send, timeout_s))
    await asyncio.sleep(0)
    return task


async def test_each_gets_the_answer_to_its_own_question():
    calls, peers = Calls("tokenizer"), Peers()
    tasks = [await asking(calls, peers, "a") for _ in range(3)]
    for number, (_, call_id) in reversed(list(enumerate(peers.asked))):
        calls.answered(call_id, number)
    assert await asyncio.gather(*tasks) == [0, 1, 2]
    assert len(calls) == 0


async def test_who_has_the_fewest_questions_is_asked_next():
    calls, peers = Calls("tokenizer"), Peers()
    tasks = [await asking(calls, peers, "a", "b") for _ in range(4)]
    assert [peer for peer, _ in peers.asked] == ["a", "b", "a", "b"]
    for _, call_id in peers.asked[1::2]:
        calls.answered(call_id, "done")
    await asyncio.sleep(0)
    tasks += [await asking(calls, peers, "a", "b")]
    assert peers.asked[-1][0] == "b"
    for _, call_id in peers.asked:
        calls.answered(call_id, "done")
    await asyncio.gather(*tasks)


async def test_who_cannot_be_reached_is_passed_over():
    calls, peers = Calls("tokenizer"), Peers("a")
    task = await asking(calls, peers, "a", "b")
    calls.answered(peers.asked[0][1], "yes")
    assert (peers.asked[0][0], await task) == ("b", "yes")


@pytest.mark.parametrize("names", [(), ("a",)])
async def test_nobody_to_ask(names):
    calls = Calls("tokenizer")
    with pytest.raises(ApiError, match="no tokenizer is connected") as refusal:
        await calls.ask(names, Peers("a").send, 60.0)
    assert refusal.value.error.status == 503
    assert len(calls) == 0


async def test_who_leaves_answers_no_more_and_the_others_do():
    calls, peers = Calls("tokenizer"), Peers()
    tasks = [await asking(calls, peers, "a", "b") for _ in range(2)]
    calls.left("a")
    calls.answered(peers.asked[1][1], "yes")
    with pytest.raises(ApiError, match="no tokenizer is connected"):
        await tasks[0]
    assert await tasks[1] == "yes"
    assert len(calls) == 0


async def test_too_late():
    calls, peers = Calls("scheduler"), Peers()
    with pytest.raises(ApiError, match="the scheduler did not answer within 0 s") as late:
        await calls.ask(["a"], peers.send, 0)
    assert late.value.error.status == 504
    calls.answered(peers.asked[0][1], "now")
    assert len(calls) == 0
