"""Whose text is asked next."""

import asyncio

import pytest

from services.gateway.text_turns import TextTurns


class Bench:
    """Turns whose ends the test decides."""

    def __init__(self, at_once):
        self.turns = TextTurns(at_once)
        self.begun = []
        self._ends = {}

    async def ask(self, tenant, name):
        self._ends[name] = asyncio.Event()
        task = asyncio.create_task(self._hold(tenant, name))
        await settle()
        return task

    async def end(self, name):
        self._ends[name].set()
        await settle()

    async def _hold(self, tenant, name):
        async with self.turns.turn(tenant):
            self.begun.append(name)
            await self._ends[name].wait()


async def settle():
    for _ in range(5):
        await asyncio.sleep(0)


async def test_a_tenant_waits_for_one_of_anothers_and_not_for_all():
    bench = Bench(at_once=2)
    for number in range(5):
        await bench.ask("alice", f"a{number}")
    await bench.ask("bob", "b")
    assert bench.begun == ["a0", "a1"]
    await bench.end("a0")
    await bench.end("a1")
    assert "b" in bench.begun
    assert len(bench.begun) == 4


async def test_who_gives_up_is_passed_over():
    bench = Bench(at_once=1)
    tasks = [await bench.ask("", name) for name in "abc"]
    tasks[1].cancel()
    await settle()
    await bench.end("a")
    assert bench.begun == ["a", "c"]


async def test_who_is_cancelled_in_the_moment_of_being_called_takes_no_turn_along():
    bench = Bench(at_once=1)
    tasks = [await bench.ask("", name) for name in "abc"]
    bench._ends["a"].set()
    await asyncio.sleep(0)  # the first has ended, the second has not begun
    tasks[1].cancel()
    await settle()
    assert bench.begun == ["a", "c"]


async def test_a_turn_that_fails_ends():
    turns = TextTurns(at_once=1)
    for _ in range(2):
        with pytest.raises(ValueError, match="no"):
            async with turns.turn("a"):
                raise ValueError("no")
