import random
from itertools import islice
from typing import get_args

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from services.scheduler import policy as policy_module
from services.scheduler.fair_shares import FairShares
from services.scheduler.prefix_index import PrefixIndex
from services.scheduler.waiting import WaitingQueue
from shared import config, wire
from tests.services.scheduler.toy_tree import ToyTree, Waiter, common, packed

MAX_WAIT_S = 30.0
GAIN_TOKENS = 2  # prompts are short here
policies = st.sampled_from(get_args(config.Policy))
runs = st.lists(st.integers(0, 2), min_size=1, max_size=6)


@pytest.fixture(autouse=True, scope="module")
def short_prompts():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(policy_module, "GAIN_TOKENS", GAIN_TOKENS)
        yield


def queue_of(policy="lpm", index=None, shares=None):
    return WaitingQueue(policy, max_wait_s=MAX_WAIT_S, shares=shares or FairShares(100), index=index)


def orders(requests):
    return [request.order for request in requests]


def is_overdue(request, now_s):
    return now_s - request.arrived_s >= MAX_WAIT_S


def rank(policy, request):
    return -request.priority if policy != "fcfs" else 0


def preference(policy, request, now_s):
    """Smaller goes first, whoever's request it is."""
    if is_overdue(request, now_s):
        return False, request.order
    return (
        True,
        {"lpm": -(request.hint_tokens // GAIN_TOKENS), "lof": -request.max_new_tokens}.get(policy, 0),
        request.order,
    )


def sorted_by_rules(policy, requests, now_s):
    """What the order of one tenant should be, all but depth-first, by sorting everything."""
    return sorted(requests, key=lambda request: (rank(policy, request), *preference(policy, request, now_s)))


def merged_by_rules(policy, by_tenant, now_s):
    """Of several tenants that all may start: the best of the first of each, again and again."""
    merged, left = [], [sorted_by_rules(policy, own, now_s) for own in by_tenant if own]
    while left:
        best = min(left, key=lambda own: preference(policy, own[0], now_s))
        merged.append(best.pop(0))
        left = [own for own in left if own]
    return merged


class World:
    """A queue at an executor, and what should be in it."""

    def __init__(self, policy, page_size=1):
        self.tree = ToyTree(page_size)
        self.index = PrefixIndex(page_size)
        self.queue = queue_of(policy, self.index)
        self.waiting, self.now_s, self.came = [], 0.0, 0

    def arrive(self, **request):
        waiter = Waiter(self.came, arrived_s=self.now_s, **request)
        self.came += 1
        self.waiting.append(waiter)
        self.queue.add(waiter)

    def leave(self, at):
        self.queue.remove(self.waiting.pop(at))

    def hear(self):
        self.queue.apply(self.tree.take_events())


@st.composite
def worlds(draw, policy=policies, namespaces=("a", "a/x", "b")):
    """A queue after requests have come and gone, time has passed, and the tree has changed."""
    name = draw(policy)
    world = World(name)
    for _ in range(draw(st.integers(0, 25))):
        match draw(st.sampled_from(["arrive", "arrive", "arrive", "leave", "pass", "insert", "cut"])):
            case "arrive":
                world.arrive(
                    prompt=tuple(draw(runs)),
                    namespace=draw(st.sampled_from(namespaces)),
                    priority=draw(st.integers(0, 1)),
                    max_new_tokens=draw(st.integers(1, 3)),
                )
            case "leave" if world.waiting:
                world.leave(draw(st.integers(0, len(world.waiting) - 1)))
            case "pass":
                world.now_s += draw(st.sampled_from([0.5, 15.0]))
            case "insert":
                world.tree.insert(draw(st.sampled_from(namespaces)), draw(runs), draw(st.booleans()))
                world.hear()
            case "cut" if world.tree.nodes:
                leaf = draw(st.sampled_from(world.tree.leaves()))
                world.tree.cut(leaf, draw(st.integers(0, len(world.tree.nodes[leaf].tokens) - 1)))
                world.hear()
        world.queue.check_integrity()
        world.index.check_integrity()
    return name, world


@given(worlds())
def test_all_that_wait_are_candidates_once_and_hints_are_exact(drawn):
    _, world = drawn
    candidates = list(world.queue.candidates(world.now_s))
    assert sorted(orders(candidates)) == orders(world.waiting) == sorted(orders(world.queue))
    assert len(world.queue) == len(world.waiting)
    assert all(request in world.queue for request in world.waiting)
    assert [r.hint_tokens for r in world.waiting] == [world.tree.hint(r.namespace, r.tokens) for r in world.waiting]


@given(worlds(st.sampled_from(["lpm", "fcfs", "priority", "lof"]), ("a", "a/x")))
def test_the_order_is_exactly_that_of_sorting_everything(drawn):
    policy, world = drawn
    expected = sorted_by_rules(policy, world.waiting, world.now_s)
    assert orders(world.queue.candidates(world.now_s)) == orders(expected)


@given(worlds(st.sampled_from(["lpm", "fcfs", "priority", "lof"])))
def test_between_tenants_that_may_start_the_policy_decides_and_priorities_do_not(drawn):
    policy, world = drawn
    own = [[r for r in world.waiting if r.tenant == tenant] for tenant in "ab"]
    expected = merged_by_rules(policy, own, world.now_s)
    assert orders(world.queue.candidates(world.now_s)) == orders(expected)


@given(worlds())
def test_nobody_who_has_waited_long_enough_is_overtaken_by_a_younger_one(drawn):
    policy, world = drawn
    behind = list(world.queue.candidates(world.now_s))
    while behind:
        first, *behind = behind
        for other in behind:
            if first.tenant == other.tenant and rank(policy, first) == rank(policy, other):
                assert not (is_overdue(other, world.now_s) and other.order < first.order)


@given(worlds(), st.data())
def test_what_was_given_may_leave_before_the_next_is_asked_for(drawn, data):
    """The weights of dfs-weight are looked at anew for each priority, so there who has left may change the order."""
    policy, world = drawn
    assume(policy != "dfs-weight" or len({request.priority for request in world.waiting}) <= 1)
    expected = orders(world.queue.candidates(world.now_s))
    given_orders = []
    for request in world.queue.candidates(world.now_s):
        given_orders.append(request.order)
        if data.draw(st.booleans()):
            world.leave(world.waiting.index(request))
    assert given_orders == expected
    assert sorted(orders(world.queue)) == orders(world.waiting)
    world.queue.check_integrity()
    world.index.check_integrity()


# --- depth first -----------------------------------------------------------------------------------------------------


def test_depth_first_goes_where_most_wait_and_gives_a_node_s_own_after_its_children():
    world = World("dfs-weight")
    for tokens in ([1, 1], [1, 2], [2]):
        world.tree.insert("a", tokens)
    world.hear()
    for prompt in ((3, 3), (2, 9), (1, 9), (1, 1, 9), (1, 2, 9), (2, 8), (1, 2, 8)):
        world.arrive(prompt=prompt)
    assert orders(world.queue.candidates(0.0)) == [4, 6, 3, 2, 1, 5, 0]


def test_depth_first_keeps_to_priorities_and_puts_the_overdue_first():
    world = World("dfs-weight")
    world.tree.insert("a", [1])
    world.hear()
    world.arrive(prompt=(2, 2))
    world.now_s = 20.0
    world.arrive(prompt=(2, 3))
    world.arrive(prompt=(1, 2))
    world.arrive(prompt=(1, 3))
    world.arrive(prompt=(2, 3), priority=1)
    assert orders(world.queue.candidates(20.0)) == [4, 2, 3, 0, 1]
    assert orders(world.queue.candidates(30.0)) == [4, 0, 2, 3, 1]


def test_without_a_tree_depth_first_goes_by_arrival():
    queue = queue_of("dfs-weight")
    for order in (2, 0, 1):
        queue.add(Waiter(order))
    assert orders(queue.candidates(0.0)) == [0, 1, 2]


# --- shares ----------------------------------------------------------------------------------------------------------


@given(policies, st.randoms(use_true_random=False), st.integers(1, 200))
def test_two_tenants_with_work_at_all_times_are_served_in_equal_parts(policy, chance, quantum):
    shares, index = FairShares(quantum), PrefixIndex(1)
    index.apply([wire.Stored(1, None, "a", packed([1, 2, 3]))])
    queue = queue_of(policy, index, shares)
    served, most_tokens = {"a": 0, "b": 0}, 120
    for order in range(160):
        tenant = "ab"[order % 2]
        queue.add(Waiter(order, (1, 2, 3, 4)[: chance.randint(1, 4)], tenant, chance.randint(0, 3)))
    for _ in range(60):
        request = next(queue.candidates(0.0))
        tokens = chance.randint(1, most_tokens if request.tenant == "a" else 10)
        shares.charge(request.tenant, tokens)
        served[request.tenant] += tokens
        queue.remove(request)
        assert abs(served["a"] - served["b"]) < quantum + most_tokens


@given(worlds(st.sampled_from(["lpm", "fcfs", "priority", "lof"]), ("a", "b", "c")), st.integers(1, 10), st.data())
def test_the_next_is_always_the_best_of_the_tenants_that_may_start(drawn, quantum, data):
    policy, world = drawn
    shares, model = FairShares(quantum), FairShares(quantum)
    queue = queue_of(policy, world.index, shares)
    for request in world.waiting:
        world.queue.remove(request)
        queue.add(request)
    left = {tenant: [r for r in world.waiting if r.tenant == tenant] for tenant in "abc"}
    left = {tenant: sorted_by_rules(policy, own, world.now_s) for tenant, own in left.items() if own}
    is_open = False  # nobody is forgiven a debt while one without debts has not taken its turn
    for request in queue.candidates(world.now_s):
        eligible = set(left) if is_open else {tenant for tenant in left if model.balance(tenant) > 0}
        if not eligible:
            is_open = any(model.balance(each.tenant) > 0 for each in queue)
            eligible = set(left) if is_open else model.eligible(left)
        first = min((left[tenant][0] for tenant in eligible), key=lambda each: preference(policy, each, world.now_s))
        assert request is first
        tokens = data.draw(st.integers(0, 12))
        if tokens:
            queue.remove(request)
        shares.charge(request.tenant, tokens)
        model.charge(request.tenant, tokens)
        left[request.tenant].pop(0)
        left = {tenant: own for tenant, own in left.items() if own}
    assert not left
    queue.check_integrity()


def test_shares_that_are_charged_meanwhile_count_for_the_next():
    shares = FairShares(10)
    queue = queue_of("fcfs", shares=shares)
    for order, tenant in enumerate("aaab"):
        queue.add(Waiter(order, namespace=tenant))
    given_orders = []
    for request in queue.candidates(0.0):
        shares.charge(request.tenant, 6)
        given_orders.append(request.order)
    assert given_orders == [0, 1, 3, 2]


def two_tenants(shares, now_s=0.0):
    """Of "a" one runs and two wait, since before the one of "b" came, of which nothing runs."""
    queue = queue_of("fcfs", shares=shares)
    for tenant in "aaab":
        shares.enter(tenant)
    for order, tenant in enumerate("aab"):
        queue.add(Waiter(order, namespace=tenant))
    return orders(queue.candidates(now_s))


def test_tenants_of_which_nothing_runs_go_before_the_others():
    assert two_tenants(FairShares(10)) == [2, 0, 1]
    assert two_tenants(FairShares(10), now_s=MAX_WAIT_S) == [2, 0, 1]


def test_a_tenant_that_runs_less_than_an_even_part_has_one_more_before_the_others():
    shares = FairShares(10)
    queue = queue_of("fcfs", shares=shares)
    for tenant in "aaaaaabbb":  # of "a" four run, of "b" one
        shares.enter(tenant)
    for order, tenant in enumerate("aabb"):
        queue.add(Waiter(order, namespace=tenant))
    assert orders(queue.candidates(0.0)) == [2, 0, 1, 3]


def test_but_only_as_long_as_they_have_something_left_of_their_shares():
    shares = FairShares(10)
    shares.enter("other")  # whoever is alone owes nothing
    shares.charge("b", 10)
    assert two_tenants(shares) == [0, 1, 2]


# --- thousands -------------------------------------------------------------------------------------------------------


class Watched(Waiter):
    """Counts how often anybody asks when it came."""

    asked = 0

    def __getattribute__(self, name):
        if name == "arrived_s":
            Watched.asked += 1
        return super().__getattribute__(name)


HEAD = list(range(20))  # what they all begin with


def crowd(policy, kind=Waiter):
    """5,000 that wait at an executor whose tree holds conversations, by their first token behind HEAD."""
    chance, index = random.Random(7), PrefixIndex(1)
    index.apply([wire.Stored(1, None, "a", packed(HEAD))])
    talks = {100 + n: [100 + n, *chance.choices(range(9), k=29)] for n in range(200)}
    index.apply([wire.Stored(number, 1, "a", packed(talk)) for number, talk in talks.items()])
    queue, requests = queue_of(policy, index), []
    for order in range(5000):
        prompt = (*HEAD, *chance.choice(list(talks.values()))[: chance.randrange(30)], 700, 700)
        requests.append(kind(order, prompt, max_new_tokens=chance.randrange(100), arrived_s=order / 100))
        queue.add(requests[-1])
    return queue, requests, talks


@pytest.mark.parametrize("policy", ["lpm", "lof", "fcfs"])
def test_the_order_of_thousands_is_exact_also_after_the_tree_has_changed(policy):
    queue, requests, talks = crowd(policy)
    chance = random.Random(8)
    for number in chance.sample(list(talks), 100):
        talks[number] = [*talks[number][: chance.randrange(1, 30)], 700, 1]
        queue.apply([wire.Cut(number, len(talks[number]) - 2), wire.Grown(number, packed([700, 1]))])
    next(queue.candidates(0.0))
    for request in requests:
        talk = talks.get(request.prompt[len(HEAD)], [])
        assert request.hint_tokens == common(list(request.prompt[:-1]), HEAD + talk, 1)
    assert orders(queue.candidates(40.0)) == orders(sorted_by_rules(policy, requests, 40.0))


@pytest.mark.parametrize("policy", get_args(config.Policy))
def test_the_first_few_of_thousands_are_found_without_looking_at_the_others(policy):
    queue, _, _ = crowd(policy, Watched)
    Watched.asked = 0
    first = list(islice(queue.candidates(0.0), 8))
    assert len(set(first)) == 8
    assert Watched.asked < 50


# --- what makes no sense ---------------------------------------------------------------------------------------------


def test_removing_what_is_not_there_is_an_error():
    queue = queue_of()
    queue.add(Waiter(1))
    with pytest.raises(KeyError):
        queue.remove(Waiter(1))


def test_adding_twice_is_an_error():
    queue, request = queue_of(), Waiter(1)
    queue.add(request)
    for other in (request, Waiter(1)):
        with pytest.raises(ValueError, match="waits here already"):
            queue.add(other)


def test_with_no_executor_nothing_is_known_to_be_cached():
    queue, request = queue_of(), Waiter(1, hint_tokens=7)
    queue.add(request)
    queue.apply([wire.Stored(1, None, "a", packed([0]))])
    assert request.hint_tokens == 0


def test_nothing_is_kept_of_those_that_have_left():
    queue = queue_of(index=PrefixIndex(1))
    request = Waiter(1)
    queue.add(request)
    queue.remove(request)
    queue.check_integrity()
    assert (len(queue), list(queue), list(queue.candidates(0.0)), request in queue) == (0, [], [], False)
