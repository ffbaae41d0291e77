"""An executor without a model: its slots, prefix cache, pins and refusals are real, its arithmetic is `token_at`.

It asserts what the scheduler promises: plans in order, at most two in flight, and never a slice that has no room.
`poisons` says at which position of which prompt's text the process dies.

Of a constrained request, `is_forced` says which tokens there is no choice about: they are known at once and computed
later; or, where log-probabilities are asked for, known only once they are computed.
"""

import random
import struct
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field

from shared import wire
from tests.simulation.fake_grammars import FakeGrammars
from tests.simulation.tokens import EOS, is_forced, token_at


class Crashed(Exception):
    """The process is gone."""


@dataclass(eq=False)
class Node:
    """One page of the cache."""

    number: int | None  # None: a root
    namespace: str
    parent: "Node | None"
    page: tuple[int, ...] = ()
    children: dict = field(default_factory=dict)
    pins: int = 0


@dataclass(eq=False)
class FakeLane:
    admit: wire.Admit
    tokens: list[int]
    computed: int = 0
    cached: int = 0
    path: list[Node] = field(default_factory=list)  # pinned pages, the tree's
    private_pages: int = 0
    over: bool = False
    cancelled: bool = False
    start: int = field(init=False)  # known at first

    def __post_init__(self):
        self.start = len(self.tokens)

    @property
    def hides_forced(self):
        return self.admit.sampling.logprobs

    @property
    def outputs(self):
        return len(self.tokens) - len(self.admit.prompt_token_ids)

    @property
    def goes_on(self):
        return not (self.over or self.cancelled)

    def is_forced_next(self):
        is_constrained = self.admit.constraint is not None
        return is_constrained and is_forced(self.admit.prompt_token_ids, len(self.tokens)) and not self.finish_reason()

    def finish_reason(self):
        if self.outputs and self.tokens[-1] == EOS:
            return "stop"
        return "length" if self.outputs >= self.admit.max_new_tokens else None


class FakeExecutor:
    def __init__(
        self,
        rng: random.Random,
        *,
        capacity_tokens: int,
        page_size: int,
        flakiness: float = 0.0,
        forgetfulness: float = 0.0,
        poisons: Mapping[tuple[int, ...], int] | None = None,
    ):
        self.poisons = {} if poisons is None else poisons
        self.rng, self.page_size, self.flakiness = rng, page_size, flakiness
        self.pages = capacity_tokens // page_size
        self.info = wire.ExecutorInfo(
            "fake",
            capacity_tokens,
            page_size,
            max_batch=8,
            max_model_len=4096,
            draft_tokens=rng.choice((0, 1, 20)),
            forced_tokens=rng.choice((0, 2, 8)),
        )
        self.grammars = FakeGrammars(rng, forgetfulness)
        self.roots: dict[str, Node] = {}
        self.nodes: list[Node] = []
        self.numbers = 0
        self.reset()

    def reset(self):
        """A new grant: all lanes are void, the tree stays."""
        for lane in getattr(self, "lanes", {}).values():
            self._let_go(lane)
        self.lanes: dict[int, FakeLane] = {}
        self.plans: deque[wire.StepPlan] = deque()
        self.grammars.asked.clear()
        self.unreported = 0
        self.done_seq = 0
        self.events: list[wire.TreeEvent] = []

    def tree(self) -> wire.TreeChanged:
        """The first word under a grant."""
        return wire.TreeChanged(tuple(_stored(node) for node in self.nodes))  # parents first

    # --- messages ----------------------------------------------------------------------------------------------------

    def receive(self, message):
        match message:
            case wire.StepPlan():
                self.unreported += 1
                assert self.unreported <= 2, "three plans in flight"
                self.plans.append(message)
            case wire.Cancel(lanes):
                for number in lanes:
                    if number in self.lanes:
                        self.lanes[number].cancelled = True
            case wire.Compile(constraint):
                self.grammars.asked.append(constraint)
            case wire.Admin(call_id, op):
                return wire.AdminReply(call_id, {"op": op})
        return None

    def can_step(self):
        return bool(self.plans) and self.plans[0].seq == self.done_seq + 1

    def step(self) -> wire.StepResult:
        """Raises Crashed if one of the requests is poisoned there."""
        plan = self.plans.popleft()
        self.done_seq += 1
        self.unreported -= 1
        for number in plan.release:
            self._let_go(self.lanes.pop(number))
        outcomes = [outcome for admit in plan.admits if (outcome := self._admit(admit))]
        assert len({s.lane for s in plan.slices}) == len(plan.slices) <= self.info.max_batch
        tokens = sum(s.num_tokens for s in plan.slices)
        self.spare_tokens = plan.spare_tokens
        outcomes += [outcome for s in plan.slices if (outcome := self._slice(s))]
        self.check()
        capacity = wire.Capacity(self._free() * self.page_size, self._evictable() * self.page_size, self.pinned_tokens)
        times = wire.StageTimes(self.rng.choice((1, 1, 1, 3)) * (0.004 + 0.002 * tokens))
        events, self.events = tuple(self.events), []
        drafted = plan.spare_tokens - self.spare_tokens
        return wire.StepResult(plan.seq, tuple(outcomes), capacity, wire.CacheCounters(), times, events, drafted)

    # --- a step ------------------------------------------------------------------------------------------------------

    def _admit(self, admit):
        assert admit.lane not in self.lanes, "a lane is used twice"
        lane = self.lanes[admit.lane] = FakeLane(admit, [*admit.prompt_token_ids, *admit.resume_token_ids])
        self.grammars.forget()
        reason = lane.finish_reason()
        lane.over = reason is not None
        return wire.Outcome(admit.lane, 0, 0, finish_reason=reason) if reason else None

    def _slice(self, slice_):
        lane = self.lanes[slice_.lane]
        if not lane.goes_on:
            return None
        if self.rng.random() < self.flakiness:
            return self._declined(slice_.lane, lane)
        is_first = not lane.computed
        if is_first and lane.admit.constraint is not None and not self.grammars.has(lane.admit.constraint):
            return wire.Outcome(slice_.lane, 0, 0, waiting="grammar")
        matched = self._match(lane) if is_first else []
        cached = len(matched) * self.page_size if is_first else lane.computed
        count = min(slice_.num_tokens, len(lane.tokens) - cached)
        assert count >= 0
        forced = self._forced(lane, cached + count)
        count += forced
        needed = self._pages(cached + count) - (len(matched) if is_first else len(lane.path) + lane.private_pages)
        room = self._free() + self._evictable() - sum(not node.pins for node in matched)
        if needed > room:
            assert self.flakiness, f"over-committed: {needed} pages for lane {slice_.lane}, and room for {room}"
            self.spare_tokens += forced
            return self._declined(slice_.lane, lane)
        if is_first:
            lane.cached = cached
            lane.computed = cached
            self._pin(lane, matched)
        self._take(lane, needed)
        self._compute(lane, count)
        self._share(lane)
        if lane.computed < len(lane.tokens):
            return self._outcome(slice_.lane, lane, [])
        drafts = self._drafts(lane, self._hidden_run(lane)) if count == 1 else ()
        forces = () if lane.hides_forced else self._force(lane)
        return self._outcome(slice_.lane, lane, [self._sample(lane), *drafts, *forces])

    def _compute(self, lane, count):
        """Raises Crashed at what it cannot bear."""
        lane.computed += count
        if lane.computed - count <= self.poisons.get(lane.admit.prompt_token_ids, -1) < lane.computed:
            raise Crashed(lane.admit.prompt_token_ids)

    def _forced(self, lane, computed):
        """How many tokens beyond a slice that ends there are taken out of what is to spare."""
        known = len(lane.tokens) - computed if computed >= lane.start else 0
        forced = min(known, self.info.forced_tokens, self.spare_tokens) if lane.admit.constraint is not None else 0
        self.spare_tokens -= forced
        return forced

    def _force(self, lane):
        """What must follow is known at once."""
        while self.info.forced_tokens and lane.is_forced_next():
            yield self._sample(lane)

    def _hidden_run(self, lane):
        """How many tokens follow without a choice, and are not to be known before they are computed."""
        tokens, run = list(lane.tokens), 0
        while lane.hides_forced and run < self.info.forced_tokens and lane.is_forced_next():
            lane.tokens.append(0)
            run += 1
        lane.tokens = tokens
        return run

    def _drafts(self, lane, hidden_run):
        """Guesses; some of the first of them turn out to be right."""
        left = lane.admit.max_new_tokens - lane.outputs
        if lane.admit.constraint is None:
            drafted = self.rng.choice((0, max(min(self.spare_tokens, self.info.draft_tokens, left), 0)))
            accepted = self.rng.choice((0, drafted // 2, drafted))
        else:
            drafted = accepted = max(min(self.spare_tokens, hidden_run, left), 0)
        self.spare_tokens -= drafted
        needed = self._pages(lane.computed + drafted) - len(lane.path) - lane.private_pages
        assert needed <= self._free() + self._evictable() or self.flakiness, "over-committed: no room for drafts"
        for _ in range(accepted if needed <= self._free() + self._evictable() else 0):
            if lane.finish_reason():
                break
            self._take(lane, self._pages(lane.computed + 1) - len(lane.path) - lane.private_pages)
            self._compute(lane, 1)
            self._share(lane)
            yield self._sample(lane)

    def _declined(self, number, lane):
        return wire.Outcome(number, lane.computed, lane.cached if lane.computed else 0, declined=True)

    def _outcome(self, number, lane, new):
        computed = lane.computed
        reason = lane.finish_reason() if new else None
        if reason:
            lane.over = True
            self._let_go(lane)
        return wire.Outcome(number, computed, lane.cached, new_token_ids=tuple(new), finish_reason=reason)

    def _sample(self, lane):
        token = token_at(lane.admit.prompt_token_ids, len(lane.tokens))
        lane.tokens.append(token)
        return token

    # --- slots -------------------------------------------------------------------------------------------------------

    def _pages(self, tokens):
        return -(-tokens // self.page_size)

    def _free(self):
        return self.pages - len(self.nodes) - sum(lane.private_pages for lane in self.lanes.values())

    def _evictable(self):
        return sum(not node.pins for node in self.nodes)

    @property
    def pinned_tokens(self):
        pinned = len(self.nodes) - self._evictable()
        return (pinned + sum(lane.private_pages for lane in self.lanes.values())) * self.page_size

    def _match(self, lane):
        node, found = self.roots.setdefault(lane.admit.namespace, Node(None, lane.admit.namespace, None)), []
        for start in range(0, len(lane.tokens) - self.page_size, self.page_size):
            node = node.children.get(tuple(lane.tokens[start : start + self.page_size]))
            if node is None:
                break
            found.append(node)
        return found

    def _pin(self, lane, nodes):
        for node in nodes:
            node.pins += 1
            lane.path.append(node)

    def _take(self, lane, pages):
        while self._free() < pages:
            leaf = self.rng.choice([node for node in self.nodes if not node.pins and not node.children])
            self.nodes.remove(leaf)
            del leaf.parent.children[leaf.page]
            self.events.append(wire.Cut(leaf.number, 0))
        lane.private_pages += pages

    def _share(self, lane):
        """Full pages go to the tree, unless it has them."""
        while (len(lane.path) + 1) * self.page_size <= lane.computed:
            start = len(lane.path) * self.page_size
            page = tuple(lane.tokens[start : start + self.page_size])
            above = lane.path[-1] if lane.path else self.roots[lane.admit.namespace]
            if page not in above.children:
                self.numbers += 1
                above.children[page] = node = Node(self.numbers, above.namespace, above, page)
                self.nodes.append(node)
                self.events.append(_stored(node))
            lane.private_pages -= 1
            self._pin(lane, [above.children[page]])

    def _let_go(self, lane):
        for node in lane.path:
            node.pins -= 1
        lane.path, lane.private_pages, lane.computed = [], 0, 0

    def check(self):
        assert self._free() >= 0, "more slots are used than there are"
        for lane in self.lanes.values():
            assert len(lane.path) + lane.private_pages == self._pages(lane.computed)


def _stored(node):
    token_ids = struct.pack(f"<{len(node.page)}i", *node.page)
    return wire.Stored(node.number, node.parent.number, node.namespace, token_ids)
