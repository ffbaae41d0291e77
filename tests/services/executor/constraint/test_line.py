"""The line of those that wait to be compiled, against a plain list; and nobody in it is forgotten."""

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from services.executor.constraint.line import Line

TENANTS = st.sampled_from("ABC")
KEYS = st.sampled_from("abcdefgh")


def drained(line: Line) -> list[str]:
    taken = []
    while (key := line.take()) is not None:
        taken.append(key)
    return taken


def test_tenants_have_turns_however_many_one_has() -> None:
    line = Line()
    for number in range(20):
        line.add("greedy", f"g{number:02}", 1)
    line.add("other", "o", 1)
    assert drained(line)[:2] == ["g00", "o"]


def test_the_oldest_and_the_smallest_have_turns() -> None:
    line = Line()
    for number in range(4):
        line.add("A", f"large {number}", 100 - number)
    line.add("A", "small", 1)
    assert drained(line) == ["large 0", "small", "large 1", "large 3", "large 2"]


def test_what_two_want_is_taken_once() -> None:
    line = Line()
    line.add("A", "first", 1)
    line.add("A", "shared", 1)
    line.add("B", "shared", 1)
    line.add("B", "last", 1)
    assert drained(line) == ["first", "shared", "last"]
    assert (line.waiting("A"), line.waiting("B")) == (0, 0)


@given(st.integers(1, 20), st.integers(0, 5))
@settings(deadline=None)
def test_the_oldest_goes_though_smaller_ones_keep_coming(ahead: int, size: int) -> None:
    line = Line()
    for number in range(ahead):
        line.add("A", f"ahead {number}", 10)
    line.add("A", "oldest", 10)
    for number in range(2 * ahead + 2):
        if line.take() == "oldest":
            return
        line.add("A", f"new {number}", size)
    raise AssertionError("never taken")


class Model(RuleBasedStateMachine):
    """Whatever is added is taken once, by a tenant whose turn it is."""

    def __init__(self) -> None:
        super().__init__()
        self.line = Line()
        self.wanted: list[tuple[str, str]] = []  # tenant, key
        self.turns: list[str] = []  # of tenants that want something

    @rule(tenant=TENANTS, key=KEYS, size=st.integers(0, 3))
    def add(self, tenant: str, key: str, size: int) -> None:
        self.line.add(tenant, key, size)
        if (tenant, key) not in self.wanted:
            self.wanted.append((tenant, key))
        if tenant not in self.turns:
            self.turns.append(tenant)

    @rule()
    def take(self) -> None:
        key = self.line.take()
        assert (key is None) == (not self.turns)
        if key is None:
            return
        tenant = self.turns.pop(0)
        self.turns.append(tenant)
        assert (tenant, key) in self.wanted
        self.wanted = [(other, wanted) for other, wanted in self.wanted if wanted != key]
        self.turns = [other for other in self.turns if any(owner == other for owner, _ in self.wanted)]

    @invariant()
    def counts(self) -> None:
        self.line.check_integrity()
        for tenant in "ABC":
            assert self.line.waiting(tenant) == sum(owner == tenant for owner, _ in self.wanted)


TestModel = Model.TestCase
TestModel.settings = settings(max_examples=100, stateful_step_count=30, deadline=None)
