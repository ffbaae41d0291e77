"""The prefix cache: a compressed trie of token sequences whose nodes own the KV slots of their tokens.

Knows token ids, namespaces and slot numbers. Does not know tensors, requests or time: "used last" is a counter.

A running request holds one pin, at the node where what it shares with the tree ends; a pin counts on every node up to
the root, and pinned nodes stay. What the tree holds can be found by others at once, although its request still runs.
Node boundaries lie where a pin ended, where sequences part, and at the end of every prompt (`seal`), so that output can
go before the prompt that it followed. Only whole pages are held and found.

Eviction takes from the leaf that its policy ranks lowest (`eviction`), from its end: as much as is needed, and a little
more if that gives the new tokens one place. So a prefix always outlives what follows it. What it may take of each
tenant is for `quota` to say. Every change of the tree is written down (`tree_log`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from services.executor import cache_integrity, tree_log
from services.executor.eviction import DEAR, POLICIES, Rank
from services.executor.harvest import harvest
from services.executor.nodes import NO_SLOTS, NORMAL, Node, Tokens, Use, below
from services.executor.quota import QUOTA, Account, Accounts
from services.executor.recent import Recent
from services.executor.slots import SlotAllocator, Slots
from services.executor.tree_log import TreeLog
from shared import wire
from shared.config import EvictionPolicy
from shared.tokens import common_tokens, pages_down

# What goes for the sake of a better place only: of what nobody reuses, so many times what is wanted; of the rest, no
# more than leaves so small a part of the pool free.
CHEAP_FACTOR = 4
DEAR_PARTS = 32


@dataclass(frozen=True, slots=True)
class Held:
    """Where a caller's pin is, and the tree's slots of the tokens in question."""

    node: Node
    slots: Slots


class RadixCache:
    """Args:
    slots: where evicted and duplicate slots go, and `allocate` takes from.
    quota: the part of the pool that is kept for the tenants.
    """

    def __init__(self, slots: SlotAllocator, *, policy: EvictionPolicy = "lru", quota: float = QUOTA) -> None:
        self._slots = slots
        self.page_size = slots.page_size
        self._roots: dict[str, Node] = {}
        self._accounts = Accounts(
            POLICIES[policy], kept_tokens=int(quota * slots.capacity_tokens), page_size=slots.page_size
        )
        self._log = TreeLog()
        self._uses = 0
        self._recent = Recent()
        self.nodes = 0
        self.pinned_tokens = 0
        self.evictable_tokens = 0
        self.evicted_tokens = 0  # since the start, flushes aside

    @property
    def cached_tokens(self) -> int:
        return self.pinned_tokens + self.evictable_tokens

    @property
    def uses(self) -> int:
        """The counter that stands for time."""
        return self._uses

    @property
    def namespaces(self) -> int:
        return len(self._roots)

    def holds(self, namespace: str) -> bool:
        return namespace in self._roots

    def match(self, namespace: str, tokens: Tokens) -> int:
        """How many tokens `pin` would find. Changes nothing at all."""
        return sum(matched for _, matched in self._path(namespace, tokens[:-1]))

    def pin(self, namespace: str, tokens: Tokens, use: Use = NORMAL) -> Held:
        """Find the longest cached prefix and pin it. Never all of `tokens`: one must be computed to get logits."""
        node = self._root(namespace)
        found = []
        for child, matched in self._path(namespace, tokens[:-1]):
            node = child if matched == len(child.tokens) else self._split(child, matched)
            found.append(node.slots)
        self._pin(node, None, use)
        return Held(node, np.concatenate(found) if found else NO_SLOTS)

    def unpin(self, node: Node) -> None:
        """Let go of a pin. What no other request needs can be evicted from now on."""
        self._uses += 1
        account = self._accounts.of(node.namespace)
        at: Node | None = node
        while at is not None:
            at.pins -= 1
            at.last_used = self._uses
            if not at.pins:
                self._count(account, pinned=-len(at.tokens), evictable=len(at.tokens))
            at = at.parent
        self._note_use(node)
        self._on_idle(node)

    def extend(self, node: Node, tokens: Tokens, slots: Slots, use: Use = NORMAL, *, splits: bool = True) -> Held:
        """Hand over what was computed behind `node`, whole pages; the caller's pin moves from `node` to where they end.

        The given slots are the tree's from here on. Where it has the tokens already, they are freed, and the tree's own
        slots (returned) stand for these tokens: somebody else computed the same before or at the same time.

        Args:
            splits: False if a node in which they all end is not worth a boundary: these last ones stay the caller's,
                and fewer slots are returned than were given. So an answer that is given again leaves no trace.
        """
        end, known = node, 0
        kept = []
        while (child := end.children.get(self._key(tokens[known:]))) is not None:
            matched = self._common(child.tokens, tokens[known:])
            if matched < len(child.tokens):
                if not splits and known + matched == len(tokens):
                    break
                child = self._split(child, matched)
            end = child
            known += matched
            kept.append(end.slots)
        self._slots.free(slots[:known])
        self._pin(end, node, use)
        if known < len(tokens) and child is None:
            kept.append(slots[known:])
            end = self._append(end, tokens[known:], slots[known:], use)
        return Held(end, np.concatenate(kept) if kept else NO_SLOTS)

    def seal(self, node: Node) -> None:
        """Keep a boundary at the end of this node: a prompt ends here."""
        node.sealed = True

    def allocate(
        self,
        tokens: int,
        after: int | None = None,
        tenant: str | None = None,
        ahead: int = 0,
        *,
        is_alone: bool = False,
    ) -> Slots | None:
        """Slots of whole pages for new tokens, evicting as needed; None, and nothing happens, if there is no room.

        Args:
            after: the slot that the new ones continue; None if they continue nothing.
            tenant: whose tokens they are: what the others' quotas protect stays. None: quotas do not count.
            ahead: how many more will follow soon, whole pages: room for them in the same place is worth evicting for.
            is_alone: if there is no room otherwise, the others' quotas do not count.
        """
        if self._slots.room_behind(after) < tokens:
            if tokens > self._slots.free_tokens + sum(self._limits(tenant if not is_alone else None).values()):
                return None
            self._evict(tokens - self._slots.unclaimed_tokens, tenant)
            self._evict(tokens - self._slots.free_tokens, None)
            self._make_run(tokens + ahead, tenant)
        return self._slots.allocate(tokens, after, ahead)

    def _make_run(self, tokens: int, tenant: str | None) -> None:
        """Evict until there is a free run of so many slots; but little for its sake of what may be used again."""
        cheap_tokens = CHEAP_FACTOR * tokens
        dear_tokens = self._slots.capacity_tokens // DEAR_PARTS - self._slots.free_tokens
        while (missing := tokens - self._slots.longest_run) > 0:
            cheap = self._evict(min(tokens, cheap_tokens), tenant, below=DEAR)
            dear = 0 if cheap else self._evict(pages_down(min(missing, dear_tokens), self.page_size), tenant)
            if not (cheap or dear):
                return
            cheap_tokens, dear_tokens = cheap_tokens - cheap, dear_tokens - dear

    def _evict(self, tokens: int, tenant: str | None, below: Rank | None = None) -> int:
        freed = harvest(tokens, self._limits(tenant), self._shorten, below) if tokens > 0 else 0
        self.evicted_tokens += freed
        return freed

    def _limits(self, tenant: str | None) -> dict[Account, int]:
        return self._accounts.no_limits() if tenant is None else self._accounts.limits(tenant)

    def free(self, slots: Slots) -> None:
        """Give back slots from `allocate` that the tree did not take over."""
        self._slots.free(slots)

    def give_up_claim(self, after: int) -> None:
        """Nothing will follow this slot."""
        self._slots.give_up_claim(after)

    def flush(self) -> int:
        """Forget everything that is not pinned. Returns the number of tokens freed."""
        return harvest(self.evictable_tokens, self._accounts.no_limits(), self._shorten)

    # --- what others may know ----------------------------------------------------------------------------------------

    def walk(self) -> Iterator[tuple[int, Node]]:
        """The nodes, and how many tokens come before each; parents first."""
        for root in self._roots.values():
            yield from (found for found in below(root) if found[1] is not root)

    def walk_recent(self) -> Iterator[Node]:
        """The nodes that were used last, the last one first; of a large tree not all."""
        return self._recent.paths()

    def take_events(self) -> tuple[wire.TreeEvent, ...]:
        """What has happened to the tree since last asked, in order."""
        return self._log.take()

    def snapshot(self) -> tuple[wire.Stored, ...]:
        """The tree as if all of it were new."""
        return tuple(tree_log.stored(node) for _, node in self.walk())

    def protected_tokens(self) -> dict[str, int]:
        """By tenant: of its evictable tokens, how many `allocate` does not take for others."""
        return self._accounts.protected()

    def tenants(self) -> dict[str, int]:
        """By tenant: its cached tokens."""
        return {account.tenant: account.cached_tokens for account in self._accounts}

    # --- walking -----------------------------------------------------------------------------------------------------

    def _root(self, namespace: str) -> Node:
        root = self._roots.get(namespace)
        if root is None:
            root = self._roots[namespace] = Node(namespace, None)
            self._accounts.open(namespace)
        return root

    def _path(self, namespace: str, tokens: Tokens) -> Iterator[tuple[Node, int]]:
        """The nodes that `tokens` lead through, and how many of each one's tokens match: of all but the last, all."""
        node = self._roots.get(namespace)
        start = 0
        while node is not None:
            child = node.children.get(self._key(tokens[start:]))
            if child is None:
                return
            matched = self._common(child.tokens, tokens[start:])
            node = child if matched == len(child.tokens) else None
            start += matched
            yield child, matched

    def _key(self, tokens: Tokens) -> bytes:
        """A node's name among its siblings. Less than a page of tokens is nobody's name."""
        return tokens[: self.page_size].tobytes()

    def _common(self, ours: Tokens, theirs: Tokens) -> int:
        """Length, in whole pages, of the common prefix of two runs whose first pages are equal."""
        return pages_down(common_tokens(ours, theirs), self.page_size)

    def _pin(self, node: Node, above: Node | None, use: Use) -> None:
        """Pin from `node` up to, not including, `above`: nodes that others have made."""
        self._uses += 1
        account = self._accounts.of(node.namespace)
        at: Node | None = node
        while at is not above and at is not None:
            if not at.pins:
                self._count(account, pinned=len(at.tokens), evictable=-len(at.tokens))
            at.pins += 1
            at.hits += 1
            at.last_used = self._uses
            at.priority = max(at.priority, use.priority)
            at.is_cheap = False
            at = at.parent
        self._note_use(node)

    def _note_use(self, end: Node) -> None:
        if end.parent is not None:
            self._recent.note(end)

    def _count(self, account: Account, *, pinned: int = 0, evictable: int = 0) -> None:
        account.pinned_tokens += pinned
        account.evictable_tokens += evictable
        self.pinned_tokens += pinned
        self.evictable_tokens += evictable

    # --- changing shape ----------------------------------------------------------------------------------------------

    def _split(self, node: Node, at: int) -> Node:
        """Put a new node above `node` that takes its first `at` tokens. Pins at the end of `node` stay there."""
        assert node.parent is not None
        upper = Node(node.namespace, node.parent, self._log.number(), node.tokens[:at].copy(), node.slots[:at].copy())
        upper.pins, upper.last_used = node.pins, node.last_used
        upper.hits, upper.priority, upper.is_cheap = node.hits, node.priority, node.is_cheap
        node.parent.children[self._key(node.tokens)] = upper
        node.parent, node.tokens, node.slots = upper, node.tokens[at:].copy(), node.slots[at:].copy()
        upper.children[self._key(node.tokens)] = node
        self.nodes += 1
        self._log.split(node, upper)
        return upper

    def _append(self, end: Node, tokens: Tokens, slots: Slots, use: Use) -> Node:
        """Put new tokens behind the caller's pin at `end`: into that node if it is the caller's alone, else below."""
        self._count(self._accounts.of(end.namespace), pinned=len(tokens))
        if self._can_grow(end):
            end.grow(tokens, slots)
            self._log.grown(end, tokens)
            return end
        child = Node(end.namespace, end, self._log.number(), tokens.copy(), slots.copy(), pins=1, last_used=self._uses)
        child.priority, child.is_cheap = use.priority, use.is_cheap
        end.children[self._key(tokens)] = child
        self.nodes += 1
        self._log.stored(child)
        self._note_use(child)
        return child

    @staticmethod
    def _can_grow(end: Node) -> bool:
        """Whether the owner of its one pin has made it, and nobody else has used it."""
        return end.pins == 1 and not (end.hits or end.children or end.sealed or end.parent is None)

    # --- evicting ----------------------------------------------------------------------------------------------------

    def _shorten(self, leaf: Node, count: int) -> int:
        """Free the last `count` tokens of an unpinned leaf, and the leaf if none are left."""
        assert leaf.parent is not None
        self._count(self._accounts.of(leaf.namespace), evictable=-count)
        self._slots.free(leaf.slots[-count:])
        self._log.cut(leaf, len(leaf.tokens) - count)
        if count == len(leaf.tokens):
            del leaf.parent.children[self._key(leaf.tokens)]
            self.nodes -= 1
            self._recent.forget(leaf)
            self._on_idle(leaf.parent)
        else:
            leaf.cut(len(leaf.tokens) - count)
            leaf.sealed = False
            self._on_idle(leaf)
        return count

    def _on_idle(self, node: Node) -> None:
        """Queue the node for eviction if it is an unpinned leaf. An empty root goes at once."""
        if not node.is_idle_leaf:
            return
        if node.parent is None:
            del self._roots[node.namespace]
            self._accounts.close(node.namespace)
        else:
            self._accounts.of(node.namespace).leaves.add(node)

    # --- checking ----------------------------------------------------------------------------------------------------

    def check_integrity(self, holders: Iterable[tuple[Node | None, Slots]] = ()) -> None:
        """Check everything that must hold. Costs time in proportion to the pool.

        Args:
            holders: for each running request, where its pin is (None: nowhere) and the slots it holds privately.

        Raises:
            BrokenInvariant: with what is wrong.
        """
        held = list(holders)
        self._slots.check_integrity()
        nodes = [node for root in self._roots.values() for _, node in below(root)]
        self._recent.check_integrity(nodes)
        cache_integrity.check_nodes(nodes, [node for node, _ in held if node is not None], self.page_size)
        cache_integrity.check_accounts(nodes, self._accounts)
        cache_integrity.check_totals(nodes, self.nodes, self.pinned_tokens, self.evictable_tokens)
        cache_integrity.check_slots(nodes, [private for _, private in held], self._slots)


class NoCache(RadixCache):
    """The switched-off cache: finds nothing and keeps nothing, so that every request computes its whole prompt."""

    def extend(self, node: Node, tokens: Tokens, slots: Slots, use: Use = NORMAL, *, splits: bool = True) -> Held:
        """Takes nothing: the slots stay the caller's."""
        return Held(node, NO_SLOTS)
