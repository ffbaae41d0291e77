"""Layout, outline and picture of one program with branches, and of graphs of any shape."""

from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sapwood import assistant, function, gen, select, user
from sapwood.drawing.layout import placed
from sapwood.drawing.outline import outline
from sapwood.drawing.svg import svg
from sapwood.trace import Edge, Graph, Node


@pytest.fixture(scope="module")
def graph():
    @function
    def tips(s):
        s += user("Give <tips> & more")
        s += assistant(gen("topic", max_tokens=5))
        forks = s.fork(2)
        for fork in forks:
            fork += user("A tip")
            fork += assistant(gen("tip"))
        forks.join()
        s += user("Best of " + " ".join(s["tip"]))
        s += assistant(select("best", choices=["a", "b"]))

    return tips.trace()


@st.composite
def graphs(draw):
    """Branches that begin anywhere before, texts and generations, and reads of what is earlier."""
    nodes, edges, last = [], [], {(): None}
    for place in range(draw(st.integers(0, 25))):
        branch = draw(st.sampled_from(sorted(last)))
        if draw(st.booleans()) and last[branch] is not None and len(branch) < 3:
            count = sum(other[:-1] == branch for other in last if other)
            branch = (*branch, count)
            last[branch] = last[branch[:-1]]
        kind = draw(st.sampled_from(["text", "gen"]))
        nodes.append(Node(id=place, kind=kind, label=draw(st.text(max_size=40)), branch=branch))
        edges += [Edge(last[branch], place)] if last[branch] is not None else []
        if nodes[:-1] and draw(st.booleans()):
            edges.append(Edge(draw(st.integers(0, place - 1)), place, "reads"))
        last[branch] = place
    return Graph("g", tuple(nodes), tuple(edges))


@given(graphs())
def test_everything_stands_below_what_it_needs_and_nothing_on_anything_else(graph):
    places = placed(graph)
    for edge in graph.edges:
        assert places[edge.source].row < places[edge.target].row
    assert len(set(places)) == len(places)
    assert all(place.row >= 0 and place.lane >= 0 for place in places)
    lanes = {node.branch: places[node.id].lane for node in graph.nodes}
    assert len({(node.branch, places[node.id].lane) for node in graph.nodes}) == len(lanes)


@given(graphs())
def test_any_graph_is_drawn_whole(graph):
    root = ElementTree.fromstring(svg(graph))
    assert len(root.findall(".//{*}rect[@class='box']")) == len(graph.nodes)
    assert len(outline(graph)) >= 1 + len(graph.nodes)


def test_branches_stand_beside_each_other_and_what_reads_them_below(graph):
    rows = {(node.label, node.branch): placed(graph)[node.id] for node in graph.nodes}
    assert rows["tip", (0,)] == (3, 1)
    assert rows["tip", (1,)] == (3, 2)
    assert rows["topic", ()] == (1, 0)
    assert rows["best", ()].row == 4


def test_text_stands_right_before_what_it_is_for(graph):
    (node,) = [node for node in graph.nodes if node.label.startswith("Best")]
    assert placed(graph)[node.id].row == 3


def test_a_lane_that_is_free_again_is_used():
    nodes = [Node(id=place, kind="gen", label="x", branch=branch) for place, branch in enumerate([(), (0,), (0, 0)])]
    graph = Graph("g", tuple(nodes), (Edge(0, 1), Edge(1, 2)))
    assert [place.lane for place in placed(graph)] == [0, 0, 0]


def test_the_outline(graph):
    assert outline(graph) == [
        "tips",
        '· user       "Give <tips> & more"',
        "◆ assistant  gen topic  max_tokens=5",
        "├─ fork 0",
        '│  · user       "A tip"',
        "│  ◆ assistant  gen tip",
        "├─ fork 1",
        '│  · user       "A tip"',
        "│  ◆ assistant  gen tip",
        '· user       "Best of […] […]"',
        "◇ assistant  select best  choices=a, b  ← tip of fork 0, tip of fork 1",
    ]


def test_the_picture_says_what_is_read(graph):
    root = ElementTree.fromstring(svg(graph))
    assert len(root.findall(".//{*}path[@class='reads']")) == 2
    texts = [text.text for text in root.findall(".//{*}text")]
    assert texts[0] == "tips"
    assert "Give <tips> & more" in texts
    assert "assistant · fork 1 · gen" in texts
