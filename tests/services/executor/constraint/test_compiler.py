"""Compiled once for all who ask, refused once for all who ask, and nothing remembered of our own mistakes."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from services.executor.constraint import compiler as module
from services.executor.constraint.cache import GrammarCache
from services.executor.constraint.compiler import Compiler
from services.executor.constraint.engine import GrammarFailed
from services.executor.constraint.job import Answer, Broken, Done, Interrupted, TooComplex, Wrong
from services.executor.constraint.sandbox import SandboxDown
from shared import wire
from shared.constraints import key_of


@dataclass
class Sized:
    key: str
    text: str
    size_bytes: int = 10


@dataclass
class World:
    """Time, the process that compiles, and the engine."""

    now: float = 0.0
    answer: Answer | Exception = field(default_factory=lambda: Done("text"))
    jobs: list[str] = field(default_factory=list)  # their sources
    built: list[str] = field(default_factory=list)
    fault: GrammarFailed | None = None
    gate: asyncio.Event = field(default_factory=asyncio.Event)

    def __post_init__(self) -> None:
        self.gate.set()
        self.cache = GrammarCache(25, clock=lambda: self.now)
        self.compiler = Compiler(self.cache, self, self.build)

    def build(self, key: str, text: str) -> Any:
        if self.fault is not None:
            raise self.fault
        self.built.append(text)
        return Sized(key, text)

    def warm_up(self) -> None:
        pass

    async def run(self, constraint: wire.Constraint) -> Answer:
        self.jobs.append(constraint.source)
        await self.gate.wait()
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer

    async def close(self) -> None:
        self.gate.clear()


@pytest.fixture
async def world() -> AsyncIterator[World]:
    world = World()
    yield world
    await world.compiler.close()


def regex(source: str = "a") -> wire.Constraint:
    return wire.Constraint("regex", source)


async def test_a_grammar_comes_into_the_cache_and_is_not_compiled_again(world: World) -> None:
    assert await world.compiler.compile(regex()) is None
    found: Any = world.cache.get(key_of(regex()))
    assert found == Sized(key_of(regex()), "text")
    assert await world.compiler.compile(regex()) is None
    assert (world.jobs, world.built, world.cache.compiled) == (["a"], ["text"], 1)


async def test_ten_who_ask_together_cost_one_job(world: World) -> None:
    world.gate.clear()
    asked = [asyncio.create_task(world.compiler.compile(regex())) for _ in range(10)]
    await asyncio.sleep(0)
    world.gate.set()
    assert await asyncio.gather(*asked) == [None] * 10
    assert (world.jobs, world.built) == (["a"], ["text"])


async def test_one_who_goes_away_takes_nothing_from_the_others(world: World) -> None:
    world.gate.clear()
    first, second = (asyncio.create_task(world.compiler.compile(regex())) for _ in range(2))
    await asyncio.sleep(0)
    first.cancel()
    await asyncio.sleep(0)
    world.gate.set()
    assert await second is None
    assert world.jobs == ["a"]


async def test_one_that_was_evicted_is_built_again_without_the_sandbox(world: World) -> None:
    for source in "abca":
        assert await world.compiler.compile(regex(source)) is None
    assert world.jobs == ["a", "b", "c"]
    assert len(world.built) == 4


async def test_tenants_have_their_turns(world: World) -> None:
    world.gate.clear()
    asked = [asyncio.create_task(world.compiler.compile(regex(f"mine {number:03}"), "greedy")) for number in range(50)]
    await asyncio.sleep(0)
    asked.append(asyncio.create_task(world.compiler.compile(regex("yours"), "other")))
    await asyncio.sleep(0)
    world.gate.set()
    assert await asyncio.gather(*asked) == [None] * 51
    assert "yours" in world.jobs[1:3]


async def test_what_another_tenant_has_in_line_comes_at_the_turn_of_either(world: World) -> None:
    world.gate.clear()
    sources = [f"mine {number:03}" for number in range(50)]
    asked = [asyncio.create_task(world.compiler.compile(regex(source), "greedy")) for source in sources]
    await asyncio.sleep(0)
    asked.append(asyncio.create_task(world.compiler.compile(regex(sources[25]), "other")))
    await asyncio.sleep(0)
    world.gate.set()
    assert await asyncio.gather(*asked) == [None] * 51
    assert sources[25] in world.jobs[1:3]
    assert sorted(world.jobs) == sources


async def test_a_tenant_with_too_many_in_line_is_sent_away_alone(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_WAITING_OF_TENANT", 2)
    world.gate.clear()
    waiting = []
    for source in "abc":
        waiting.append(asyncio.create_task(world.compiler.compile(regex(source), "greedy")))
        while not world.jobs:  # the first is under way, the others wait
            await asyncio.sleep(0)
    await asyncio.sleep(0)
    error = await world.compiler.compile(regex("e"), "greedy")
    assert error is not None
    assert (error.status, error.retry_after_s) == (429, module.RETRY_S)
    waiting.append(asyncio.create_task(world.compiler.compile(regex("e"), "other")))
    await asyncio.sleep(0)
    waiting.append(asyncio.create_task(world.compiler.compile(regex("e"), "greedy")))
    await asyncio.sleep(0)
    world.gate.set()
    assert await asyncio.gather(*waiting) == [None] * 5


async def test_a_mistake_is_refused_with_its_place_and_remembered(world: World) -> None:
    world.answer = Wrong("not regular: position 3", ("properties", "a", 0))
    error = wire.Error("not regular: position 3", "invalid_constraint", "constraint.properties.a.0", 400)
    assert await world.compiler.compile(regex()) == error
    world.now = 10.0**9
    assert await world.compiler.compile(regex()) == error
    assert (world.jobs, world.cache.refused) == (["a"], 1)


async def test_what_is_too_complex_is_refused_for_a_while(world: World) -> None:
    world.answer = TooComplex("over 2 s")
    error = wire.Error("over 2 s", "constraint_too_complex", "constraint", 400)
    assert await world.compiler.compile(regex()) == await world.compiler.compile(regex()) == error
    assert world.jobs == ["a"]
    world.now = module.COMPLEX_FOR_S
    world.answer = Done("text")
    assert await world.compiler.compile(regex()) is None


async def test_where_the_machine_may_have_been_at_fault_it_is_soon_tried_again(world: World) -> None:
    world.answer = Interrupted("over 25 s")
    error = wire.Error("over 25 s", "constraint_too_complex", "constraint", 400)
    assert await world.compiler.compile(regex()) == await world.compiler.compile(regex()) == error
    assert world.jobs == ["a"]
    world.now = module.INTERRUPTED_FOR_S
    world.answer = Done("text")
    assert await world.compiler.compile(regex()) is None


@pytest.mark.parametrize("mistake", [Broken("KeyError"), SandboxDown("no memory"), ValueError("what")])
async def test_our_own_mistake_is_said_to_be_one_and_forgotten(world: World, mistake: Answer | Exception) -> None:
    world.answer = mistake
    error = await world.compiler.compile(regex())
    assert error is not None
    assert (error.status, error.code) == (500, "internal_error")
    world.answer = Done("text")
    assert await world.compiler.compile(regex()) is None


async def test_what_fails_here_though_it_came_through_the_sandbox(world: World) -> None:
    world.fault = GrammarFailed("too big")
    error = await world.compiler.compile(regex())
    assert error is not None
    assert (error.status, error.code, error.message) == (400, "invalid_constraint", "too big")
    world.fault, world.now = None, module.COMPLEX_FOR_S
    assert await world.compiler.compile(regex()) is None
    assert len(world.jobs) == 2


async def test_a_long_message_is_cut(world: World) -> None:
    world.answer = Wrong("x" * 100_000)
    error = await world.compiler.compile(regex())
    assert error is not None
    assert len(error.message) == module.MESSAGE_CHARACTERS


async def test_beyond_so_many_that_wait_one_is_sent_away_for_now(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_WAITING", 2)
    world.gate.clear()
    waiting = [asyncio.create_task(world.compiler.compile(regex(source))) for source in "ab"]
    await asyncio.sleep(0)
    error = await world.compiler.compile(regex("c"))
    assert error is not None
    assert (error.status, error.retry_after_s) == (503, module.RETRY_S)
    again = asyncio.create_task(world.compiler.compile(regex("a")))
    await asyncio.sleep(0)
    world.gate.set()
    assert await asyncio.gather(*waiting, again) == [None] * 3
    assert await world.compiler.compile(regex("c")) is None


async def test_closing_ends_what_is_under_way() -> None:
    world = World()
    world.gate.clear()
    waiting = asyncio.create_task(world.compiler.compile(regex()))
    await asyncio.sleep(0)
    await world.compiler.close()
    with pytest.raises(asyncio.CancelledError):
        await waiting
