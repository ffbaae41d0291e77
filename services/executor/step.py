"""A step: release, admit, compute the slices, report. The scheduler says who and how many; here: where, what.

Knows lanes, the pool and the tree. Does not know links, threads or queueing policy; one thread owns a runner. A fault
in one request ends that request with an error, a fault in the accounting raises BrokenInvariant.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import msgspec

from services.executor.admission import INTERNAL, Limits, refusal
from services.executor.chunk import Chunk
from services.executor.compute import Computed, Failed, ForwardModel, Stopwatch, compute
from services.executor.constraint.engine import GrammarFailed
from services.executor.constraint.stage import ConstraintStage, NotCompiled, failure
from services.executor.drafting import Drafting
from services.executor.drafts import Drafts
from services.executor.kv_pool import KvPool
from services.executor.lanes import Lane
from services.executor.masks import MaskFiller
from services.executor.nodes import Use
from services.executor.radix_cache import RadixCache
from services.executor.reuse import Reuse
from services.executor.sampler import Sampled
from services.executor.segments import in_tree_order
from services.executor.slots import SlotAllocator
from services.executor.spare import Spare
from shared import logging, wire
from shared.invariant import BrokenInvariant
from shared.log_names import named

AHEAD_TOKENS = 128  # of output, for which a request claims room behind what it has,
AHEAD_PARTS = 32  # but no more than such a part of the pool


class StepRunner:
    """Args:
    slots: the same as the cache's.
    reuse: says whose requests are kept cheaply; None: nobody's.
    drafting: says when drafts pay; None: there are none.
    constraints: None: requests that have one are refused.
    clock: for the stage times only.
    """

    def __init__(
        self,
        model: ForwardModel,
        pool: KvPool,
        slots: SlotAllocator,
        cache: RadixCache,
        *,
        eos_token_ids: Iterable[int],
        max_model_len: int,
        reuse: Reuse | None = None,
        drafting: Drafting | None = None,
        constraints: ConstraintStage | None = None,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._model = model
        self._pool = pool
        self._slots = slots
        self._cache = cache
        self._eos_token_ids = frozenset(eos_token_ids)
        self._limits = Limits(model.shape.vocab_size, max_model_len, constrains=constraints is not None)
        self._reuse = reuse
        self._drafting = drafting
        self._constraints = constraints
        self._masks: MaskFiller | None = None
        if constraints is not None:
            self._masks = MaskFiller(constraints.states, model.shape.vocab_size, clock)
        self._clock = clock
        self._log = logging.get()
        self._lanes: dict[int, Lane] = {}
        self._holding: set[int] = set()  # lanes that have begun
        self._over: set[int] = set()  # ended or cancelled, until their release
        self._cancelled: set[int] = set()  # before their admit arrived
        self._outcomes: dict[int, wire.Outcome] = {}  # of the step in hand
        self._ahead_tokens = min(AHEAD_TOKENS, slots.capacity_tokens // AHEAD_PARTS)
        self._hit_tokens = self._miss_tokens = 0
        jumps = constraints is not None and constraints.jumps
        self._spare = Spare(drafting, jumps=jumps, grow=self._grow)

    # --- what the step thread calls ----------------------------------------------------------------------------------

    def run(self, plan: wire.StepPlan) -> wire.StepResult:
        start = self._clock()
        self._outcomes = {}
        if self._constraints is not None:
            self._constraints.forget_retired()
        self._release(plan.release)
        for admit in plan.admits:
            self._admit(admit)
        chunks = self._prepare(plan.slices, plan.spare_tokens)
        matched = self._clock()
        watch = Stopwatch(self._clock)
        results = compute(chunks, self._model, self._pool, watch, self._masks)
        for chunk, result in zip(chunks, results, strict=True):
            self._settle(chunk, result)
        if self._drafting is not None:
            self._drafting.observe(chunks, watch.forward_s + watch.sample_s)
        return wire.StepResult(
            plan.seq,
            tuple(self._outcomes.values()),
            self.capacity(),
            self.counters(),
            wire.StageTimes(self._clock() - start, matched - start, watch.forward_s, watch.mask_s, watch.sample_s),
            self._cache.take_events(),
            plan.spare_tokens - self._spare.left,
            self.constraint_counters(),
            sum(chunk.rows for chunk in chunks),
        )

    def cancel(self, lanes: Iterable[int]) -> None:
        """Their requests are nobody's any more: give up their KV now, and skip them until their release."""
        for number in lanes:
            if number in self._lanes:
                self._end(self._lanes[number])
            elif number not in self._over:
                self._cancelled.add(number)

    def reset(self) -> None:
        """Give up all lanes; the tree stays."""
        for lane in list(self._lanes.values()):
            self._end(lane)
        self._over.clear()
        self._cancelled.clear()

    def flush(self) -> int:
        """Forget what is cached. Returns the number of tokens freed."""
        return self._cache.flush()

    @property
    def waiting(self) -> int:
        return len(self._lanes) - len(self._holding)

    @property
    def running(self) -> int:
        return len(self._holding)

    @property
    def cache(self) -> RadixCache:
        return self._cache

    def capacity(self) -> wire.Capacity:
        """What a lane holds beyond what is computed is as good as free: it is given back where it is needed."""
        leftover = sum(lane.leftover_tokens for lane in self._lanes.values())
        private = sum(len(lane.private_slots) for lane in self._lanes.values()) - leftover
        free, cache = self._slots.free_tokens + leftover, self._cache
        return wire.Capacity(free, cache.evictable_tokens, cache.pinned_tokens + private, cache.protected_tokens())

    def counters(self) -> wire.CacheCounters:
        cache = self._cache
        cheap = [] if self._reuse is None else [name for name in self._reuse.cheap_namespaces if cache.holds(name)]
        return wire.CacheCounters(
            self._hit_tokens,
            self._miss_tokens,
            cache.evicted_tokens,
            cache.cached_tokens,
            cache.nodes,
            cache.namespaces,
            len(cheap),
            self._spare.drafted_tokens,
            self._spare.accepted_tokens,
        )

    def constraint_counters(self) -> wire.ConstraintCounters:
        stage = self._constraints
        return wire.ConstraintCounters() if stage is None else stage.counters(self._spare.forced_tokens)

    def check_integrity(self) -> None:
        """Raises BrokenInvariant unless every slot is owned exactly once. Takes milliseconds."""
        self._cache.check_integrity([(lane.node, lane.private_slots) for lane in self._lanes.values()])
        capacity = self.capacity()
        total = capacity.free_tokens + capacity.evictable_tokens + capacity.pinned_tokens
        if total != self._slots.capacity_tokens:
            raise BrokenInvariant(
                f"free, evictable and pinned add up to {total} of {self._slots.capacity_tokens} tokens"
            )

    # --- the stages of a step ----------------------------------------------------------------------------------------

    def _release(self, lanes: Sequence[int]) -> None:
        self.cancel(lanes)
        self._over.difference_update(lanes)
        self._cancelled.difference_update(lanes)

    def _admit(self, admit: wire.Admit) -> None:
        number = admit.lane
        if number in self._lanes or number in self._over:
            raise BrokenInvariant(f"lane {number} is admitted again before its release")
        if number in self._cancelled:
            self._cancelled.discard(number)
            self._over.add(number)
            return
        with self._isolated(number):
            error = refusal(admit, self._limits)
            if error is not None:
                self._fail(number, error, reason=error.message)
                return
            lane = Lane(admit, page_size=self._slots.page_size, eos_token_ids=self._eos_token_ids)
            lane.drafts = None if self._drafting is None else Drafts()
            self._lanes[number] = lane
            if self._constrain(lane, admit.constraint) and lane.ended_by() is not None:
                self._report(lane, self._with_news(lane))

    def _constrain(self, lane: Lane, constraint: wire.Constraint | None) -> bool:
        """Put the lane at its place in its grammar; False if it is not here, and the lane is over."""
        if constraint is None or self._constraints is None:
            return True
        try:
            lane.cursor = self._constraints.enter(constraint, lane.unstopped_output)
        except NotCompiled:
            self._outcomes[lane.number] = wire.Outcome(lane.number, 0, 0, waiting="grammar")
            self._drop(lane)
            return False
        self._spare.jump(lane)
        return True

    def _prepare(self, slices: Sequence[wire.Slice], spare_tokens: int) -> list[Chunk]:
        """Pin what is cached for all that begin, before anybody's room is made by evicting; then take the slots."""
        wanted = {
            piece.lane: piece.num_tokens for piece in slices if piece.lane in self._lanes and piece.num_tokens > 0
        }
        for number in wanted:
            with self._isolated(number):
                self._begin(self._lanes[number])
        self._spare.refill(spare_tokens)
        chunks: list[Chunk] = []
        for number in [number for number in wanted if number in self._lanes]:
            with self._isolated(number):
                chunk = self._take_chunk(self._lanes[number], wanted)
                if chunk is not None:
                    chunks.append(chunk)
        extended = self._spare.extend(chunks, self._isolated)
        return in_tree_order([chunk for chunk in extended if chunk.lane.number in self._lanes])

    def _settle(self, chunk: Chunk, result: Computed | Failed) -> None:
        """Take over what was computed, share it, and see whether the request is over."""
        lane = chunk.lane
        if isinstance(result, Failed):
            error = INTERNAL if result.fault is None else failure(result.fault)
            self._fail(lane.number, error, reason=result.reason)
            return
        with self._isolated(lane.number):
            lane.add_prompt_logprobs(result.prompt_logprobs)
            taken = list(_appended(lane, result.sampled))
            accepted = max(len(taken) - 1, 0)
            self._spare.accept(chunk, accepted)
            lane.commit(self._cache, chunk.end - chunk.start + accepted)
            self._spare.jump(lane)
            outcome = msgspec.structs.replace(
                self._with_news(lane),
                logprobs=tuple(sampled.logprob for sampled in taken if sampled.logprob is not None),
            )
            self._report(lane, outcome)

    # --- lanes -------------------------------------------------------------------------------------------------------

    def _begin(self, lane: Lane) -> None:
        if lane.waits:
            lane.begin(self._cache)
            self._holding.add(lane.number)

    def _let_go(self, lane: Lane) -> None:
        lane.let_go(self._cache)
        self._holding.discard(lane.number)

    def _take_chunk(self, lane: Lane, wanted: Mapping[int, int]) -> Chunk | None:
        """Slots for the lane's next tokens. None if there is no room: then the lane is as it was before the step."""
        count = self._spare.stretch(lane, min(wanted[lane.number], lane.known - lane.computed))
        if self._grow(lane, count) or (self._reclaim(wanted) and self._grow(lane, count)):
            self._count(lane)
            return Chunk(lane, lane.computed, lane.computed + count)
        if lane.is_fresh:
            self._let_go(lane)
        self._report(lane, msgspec.structs.replace(self._outcome(lane), declined=True))
        return None

    def _grow(self, lane: Lane, tokens: int) -> bool:
        return lane.grow(self._cache, tokens, ahead=self._ahead_tokens, is_alone=len(self._holding) == 1)

    def _reclaim(self, wanted: Mapping[int, int]) -> bool:
        """Take back the room that the lanes do not need in this step; whether there was any."""
        free_tokens = self._slots.free_tokens
        for number in self._holding:
            self._lanes[number].give_back(self._cache, wanted.get(number, 0))
        return self._slots.free_tokens > free_tokens

    def _count(self, lane: Lane) -> None:
        """What of its prompt was cached: told each time it begins, and in the cache's figures when it first ran."""
        hits = min(lane.cached_tokens, lane.prompt_tokens)
        if lane.is_fresh:
            left = {"cached_tokens": hits, "uncached_tokens": lane.known - lane.cached_tokens}
            self._log.info("matched", **_named(lane), prompt_tokens=lane.prompt_tokens, **left)
        if not lane.counted:
            lane.counted = True
            self._hit_tokens += hits
            self._miss_tokens += lane.prompt_tokens - hits
            if self._reuse is not None:
                is_cheap = self._reuse.note(lane.namespace, prompt_tokens=lane.prompt_tokens, hit_tokens=hits)
                lane.use = Use(lane.use.priority, is_cheap)

    def _outcome(self, lane: Lane) -> wire.Outcome:
        reason, stop = lane.ended_by() or (None, None)
        return wire.Outcome(
            lane.number,
            lane.computed,
            lane.cached_tokens,
            finish_reason=reason,
            matched_stop=stop,
            forced_tokens=lane.forced_tokens,
        )

    def _with_news(self, lane: Lane) -> wire.Outcome:
        return msgspec.structs.replace(
            self._outcome(lane), new_token_ids=lane.take_new_tokens(), prompt_logprobs=lane.take_prompt_logprobs()
        )

    def _report(self, lane: Lane, outcome: wire.Outcome) -> None:
        self._outcomes[lane.number] = outcome
        if outcome.finish_reason is not None:
            self._end(lane)

    def _end(self, lane: Lane) -> None:
        """Its prompt and output stay in the tree. The number is taken until its release."""
        with self._isolated(lane.number):
            lane.share_all(self._cache)
        if lane.number in self._lanes:
            self._drop(lane)

    def _drop(self, lane: Lane) -> None:
        """What it has not shared is lost."""
        del self._lanes[lane.number]
        self._over.add(lane.number)
        self._let_go(lane)
        if lane.cursor is not None and self._constraints is not None:
            self._constraints.leave(lane.cursor)
            lane.cursor = None

    # --- faults ------------------------------------------------------------------------------------------------------

    @contextmanager
    def _isolated(self, number: int) -> Iterator[None]:
        """What goes wrong in here ends this lane's request and no other, provided that the accounting is unharmed."""
        try:
            yield
        except BrokenInvariant:
            raise
        except GrammarFailed as fault:
            self._fail(number, failure(fault), reason=str(fault))
        except Exception as fault:
            self._fail(number, INTERNAL, reason=f"{type(fault).__name__}: {fault}")
            self.check_integrity()

    def _fail(self, number: int, error: wire.Error, *, reason: str) -> None:
        """The error goes to the client; the reason is for the log alone, and may be any exception's text."""
        lane = self._lanes.get(number)
        computed = 0 if lane is None else lane.computed
        name = {} if lane is None else _named(lane)
        self._log.warning("request_failed", **name, lane=number, code=error.code, reason=reason)
        self._outcomes[number] = wire.Outcome(number, computed, 0, finish_reason="error", error=error)
        if lane is None:
            self._over.add(number)
        else:
            self._drop(lane)


def _named(lane: Lane) -> dict[str, Any]:
    return named(lane.request_id, lane.trace_id, attempt=lane.attempt)


def _appended(lane: Lane, sampled: Iterable[Sampled]) -> Iterator[Sampled]:
    """Append them up to the one that ends the request."""
    for one in sampled:
        lane.append(one.token_id)
        yield one
        if lane.ended_by() is not None:
            return
