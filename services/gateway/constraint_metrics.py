"""Counters and gauges of the executors' constrained-decoding stage, from the answer to Admin("counters")."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
from prometheus_client import CollectorRegistry, Counter, Gauge

from services.gateway.running_totals import RunningTotals

# Key of the figure: name of the metric, what it says.
COUNTERS = {
    "computed_masks": ("sapwood_constraint_computed_masks", "Masks of allowed tokens that were computed"),
    "inherited_masks": ("sapwood_constraint_inherited_masks", "Masks that were known from a request before"),
    "forced_tokens": ("sapwood_constraint_forced_tokens", "Tokens that a constraint left no choice about"),
    "compiled_grammars": ("sapwood_constraint_compiled_grammars", "Constraints that were compiled"),
    "refused_grammars": ("sapwood_constraint_refused_grammars", "Constraints that could not be compiled"),
    "rebuilt_grammars": ("sapwood_constraint_rebuilt_grammars", "Grammars compiled again after a failure in them"),
}
GAUGES = {
    "grammars": ("sapwood_constraint_grammars", "Compiled grammars that are kept"),
    "states": ("sapwood_constraint_states", "States of grammars that are kept with their masks"),
    "state_bytes": ("sapwood_constraint_state_bytes", "Memory of these states"),
}


class ConstraintFigures(msgspec.Struct, frozen=True, kw_only=True):
    """What one executor tells of the stage; see wire.ConstraintCounters."""

    computed_masks: int = 0
    inherited_masks: int = 0
    forced_tokens: int = 0
    compiled_grammars: int = 0
    refused_grammars: int = 0
    rebuilt_grammars: int = 0
    grammars: int = 0
    states: int = 0
    state_bytes: int = 0


class ConstraintMetrics:
    def __init__(self, registry: CollectorRegistry) -> None:
        self._counters = RunningTotals({key: Counter(*named, registry=registry) for key, named in COUNTERS.items()})
        self._gauges = {key: Gauge(*named, registry=registry) for key, named in GAUGES.items()}

    def update(self, executors: Mapping[str, ConstraintFigures]) -> None:
        """Args:
        executors: all that there are, by name.
        """
        self._counters.update(executors)
        for key, gauge in self._gauges.items():
            gauge.set(sum(getattr(figures, key) for figures in executors.values()))
