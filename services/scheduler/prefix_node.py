"""A node of the copy of an executor's tree, and the followers that stand in it.

Knows its neighbours, its tokens and who stands where. Does not know events.

    parent ──┐ tokens [start, end) of every prefix through here ┌── children, by their first page
             └──────────────────────────────────────────────────┘
    A follower stands at (at, next page), start < at <= end: so many of its tokens are held, and that page comes next.
    Its next page is not what the tree has there; b"" if it has no whole page left, and so will never move on.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

import numpy as np
from sortedcontainers import SortedKeyList

from services.scheduler.tokens import Tokens
from shared.invariant import require

TOKEN_BYTES = 4


class Follower(Protocol):
    """A request that waits, or whoever else wants to know how much of it is held."""

    hint_tokens: int  # set by the index: whole pages, at most all tokens but one

    @property
    def namespace(self) -> str: ...
    @property
    def tokens(self) -> Tokens: ...  # stays the same while it follows
    @property
    def order(self) -> int: ...  # of arrival

    def __hash__(self) -> int: ...


class Spot:
    """The followers that stand at one place and go on in the same way."""

    __slots__ = ("at", "members", "node", "page")

    def __init__(self, node: Node, at: int, page: bytes) -> None:
        self.node, self.at, self.page = node, at, page
        self.members: dict[Follower, None] = {}


class Node:
    """Without a number it is the root of a namespace, or above the roots of a tenant: then it has no tokens."""

    __slots__ = (
        "_in_line",
        "children",
        "data",
        "key",
        "namespace",
        "number",
        "parent",
        "ranks",
        "spots",
        "start",
        "weight",
    )

    def __init__(self, number: int | None, namespace: str, parent: Node | None, key: bytes, data: bytes = b"") -> None:
        self.number = number
        self.namespace = namespace
        self.parent = parent
        self.key = key  # its name among its siblings
        self.start = parent.end if parent is not None else 0
        self.data = bytearray(data)  # int32, little-endian
        self.children: dict[bytes, Node] = {}
        self.spots: dict[tuple[int, bytes], Spot] = {}
        self.weight = 0  # followers here and below
        self.ranks: dict[int, dict[Node, None]] = {}  # the children by their weight, unless it is 0
        self._in_line: SortedKeyList | None = None  # the followers here by order, once anybody has asked

    def __len__(self) -> int:
        return len(self.data) // TOKEN_BYTES

    @property
    def end(self) -> int:
        return self.start + len(self.data) // TOKEN_BYTES

    def tokens_from(self, at: int) -> Tokens:
        """A view, not to be kept: the node cannot change while there is one."""
        return np.frombuffer(self.data, np.int32, offset=(at - self.start) * TOKEN_BYTES)

    def page_at(self, at: int, page_size: int) -> bytes:
        first = (at - self.start) * TOKEN_BYTES
        return bytes(self.data[first : first + page_size * TOKEN_BYTES])

    # --- followers ---------------------------------------------------------------------------------------------------

    def stand(self, follower: Follower, at: int, page: bytes) -> Spot:
        """Weights are not touched."""
        spot = self.spots.get((at, page))
        if spot is None:
            spot = self.spots[at, page] = Spot(self, at, page)
        spot.members[follower] = None
        if self._in_line is not None:
            self._in_line.add(follower)
        return spot

    def step_off(self, follower: Follower, spot: Spot) -> None:
        del spot.members[follower]
        if not spot.members:
            del self.spots[spot.at, spot.page]
        if self._in_line is not None:
            self._in_line.remove(follower)

    def take(self, spot: Spot) -> list[Follower]:
        """Empty a spot. Returns who stood there."""
        del self.spots[spot.at, spot.page]
        if self._in_line is not None:
            for follower in spot.members:
                self._in_line.remove(follower)
        members = list(spot.members)
        spot.members.clear()
        return members

    def in_line(self) -> list[Follower]:
        """Those that stand here, the oldest first."""
        if self._in_line is None:
            members = (follower for spot in self.spots.values() for follower in spot.members)
            self._in_line = SortedKeyList(members, key=lambda follower: follower.order)
        return list(self._in_line)

    # --- weights -----------------------------------------------------------------------------------------------------

    def weigh(self, change: int, within: Node | None = None) -> None:
        """So many followers more here and in the nodes above, up to, not including, `within`."""
        node: Node | None = self
        while node is not None and node is not within:
            if node.parent is not None:
                node.parent.rank(node, node.weight, node.weight + change)
            node.weight += change
            node = node.parent

    def rank(self, child: Node, old: int, new: int) -> None:
        if old:
            del self.ranks[old][child]
            if not self.ranks[old]:
                del self.ranks[old]
        if new:
            self.ranks.setdefault(new, {})[child] = None

    def heaviest(self) -> list[Node]:
        """The children with followers below, most of them first."""
        return [child for weight in sorted(self.ranks, reverse=True) for child in self.ranks[weight]]

    # --- changing shape ----------------------------------------------------------------------------------------------

    def split(self, at: int, upper_number: int, page_size: int) -> Node:
        """Put a new node above that takes the tokens before `at`, and the followers up to there."""
        assert self.parent is not None
        above, cut = self.parent, (at - self.start) * TOKEN_BYTES
        upper = Node(upper_number, self.namespace, above, self.key, bytes(self.data[:cut]))
        above.rank(self, self.weight, 0)
        above.rank(upper, 0, self.weight)
        above.children[self.key] = upper
        upper.weight = self.weight
        del self.data[:cut]
        self.parent, self.start = upper, at
        self.key = self.page_at(at, page_size)
        upper.children[self.key] = self
        self._hand_over(upper)
        upper.rank(self, 0, self.weight)
        return upper

    def _hand_over(self, upper: Node) -> None:
        """Those that stand before this node's start stand in the new one above it."""
        for place, spot in [(place, spot) for place, spot in self.spots.items() if spot.at <= self.start]:
            del self.spots[place]
            upper.spots[place], spot.node = spot, upper
            self.weight -= len(spot.members)
        self._in_line = None

    def check(self, page_size: int) -> None:
        """Raises BrokenInvariant with what is wrong."""
        require((self.number is None) == (not len(self)), "a node is empty, or a root is not")
        require(len(self) % page_size == 0, "a node does not end on a page")
        for key, child in self.children.items():
            require(child.parent is self, "a child has another parent")
            require(child.start == self.end, "a child does not start where its parent ends")
            require(child.namespace == self.namespace or not self.parent, "a child is in another namespace")
            require(key == child.key, "a child is filed under another page than its first")
            require(child.number is None or key == child.page_at(child.start, page_size), "a key is not the first page")
        here = [follower for spot in self.spots.values() for follower in spot.members]
        weight = len(here) + sum(child.weight for child in self.children.values())
        require(self.weight == weight, f"{self.weight} followers are counted here and below, not {weight}")
        ranked = {child: weight for weight, children in self.ranks.items() for child in children}
        weights = {child: child.weight for child in self.children.values() if child.weight}
        require(ranked == weights, "the children are ranked by other weights than they have")
        require(all(self.ranks.values()), "a rank is kept for nobody")
        require(self._in_line is None or set(self._in_line) == set(here), "others are in line than stand here")
        for place, spot in self.spots.items():
            require(spot.node is self and place == (spot.at, spot.page), "a spot is filed under another place")
            require(bool(spot.members), "a spot is kept for nobody")
            require(self.start < spot.at <= self.end or self.number is None, "a follower stands outside its node")


def below(node: Node) -> Iterator[Node]:
    """The node and all below it, each before its children."""
    stack = [node]
    while stack:
        node = stack.pop()
        yield node
        stack.extend(node.children.values())
