"""The graph of a program: what it attaches, in which order, what its branches share and what depends on what.

Knows how to read it from a state that has run. Does not draw.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

Kind: TypeAlias = Literal["text", "gen", "select", "call", "join"]


class Node(msgspec.Struct, frozen=True, kw_only=True):
    id: int  # its place in Graph.nodes
    kind: Kind
    label: str  # the text's beginning, or the value's name
    role: str | None = None  # of the message it stands in
    branch: tuple[int, ...] = ()  # () is the program's own state, (0,) its first fork, (0, 1) that one's second
    details: dict[str, str] = {}  # of a generation: its constraint, max_tokens and so on


class Edge(msgspec.Struct, frozen=True):
    source: int
    target: int
    kind: Literal["next", "reads"] = "next"  # follows it in the text; uses its value


class Graph(msgspec.Struct, frozen=True):
    name: str
    nodes: tuple[Node, ...]
    edges: tuple[Edge, ...]
