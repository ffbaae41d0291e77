"""Where the latest uses of the prefix cache's tree ended, in their order.

Knows nodes by identity. Does not know what a use was.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator

from services.executor.nodes import Node
from shared.invariant import require

MOST_ENDS = 4096


class Recent:
    def __init__(self) -> None:
        self._ends: OrderedDict[Node, None] = OrderedDict()  # the last one used is the last

    def note(self, end: Node) -> None:
        self._ends[end] = None
        self._ends.move_to_end(end)
        if len(self._ends) > MOST_ENDS:
            self._ends.popitem(last=False)

    def forget(self, node: Node) -> None:
        """It is not in the tree any more."""
        self._ends.pop(node, None)

    def paths(self) -> Iterator[Node]:
        """The nodes that lie on the way to an end, used last first; each once, and no roots."""
        seen: set[Node] = set()
        for end in reversed(self._ends):
            at = end
            while at.parent is not None and at not in seen:
                seen.add(at)
                yield at
                at = at.parent

    def check_integrity(self, nodes: Iterable[Node]) -> None:
        require(self._ends.keys() <= set(nodes), "the end of a use is not in the tree any more")
