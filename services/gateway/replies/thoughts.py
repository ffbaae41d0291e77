"""Sets a model's thoughts apart from its answer, piece by piece.

How the text is cut into pieces changes nothing about what the parts say together. White space around the tags belongs
to neither. Text that begins with no thought is left as it is.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

from shared.reasoning_format import CLOSING, OPENING, ReasoningFormat


class Said(NamedTuple):
    thought: str
    answer: str  # after the thought


class Thoughts:
    """Of one output: `feed` for each piece, or for the whole, and then `finish`.

    Args:
        style: None if all of the text is the answer.
    """

    def __init__(self, style: ReasoningFormat | None) -> None:
        self._stage: Literal["begin", "thought", "gap", "answer"] = "answer" if style is None else "begin"
        self._is_opened = style is not None and style.is_opened
        self._unread = ""
        self._has_thought = False

    def feed(self, text: str) -> Said:
        self._unread += text
        if self._stage == "begin":
            self._read_begin()
        thought = self._read_thought() if self._stage == "thought" else ""
        if self._stage == "gap":
            self._unread = self._unread.lstrip()
            self._stage = "answer" if self._unread else "gap"
        return Said(thought, self._take(len(self._unread)) if self._stage == "answer" else "")

    def finish(self) -> Said:
        """The output ends here, so what was held back is no tag."""
        rest = self._take(len(self._unread))
        if self._stage == "thought" or (self._stage == "begin" and self._is_opened):
            return Said(self._trimmed(rest), "")
        return Said("", rest)

    def _read_begin(self) -> None:
        text = self._unread.lstrip()
        if text.startswith(OPENING):
            self._unread = text[len(OPENING) :]
            self._stage = "thought"
        elif not OPENING.startswith(text):
            self._stage = "thought" if self._is_opened else "answer"

    def _read_thought(self) -> str:
        end = self._unread.find(CLOSING)
        if end < 0:
            return self._trimmed(self._take(self._end_of_thought()))
        self._stage = "gap"
        thought = self._trimmed(self._take(end))
        self._take(len(CLOSING))
        return thought

    def _end_of_thought(self) -> int:
        """Of what is sure to be thought: no beginning of the tag, and no space that may stand before it."""
        begun = next(size for size in range(len(CLOSING), -1, -1) if self._unread.endswith(CLOSING[:size]))
        return len(self._unread[: len(self._unread) - begun].rstrip())

    def _trimmed(self, thought: str) -> str:
        thought = thought.rstrip() if self._has_thought else thought.strip()
        self._has_thought = self._has_thought or bool(thought)
        return thought

    def _take(self, length: int) -> str:
        taken, self._unread = self._unread[:length], self._unread[length:]
        return taken
