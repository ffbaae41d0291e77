"""The state store: where requests have been in their grammars, for those that come after them.

Knows what states cost and which of them to forget. Does not know the cache of grammars, requests or tensors.

One budget for all grammars covers the states, the mask rows and the matchers that are kept. A state on which a cursor
stands stays, and so does all above it; of the others the least recently left goes first, leaf by leaf. Where nothing
can go, a new state belongs to its cursor alone, so the budget holds in any case.
"""

from __future__ import annotations

from array import array
from collections import Counter, OrderedDict
from collections.abc import Iterator, Sequence

from llguidance import LLExecutor, LLTokenizer

from services.executor.constraint.cursor import Cursor
from services.executor.constraint.engine import Grammar, GrammarFailed
from services.executor.constraint.mask_fill import TOGETHER, MaskFill
from services.executor.constraint.masks import Rows, Words
from services.executor.constraint.state import State
from services.executor.constraint.trie import SNAPSHOT_DEPTHS, Ledger, Trie, snapshot_bytes
from services.executor.constraint.walker import Walker
from shared.invariant import require


class StateStore:
    """Used by one thread.

    Args:
        budget_bytes: for all but the first state of each grammar.
        eos_token_ids: end an output where it may end.
        threads: that compute masks, where there are at least `together` of them to compute.
    """

    def __init__(
        self,
        tokenizer: LLTokenizer,
        *,
        budget_bytes: int,
        eos_token_ids: frozenset[int],
        threads: int = 2,
        together: int = TOGETHER,
    ) -> None:
        self.eos_token_ids = eos_token_ids
        self._ledger = Ledger()
        self._budget_bytes = budget_bytes
        self._rows = Rows(tokenizer.vocab_size)
        self._tries: dict[Grammar, Trie] = {}
        self._forgotten: list[tuple[Trie, State]] = []  # to go, with all that is below them
        self._leaves: OrderedDict[State, Trie] = OrderedDict()  # that may go, the next one first
        executor = LLExecutor(threads) if threads > 1 else None
        self._mask_fill = MaskFill(eos_token_ids, executor, together, self._keep_row, self._ledger)

    def __len__(self) -> int:
        return self._ledger.states

    @property
    def used_bytes(self) -> int:
        """An estimate, of states, mask rows and kept matchers."""
        return self._ledger.bytes

    @property
    def computed_masks(self) -> int:
        return self._ledger.computed_masks

    @property
    def inherited_masks(self) -> int:
        """Of states where another request had been."""
        return self._ledger.inherited_masks

    @property
    def rebuilt_grammars(self) -> int:
        return self._ledger.rebuilt_grammars

    # --- what requests use -------------------------------------------------------------------------------------------

    def enter(self, grammar: Grammar, output_token_ids: Sequence[int] = ()) -> Cursor:
        """A cursor behind these tokens. Raises GrammarFailed if they do not satisfy the grammar."""
        trie = self._trie_of(grammar)
        path = array("i")
        cursor = Cursor(self, trie, trie.root, path, Walker(trie, path))
        try:
            for token_id in output_token_ids:
                cursor.advance(token_id)
        except GrammarFailed:
            cursor.leave()
            raise
        return cursor

    def fill(self, cursors: Sequence[Cursor], bitmask: Words) -> list[GrammarFailed | None]:
        """Write each cursor's mask into its row of (rows, words); what failed, in the cursors' order.

        A row that failed allows everything; its request is to be ended.
        """
        return self._mask_fill.fill(cursors, bitmask)

    def forget(self, grammar: Grammar) -> None:
        """Its states are to go, see `sweep`. Cursors that stand on them go on, each for itself."""
        trie = self._tries.pop(grammar, None)
        if trie is not None:
            self._forgotten.append((trie, trie.root))

    def sweep(self, states: int) -> None:
        """Drop so many of the states of grammars that are forgotten."""
        while self._forgotten and states:
            trie, state = self._forgotten.pop()
            self._forgotten.extend((trie, child) for child in state.children())
            self._leaves.pop(state, None)
            self._release(trie, state)
            state.let_go()
            states -= 1

    # --- what cursors ask (`cursor.Keeper`) --------------------------------------------------------------------------

    def keep(self, trie: Trie, parent: State, child: State) -> bool:
        """Give a new state its place behind its parent, where a cursor stands; False if there is no room."""
        cost = child.size_bytes + (snapshot_bytes(child) if child.depth in SNAPSHOT_DEPTHS else 0)
        if not parent.is_kept or not self._make_room(cost):
            return False
        parent.add(child)
        self._charge(child)
        return True

    def arrive(self, state: State) -> None:
        """One cursor more stands there."""
        if not state.cursors:
            self._leaves.pop(state, None)
        state.cursors += 1

    def depart(self, trie: Trie, state: State) -> None:
        """One cursor less stands there."""
        state.cursors -= 1
        if state.is_idle_leaf and state.parent is not None:
            self._leaves[state] = trie

    # --- the budget --------------------------------------------------------------------------------------------------

    def _trie_of(self, grammar: Grammar) -> Trie:
        trie = self._tries.get(grammar)
        if trie is None:
            trie = self._tries[grammar] = Trie(grammar, self.eos_token_ids, self._ledger)
            self._charge(trie.root)
        return trie

    def _keep_row(self, state: State, words: Words) -> None:
        """The mask of a state where a cursor stands, if there is room for it."""
        content = words.tobytes()
        if state.is_kept and (content in self._rows or self._make_room(self._rows.row_bytes)):
            self._ledger.bytes += 0 if content in self._rows else self._rows.row_bytes
            state.row = self._rows.take(content)

    def _make_room(self, size: int) -> bool:
        while self._ledger.bytes + size > self._budget_bytes:
            if self._forgotten:
                self.sweep(1)
            elif self._leaves:
                self._evict()
            else:
                return False
        return True

    def _evict(self) -> None:
        """The leaf that was left longest ago; then its parent is next, if nothing else is below it."""
        state, trie = self._leaves.popitem(last=False)
        parent = state.parent
        assert parent is not None
        parent.remove(state)
        self._release(trie, state)
        if parent.is_idle_leaf and parent.parent is not None:
            self._leaves[parent] = trie
            self._leaves.move_to_end(parent, last=False)

    def _charge(self, state: State) -> None:
        self._ledger.states += 1
        self._ledger.bytes += state.size_bytes

    def _release(self, trie: Trie, state: State) -> None:
        self._ledger.states -= 1
        self._ledger.bytes -= state.size_bytes
        trie.drop(state)
        if state.row is not None and self._rows.give_back(state.row):
            self._ledger.bytes -= self._rows.row_bytes
        state.row = None

    # --- checks ------------------------------------------------------------------------------------------------------

    def check_integrity(self) -> None:
        """Raises BrokenInvariant unless tries, leaves, rows and the ledger agree."""
        tops = [(trie, trie.root) for trie in self._tries.values()] + self._forgotten
        states = [(trie, state) for trie, top in tops for state in _below(top)]
        for trie, state in states:
            _check_state(trie, state)
        idle = {state for trie, state in states if state.is_idle_leaf and state is not trie.root}
        require(idle == self._leaves.keys(), "the leaves that may go are not the idle ones")
        users = Counter(state.row.content for _, state in states if state.row is not None)
        require(users == self._rows.users(), "the rows' users are miscounted")
        snapshots = [(trie, state) for trie in {trie for trie, _ in tops} for state in trie.snapshot_states]
        require({*snapshots} <= {*states}, "a matcher is kept at a state that is gone")
        held = sum(state.size_bytes for _, state in states) + len(self._rows) * self._rows.row_bytes
        held += sum(snapshot_bytes(state) for _, state in snapshots)
        require((len(states), held) == (self._ledger.states, self._ledger.bytes), "the ledger is wrong")
        roots = sum(state.size_bytes for trie, state in states if state is trie.root)
        require(held <= self._budget_bytes + roots, "the budget is exceeded")


def _below(top: State) -> Iterator[State]:
    """It, and all that is below it."""
    waiting = [top]
    while waiting:
        state = waiting.pop()
        waiting.extend(state.children())
        yield state


def _check_state(trie: Trie, state: State) -> None:
    require(state.is_kept and state.cursors >= 0, "a state in a trie is not kept, or less than nobody stands there")
    require((state.parent is None) == (state is trie.root), "a state below the root has no parent")
    for child in state.children():
        require(child.parent is state and child.depth == state.depth + 1, "a child's parent or depth is wrong")
        require(state.child(child.token_id) is child, "a child is not found by its token")
