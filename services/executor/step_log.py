"""An executor's sampled log line about its steps: one in a while as long as there are any.

Knows results of steps. Batch, tokens and times are means over the steps since the last line that computed anything.
"""

from __future__ import annotations

from typing import Any

from shared import wire

TIMES = wire.StageTimes.__struct_fields__
RISING = {  # running totals: told as what has come to them since the last line
    "cached_tokens": ("cache", "hit_tokens"),
    "evicted_tokens": ("cache", "evicted_tokens"),
    "drafted_tokens": ("cache", "drafted_tokens"),
    "accepted_tokens": ("cache", "accepted_tokens"),
    "forced_tokens": ("constraints", "forced_tokens"),
    "masks_computed": ("constraints", "computed_masks"),
    "masks_inherited": ("constraints", "inherited_masks"),
}


class StepLog:
    def __init__(self, every_s: float) -> None:
        self._every_s = every_s
        self._said_s = float("-inf")
        self._told = dict.fromkeys(RISING, 0)
        self._start_anew()

    def _start_anew(self) -> None:
        self._last: wire.StepResult | None = None
        self._steps = self._computed_tokens = self._lanes = 0
        self._seconds = dict.fromkeys(TIMES, 0.0)

    def note(self, result: wire.StepResult) -> None:
        self._last = result
        if not result.computed_tokens:
            return
        self._steps += 1
        self._computed_tokens += result.computed_tokens
        self._lanes += sum(not (outcome.declined or outcome.waiting) for outcome in result.outcomes)
        for name in TIMES:
            self._seconds[name] += getattr(result.times, name)

    def due(self, now_s: float, progress: wire.Progress) -> dict[str, Any] | None:
        """The line's fields, if it is time for one."""
        if self._last is None or not self._steps or now_s - self._said_s < self._every_s:
            return None
        fields = {
            "batch": round(self._lanes / self._steps, 2),
            "tokens": round(self._computed_tokens / self._steps, 2),
            "running": progress.running,
            "waiting": progress.waiting,
            **{name: round(seconds / self._steps, 6) for name, seconds in self._seconds.items()},
            **_pool(self._last),
            "steps": self._steps,
            "computed_tokens": self._computed_tokens,
            **self._risen(self._last),
        }
        self._said_s = now_s
        self._start_anew()
        return fields

    def _risen(self, result: wire.StepResult) -> dict[str, int]:
        totals: dict[str, int] = {name: getattr(getattr(result, part), field) for name, (part, field) in RISING.items()}
        risen = {name: total - self._told[name] for name, total in totals.items()}
        self._told = totals
        return risen


def _pool(result: wire.StepResult) -> dict[str, int]:
    capacity = result.capacity
    free, evictable, pinned = capacity.free_tokens, capacity.evictable_tokens, capacity.pinned_tokens
    return {
        "kv_total": free + evictable + pinned,
        "kv_free": free,
        "kv_evictable": evictable,
        "kv_pinned": pinned,
        "nodes": result.cache.nodes,
        "tree_tokens": result.cache.cached_tokens,
    }
