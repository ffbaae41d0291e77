"""The workloads by name."""

from __future__ import annotations

from collections.abc import Callable

from .author import Desk
from .dependent import agents, multi_turn, tree_of_thought
from .independent import few_shot, long_document, no_sharing, shared_prefixes
from .program import Program

# A scale of 1 is meant for two cores: each takes a minute or two there.
WORKLOADS: dict[str, Callable[[Desk, float], list[Program]]] = {
    make.__name__: make
    for make in (multi_turn, few_shot, tree_of_thought, agents, long_document, shared_prefixes, no_sharing)
}
