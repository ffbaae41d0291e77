"""How many one tenant may have waiting: as many as there are places left, times a factor. Pure numbers.

So a tenant that is alone fills nearly all of a bound, several that flood the server share it evenly, and there is room
for another. (Choudhury and Hahne, "Dynamic Queue Length Thresholds for Shared-Memory Packet Switches", 1998.)
"""

from __future__ import annotations

FACTOR = 7  # one tenant alone fills 7/8, two 7/15 each, three 7/22


def most(bound: int) -> int:
    """What one tenant fills, one after the other, where there is nothing of others."""
    return FACTOR * (bound + 1) // (FACTOR + 1)


def excess(wanted: int, *, own: int, free: int) -> int:
    """How many of its own must leave before a tenant that has `own` may have `wanted` more; 0 if it may now.

    Args:
        own: 0 of a tenant that need not share.
        free: what nobody has.
    """
    beyond = own + wanted - FACTOR * free
    return max(wanted - free, -(-beyond // (FACTOR + 1)), 0)
