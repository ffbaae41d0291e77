"""An executor without a model: a real process on the real wire that emits the token ids a script gives.

    python -m tests.support.scripted_executor --config FILE

with `executor.module: tests.support.scripted_executor` and `executor.script: FILE`, a JSON or YAML list of rules. The
first rule whose `match` begins the prompt's token ids counts; without one the prompt's own ids come back. It keeps
lanes, known and computed tokens and KV room as an executor does, and is strict: a plan that breaks the protocol ends
the process. The upper half is pure; the lower half is the process.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal, assert_never

import msgspec
from msgspec import Meta

from shared import wire
from shared.config import Config, ConfigError
from shared.constraints import key_of
from shared.link import DialledLink, Joined, Left, LinkEvent, Received
from shared.model_card import ModelCard, load_card
from shared.service import Context, Service, main

DEFAULT_CAPACITY_TOKENS = 100_000

# --- the script ------------------------------------------------------------------------------------------------------


class Fault(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What happens instead of the step that would emit output token number `at` (from 0).

    exit: the process dies. hang: it makes no more progress. drop_result: the step is done, its result not sent.
    error: the tokens before `at` come, and then an error. Resumed requests are spared unless `resumed_too`.
    """

    kind: Literal["exit", "hang", "error", "drop_result"]
    at: Annotated[int, Meta(ge=0)] = 0
    resumed_too: bool = False


class Rule(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    match: tuple[int, ...] = ()  # how the prompt begins; empty: any
    tokens: tuple[int, ...] | None = None  # the output; None: the prompt's ids
    delay_s: Annotated[float, Meta(ge=0)] = 0.0  # for each token
    chunk: Annotated[int, Meta(ge=1)] = 1  # tokens in one outcome
    finish: Literal["stop", "length"] = "stop"  # at the end of the tokens
    logprobs: bool = True  # give them when asked
    cached_tokens: Annotated[int, Meta(ge=0)] = 0  # what to pretend was found in the tree
    fault: Fault | None = None


ECHO = Rule()


def load_rules(path: str | None) -> list[Rule]:
    if path is None:
        return []
    try:
        return msgspec.yaml.decode(Path(path).read_bytes(), type=list[Rule])
    except (OSError, msgspec.MsgspecError) as error:
        raise ConfigError(f"executor.script: {path}: {error}") from error


# --- the pure part ---------------------------------------------------------------------------------------------------


class BrokenPlan(Exception):
    """The scheduler broke the protocol."""


class Step(msgspec.Struct, frozen=True):
    """What one plan comes to: the result, sent after `delay_s` unless a fault forbids it."""

    result: wire.StepResult
    delay_s: float = 0.0
    fault: Literal["exit", "hang", "drop_result"] | None = None


@dataclass
class _Lane:
    """tokens: prompt, resumed and emitted ids. [0, computed) have KV while the lane runs; a waiting lane holds none."""

    admit: wire.Admit
    rule: Rule
    tokens: list[int]
    computed: int = 0
    cached: int = 0  # found by its first slice
    is_running: bool = False
    is_over: bool = False  # finished or cancelled: skipped until it is released

    @property
    def output_tokens(self) -> int:
        return len(self.tokens) - len(self.admit.prompt_token_ids)

    @property
    def script(self) -> Sequence[int]:
        return self.admit.prompt_token_ids if self.rule.tokens is None else self.rule.tokens

    @property
    def repeats(self) -> bool:
        return self.admit.sampling.ignore_eos and bool(self.script)

    def finish_reason(self) -> wire.FinishReason | None:
        if self.output_tokens >= self.admit.max_new_tokens:
            return "length"
        if self.output_tokens >= len(self.script) and not self.repeats:
            return self.rule.finish
        return None

    def next_tokens(self) -> tuple[int, ...]:
        start, script = self.output_tokens, self.script
        end = min(start + self.rule.chunk, self.admit.max_new_tokens)
        if not self.repeats:
            end = min(end, len(script))
        return tuple(script[position % len(script)] for position in range(start, end))

    def fault_before(self, emitted: Sequence[int]) -> Fault | None:
        """The rule's fault, if it strikes instead of emitting these."""
        fault = self.rule.fault
        if fault is None or (self.admit.resume_token_ids and not fault.resumed_too):
            return None
        return fault if self.output_tokens <= fault.at < self.output_tokens + max(1, len(emitted)) else None


class ScriptedExecutor:
    """Plans in, steps out."""

    def __init__(
        self,
        rules: Iterable[Rule] = (),
        *,
        capacity_tokens: int = DEFAULT_CAPACITY_TOKENS,
        page_size: int = 1,
        eos_token_ids: Iterable[int] = (),
    ) -> None:
        self._rules = [*rules, ECHO]
        self._capacity_tokens = capacity_tokens
        self._page_size = page_size
        self._eos_token_ids = frozenset(eos_token_ids)
        self._lanes: dict[int, _Lane] = {}
        self._cancelled: set[int] = set()  # before their admit arrived
        self._last_seq: int | None = None
        self._hit_tokens = self._miss_tokens = 0

    @property
    def lanes(self) -> int:
        return len(self._lanes)

    def reset(self) -> None:
        """A new grant: nothing of the old scheduler's is left."""
        self._lanes.clear()
        self._cancelled.clear()
        self._last_seq = None

    def cancel(self, lanes: Iterable[int]) -> None:
        for number in lanes:
            if number in self._lanes:
                self._end(self._lanes[number])
            else:
                self._cancelled.add(number)

    def step(self, plan: wire.StepPlan) -> Step:
        """Release, admit, run. Raises BrokenPlan."""
        if self._last_seq is not None and plan.seq != self._last_seq + 1:
            raise BrokenPlan(f"plan {plan.seq} after plan {self._last_seq}")
        self._last_seq = plan.seq
        for number in plan.release:
            self._lane(number, "released")
            del self._lanes[number]
        running = _Running()
        for admit in plan.admits:
            self._admit(admit, running)
        for piece in plan.slices:
            self._run(piece, self._lane(piece.lane, "sliced"), running)
        return Step(self._result(plan.seq, running), running.delay_s, running.fault)

    def _lane(self, number: int, what: str) -> _Lane:
        if number not in self._lanes:
            raise BrokenPlan(f"lane {number} is {what} and was not admitted")
        return self._lanes[number]

    def _admit(self, admit: wire.Admit, running: _Running) -> None:
        if admit.lane in self._lanes:
            raise BrokenPlan(f"lane {admit.lane} is admitted twice")
        rule = next(rule for rule in self._rules if admit.prompt_token_ids[: len(rule.match)] == rule.match)
        lane = _Lane(admit, rule, [*admit.prompt_token_ids, *admit.resume_token_ids])
        self._lanes[admit.lane] = lane
        finish_reason = lane.finish_reason() if admit.resume_token_ids else None
        if finish_reason is not None or admit.lane in self._cancelled:
            self._end(lane)
        self._cancelled.discard(admit.lane)
        if finish_reason is not None:
            running.outcomes[admit.lane] = wire.Outcome(admit.lane, 0, 0, finish_reason=finish_reason)

    def _run(self, piece: wire.Slice, lane: _Lane, running: _Running) -> None:
        if lane.is_over:
            return
        start = lane.computed if lane.is_running else min(lane.rule.cached_tokens, len(lane.tokens) - 1)
        end = min(start + piece.num_tokens, len(lane.tokens))
        if self._pages(end) - self._held(lane) > self._free_tokens():
            running.outcomes[piece.lane] = wire.Outcome(piece.lane, lane.computed, lane.cached, declined=True)
            return
        if not lane.is_running:
            lane.is_running, lane.cached = True, start
            self._hit_tokens += start
        self._miss_tokens += end - start
        lane.computed = end
        running.outcomes[piece.lane] = (
            self._emit(piece.lane, lane, running)
            if end == len(lane.tokens)
            else wire.Outcome(piece.lane, end, lane.cached)
        )

    def _emit(self, number: int, lane: _Lane, running: _Running) -> wire.Outcome:
        """All known tokens are computed: the next ones become known."""
        emitted = lane.next_tokens()
        error = None
        fault = lane.fault_before(emitted)
        if fault is not None:
            kind = fault.kind
            if kind == "error":
                emitted = emitted[: fault.at - lane.output_tokens]
                error = wire.Error("a scripted error", "scripted_error", status=500)
            else:
                running.fault = kind
        lane.tokens += emitted
        running.delay_s = max(running.delay_s, lane.rule.delay_s * len(emitted))
        finish_reason = "error" if error is not None else lane.finish_reason()
        outcome = wire.Outcome(
            number,
            lane.computed,
            lane.cached,
            new_token_ids=emitted,
            logprobs=_logprobs(emitted, lane),
            finish_reason=finish_reason,
            matched_stop=self._matched_stop(lane, finish_reason),
            error=error,
        )
        if finish_reason is not None:
            self._end(lane)
        return outcome

    def _matched_stop(self, lane: _Lane, finish_reason: wire.FinishReason | None) -> int | None:
        stops = self._eos_token_ids.union(lane.admit.sampling.stop_token_ids)
        is_stopped = finish_reason == "stop" and lane.output_tokens > 0 and lane.tokens[-1] in stops
        return lane.tokens[-1] if is_stopped else None

    def _end(self, lane: _Lane) -> None:
        lane.is_over = True
        self._let_go(lane)

    def _let_go(self, lane: _Lane) -> None:
        lane.is_running, lane.computed, lane.cached = False, 0, 0

    def _pages(self, tokens: int) -> int:
        """Slots that hold so many tokens."""
        return -(-tokens // self._page_size) * self._page_size

    def _held(self, lane: _Lane) -> int:
        return self._pages(lane.computed) if lane.is_running else 0

    def _free_tokens(self) -> int:
        return self._capacity_tokens - sum(self._held(lane) for lane in self._lanes.values())

    def _result(self, seq: int, running: _Running) -> wire.StepResult:
        free_tokens = self._free_tokens()
        return wire.StepResult(
            seq,
            tuple(running.outcomes.values()),
            wire.Capacity(free_tokens, 0, self._capacity_tokens - free_tokens),
            wire.CacheCounters(hit_tokens=self._hit_tokens, miss_tokens=self._miss_tokens),
            wire.StageTimes(total_s=running.delay_s),
        )


@dataclass
class _Running:
    """The step so far: one outcome a lane, the longest delay, the first fault."""

    outcomes: dict[int, wire.Outcome] = field(default_factory=dict)
    delay_s: float = 0.0
    fault: Literal["exit", "hang", "drop_result"] | None = None


def _logprobs(token_ids: Sequence[int], lane: _Lane) -> tuple[wire.TokenLogprob, ...]:
    """Made up: -0.5 for the chosen token, which is also the most likely, and one less for each next id."""
    sampling = lane.admit.sampling
    if not (sampling.logprobs and lane.rule.logprobs):
        return ()
    return tuple(
        wire.TokenLogprob(
            token_id, -0.5, tuple((token_id + rank, -0.5 - rank) for rank in range(sampling.top_logprobs))
        )
        for token_id in token_ids
    )


# --- the process -----------------------------------------------------------------------------------------------------


def build(context: Context) -> Service:
    card = load_card(context.config.model)
    return ScriptedExecutorService(context, card, load_rules(context.config.executor.script))


class ScriptedExecutorService:
    def __init__(self, context: Context, card: ModelCard, rules: list[Rule]) -> None:
        self._context = context
        self._info = _info(context.config, card)
        self._executor = ScriptedExecutor(
            rules,
            capacity_tokens=self._info.capacity_tokens,
            page_size=self._info.page_size,
            eos_token_ids=card.eos_token_ids,
        )
        self._hub = DialledLink(
            context.transport,
            context.config.endpoint("hub"),
            wire.HubToExecutor,
            self._on_hub,
            to="scheduler",
            identity=context.identity,
            hello=lambda: wire.Hello("executor", wire.PROTOCOL, context.name, self._info),
            progress=self.progress,
            on_refused=context.fail,
            silence_s=context.config.links.silence_s,
        )
        self._plans: asyncio.Queue[wire.StepPlan] = asyncio.Queue()
        self._begun_s: float | None = None
        self._steps = 0
        self._epoch = 0  # of the scheduler's grants: a result of an earlier one is not sent
        self._stepping: asyncio.Task[None] | None = None

    async def start(self) -> None:
        self._stepping = asyncio.create_task(self._step_plans())

    async def stop(self) -> None:
        if self._stepping is not None:
            self._stepping.cancel()
        self._hub.close()

    def tick(self) -> None:
        self._hub.tick()

    async def refresh(self) -> None:
        await self._hub.refresh()

    def progress(self) -> wire.Progress:
        return wire.Progress(
            last_seq=self._steps,
            step_age_s=0.0 if self._begun_s is None else time.monotonic() - self._begun_s,
            waiting=self._plans.qsize(),
            running=self._executor.lanes,
            peers={"scheduler": len(self._hub.peers)},
        )

    def _on_hub(self, event: LinkEvent) -> None:
        match event:
            case Joined() | Left():
                self._epoch += 1
                self._executor.reset()
                while not self._plans.empty():
                    self._plans.get_nowait()
            case Received(_, wire.StepPlan() as plan):
                self._plans.put_nowait(plan)
            case Received(_, wire.Cancel(lanes)):
                self._executor.cancel(lanes)
            case Received(hub, wire.Admin() as admin):
                self._hub.send(hub, wire.AdminReply(admin.call_id))
            case Received(hub, wire.Compile(constraint)):
                self._hub.send(hub, wire.Compiled(key_of(constraint)))
            case Received():
                pass  # a heartbeat
            case _:
                assert_never(event)

    async def _step_plans(self) -> None:
        while True:
            plan = await self._plans.get()
            self._begun_s = time.monotonic()
            try:
                await self._step(plan)
            except BrokenPlan as error:
                self._context.fail(f"a broken plan: {error}")
                return
            self._begun_s = None
            self._steps += 1

    async def _step(self, plan: wire.StepPlan) -> None:
        epoch = self._epoch
        step = self._executor.step(plan)
        await asyncio.sleep(step.delay_s)
        match step.fault:
            case "exit":
                self._context.fail("a scripted exit")
            case "hang":
                await asyncio.Event().wait()
            case "drop_result":
                pass
            case None:
                for hub in self._hub.peers if self._epoch == epoch else []:
                    self._hub.send(hub, step.result)
            case _:
                assert_never(step.fault)


def _info(config: Config, card: ModelCard) -> wire.ExecutorInfo:
    return wire.ExecutorInfo(
        card.model_id,
        capacity_tokens=config.executor.max_total_tokens or DEFAULT_CAPACITY_TOKENS,
        page_size=config.executor.page_size,
        max_batch=config.executor.max_batch,
        max_model_len=card.max_model_len,
        caches=False,
    )


if __name__ == "__main__":
    main("executor", build)
