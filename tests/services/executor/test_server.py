from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
import structlog
from torch import Tensor

from services.executor.admission import UNCONSTRAINED
from services.executor.assembly import Assembled
from services.executor.kv_pool import make_pool
from services.executor.model.forward import Batch
from services.executor.radix_cache import RadixCache
from services.executor.server import ExecutorService
from services.executor.slots import SlotAllocator
from services.executor.step import StepRunner
from services.executor.worker import Gap
from shared import wire
from shared.config import Config, ConfigError, LinksConfig, LoggingConfig
from shared.constraints import key_of
from shared.link import BoundLink, Joined, Left, LinkEvent, Received
from shared.service import Context
from shared.transport import MemoryTransport
from tests.support.recording_model import RecordingModel, continuation
from tests.support.tree_replica import Replica

INFO = wire.ExecutorInfo("recording", capacity_tokens=200, page_size=1, max_batch=8, max_model_len=100)
GREEDY = wire.Sampling(seed=0, temperature=0.0)
PROMPT = tuple(range(10))


class GatedModel(RecordingModel):
    """A forward that can be held up."""

    def __init__(self) -> None:
        super().__init__()
        self.entered = threading.Event()
        self.gate = threading.Event()
        self.gate.set()

    def forward(self, batch: Batch, keys: Tensor, values: Tensor) -> Tensor:
        self.entered.set()
        assert self.gate.wait(10)
        return super().forward(batch, keys, values)

    def hold(self) -> None:
        self.entered.clear()
        self.gate.clear()


@dataclass
class Hub:
    """The scheduler's end, and the world around the executor."""

    transport: MemoryTransport = field(default_factory=MemoryTransport)
    model: GatedModel = field(default_factory=GatedModel)
    now: float = 0.0
    joined: list[wire.Hello] = field(default_factory=list)
    left: list[str] = field(default_factory=list)
    received: list[Any] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    seq: int = 0
    tree: Replica | None = None  # a copy of the executor's, under this grant
    trees_told: int = 0  # outside of steps
    compiler: Any = None  # of constraints

    def __post_init__(self) -> None:
        self.link = BoundLink(
            self.transport, "hub", wire.HUB_ACCEPTS, self.on_event, identity="scheduler", clock=lambda: self.now
        )
        config = Config(links=LinksConfig(hub="hub"), logging=LoggingConfig(tree_every_s=2.0))
        context = Context(config, "executor-1", "executor", self.transport, self.failures.append)
        self.executor = ExecutorService(context, self.assemble, clock=lambda: self.now)

    def assemble(self) -> Assembled:
        slots = SlotAllocator(INFO.capacity_tokens)
        pool = make_pool(self.model.shape, INFO.capacity_tokens, device=self.model.device, dtype=self.model.dtype)
        runner = StepRunner(self.model, pool, slots, RadixCache(slots), eos_token_ids=(), max_model_len=100)
        return Assembled(runner, INFO, self.compiler)

    def on_event(self, event: LinkEvent) -> None:
        match event:
            case Joined(_, hello):
                assert hello is not None
                self.joined.append(hello)
                self.tree = None
            case Left(_, reason):
                self.left.append(reason)
            case Received(_, wire.Heartbeat()):
                pass
            case Received(_, wire.TreeChanged(events)):
                self.tree = self.tree or Replica()
                self.tree.apply(events)
                self.trees_told += 1
            case Received(_, message):
                assert self.tree is not None, "something else is said before the tree"
                if isinstance(message, wire.StepResult):
                    self.tree.apply(message.events)
                self.received.append(message)

    async def connect(self) -> None:
        await self.executor.start()
        await self.executor.refresh()
        self.executor.tick()
        await self.until(lambda: self.tree is not None)

    async def until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(10):
            while not condition():
                self.transport.pump()
                await asyncio.sleep(0)
            self.transport.pump()

    async def receive(self) -> Any:
        await self.until(lambda: bool(self.received))
        return self.received.pop(0)

    def send(self, message: wire.Message) -> None:
        assert self.link.send("executor", message)
        self.transport.pump()

    def plan(self, **plan: Any) -> None:
        self.seq += 1
        self.send(wire.StepPlan(self.seq, **plan))

    async def step(self, **plan: Any) -> wire.StepResult:
        self.plan(**plan)
        result = await self.receive()
        assert isinstance(result, wire.StepResult)
        return result

    def prefixes(self) -> set[tuple[int, ...]]:
        assert self.tree is not None
        return {tokens for _, tokens in self.tree.prefixes(INFO.page_size)}

    async def ask(self, op: Any, timeout_s: float = 5.0, *, text: bool = False) -> wire.AdminReply:
        self.send(wire.Admin("call", op, timeout_s, text))
        reply = await self.receive()
        assert isinstance(reply, wire.AdminReply)
        assert reply.call_id == "call"
        return reply

    async def held_in_a_step(self) -> None:
        """A step that admits lane 0 and computes its prompt is in hand, and stays so."""
        self.model.hold()
        self.plan(admits=(admit(0),), slices=(wire.Slice(0, 10),))
        await self.until(self.model.entered.is_set)


@pytest.fixture
async def hub() -> AsyncIterator[Hub]:
    hub = Hub()
    await hub.connect()
    yield hub
    hub.model.gate.set()
    await hub.executor.stop()


def admit(lane: int, max_new_tokens: int = 3) -> wire.Admit:
    return wire.Admit(lane, f"request-{lane}", PROMPT, GREEDY, max_new_tokens)


async def test_it_introduces_itself_once_it_has_loaded(hub: Hub) -> None:
    assert hub.joined == [wire.Hello("executor", wire.PROTOCOL, "executor-1", INFO)]


async def test_steps_and_tree_are_told_once_in_a_while(hub: Hub) -> None:
    async def later(seconds: float) -> list[str]:
        hub.now += seconds
        hub.executor.tick()
        await hub.ask("counters")  # the step thread has done by then what it was told before
        told, lines[:] = lines[:], []
        return [line["event"] for line in told]

    with structlog.testing.capture_logs() as lines:
        await hub.step(admits=(admit(0),), slices=(wire.Slice(0, 10),))
        await hub.step(slices=(wire.Slice(0, 1),))
        hub.executor.tick()
        await hub.until(lambda: len(lines) == 3)
        matched, step, tree = lines
        assert (matched["event"], matched["request_id"]) == ("matched", "request-0")
        assert step.items() >= {"event": "step", "steps": 2, "computed_tokens": 11, "batch": 1.0, "running": 1}.items()
        assert (step["kv_total"], step["kv_pinned"], step["tree_tokens"]) == (200, 11, 11)
        assert (tree["event"], sum(tokens for _, _, tokens, *_ in tree["nodes"]), tree["tree_tokens"]) == (
            "tree",
            11,
            11,
        )
        lines.clear()
        await hub.step(slices=(wire.Slice(0, 1),))
        assert await later(0.5) == []
        assert await later(1.0) == ["step"]
        assert await later(1.0) == ["tree"]
        assert await later(2.0) == []  # nothing has changed


async def test_plans_become_results_in_order(hub: Hub) -> None:
    hub.plan(admits=(admit(0),), slices=(wire.Slice(0, 10),))
    hub.plan(slices=(wire.Slice(0, 1),))
    hub.plan(slices=(wire.Slice(0, 1),))
    results = [await hub.receive() for _ in range(3)]
    assert [result.seq for result in results] == [1, 2, 3]
    found = [token for result in results for outcome in result.outcomes for token in outcome.new_token_ids]
    assert found == continuation(PROMPT, 3)
    assert results[-1].capacity == wire.Capacity(188, 12, 0, {"": 12})


async def test_a_cancel_overtakes_the_plans_that_wait(hub: Hub) -> None:
    await hub.held_in_a_step()
    hub.plan(slices=(wire.Slice(0, 1),))
    hub.send(wire.Cancel((0,)))
    hub.model.gate.set()
    assert len((await hub.receive()).outcomes) == 1
    assert (await hub.receive()).outcomes == ()


async def test_a_step_that_hangs_shows_in_the_progress(hub: Hub) -> None:
    await hub.step(admits=(admit(1),))
    await hub.held_in_a_step()
    hub.now = 30.0
    progress = hub.executor.progress()
    assert (progress.last_seq, progress.step_age_s, progress.peers) == (1, 30.0, {"scheduler": 1})
    hub.model.gate.set()
    await hub.receive()
    progress = hub.executor.progress()
    assert (progress.last_seq, progress.step_age_s, progress.waiting, progress.running) == (2, 0.0, 1, 1)


async def test_a_new_grant_releases_the_lanes_and_keeps_the_tree(hub: Hub) -> None:
    await hub.step(admits=(admit(0),), slices=(wire.Slice(0, 10),))
    hub.link.drop("executor", "test")
    hub.executor.tick()
    await hub.until(lambda: len(hub.joined) == 2)
    hub.seq = 40
    await hub.until(lambda: hub.tree is not None)
    assert PROMPT in hub.prefixes()
    result = await hub.step(admits=(admit(0),), slices=(wire.Slice(0, 1),))
    assert result.outcomes[0].cached_tokens == 9
    assert result.capacity == wire.Capacity(190, 0, 10)


async def test_results_of_an_old_grant_stay_away_from_the_new_one(hub: Hub) -> None:
    await hub.held_in_a_step()
    hub.plan(slices=(wire.Slice(0, 1),))
    hub.link.drop("executor", "test")
    hub.executor.tick()
    await hub.until(lambda: len(hub.joined) == 2)
    hub.model.gate.set()
    hub.seq = 0
    result = await hub.step()
    assert (result.seq, result.outcomes) == (1, ())
    assert hub.received == []
    assert PROMPT in hub.prefixes()


async def test_a_scheduler_that_left_leaves_no_lanes(hub: Hub) -> None:
    await hub.step(admits=(admit(0), admit(1)), slices=(wire.Slice(0, 10),))
    hub.now = 100.0
    hub.executor.tick()
    await hub.until(lambda: hub.executor.progress().running == 0)
    assert hub.executor.progress().waiting == 0


async def test_a_gap_in_the_plans_begins_a_new_grant_releases_the_lanes_and_keeps_the_tree(hub: Hub) -> None:
    await hub.step(admits=(admit(0), admit(1)), slices=(wire.Slice(0, 10),))
    hub.seq += 1
    hub.plan(slices=(wire.Slice(0, 1),))
    hub.plan(slices=(wire.Slice(0, 1),))
    await hub.until(lambda: len(hub.joined) == 2)
    hub.seq = 0
    result = await hub.step(admits=(admit(0),), slices=(wire.Slice(0, 1),))
    assert (result.seq, result.outcomes[0].cached_tokens) == (1, 9)
    assert result.capacity == wire.Capacity(190, 0, 10)
    assert (hub.received, hub.failures, len(hub.joined)) == ([], [], 2)


async def test_a_gap_of_an_old_grant_is_of_no_account(hub: Hub) -> None:
    await hub.step()
    hub.executor._on_event(Gap(epoch=0, due_seq=2, arrived_seq=3))
    hub.executor.tick()
    await hub.step()
    assert len(hub.joined) == 1


# --- constraints -----------------------------------------------------------------------------------------------------


class GatedCompiler:
    """Refuses patterns that begin with a question mark, once it is let."""

    def __init__(self) -> None:
        self.gate = asyncio.Event()
        self.is_warm = self.is_closed = False

    def warm_up(self) -> None:
        self.is_warm = True

    async def compile(self, constraint: wire.Constraint, tenant: str) -> wire.Error | None:
        await self.gate.wait()
        return wire.Error("no", param="constraint") if constraint.source.startswith("?") else None

    async def close(self) -> None:
        self.is_closed = True


@pytest.fixture
async def compiling() -> AsyncIterator[Hub]:
    hub = Hub(compiler=GatedCompiler())
    await hub.connect()
    yield hub
    await hub.executor.stop()
    assert hub.compiler.is_closed


async def test_a_constraint_is_answered_by_its_key_with_what_is_wrong(compiling: Hub) -> None:
    assert compiling.compiler.is_warm
    compiling.compiler.gate.set()
    for source, error in (("a+", None), ("?", wire.Error("no", param="constraint"))):
        constraint = wire.Constraint("regex", source)
        compiling.send(wire.Compile(constraint, "one"))
        assert await compiling.receive() == wire.Compiled(key_of(constraint), error, "one")


async def test_a_constraint_that_takes_long_holds_up_no_step(compiling: Hub) -> None:
    compiling.send(wire.Compile(wire.Constraint("regex", "a+")))
    await compiling.step(admits=(admit(0),), slices=(wire.Slice(0, 10),))
    compiling.compiler.gate.set()
    assert isinstance(await compiling.receive(), wire.Compiled)


async def test_what_an_old_grant_asked_for_is_not_told_to_the_new_one(compiling: Hub) -> None:
    compiling.send(wire.Compile(wire.Constraint("regex", "a+")))
    await compiling.until(lambda: bool(compiling.executor._compiling))
    compiling.link.drop("executor", "test")
    compiling.executor.tick()
    await compiling.until(lambda: len(compiling.joined) == 2 and compiling.tree is not None)
    compiling.compiler.gate.set()
    await compiling.until(lambda: not compiling.executor._compiling)
    await compiling.step()
    assert compiling.received == []


async def test_stopping_does_not_wait_for_a_constraint() -> None:
    hub = Hub(compiler=GatedCompiler())
    await hub.connect()
    hub.send(wire.Compile(wire.Constraint("regex", "a+")))
    await hub.until(lambda: bool(hub.executor._compiling))
    await hub.executor.stop()
    assert not hub.executor._compiling


async def test_a_model_that_cannot_be_constrained_says_so(hub: Hub) -> None:
    hub.send(wire.Compile(wire.Constraint("regex", "a+")))
    reply = await hub.receive()
    assert reply == wire.Compiled(key_of(wire.Constraint("regex", "a+")), UNCONSTRAINED, "")
    assert reply.error.status == 501


# --- loading ---------------------------------------------------------------------------------------------------------


def failing(error: BaseException) -> Callable[[], Assembled]:
    def assemble() -> Assembled:
        raise error

    return assemble


async def test_a_model_that_cannot_be_served_is_refused_at_start() -> None:
    hub = Hub()
    hub.executor = ExecutorService(hub.executor._context, failing(ConfigError("model.path: there is no such folder")))
    with pytest.raises(ConfigError, match="no such folder"):
        await hub.executor.start()
    assert hub.failures == []


async def test_any_other_fault_while_loading_ends_the_process_with_its_reason() -> None:
    hub = Hub()
    hub.executor = ExecutorService(hub.executor._context, failing(MemoryError("of 9 GiB")))
    with pytest.raises(MemoryError):
        await hub.executor.start()
    assert hub.failures == ["the model could not be loaded: MemoryError: of 9 GiB"]


class Panic(BaseException):
    """As Rust libraries raise it."""


async def test_a_panic_while_loading_ends_the_process_with_its_reason() -> None:
    hub = Hub()
    hub.executor = ExecutorService(hub.executor._context, failing(Panic("index out of bounds")))
    with pytest.raises(Panic):
        async with asyncio.timeout(10):
            await hub.executor.start()
    assert hub.failures == ["the model could not be loaded: Panic: index out of bounds"]


async def test_a_refused_hello_ends_the_process(hub: Hub) -> None:
    (route,) = hub.transport.dialled("hub")
    hub.link._answer(route, wire.Refused("another protocol"))
    hub.transport.pump()
    assert "another protocol" in hub.failures[0]


# --- an operator's questions -----------------------------------------------------------------------------------------


async def test_a_flush_at_rest_says_what_it_freed(hub: Hub) -> None:
    await hub.step(admits=(admit(0, 1),), slices=(wire.Slice(0, 10),))
    assert PROMPT in hub.prefixes()
    assert (await hub.ask("flush")).payload == {"freed_tokens": 10}
    assert hub.prefixes() == set()
    assert (await hub.step()).capacity == wire.Capacity(200, 0, 0)


async def test_a_flush_waits_for_a_moment_of_idleness(hub: Hub) -> None:
    await hub.step(admits=(admit(0),), slices=(wire.Slice(0, 10),))
    hub.send(wire.Admin("call", "flush"))
    hub.plan(slices=(wire.Slice(0, 1),))
    hub.plan(slices=(wire.Slice(0, 1),))
    assert [type(await hub.receive()) for _ in range(2)] == [wire.StepResult] * 2
    reply = await hub.receive()
    assert (reply.payload, reply.error) == ({"freed_tokens": 12}, None)
    hub.now = 100.0
    hub.executor.tick()
    await hub.until(lambda: not hub.transport.queue)
    assert hub.received == []


async def test_a_flush_gives_up_after_its_time(hub: Hub) -> None:
    await hub.step(admits=(admit(0),), slices=(wire.Slice(0, 10),))
    hub.send(wire.Admin("call", "flush", 2.0))
    hub.now = 2.0
    hub.executor.tick()
    reply = await hub.receive()
    assert reply.error is not None
    assert (reply.error.code, reply.error.status) == ("busy", 503)


async def test_tree_info_and_counters(hub: Hub) -> None:
    await hub.step(admits=(admit(0),), slices=(wire.Slice(0, 10),))
    tree = (await hub.ask("tree")).payload
    assert (tree["nodes"], tree["cached_tokens"], tree["deepest_tokens"], tree["namespaces"]) == (1, 10, 10, 1)
    assert (tree["miss_tokens"], tree["capacity_tokens"], tree["evictable_tokens"]) == (10, 200, 0)
    assert tree["tenants"] == {"": {"cached_tokens": 10, "protected_tokens": 0}}
    (node,) = tree["largest"]
    assert node == {
        "namespace": "",
        "depth_tokens": 0,
        "tokens": 10,
        "children": 0,
        "pins": 1,
        "hits": 0,
        "priority": 0,
        "last_used": node["last_used"],
    }
    info = (await hub.ask("info")).payload
    assert (info["capacity_tokens"], info["integrity"]) == (200, "ok")
    counters = (await hub.ask("counters")).payload
    assert (counters["miss_tokens"], counters["free_tokens"]) == (10, 190)
    assert (await hub.ask("drain")).error is not None


async def test_the_tree_tells_how_nodes_begin_only_if_asked(hub: Hub) -> None:
    await hub.step(admits=(admit(0),), slices=(wire.Slice(0, 10),))
    (plain,) = (await hub.ask("tree")).payload["largest"]
    (with_text,) = (await hub.ask("tree", text=True)).payload["largest"]
    assert with_text == plain | {"head_token_ids": list(PROMPT)}


async def test_a_flush_that_frees_nothing_tells_of_no_change(hub: Hub) -> None:
    assert (await hub.ask("flush")).payload == {"freed_tokens": 0}
    assert hub.trees_told == 1
