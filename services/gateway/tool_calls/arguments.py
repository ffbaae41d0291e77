"""Where a JSON object ends, in text that comes in pieces. Looks at brackets and strings, not at what is valid."""

from __future__ import annotations


class ObjectScanner:
    """Reads one object, from its opening bracket on."""

    def __init__(self) -> None:
        self._depth = 0
        self._in_string = False
        self._is_escaped = False

    def end(self, text: str) -> int | None:
        """The place in this piece behind the object's last bracket, or None if the object goes on."""
        for place, character in enumerate(text):
            if self._in_string:
                self._read_string(character)
            elif character == '"':
                self._in_string = True
            elif character in "{[":
                self._depth += 1
            elif character in "}]":
                self._depth -= 1
                if not self._depth:
                    return place + 1
        return None

    def _read_string(self, character: str) -> None:
        if self._is_escaped:
            self._is_escaped = False
        elif character == "\\":
            self._is_escaped = True
        elif character == '"':
            self._in_string = False
