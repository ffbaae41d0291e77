import dataclasses

import pytest

from sapwood import ProgramError, assistant, call_api, function, gen, select, tracing, user
from sapwood.trace import Edge


@function
def plan(s, place):
    s += "Plan " + place
    forks = s.fork(2)
    for fork in forks:
        fork += " by " + gen("way", max_tokens=5, choices=["train", "car"])
    s += " and take " + forks[0]["way"] + select("best", choices=["a", "b"])


def test_text_values_branches_and_what_reads_what():
    graph = plan.trace("Ulm")
    assert graph.name == "plan"
    labels = [(node.kind, node.label, node.branch) for node in graph.nodes]
    assert labels == [
        ("text", "Plan Ulm", ()),
        ("text", " and take train", ()),
        ("select", "best", ()),
        ("text", " by ", (0,)),
        ("gen", "way", (0,)),
        ("text", " by ", (1,)),
        ("gen", "way", (1,)),
    ]
    assert set(graph.edges) == {
        Edge(0, 1),
        Edge(1, 2),
        Edge(0, 3),
        Edge(3, 4),
        Edge(0, 5),
        Edge(5, 6),
        Edge(4, 2, "reads"),
    }
    assert [node.id for node in graph.nodes] == list(range(7))
    assert graph.nodes[4].details["max_tokens"] == "5"


def test_roles_and_stand_ins():
    @function
    def program(s):
        s += user("Hi")
        with assistant():
            count = gen("count", dtype=int)
            person = gen("person", json_schema=dict[str, int])
            assert count == 0
            assert "…" in f"{person.name} {person['age']}"
            assert [*gen("names", n=2)] == ["[…]", "[…]"]

    nodes = program.trace().nodes
    assert [(node.label, node.role) for node in nodes] == [
        ("Hi", "user"),
        ("count", "assistant"),
        ("person", "assistant"),
        ("names", "assistant"),
    ]


def test_a_fork_of_a_fork_begins_where_it_was_made():
    @function
    def program(s):
        s += "a"
        (child,) = s.fork(1)
        child += "b"
        (grandchild,) = child.fork(1)
        child += "c"
        grandchild += "d"
        s += "e"

    graph = program.trace()
    found = {graph.nodes[edge.source].label + graph.nodes[edge.target].label for edge in graph.edges}
    assert found == {"ab", "bc", "bd", "ae"}


def test_nothing_outside_is_called():
    @function(api_hosts=["127.0.0.1:1"])
    def program(s):
        s += call_api("data", "http://127.0.0.1:1/x")

    (node,) = program.trace().nodes
    assert (node.kind, node.label) == ("call", "data")


@dataclasses.dataclass
class Person:
    age: int
    tags: list[str]


@pytest.mark.parametrize(
    "use",
    [
        lambda person: person.age > 18 or person.age <= 3,
        lambda person: (person.age + 1) * 2 - 3 / person.age**2 % 5 // 1,
        lambda person: 2**-person.age,
        lambda person: [*range(person.age), int(person.age), float(person.age), round(person.age, 1)],
        lambda person: (len(person.tags), "a" in person.tags, sorted(person.tags), sum(person.tags)),
        lambda person: person.tags.index("a"),
        lambda person: f"{person.age:.2f}",
    ],
)
def test_what_stands_in_for_an_object_can_be_used_as_one(use):
    @function
    def program(s):
        s += "a" + gen("person", json_schema=Person)
        use(s["person"])
        s += "b"

    assert [node.label for node in program.trace().nodes] == ["a", "person", "b"]


def test_a_loop_until_a_value_ends(monkeypatch):
    monkeypatch.setattr(tracing, "MAX_VALUES", 20)

    @function
    def program(s):
        s += gen("a")
        while s["a"] != "42":
            s += gen("a")

    with pytest.raises(ProgramError, match="more than 20 values"):
        program.trace()
