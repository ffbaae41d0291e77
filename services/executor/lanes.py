"""A lane: one request on this executor, the tokens known of it, and its hold on the KV pool.

Knows which slots hold which of its tokens and who owns them. Does not compute, sample or talk.

    tokens:  [0 .............. known)                    prompt, resumed and generated ids
    KV:      [0 ..... computed)                          present in the pool
    slots:   [0 ..... computed ..... allocated)          room is taken in whole pages
    owner:   [0 .. shared)                               the tree; pinned through `node`
                       [shared ..... allocated)          this lane alone

`shared` is a multiple of the page size. What is computed can be found by others at once: it is shared, or it is output
that the tree has already, in a longer node. Only a cheap lane's output is shared at its end. A lane that waits holds
nothing (`node` is None).

Between two steps, whole pages of room beyond `computed` are left over from drafts that were wrong: the lane uses them
next, unless others need them first.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np

from services.executor.drafts import Drafts
from services.executor.nodes import Node, Tokens, Use
from services.executor.radix_cache import RadixCache
from services.executor.sampling_state import SamplingState
from services.executor.slots import Slots
from shared import wire
from shared.namespaces import tenant_of
from shared.tokens import pages_down, pages_up

if TYPE_CHECKING:
    from services.executor.constraint.cursor import Cursor


class Lane:
    """Args:
    page_size: of the pool.
    eos_token_ids: of the model.
    """

    def __init__(self, admit: wire.Admit, *, page_size: int, eos_token_ids: frozenset[int]) -> None:
        self.number = admit.lane
        self.request_id = admit.request_id
        self.attempt = admit.attempt
        self.trace_id = admit.trace_id
        self.namespace = admit.namespace
        self.tenant = tenant_of(admit.namespace)
        self.use = Use(admit.priority)
        self.sampling = admit.sampling
        self.max_new_tokens = admit.max_new_tokens
        self.prompt_tokens = len(admit.prompt_token_ids)
        self._scores: list[wire.TokenLogprob] = []  # of the prompt from the first position asked for
        self._scores_taken = False
        if admit.sampling.prompt_logprobs_from == 0:
            self._scores.append(wire.TokenLogprob(admit.prompt_token_ids[0], None))
        self.cached_tokens = 0  # found when the lane began
        self.counted = admit.has_run  # in the cache's hits and misses
        self.known = self.prompt_tokens + len(admit.resume_token_ids)
        self.computed = self.allocated = self.shared = 0
        self.node: Node | None = None
        self.drafts: Drafts | None = None  # if it may have any
        self.cursor: Cursor | None = None  # its place in the grammar that it has to follow
        self.forced_tokens = 0  # appended without a choice
        self._unreported: list[int] = []  # tokens that are new since the last outcome
        self.state = SamplingState(
            admit.sampling, admit.prompt_token_ids, output_token_ids=admit.resume_token_ids, eos_token_ids=eos_token_ids
        )
        self._eos_token_ids = eos_token_ids
        self._page_size = page_size
        room = self.prompt_tokens + max(admit.max_new_tokens, len(admit.resume_token_ids))
        self._tokens = np.empty(room, np.int64)
        self._tokens[: self.known] = admit.prompt_token_ids + admit.resume_token_ids
        self._slots = np.empty(pages_up(room, page_size), np.int64)

    # --- what is known -----------------------------------------------------------------------------------------------

    @property
    def tokens(self) -> Tokens:
        return self._tokens[: self.known]

    @property
    def output_tokens(self) -> int:
        return self.known - self.prompt_tokens

    @property
    def waits(self) -> bool:
        return self.node is None

    @property
    def is_fresh(self) -> bool:
        """Begun, with nothing computed yet."""
        return not self.waits and self.computed == self.cached_tokens

    def append(self, token_id: int) -> None:
        self.state.append(token_id)
        self._tokens[self.known] = token_id
        self.known += 1
        self._unreported.append(token_id)
        if self.drafts is not None:
            self.drafts.observe(self.tokens)
        if self.cursor is not None and self._stop_token() is None:
            self.cursor.advance(token_id)

    def take_new_tokens(self) -> tuple[int, ...]:
        """Those that are not reported yet."""
        taken, self._unreported = tuple(self._unreported), []
        return taken

    # --- the constraint ----------------------------------------------------------------------------------------------

    @property
    def unstopped_output(self) -> tuple[int, ...]:
        """What it has generated, without a token that stopped it."""
        output = self.tokens[self.prompt_tokens :].tolist()
        return tuple(output[:-1] if self._stop_token() is not None else output)

    @property
    def forced(self) -> tuple[int, ...]:
        """The tokens that have to follow; none if there is a choice, or nothing may follow."""
        return () if self.cursor is None or self.ended_by() is not None else self.cursor.forced

    def jump(self) -> int:
        """Append the tokens that have to follow. Returns how many."""
        known = self.known
        while self.left_tokens and (forced := self.forced) and not self._stops_at(forced[0]):
            self.append(forced[0])
        self.forced_tokens += self.known - known
        return self.known - known

    @property
    def is_complete(self) -> bool:
        """Its constraint allows no further token."""
        return self.cursor is not None and self.cursor.is_over

    # --- the end -----------------------------------------------------------------------------------------------------

    def ended_by(self) -> tuple[wire.FinishReason, int | None] | None:
        """Why no further token may follow, and the token that says so; None while one may."""
        stop = self._stop_token()
        if stop is not None:
            return "stop", stop
        if self.is_complete and not self.wants_prompt_logprobs:
            return "stop", None
        if self.output_tokens >= self.max_new_tokens and not self.wants_prompt_logprobs and not self._is_for_the_cache:
            return "length", None
        return None

    @property
    def _is_for_the_cache(self) -> bool:
        """No output is asked for, and the prompt is still to be computed."""
        return self.max_new_tokens == 0 and self.computed < self.prompt_tokens

    def _stop_token(self) -> int | None:
        if self.output_tokens <= self.sampling.min_new_tokens:
            return None
        last = int(self._tokens[self.known - 1])
        return last if self._stops_at(last) else None

    def _stops_at(self, token_id: int) -> bool:
        is_eos = token_id in self._eos_token_ids and not self.sampling.ignore_eos
        return is_eos or token_id in self.sampling.stop_token_ids

    # --- prompt log-probabilities ------------------------------------------------------------------------------------

    @property
    def wants_prompt_logprobs(self) -> bool:
        return bool(self.unscored(self.prompt_tokens))

    def unscored(self, end: int) -> range:
        """The prompt positions up to and including `end` whose log-probabilities are asked for and not there yet.

        Position p is scored by the logits of the token before it; so p - 1 is never computed yet.
        """
        if self.sampling.prompt_logprobs_from is None:
            return range(0)
        start = self.sampling.prompt_logprobs_from + len(self._scores)
        return range(start, min(end + 1, self.prompt_tokens))

    def add_prompt_logprobs(self, scores: Iterable[wire.TokenLogprob]) -> None:
        self._scores.extend(scores)

    def take_prompt_logprobs(self) -> tuple[wire.TokenLogprob, ...]:
        """All of them once, when the last is there."""
        if self.wants_prompt_logprobs or self._scores_taken:
            return ()
        self._scores_taken = True
        return tuple(self._scores)

    # --- the KV ------------------------------------------------------------------------------------------------------

    @property
    def slots(self) -> Slots:
        """Where the lane's tokens are and can go."""
        return self._slots[: self.allocated]

    @property
    def private_slots(self) -> Slots:
        return self._slots[self.shared : self.allocated]

    @property
    def leftover_tokens(self) -> int:
        """Of room beyond what is computed."""
        return self.allocated - pages_up(self.computed, self._page_size)

    @property
    def _last_slot(self) -> int | None:
        return int(self._slots[self.allocated - 1]) if self.allocated else None

    @property
    def left_tokens(self) -> int:
        """Of output, at most."""
        return max(self.max_new_tokens - self.output_tokens, 0)

    @property
    def matchable(self) -> Tokens:
        """The tokens of which all but the last may come from the cache."""
        unscored = self.unscored(self.prompt_tokens)
        return self.tokens[: unscored.start] if unscored else self.tokens

    def begin(self, cache: RadixCache) -> None:
        """Pin what is cached of the lane's tokens: it need not be computed."""
        held = cache.pin(self.namespace, self.matchable, self.use)
        self.node = held.node
        self.cached_tokens = self.computed = self.allocated = self.shared = len(held.slots)
        self._slots[: self.shared] = held.slots

    def grow(self, cache: RadixCache, tokens: int, *, ahead: int = 0, is_alone: bool = False) -> bool:
        """Take room for `tokens` more; False, with nothing changed, if there is none.

        Args:
            ahead: how much output to expect, when it comes to a good place for all of it.
            is_alone: no other request holds anything.
        """
        missing = pages_up(self.computed + tokens, self._page_size) - self.allocated
        if missing <= 0:
            return True
        outlook = max(self.known - self.computed - tokens, 0) + min(self.left_tokens, ahead)
        outlook = pages_down(outlook, self._page_size)
        taken = cache.allocate(missing, self._last_slot, self.tenant, outlook, is_alone=is_alone)
        if taken is None:
            return False
        self._slots[self.allocated : self.allocated + missing] = taken
        self.allocated += missing
        return True

    def give_back(self, cache: RadixCache, tokens: int) -> None:
        """Give up the room beyond what `tokens` more take."""
        kept = pages_up(min(self.computed + tokens, self.known), self._page_size)
        if kept < self.allocated:
            cache.give_up_claim(int(self._slots[self.allocated - 1]))
            cache.free(self._slots[kept : self.allocated])
            self.allocated = kept

    def commit(self, cache: RadixCache, tokens: int) -> None:
        """`tokens` more are computed: share what fills whole pages, with a boundary at the end of the prompt."""
        self.computed += tokens
        prompt_end = pages_down(self.prompt_tokens, self._page_size)
        if self.shared < prompt_end <= self.computed:
            self._share(cache, prompt_end)
            if self.node is not None and self.shared == prompt_end and not self.use.is_cheap:
                cache.seal(self.node)
        if self.computed < self.prompt_tokens or not self.use.is_cheap:
            self.share_all(cache)

    def share_all(self, cache: RadixCache) -> None:
        """Share whatever fills whole pages; output that the tree has already, in a longer node, stays private."""
        if self.shared < pages_down(self.computed, self._page_size):
            self._share(cache, pages_down(self.computed, self._page_size), splits=self.computed <= self.prompt_tokens)

    def let_go(self, cache: RadixCache) -> None:
        """Give up all KV; what is shared stays cached."""
        if self.node is None:
            return
        cache.unpin(self.node)
        cache.free(self.private_slots)
        if self._last_slot is not None:
            cache.give_up_claim(self._last_slot)
        self.node = None
        self.cached_tokens = self.computed = self.allocated = self.shared = 0

    def _share(self, cache: RadixCache, end: int, *, splits: bool = True) -> None:
        assert self.node is not None
        part = slice(self.shared, end)
        held = cache.extend(self.node, self._tokens[part], self._slots[part], self.use, splits=splits)
        self.node = held.node
        self._slots[self.shared : self.shared + len(held.slots)] = held.slots
        self.shared += len(held.slots)
