"""One output's token ids to text, as they come. Pure, and linear in the number of tokens.

Text is let go as soon as it is certain: not in the middle of a character (of UTF-8), not while it could still become a
stop string or match a stop pattern. What was let go in all equals the decoding of all ids at once, up to the stop: for
any division of the ids into calls.
"""

from __future__ import annotations

import codecs
from collections.abc import Sequence

from services.detokenizer.stop_strings import StopStrings
from services.detokenizer.vocabulary import Vocabulary
from shared import wire
from shared.stop_pattern import read_stop_patterns

_utf8_decoder = codecs.getincrementaldecoder("utf-8")


class TextStream:
    """`chars` counts what was let go; `matched_stop` is the stop string or pattern that ended the text."""

    def __init__(self, vocabulary: Vocabulary, options: wire.TextOptions) -> None:
        self._vocabulary = vocabulary
        self._hidden = vocabulary.special_ids if options.skip_special_tokens else frozenset()
        self._decoder = _utf8_decoder("replace")
        patterns = read_stop_patterns(options.stop_regex)
        self._stops = StopStrings(options.stop, patterns, include=options.include_stop)
        self._bare_token_next = vocabulary.bare_first_token
        self._leading_spaces = vocabulary.leading_spaces
        self.chars = 0

    @property
    def matched_stop(self) -> str | None:
        return self._stops.matched

    def push(self, token_ids: Sequence[int]) -> tuple[str, int]:
        """Take in tokens; returns the text let go, and how many tokens it took: fewer if a stop ended it."""
        texts = []
        taken = 0
        for token_id in token_ids:
            if self.matched_stop is not None:
                break
            texts.append(self._stops.push(self._decoder.decode(self._bytes(token_id))))
            taken += 1
        return self._let_go("".join(texts)), taken

    def finish(self) -> str:
        """No more tokens come; returns all that is left. A character cut short shows as U+FFFD."""
        if self.matched_stop is not None:
            return ""
        text = self._stops.push(self._decoder.decode(b"", final=True))
        return self._let_go(text + self._stops.flush())

    def _let_go(self, text: str) -> str:
        self.chars += len(text)
        return text

    def _bytes(self, token_id: int) -> bytes:
        if token_id in self._hidden:
            return b""
        content = self._vocabulary.bytes_of(token_id)
        at_front = self._bare_token_next or self._leading_spaces
        return self._without_front(token_id, content) if content and at_front else content

    def _without_front(self, token_id: int, content: bytes) -> bytes:
        """Take off what SentencePiece has put in front of the text."""
        if self._bare_token_next:
            self._bare_token_next = False
            if token_id not in self._vocabulary.added_ids:
                content = content.replace(b" ", b"")
        spaces = min(self._leading_spaces, len(content) - len(content.lstrip(b" ")))
        content = content[spaces:]
        self._leading_spaces = 0 if content else self._leading_spaces - spaces
        return content
