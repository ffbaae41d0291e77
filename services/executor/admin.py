"""What an operator may ask of an executor between two steps, flushing aside. Shapes and numbers, never text."""

from __future__ import annotations

from heapq import nlargest
from typing import Any, assert_never

import msgspec

from services.executor.radix_cache import RadixCache
from services.executor.step import StepRunner
from shared import wire

SHOWN_NODES = 1000  # of the tree, the largest


def answer(call: wire.Admin, runner: StepRunner, info: wire.ExecutorInfo) -> wire.AdminReply:
    """Raises BrokenInvariant if info is asked for and the accounting is wrong."""
    match call.op:
        case "tree":
            return wire.AdminReply(call.call_id, _tree(runner.cache))
        case "info":
            return wire.AdminReply(call.call_id, _info(runner, info))
        case "counters":
            return wire.AdminReply(call.call_id, _counters(runner))
        case "flush":
            return wire.AdminReply(call.call_id, {"freed_tokens": runner.flush()})
        case "drain":
            error = wire.Error("an executor is drained by its scheduler", "unsupported", "op")
            return wire.AdminReply(call.call_id, error=error)
        case unknown:
            assert_never(unknown)


def flush_timed_out(call: wire.Admin) -> wire.AdminReply:
    error = wire.Error(f"requests were running for all of {call.timeout_s:g} s", "busy", status=503)
    return wire.AdminReply(call.call_id, error=error)


def _tree(cache: RadixCache) -> dict[str, Any]:
    shapes = list(cache.shape())
    shown = nlargest(SHOWN_NODES, shapes, key=lambda shape: shape.tokens)
    return {
        "nodes": cache.nodes,
        "namespaces": cache.namespaces,
        "cached_tokens": cache.cached_tokens,
        "pinned_tokens": cache.pinned_tokens,
        "deepest_tokens": max((shape.depth_tokens + shape.tokens for shape in shapes), default=0),
        "uses": cache.uses,
        "largest": [
            {
                "depth_tokens": shape.depth_tokens,
                "tokens": shape.tokens,
                "children": shape.children,
                "pins": shape.pins,
                "last_used": shape.last_used,
            }
            for shape in shown
        ],
    }


def _info(runner: StepRunner, info: wire.ExecutorInfo) -> dict[str, Any]:
    """With a check of every slot's owner, which takes time in proportion to the pool: not for a scrape."""
    runner.check_integrity()
    return {**msgspec.structs.asdict(info), "integrity": "ok"}


def _counters(runner: StepRunner) -> dict[str, Any]:
    return {
        **msgspec.structs.asdict(runner.counters()),
        **msgspec.structs.asdict(runner.capacity()),
        "waiting": runner.waiting,
        "running": runner.running,
    }
