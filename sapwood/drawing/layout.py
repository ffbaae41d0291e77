"""Where the nodes of a program's graph stand in a picture: rows in the order of time, a lane for each branch. Pure.

A node stands below all that it needs. Branches that are never there at the same time may have the same lane, and a
branch stands in its parent's or to the right of it.
"""

from __future__ import annotations

from graphlib import TopologicalSorter
from typing import NamedTuple

from sapwood.trace import Graph

Branch = tuple[int, ...]


class Place(NamedTuple):
    row: int
    lane: int


def placed(graph: Graph) -> list[Place]:
    """In the order of the nodes."""
    rows = rows_of(graph)
    lanes = lanes_of(spans_of(graph, rows))
    return [Place(rows[node.id], lanes[node.branch]) for node in graph.nodes]


def rows_of(graph: Graph) -> list[int]:
    """As early as can be; text right before what it is for."""
    before: dict[int, list[int]] = {node.id: [] for node in graph.nodes}
    after: dict[int, list[int]] = {node.id: [] for node in graph.nodes}
    for edge in graph.edges:
        before[edge.target].append(edge.source)
        after[edge.source].append(edge.target)
    order = list(TopologicalSorter(before).static_order())
    rows = [0] * len(graph.nodes)
    for node in order:
        rows[node] = max((rows[source] + 1 for source in before[node]), default=0)
    for node in reversed(order):
        if graph.nodes[node].kind == "text" and after[node]:
            rows[node] = min(rows[target] for target in after[node]) - 1
    return rows


def spans_of(graph: Graph, rows: list[int]) -> dict[Branch, range]:
    """The rows from the first to the last node of each branch."""
    found: dict[Branch, list[int]] = {}
    for node in graph.nodes:
        found.setdefault(node.branch, []).append(rows[node.id])
    return {branch: range(min(own), max(own) + 1) for branch, own in found.items()}


def lanes_of(spans: dict[Branch, range]) -> dict[Branch, int]:
    lanes: dict[Branch, int] = {}
    taken: dict[int, list[range]] = {}
    for branch in sorted(spans):
        lane = next((lanes[branch[:end]] for end in range(len(branch), -1, -1) if branch[:end] in lanes), 0)
        while any(_overlap(spans[branch], other) for other in taken.get(lane, ())):
            lane += 1
        lanes[branch] = lane
        taken.setdefault(lane, []).append(spans[branch])
    return lanes


def _overlap(first: range, second: range) -> bool:
    return first.start < second.stop and second.start < first.stop
