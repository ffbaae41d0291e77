"""An exact copy of one executor's radix tree, kept by its events, and how much of each follower the tree holds.

Knows token ids and what is cached. Does not know KV, pins, or what a follower waits for.

An event concerns only those followers that stand where it happens. When the tree grows there, it is noted that they can
move on; they do so when somebody wants to know (`settle`), each from where it stands. So a long prompt that is computed
chunk by chunk costs nothing for the thousands that wait with the same beginning, until one of them may start.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import assert_never

from services.scheduler.prefix_node import TOKEN_BYTES, Follower, Node, Spot, below
from services.scheduler.tokens import Tokens
from shared import wire
from shared.invariant import require
from shared.namespaces import tenant_of
from shared.tokens import common_tokens, pages_down

__all__ = ["Follower", "PrefixIndex"]


class PrefixIndex:
    """Args:
    page_size: tokens; everything is matched in whole pages.
    """

    def __init__(self, page_size: int) -> None:
        self.page_size = page_size
        self.tokens = 0  # held
        self._page_bytes = page_size * TOKEN_BYTES
        self._nodes: dict[int, Node] = {}
        self._roots: dict[str, Node] = {}  # by namespace, while there is anything or anybody
        self._tenants: dict[str, Node] = {}  # each above the roots of its namespaces
        self._spots: dict[Follower, Spot] = {}
        self._due: dict[Spot, None] = {}  # where the tree goes on as some of those who stand there do
        self._before: dict[Follower, int] = {}  # hints as they were when last settled

    @property
    def nodes(self) -> int:
        return len(self._nodes)

    # --- followers ---------------------------------------------------------------------------------------------------

    def match(self, namespace: str, tokens: Tokens) -> int:
        """How many of the tokens are held: whole pages, and at most all but one."""
        root = self._roots.get(namespace)
        return self._find(root, tokens)[1] if root is not None else 0

    def follow(self, follower: Follower) -> None:
        """Set its hint, and keep it up to date from here on."""
        if follower in self._spots:
            raise ValueError("it follows already")
        node, at = self._find(self._root(follower.namespace), follower.tokens)
        self._stand(follower, node, at)
        node.weigh(1)

    def leave(self, follower: Follower) -> None:
        """Raises KeyError if it does not follow."""
        spot = self._spots.pop(follower)
        self._before.pop(follower, None)
        spot.node.step_off(follower, spot)
        spot.node.weigh(-1)
        self._drop_if_unused(self._roots[follower.namespace])

    def settle(self) -> set[Follower]:
        """Make all hints exact. Returns the followers whose hint is another than when it was last settled."""
        due, self._due = self._due, {}
        for spot in due:
            if spot.members:
                self._move_on(spot)
        before, self._before = self._before, {}
        return {follower for follower, hint in before.items() if follower.hint_tokens != hint}

    def depth_first(self, tenant: str) -> Iterator[Follower]:
        """A tenant's followers, once settled: where most of them are first, a node's own after its children's.

        The order is that of the beginning; those that were given may leave meanwhile, but no event may be applied.
        """
        top = self._tenants.get(tenant)
        stack = [(top, iter(top.heaviest()))] if top is not None else []
        while stack:
            node, children = stack[-1]
            child = next(children, None)
            if child is not None:
                stack.append((child, iter(child.heaviest())))
            else:
                stack.pop()
                yield from node.in_line()

    # --- events ------------------------------------------------------------------------------------------------------

    def apply(self, events: Iterable[wire.TreeEvent]) -> None:
        """Take changes over, in order.

        Raises:
            ValueError: an event does not fit the tree. The index is of no use any more.
        """
        for event in events:
            match event:
                case wire.Stored():
                    self._store(event)
                case wire.Grown():
                    self._grow(event)
                case wire.Split():
                    self._split(event)
                case wire.Cut():
                    self._cut(event)
                case _:
                    assert_never(event)

    def _store(self, event: wire.Stored) -> None:
        parent = self._root(event.namespace) if event.parent is None else self._node(event.parent)
        key = self._first_page(event.token_ids)
        if key in parent.children or event.namespace != parent.namespace:
            raise ValueError(f"node {event.node} begins like one beside it, or is not in its parent's namespace")
        node = Node(self._unused(event.node), event.namespace, parent, key, event.token_ids)
        self._nodes[event.node] = parent.children[key] = node
        self.tokens += len(node)
        self._note_due(parent, parent.end, key)

    def _grow(self, event: wire.Grown) -> None:
        node, key = self._leaf(event.node), self._first_page(event.token_ids)
        end = node.end
        node.data += event.token_ids
        self.tokens += len(event.token_ids) // TOKEN_BYTES
        self._note_due(node, end, key)

    def _note_due(self, node: Node, at: int, page: bytes) -> None:
        spot = node.spots.get((at, page))
        if spot is not None:
            self._due[spot] = None

    def _split(self, event: wire.Split) -> None:
        node = self._node(event.node)
        if not 0 < event.tokens < len(node) or event.tokens % self.page_size:
            raise ValueError(f"node {event.node} of {len(node)} tokens cannot be split at {event.tokens}")
        upper = self._unused(event.upper)
        self._nodes[upper] = node.split(node.start + event.tokens, upper, self.page_size)

    def _cut(self, event: wire.Cut) -> None:
        node = self._leaf(event.node)
        if not 0 <= event.tokens < len(node) or event.tokens % self.page_size:
            raise ValueError(f"node {event.node} of {len(node)} tokens cannot be cut to {event.tokens}")
        end = node.start + event.tokens
        page = node.page_at(end, self.page_size)
        moved = [follower for spot in list(node.spots.values()) if spot.at > end for follower in node.take(spot)]
        self.tokens -= len(node) - event.tokens
        del node.data[event.tokens * TOKEN_BYTES :]
        home = node if event.tokens else self._remove(node)
        for follower in moved:
            self._before.setdefault(follower, follower.hint_tokens)
            self._put(follower, home, end, page)
        if home.number is None:
            self._drop_if_unused(home)

    def _remove(self, node: Node) -> Node:
        """Returns its parent, where those that stood in it are counted still."""
        parent = node.parent
        assert node.number is not None
        assert parent is not None
        node.weigh(-node.weight, within=parent)
        del self._nodes[node.number], parent.children[node.key]
        return parent

    # --- checks of events --------------------------------------------------------------------------------------------

    def _node(self, number: int) -> Node:
        node = self._nodes.get(number)
        if node is None:
            raise ValueError(f"there is no node {number}")
        return node

    def _leaf(self, number: int) -> Node:
        node = self._node(number)
        if node.children:
            raise ValueError(f"node {number} has children")
        return node

    def _unused(self, number: int) -> int:
        if number in self._nodes:
            raise ValueError(f"there is a node {number} already")
        return number

    def _first_page(self, token_ids: bytes) -> bytes:
        if not token_ids or len(token_ids) % self._page_bytes:
            raise ValueError(f"{len(token_ids)} bytes are not whole pages of {self.page_size} tokens")
        return token_ids[: self._page_bytes]

    # --- places ------------------------------------------------------------------------------------------------------

    def _root(self, namespace: str) -> Node:
        root = self._roots.get(namespace)
        if root is None:
            tenant, key = tenant_of(namespace), namespace.encode()
            top = self._tenants.setdefault(tenant, Node(None, tenant, None, b""))
            root = self._roots[namespace] = top.children[key] = Node(None, namespace, top, key)
        return root

    def _drop_if_unused(self, root: Node) -> None:
        top = root.parent
        if root.children or root.weight or top is None:
            return
        del self._roots[root.namespace], top.children[root.key]
        if not top.children:
            del self._tenants[top.namespace]

    def _limit(self, tokens: Tokens) -> int:
        """How many tokens can be found at most."""
        return pages_down(max(len(tokens) - 1, 0), self.page_size)

    def _page(self, tokens: Tokens, at: int) -> bytes:
        """The page to be found next, if there is one."""
        return tokens[at : at + self.page_size].tobytes() if at < self._limit(tokens) else b""

    def _find(self, node: Node, tokens: Tokens, at: int = 0) -> tuple[Node, int]:
        """The last node that the tokens lead to, from this one on, and how many of them are held; `at` of them are."""
        if at < node.end:
            at = self._match_on(node, tokens, at)
        while at == node.end:
            child = node.children.get(self._page(tokens, at))
            if child is None:
                break
            node, at = child, self._match_on(child, tokens, at)
        return node, at

    def _match_on(self, node: Node, tokens: Tokens, at: int) -> int:
        """How many of the tokens are held, if the first `at` are."""
        common = common_tokens(node.tokens_from(at), tokens[at : self._limit(tokens)])
        return at + pages_down(common, self.page_size)

    def _stand(self, follower: Follower, node: Node, at: int) -> None:
        self._put(follower, node, at, self._page(follower.tokens, at))

    def _put(self, follower: Follower, node: Node, at: int, page: bytes) -> None:
        self._spots[follower] = node.stand(follower, at, page)
        follower.hint_tokens = at

    def _move_on(self, spot: Spot) -> None:
        home, at = spot.node, spot.at
        moved: Counter[Node] = Counter()
        for follower in home.take(spot):
            self._before.setdefault(follower, follower.hint_tokens)
            node, found = self._find(home, follower.tokens, at)
            self._stand(follower, node, found)
            moved[node] += 1
        for node, count in moved.items():
            node.weigh(count, within=home)

    # --- checking ----------------------------------------------------------------------------------------------------

    def check_integrity(self) -> None:
        """Check everything that must hold, each follower's hint by matching it anew, unless it may move on.

        Raises:
            BrokenInvariant: with what is wrong.
        """
        nodes = [node for top in self._tenants.values() for node in below(top)]
        numbered = {node.number: node for node in nodes if node.number is not None}
        require(numbered == self._nodes, "the nodes by number are not those in the tree")
        require(self.tokens == sum(map(len, nodes)), f"{self.tokens} tokens are counted, not as many are there")
        roots = {node.namespace: node for top in self._tenants.values() for node in top.children.values()}
        require(roots == self._roots, "the roots by namespace are not those in the tree")
        require(all(root.children or root.weight for root in roots.values()), "a root is kept for nothing")
        require(all(top.children for top in self._tenants.values()), "a tenant is kept for nothing")
        for node in nodes:
            node.check(self.page_size)
        standing = {follower: spot for node in nodes for spot in node.spots.values() for follower in spot.members}
        require(standing == self._spots, "the followers are not those that stand in the tree")
        for follower, spot in self._spots.items():
            if spot not in self._due:
                self._check_follower(follower, spot)

    def _check_follower(self, follower: Follower, spot: Spot) -> None:
        place = self._find(self._roots[follower.namespace], follower.tokens)
        require((spot.node, spot.at) == place, "a follower does not stand where its tokens lead to")
        require(spot.page == self._page(follower.tokens, spot.at), "a follower stands by a page that is not its next")
        require(follower.hint_tokens == spot.at, f"a hint says {follower.hint_tokens}, {spot.at} tokens are held")
