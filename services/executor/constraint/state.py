"""A state: where a grammar stands behind some output tokens, and what that means for the next one.

Knows its neighbours in the trie. Does not know matchers, budgets or who computes what it holds.

There is one for each token of each constrained output, so it is small: its only child is held without a dict, and the
states of a forced chain share the chain.
"""

from __future__ import annotations

from collections.abc import Iterator

from services.executor.constraint.masks import Row

STATE_BYTES = 220  # with its links and its numbers, measured; a little more where the tree branches at each token
FORCED_BYTES = 40  # of each token of a chain, at the state where it begins


class State:
    """Args:
    chain: tokens that must follow one another, from where the chain began.
    at: how many of them lead here.
    """

    __slots__ = (
        "_chain",
        "_children",
        "at",
        "cursors",
        "depth",
        "is_accepting",
        "is_kept",
        "is_over",
        "parent",
        "row",
        "token_id",
    )

    def __init__(
        self, depth: int, token_id: int, chain: tuple[int, ...], at: int, *, is_accepting: bool, is_over: bool
    ) -> None:
        self.depth = depth  # tokens that lead here
        self.token_id = token_id  # the last of them; of no meaning at depth 0
        self.is_accepting = is_accepting  # the output may end here
        self.is_over = is_over  # and nothing else may follow
        self.parent: State | None = None
        self.is_kept = False  # it has its place in a trie; else it goes with the cursor that stands on it
        self.cursors = 0  # that stand here
        self.row: Row | None = None  # its mask, where it had to be computed
        self.at = at
        self._chain = chain
        self._children: State | dict[int, State] | None = None

    @property
    def forced(self) -> tuple[int, ...]:
        """The tokens that must follow; none if there is a choice."""
        return self._chain[self.at :]

    @property
    def next_forced(self) -> int | None:
        return self._chain[self.at] if self.at < len(self._chain) else None

    def chain_behind(self, token_id: int) -> tuple[tuple[int, ...], int] | None:
        """The chain, and the place in it, of the child with this token; None if no more of the chain follows it."""
        if self.at + 1 < len(self._chain) and self._chain[self.at] == token_id:
            return self._chain, self.at + 1
        return None

    @property
    def size_bytes(self) -> int:
        """What the budget is charged, besides its row."""
        return STATE_BYTES + (FORCED_BYTES * len(self._chain) if self.at == 0 else 0)

    # --- children ----------------------------------------------------------------------------------------------------

    @property
    def is_idle_leaf(self) -> bool:
        return self._children is None and not self.cursors

    def child(self, token_id: int) -> State | None:
        children = self._children
        if type(children) is State:
            return children if children.token_id == token_id else None
        return children.get(token_id) if type(children) is dict else None

    def children(self) -> Iterator[State]:
        if isinstance(self._children, State):
            yield self._children
        elif self._children is not None:
            yield from self._children.values()

    def add(self, child: State) -> None:
        child.parent, child.is_kept = self, True
        if self._children is None:
            self._children = child
        elif isinstance(self._children, State):
            self._children = {self._children.token_id: self._children, child.token_id: child}
        else:
            self._children[child.token_id] = child

    def remove(self, child: State) -> None:
        child.parent, child.is_kept = None, False
        if isinstance(self._children, dict):
            del self._children[child.token_id]
            if self._children:
                return
        self._children = None

    def let_go(self) -> None:
        """It is in no trie any more, and knows nobody."""
        self.parent, self.is_kept, self._children = None, False, None
