"""Whether a text matches a pattern of a JSON schema: judged by the engine, as whoever writes the text will be.

Python's `re` can take for ever. The engine's time grows as the text does.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from llguidance import LLMatcher, LLTokenizer

from services.executor.constraint.engine import LIMITS, GrammarFailed, check, guarded
from services.executor.constraint.source.refused import Path, Refused
from services.executor.constraint.source.schema_patterns import search_exactly
from shared.config import ConstraintsConfig

WRITING = {"json_allowed_escapes": 'nrbtf\\"'}


class Matches:
    """Compiles each pattern once."""

    def __init__(self, caps: ConstraintsConfig, unenforced: Callable[[str, Path], None]) -> None:
        self._caps = caps
        self._unenforced = unenforced
        self._tokenizer: LLTokenizer | None = None
        self._started: dict[str, LLMatcher] = {}
        self._written: dict[str, str | None] = {}

    def search(self, pattern: str, text: str, path: Path) -> bool | None:
        """As Python's `re.search` does, for a text that can be written. None if it is left to the model.

        Raises:
            Refused: it is not, and the pattern is not supported.
        """
        try:
            if pattern not in self._written:
                self._written[pattern] = search_exactly(pattern, self._caps)
            written = self._written[pattern]
            return written is not None and self.whole(written, text)
        except Refused as refused:
            self._unenforced(refused.message, path)
            return None

    def whole(self, written: str, text: str) -> bool:
        """Args:
        written: for the engine, anchored.
        """
        output = list(json.dumps(text, ensure_ascii=False).encode())
        try:
            with guarded():
                matcher = self._matcher(written).deep_copy()
                taken = matcher.try_consume_tokens(output)
                check(matcher)
                return taken == len(output) and matcher.is_accepting()
        except GrammarFailed:
            raise Refused("the pattern is too complex") from None

    def has_text(self, schema: dict[str, Any]) -> bool | None:
        """Whether some string satisfies it, patterns and lengths; None if the engine cannot keep them all."""
        try:
            with guarded():
                self._matcher_of(schema)
        except GrammarFailed as error:
            return False if "is empty:" in str(error) and "Unable" not in str(error) else None
        return True

    def _matcher(self, written: str) -> LLMatcher:
        return self._matcher_of({"type": "string", "pattern": written})

    def _matcher_of(self, schema: dict[str, Any]) -> LLMatcher:
        grammar = json.dumps({"grammars": [{"json_schema": {**schema, "x-guidance": WRITING}}]})
        if grammar not in self._started:
            self._tokenizer = self._tokenizer or LLTokenizer("byte")
            self._started[grammar] = LLMatcher(self._tokenizer, grammar, log_level=0, limits=LIMITS)
        check(self._started[grammar])
        return self._started[grammar]
