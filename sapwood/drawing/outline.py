"""A program's graph as lines of text: a line for each node, branches below where they begin, further in."""

from __future__ import annotations

import json
from collections.abc import Iterator

from sapwood.trace import Graph, Kind, Node

SYMBOLS: dict[Kind, str] = {"text": "·", "gen": "◆", "select": "◇", "call": "▲", "join": "○"}
ROLE_WIDTH = len("assistant")


def outline(graph: Graph) -> list[str]:
    return [graph.name, *_Outline(graph).lines((), "")]


class _Outline:
    def __init__(self, graph: Graph) -> None:
        self._nodes: dict[tuple[int, ...], list[Node]] = {}
        for node in graph.nodes:
            self._nodes.setdefault(node.branch, []).append(node)
        self._reads: dict[int, list[Node]] = {}
        origins: dict[tuple[int, ...], int] = {}
        for edge in graph.edges:
            source, target = graph.nodes[edge.source], graph.nodes[edge.target]
            if edge.kind == "reads":
                self._reads.setdefault(target.id, []).append(source)
            elif source.branch != target.branch:
                origins[target.branch] = source.id
        self._branches: dict[int | None, list[tuple[int, ...]]] = {}
        for branch in sorted(self._nodes):
            if branch:
                self._branches.setdefault(origins.get(branch), []).append(branch)

    def lines(self, branch: tuple[int, ...], indent: str) -> Iterator[str]:
        if not branch:
            yield from self._below(None, indent)
        for node in self._nodes.get(branch, ()):
            yield f"{indent}{self._line(node)}"
            yield from self._below(node.id, indent)

    def _below(self, origin: int | None, indent: str) -> Iterator[str]:
        for branch in self._branches.get(origin, ()):
            yield f"{indent}├─ {name_of(branch)}"
            yield from self.lines(branch, f"{indent}│  ")

    def _line(self, node: Node) -> str:
        label = json.dumps(node.label, ensure_ascii=False) if node.kind == "text" else f"{node.kind} {node.label}"
        details = "  ".join(f"{name}={value}" for name, value in node.details.items())
        read = ", ".join(_mention(source, node) for source in self._reads.get(node.id, ()))
        parts = [
            f"{SYMBOLS[node.kind]} {(node.role or ''):<{ROLE_WIDTH}}  {label}",
            details,
            f"← {read}" if read else "",
        ]
        return "  ".join(filter(None, parts))


def name_of(branch: tuple[int, ...]) -> str:
    return f"fork {'.'.join(map(str, branch))}"


def _mention(source: Node, reader: Node) -> str:
    return (
        source.label
        if source.branch == reader.branch[: len(source.branch)]
        else (f"{source.label} of {name_of(source.branch)}")
    )
