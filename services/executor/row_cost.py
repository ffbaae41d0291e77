"""What one more row costs a step: a line through the steps that were measured, the latest count most.

Knows rows and seconds, as `seconds = c * (fixed_rows + rows)`. As long as all steps have had the same number of rows,
it goes by a guess.
"""

from __future__ import annotations

GUESSED_FIXED_ROWS = 4.0  # on the low side
GUESS_WEIGHT = 4.0  # as of so much variance in rows
LEAST_FIXED_ROWS, MOST_FIXED_ROWS = 0.5, 64.0
MEMORY = 0.98  # a step's weight, seen from the next one
MOST_ROWS = 64  # larger steps lie on another line


class RowCost:
    def __init__(self) -> None:
        self._weight = 0.0
        self._rows = self._seconds = 0.0  # means
        self._rows_rows = self._rows_seconds = 0.0  # sums of products of the differences from them

    @property
    def fixed_rows(self) -> float:
        """What a step costs however many rows it has, in rows."""
        if not self._seconds:
            return GUESSED_FIXED_ROWS
        guess = self._seconds / (self._rows + GUESSED_FIXED_ROWS)
        slope = (self._rows_seconds + GUESS_WEIGHT * guess) / (self._rows_rows + GUESS_WEIGHT)
        if slope <= 0:
            return MOST_FIXED_ROWS
        return min(max(self._seconds / slope - self._rows, LEAST_FIXED_ROWS), MOST_FIXED_ROWS)

    def observe(self, rows: int, seconds: float) -> None:
        """A step without prompts has been measured."""
        if rows > MOST_ROWS:
            return
        self._weight = MEMORY * self._weight + 1
        rows_off, seconds_off = rows - self._rows, seconds - self._seconds
        self._rows += rows_off / self._weight
        self._seconds += seconds_off / self._weight
        self._rows_rows = MEMORY * self._rows_rows + rows_off * (rows - self._rows)
        self._rows_seconds = MEMORY * self._rows_seconds + rows_off * (seconds - self._seconds)
