"""The known name that an unknown one was probably meant to be. Knows no names, and says nothing when none is near."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

ALIKE = 0.7  # as difflib counts it: temprature and temperature have 0.95, temprature and chat_template 0.61


def did_you_mean(name: str, known: Iterable[str], alike: float = ALIKE) -> str:
    """To be put behind the words for an unknown name; empty if it is like none."""
    near = get_close_matches(name, sorted(known), n=1, cutoff=alike)
    return f"; did you mean {near[0]!r}?" if near else ""
