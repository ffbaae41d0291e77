import random
from itertools import groupby

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from services.scheduler.prefix_index import PrefixIndex
from shared import wire
from shared.invariant import BrokenInvariant
from shared.namespaces import tenant_of
from tests.services.scheduler.toy_tree import ToyTree, Waiter, packed

NAMESPACES = ("a", "a/x", "b")
namespaces = st.sampled_from(NAMESPACES)


class Copies(RuleBasedStateMachine):
    """An executor's tree changes, followers come and go, and now and then the index hears of it."""

    @initialize(page_size=st.sampled_from([1, 4]))
    def begin(self, page_size):
        self.page_size = page_size
        self.tree, self.index = ToyTree(page_size), PrefixIndex(page_size)
        self.followers, self.came, self.seen = [], 0, ["xyxy"]
        self.settled = {}  # the hints as they were when last settled

    def runs(self, data):
        """Tokens that go on from some point of what has been seen before."""
        before = data.draw(st.sampled_from(self.seen))
        pages = before[: data.draw(st.integers(0, len(before)))] + data.draw(st.text("xyz", min_size=1, max_size=3))
        self.seen.append(pages)
        return [token for page in pages for token in [*[0] * (self.page_size - 1), "xyz".index(page)]]

    @rule(data=st.data(), namespace=namespaces, grow=st.booleans())
    def insert(self, data, namespace, grow):
        self.tree.insert(namespace, self.runs(data), grow)

    @precondition(lambda self: self.tree.nodes)
    @rule(data=st.data(), whole=st.booleans())
    def cut(self, data, whole):
        leaf = data.draw(st.sampled_from(self.tree.leaves()))
        pages = 0 if whole else data.draw(st.integers(0, len(self.tree.nodes[leaf].tokens) // self.page_size - 1))
        self.tree.cut(leaf, pages * self.page_size)

    @rule()
    def hear(self):
        self.index.apply(self.tree.take_events())
        assert self.index.tokens == sum(len(node.tokens) for node in self.tree.nodes.values())
        assert self.index.nodes == len(self.tree.nodes)

    @rule()
    def settle(self):
        self.hear()
        changed = self.index.settle()
        assert changed == {follower for follower in self.followers if follower.hint_tokens != self.settled[follower]}
        for follower in self.followers:
            assert follower.hint_tokens == self.tree.hint(follower.namespace, follower.tokens)
        self.settled = {follower: follower.hint_tokens for follower in self.followers}

    @rule(data=st.data(), namespace=namespaces, more=st.integers(0, 4))
    def follow(self, data, namespace, more):
        self.hear()
        follower = Waiter(self.came, tuple(self.runs(data) + [0] * more), namespace)
        self.came += 1
        self.followers.append(follower)
        self.index.follow(follower)
        self.settled[follower] = follower.hint_tokens
        hint = self.tree.hint(namespace, follower.tokens)
        assert follower.hint_tokens == self.index.match(namespace, follower.tokens) == hint

    @precondition(lambda self: self.followers)
    @rule(data=st.data())
    def leave(self, data):
        follower = self.followers.pop(data.draw(st.integers(0, len(self.followers) - 1)))
        self.index.leave(follower)

    @rule()
    def join_anew(self):
        self.tree.take_events()
        self.index = PrefixIndex(self.page_size)
        for follower in self.followers:
            self.index.follow(follower)
        self.settled = dict.fromkeys(self.followers, 0)
        self.index.apply(self.tree.snapshot())

    @rule(tenant=st.sampled_from(["a", "b", "c"]))
    def go_depth_first(self, tenant):
        self.settle()
        given = list(self.index.depth_first(tenant))
        assert set(given) == {follower for follower in self.followers if follower.tenant == tenant}
        assert len(given) == len(set(given))
        roots = [list(own) for _, own in groupby(given, key=lambda follower: follower.namespace)]
        assert_heaviest_first([(own[0].namespace, own) for own in roots])
        for own in roots:
            self.assert_depth_first(own, 0)

    def assert_depth_first(self, given, depth):
        """All of them pass through the same node at this depth; who stands there comes last."""

        def child(follower):
            path = self.nodes_of(follower)
            return path[depth] if len(path) > depth else None

        parts = [(key, list(own)) for key, own in groupby(given, key=child)]
        if parts[-1][0] is None:
            orders = [follower.order for follower in parts.pop()[1]]
            assert orders == sorted(orders)
        assert all(key is not None for key, _ in parts)
        assert_heaviest_first(parts)
        for _, own in parts:
            self.assert_depth_first(own, depth + 1)

    def nodes_of(self, follower):
        """The nodes in which something of it is held."""
        tree, tokens = self.tree, list(map(int, follower.tokens))[: follower.hint_tokens]
        paths = [tree.path(n) for n, node in tree.nodes.items() if node.namespace == follower.namespace]
        passed = [path for path in paths if tree.prefix(path[-1])[: len(tokens)] == tokens]
        starts = {n: len(tree.prefix(n)) - len(tree.nodes[n].tokens) for n in tree.nodes}
        return [n for n in passed[0] if starts[n] < len(tokens)] if tokens else []

    @invariant()
    def is_sound(self):
        if hasattr(self, "index"):
            self.index.check_integrity()


def assert_heaviest_first(parts):
    keys = [key for key, _ in parts]
    assert len(set(keys)) == len(keys)
    weights = [len(own) for _, own in parts]
    assert weights == sorted(weights, reverse=True)


TestCopies = Copies.TestCase
TestCopies.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)


@pytest.mark.parametrize("page_size", [1, 4])
@pytest.mark.parametrize("seed", range(4))
def test_hints_are_exact_through_a_long_life(seed, page_size):
    """Hypothesis keeps its examples short; here the tree and the crowd grow old."""
    chance, tree, index = random.Random(seed), ToyTree(page_size), PrefixIndex(page_size)
    seen, followers = [""], []

    def tokens():
        pages = chance.choice(seen)
        pages = pages[: chance.randint(0, len(pages))] + "".join(chance.choices("xyz", k=chance.randint(1, 4)))
        seen.append(pages)
        return [token for page in pages for token in [*[0] * (page_size - 1), "xyz".index(page)]]

    for step in range(400):
        if chance.random() < 0.4:
            tree.insert(chance.choice(NAMESPACES), tokens(), grow=chance.random() < 0.5)
        elif chance.random() < 0.5 and tree.nodes:
            leaf = chance.choice(tree.leaves())
            tree.cut(leaf, chance.choice([0, chance.randrange(0, len(tree.nodes[leaf].tokens), page_size)]))
        elif chance.random() < 0.6:
            followers.append(Waiter(step, (*tokens(), *[0] * chance.randint(0, 4)), chance.choice(NAMESPACES)))
            index.follow(followers[-1])
        elif followers:
            index.leave(followers.pop(chance.randrange(len(followers))))
        if chance.random() < 0.5:
            index.settle()
            list(index.depth_first(chance.choice("ab")))
        index.apply(tree.take_events())
        index.check_integrity()
        if step % 50 == 49:
            index.settle()
            assert [f.hint_tokens for f in followers] == [tree.hint(f.namespace, f.tokens) for f in followers]
    assert len(followers) > 10
    assert index.nodes == len(tree.nodes) > 10


def stored(node, parent, tokens, namespace="a"):
    return wire.Stored(node, parent, namespace, packed(tokens))


class Shy(Waiter):
    """Counts how often anybody looks at its tokens."""

    looks = 0

    def __getattribute__(self, name):
        if name == "tokens":
            self.looks += 1
        return super().__getattribute__(name)


def test_an_event_where_nobody_stands_looks_at_no_follower():
    index = PrefixIndex(1)
    index.apply([stored(1, None, [1, 2, 3]), stored(2, 1, [4, 5]), stored(3, 1, [6])])
    followers = [Shy(0, (1, 2, 3, 7, 7)), Shy(1, (1, 2, 9, 9)), Shy(2, (9, 9)), Shy(3, (1, 2, 3, 4))]
    for follower in followers:
        index.follow(follower)
        follower.looks = 0
    elsewhere = [
        wire.Grown(2, packed([7])),
        stored(4, 1, [8, 8]),
        stored(5, None, [9], "b"),
        wire.Split(2, 1, 6),
        wire.Cut(3, 0),
        wire.Cut(2, 1),
    ]
    index.apply(elsewhere)
    assert index.settle() == set()
    assert [follower.looks for follower in followers] == [0, 0, 0, 0]
    assert [follower.hint_tokens for follower in followers] == [3, 2, 0, 3]


def test_only_those_that_wait_for_these_very_tokens_move_on():
    index = PrefixIndex(1)
    index.apply([stored(1, None, [1, 2])])
    moves, stays = Shy(0, (1, 2, 3, 4, 5)), Shy(1, (1, 2, 9))
    index.follow(moves)
    index.follow(stays)
    stays.looks = 0
    index.apply([wire.Grown(1, packed([3, 4]))])
    assert index.settle() == {moves}
    assert (moves.hint_tokens, stays.hint_tokens, stays.looks) == (4, 2, 0)


def test_who_may_move_on_is_looked_at_once_however_often_the_tree_has_grown():
    index, follower = PrefixIndex(1), Shy(0, range(100))
    index.follow(follower)
    follower.looks = 0
    index.apply([stored(1, None, [0]), *(wire.Grown(1, packed([token])) for token in range(1, 50))])
    index.apply([stored(2, 1, range(50, 60)), wire.Split(1, 20, 3), wire.Cut(2, 5)])
    assert follower.looks == 0
    assert index.settle() == {follower}
    assert follower.hint_tokens == 55
    assert index.settle() == set()
    index.check_integrity()


def test_who_ends_up_where_it_was_has_not_changed():
    index, follower = PrefixIndex(1), Waiter(0, (1, 2))
    index.follow(follower)
    index.apply([stored(1, None, [1]), wire.Cut(1, 0)])
    assert index.settle() == set()
    assert follower.hint_tokens == 0


def test_namespaces_share_nothing():
    index = PrefixIndex(1)
    index.apply([stored(1, None, [1, 2, 3])])
    tokens = Waiter(0, (1, 2, 3, 4)).tokens
    assert [index.match(name, tokens) for name in NAMESPACES] == [3, 0, 0]
    assert [tenant_of(name) for name in NAMESPACES] == ["a", "a", "b"]


@pytest.mark.parametrize(
    "event",
    [
        stored(1, None, [9, 9]),  # the number is taken
        stored(3, 7, [9, 9]),  # no such parent
        stored(3, None, [1, 2]),  # begins like its sibling
        stored(3, None, []),
        stored(3, None, [9]),  # half a page
        stored(3, 1, [9, 9], "b"),  # its parent is in another namespace
        wire.Grown(7, packed([9, 9])),
        wire.Grown(1, packed([9, 9])),  # has children
        wire.Grown(2, b""),
        wire.Grown(2, packed([9, 9, 9])),
        wire.Split(7, 2, 8),
        wire.Split(1, 0, 8),
        wire.Split(1, 4, 8),
        wire.Split(1, 1, 8),
        wire.Split(1, 2, 2),
        wire.Cut(7, 0),
        wire.Cut(1, 0),  # has children
        wire.Cut(2, 1),
        wire.Cut(2, 4),
        wire.Cut(2, -2),
    ],
)
def test_an_event_that_does_not_fit_is_an_error(event):
    index = PrefixIndex(2)
    index.apply([stored(1, None, [1, 2, 3, 4]), stored(2, 1, [5, 6, 7, 8])])
    with pytest.raises(ValueError, match=r"node|pages"):
        index.apply([event])


def test_to_follow_twice_or_to_leave_without_following_is_an_error():
    index, follower = PrefixIndex(1), Waiter(0)
    with pytest.raises(KeyError):
        index.leave(follower)
    index.follow(follower)
    with pytest.raises(ValueError, match="follows"):
        index.follow(follower)


def test_a_hint_that_is_wrong_is_found():
    index, follower = PrefixIndex(1), Waiter(0, (1, 2, 3))
    index.apply([stored(1, None, [1, 2])])
    index.follow(follower)
    follower.hint_tokens = 1
    with pytest.raises(BrokenInvariant, match="hint"):
        index.check_integrity()


def test_nothing_is_kept_of_those_that_are_gone():
    index, follower = PrefixIndex(1), Waiter(0, (1, 2, 3), "b/x")
    index.follow(follower)
    index.apply([stored(1, None, [1, 2], "b/x"), wire.Cut(1, 0)])
    index.leave(follower)
    index.check_integrity()
    assert (index.nodes, index.tokens, index.match("b/x", follower.tokens)) == (0, 0, 0)
