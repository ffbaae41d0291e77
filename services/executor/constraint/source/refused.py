"""A source that cannot become a grammar."""

from __future__ import annotations

Path = tuple[str | int, ...]


class Refused(Exception):
    """The client's mistake, in words for the client.

    Args:
        path: where in the source, as keys and indices, the outermost first; a position in a pattern is in the message.
    """

    def __init__(self, message: str, path: Path = ()) -> None:
        super().__init__(message)
        self.message = message
        self.path = path

    def within(self, *outer: str | int) -> Refused:
        """The same, of a source that is a part of another one."""
        return Refused(self.message, (*outer, *self.path))
