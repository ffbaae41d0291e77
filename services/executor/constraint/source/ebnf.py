"""A grammar that a client wrote: Lark, as the engine reads it, or GBNF, which becomes Lark. Knows which one it is."""

from __future__ import annotations

from services.executor.constraint.source import ebnf_gbnf, ebnf_lark
from shared.config import ConstraintsConfig


def grammar(source: str, *, caps: ConstraintsConfig) -> str:
    """Raises:
    Refused: not a grammar, or one that speaks of more than text.
    """
    lark = ebnf_gbnf.to_lark(source, caps) if ebnf_gbnf.is_gbnf(source) else source
    ebnf_lark.check(lark, caps)
    return lark
