"""What an operator may ask of an executor between two steps, flushing aside. Shapes and numbers; text if asked for."""

from __future__ import annotations

from collections.abc import Callable
from heapq import nlargest
from typing import Any, assert_never

import msgspec

from services.executor.nodes import Node
from services.executor.step import StepRunner
from shared import wire

SHOWN_NODES = 1000  # of the tree, the largest
HEAD_TOKENS = 24  # of a node


def answer(call: wire.Admin, runner: StepRunner, info: wire.ExecutorInfo) -> wire.AdminReply:
    """Raises BrokenInvariant if info is asked for and the accounting is wrong."""
    match call.op:
        case "tree":
            return wire.AdminReply(call.call_id, _tree(runner, info, _with_head if call.text else _figures))
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


def _tree(runner: StepRunner, info: wire.ExecutorInfo, show: Callable[[int, Node], dict[str, Any]]) -> dict[str, Any]:
    cache, found = runner.cache, list(runner.cache.walk())
    shown = nlargest(SHOWN_NODES, found, key=lambda place: len(place[1].tokens))
    protected = cache.protected_tokens()
    return {
        **msgspec.structs.asdict(runner.counters()),
        "capacity_tokens": info.capacity_tokens,
        "pinned_tokens": cache.pinned_tokens,
        "evictable_tokens": cache.evictable_tokens,
        "deepest_tokens": max((depth + len(node.tokens) for depth, node in found), default=0),
        "uses": cache.uses,
        "tenants": {
            tenant: {"cached_tokens": cached, "protected_tokens": protected.get(tenant, 0)}
            for tenant, cached in cache.tenants().items()
        },
        "largest": [show(depth, node) for depth, node in shown],
    }


def _figures(depth: int, node: Node) -> dict[str, Any]:
    return {
        "namespace": node.namespace,
        "depth_tokens": depth,
        "tokens": len(node.tokens),
        "children": len(node.children),
        "pins": node.pins,
        "hits": node.hits,
        "priority": node.priority,
        "last_used": node.last_used,
    }


def _with_head(depth: int, node: Node) -> dict[str, Any]:
    return {**_figures(depth, node), "head_token_ids": node.tokens[:HEAD_TOKENS].tolist()}


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
        "constraints": msgspec.structs.asdict(runner.constraint_counters()),
    }
