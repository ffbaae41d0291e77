"""An executor without a model: its slots, prefix cache, pins and refusals are real, its arithmetic is `token_at`.

It asserts what the scheduler promises: plans in order, at most two in flight, and never a slice that has no room.
"""

import random
from collections import deque
from dataclasses import dataclass, field

from shared import wire
from tests.simulation.tokens import EOS, token_at


@dataclass(eq=False)
class Node:
    """One page of the cache."""

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

    @property
    def outputs(self):
        return len(self.tokens) - len(self.admit.prompt_token_ids)

    def finish_reason(self):
        if self.outputs and self.tokens[-1] == EOS:
            return "stop"
        return "length" if self.outputs >= self.admit.max_new_tokens else None


class FakeExecutor:
    def __init__(self, rng: random.Random, *, capacity_tokens: int, page_size: int, flakiness: float = 0.0):
        self.rng, self.page_size, self.flakiness = rng, page_size, flakiness
        self.pages = capacity_tokens // page_size
        self.info = wire.ExecutorInfo("fake", capacity_tokens, page_size, max_batch=8, max_model_len=4096)
        self.roots: dict[str, Node] = {}
        self.nodes: list[Node] = []
        self.reset()

    def reset(self):
        """A new grant: all lanes are void, the tree stays."""
        for lane in getattr(self, "lanes", {}).values():
            self._let_go(lane)
        self.lanes: dict[int, FakeLane] = {}
        self.plans: deque[wire.StepPlan] = deque()
        self.unreported = 0
        self.done_seq = 0

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
            case wire.Admin(call_id, op):
                return wire.AdminReply(call_id, {"op": op})
        return None

    def can_step(self):
        return bool(self.plans) and self.plans[0].seq == self.done_seq + 1

    def step(self) -> wire.StepResult:
        plan = self.plans.popleft()
        self.done_seq += 1
        self.unreported -= 1
        for number in plan.release:
            self._let_go(self.lanes.pop(number))
        for number in plan.preempt:
            assert number not in {s.lane for s in plan.slices}, "preempted and sliced at once"
            self._let_go(self.lanes[number])
        outcomes = [self._admit(admit) for admit in plan.admits]
        assert len({s.lane for s in plan.slices}) == len(plan.slices) <= self.info.max_batch
        tokens = sum(s.num_tokens for s in plan.slices)
        outcomes += [outcome for s in plan.slices if (outcome := self._slice(s))]
        outcomes += self._fresh_hints()
        self.check()
        capacity = wire.Capacity(self._free() * self.page_size, self._evictable() * self.page_size, self.pinned_tokens)
        times = wire.StageTimes(self.rng.choice((1, 1, 1, 3)) * (0.004 + 0.002 * tokens))
        return wire.StepResult(plan.seq, tuple(outcomes), capacity, wire.CacheCounters(), times)

    # --- a step ------------------------------------------------------------------------------------------------------

    def _admit(self, admit):
        assert admit.lane not in self.lanes, "a lane is used twice"
        lane = self.lanes[admit.lane] = FakeLane(admit, [*admit.prompt_token_ids, *admit.resume_token_ids])
        reason = lane.finish_reason()
        lane.over = reason is not None
        return wire.Outcome(admit.lane, 0, self._hint(lane), finish_reason=reason)

    def _slice(self, slice_):
        lane = self.lanes[slice_.lane]
        if lane.over or lane.cancelled:
            return None
        if self.rng.random() < self.flakiness:
            return self._declined(slice_.lane, lane)
        is_first = not lane.computed
        matched = self._match(lane) if is_first else []
        cached = len(matched) * self.page_size if is_first else lane.computed
        count = min(slice_.num_tokens, len(lane.tokens) - cached)
        assert count >= 0
        needed = self._pages(cached + count) - (len(matched) if is_first else len(lane.path) + lane.private_pages)
        room = self._free() + self._evictable() - sum(not node.pins for node in matched)
        if needed > room:
            assert self.flakiness, f"over-committed: {needed} pages for lane {slice_.lane}, and room for {room}"
            return self._declined(slice_.lane, lane)
        if is_first:
            lane.cached = cached
            lane.computed = cached
            self._pin(lane, matched)
        self._take(lane, needed)
        lane.computed += count
        self._share(lane)
        return self._outcome(slice_.lane, lane, self._sample(lane) if lane.computed == len(lane.tokens) else None)

    def _declined(self, number, lane):
        cached = lane.cached if lane.computed else self._hint(lane)
        return wire.Outcome(number, lane.computed, cached, declined=True)

    def _outcome(self, number, lane, token):
        computed = lane.computed
        reason = lane.finish_reason() if token is not None else None
        if reason:
            lane.over = True
            self._let_go(lane)
        ids = () if token is None else (token,)
        return wire.Outcome(number, computed, lane.cached, new_token_ids=ids, finish_reason=reason)

    def _sample(self, lane):
        token = token_at(lane.admit.prompt_token_ids, len(lane.tokens))
        lane.tokens.append(token)
        return token

    def _fresh_hints(self):
        for number, lane in self.lanes.items():
            if not lane.computed and not lane.over and self.rng.random() < 0.1:
                yield wire.Outcome(number, 0, self._hint(lane))

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
        node, found = self.roots.setdefault(lane.admit.namespace, Node(None)), []
        for start in range(0, len(lane.tokens) - self.page_size, self.page_size):
            node = node.children.get(tuple(lane.tokens[start : start + self.page_size]))
            if node is None:
                break
            found.append(node)
        return found

    def _hint(self, lane):
        return len(self._match(lane)) * self.page_size

    def _pin(self, lane, nodes):
        for node in nodes:
            node.pins += 1
            lane.path.append(node)

    def _take(self, lane, pages):
        while self._free() < pages:
            leaf = self.rng.choice([node for node in self.nodes if not node.pins and not node.children])
            self.nodes.remove(leaf)
            del leaf.parent.children[leaf.page]
        lane.private_pages += pages

    def _share(self, lane):
        """Full pages go to the tree, unless it has them."""
        while (len(lane.path) + 1) * self.page_size <= lane.computed:
            start = len(lane.path) * self.page_size
            page = tuple(lane.tokens[start : start + self.page_size])
            above = lane.path[-1] if lane.path else self.roots[lane.admit.namespace]
            if page not in above.children:
                above.children[page] = Node(above, page)
                self.nodes.append(above.children[page])
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
