"""What must hold, and what it means when it does not: a bug, and a process that must not go on."""

from __future__ import annotations


class BrokenInvariant(Exception):
    """The state contradicts itself. The process that finds it exits non-zero rather than limp."""


def require(holds: bool, otherwise: str) -> None:
    """Raises BrokenInvariant with what is wrong otherwise."""
    if not holds:
        raise BrokenInvariant(otherwise)
