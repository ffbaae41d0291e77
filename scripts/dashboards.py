"""Write the Grafana dashboards of configs/observability: `python scripts/dashboards.py`. A test keeps them fresh.

Knows which panel shows what. Does not know how figures come about: docs/logs.md and /metrics name them. Each gateway
tells of the whole scheduler and of all executors, so their figures are taken from one gateway (max), not added up.
"""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

FOLDER = Path(__file__).parents[1] / "configs/observability/grafana/dashboards"
SOURCES = {"prometheus": {"type": "prometheus", "uid": "prometheus"}, "loki": {"type": "loki", "uid": "loki"}}
RATE = "[$__rate_interval]"
SPAN = "[$__auto]"
REQUESTS = '{event="request"}'
EXECUTOR_STEPS = '{event="step", stage="executor"}'
FAILED = 'sapwood_requests_total{outcome="failed"}'
SCHEDULER_STEPS = '{event="step", stage="scheduler"}'


@dataclass(frozen=True)
class Panel:
    title: str
    says: str
    queries: dict[str, str]  # by what the legend says
    unit: str = "short"
    source: Literal["prometheus", "loki"] = "prometheus"
    kind: Literal["timeseries", "stat", "logs"] = "timeseries"
    width: int = 8  # of 24
    stacked: bool = False


def quantiles(metric: str) -> dict[str, str]:
    buckets = f"sum by (le) (rate({metric}_bucket{RATE}))"
    return {f"p{int(100 * share)}": f"histogram_quantile({share}, {buckets})" for share in (0.5, 0.9, 0.99)}


def rate(metric: str) -> str:
    """Of what each gateway counts for itself."""
    return f"sum(rate({metric}{RATE}))"


def shared_rate(metric: str) -> str:
    """Of what all gateways are told by the same executors."""
    return f"max(rate({metric}{RATE}))"


def having(lines: str, *fields: str) -> str:
    """Lines with these fields as labels, and no others: each value of each label is a series."""
    return f"{lines} | json " + ", ".join(f'{field}="{field}"' for field in fields)


def above(field: str, least: int) -> str:
    """Loki keeps lines whose value it cannot compare, so null has to be left out."""
    return f'({field} != "" and {field} > {least})'


def figure(lines: str, field: str) -> str:
    return f'{having(lines, field)} | unwrap {field} | __error__="" {SPAN}'


def mean(lines: str, field: str) -> str:
    return f"avg_over_time({figure(lines, field)}) by (event)"


def means(lines: str, *fields: str) -> dict[str, str]:
    return {field.removesuffix("_s"): mean(lines, field) for field in fields}


def summed(field: str) -> str:
    return f"sum(sum_over_time({figure(REQUESTS, field)}))"


OVERVIEW = [
    Panel("Processes", "Connected, by stage", {"{{stage}}": "min by (stage) (sapwood_stage_processes)"}, kind="stat"),
    Panel("Open requests", "At all gateways", {"open": "sum(sapwood_open_requests)"}, kind="stat", width=4),
    Panel(
        "Failed",
        "Share of requests that failed by the server's fault",
        {"failed": f"(sum(rate({FAILED}{RATE})) or vector(0)) / {rate('sapwood_requests_total')}"},
        unit="percentunit",
        kind="stat",
        width=4,
    ),
    Panel(
        "KV held",
        "Share of the KV pool that requests hold",
        {"held": "max(sapwood_kv_usage_ratio)"},
        "percentunit",
        kind="stat",
        width=4,
    ),
    Panel(
        "Oldest that waits", "Since it came", {"age": "max(sapwood_oldest_waiting_seconds)"}, "s", kind="stat", width=4
    ),
    Panel(
        "Requests",
        "Answered in a second, by outcome",
        {"{{outcome}}": f"sum by (outcome) (rate(sapwood_requests_total{RATE}))"},
        "reqps",
        stacked=True,
    ),
    Panel(
        "Tokens",
        "In a second: output, and prompts of ended requests",
        {"output": rate("sapwood_decode_tokens_total"), "prompts": rate("sapwood_prompt_tokens_total")},
    ),
    Panel(
        "Errors by kind",
        "Requests that ended in an error, by its code",
        {"{{error}}": f'sum by (error) (count_over_time({having(REQUESTS, "error")} | error != "" {SPAN}))'},
        source="loki",
        stacked=True,
    ),
    Panel("Time to first token", "From arrival", quantiles("sapwood_time_to_first_token_seconds"), "s"),
    Panel("Between tokens", "Of one output", quantiles("sapwood_inter_token_seconds"), "s"),
    Panel("Whole request", "From arrival to the end", quantiles("sapwood_request_seconds"), "s"),
    Panel(
        "Queue",
        "Requests that run, wait for their turn, or wait for their constraint",
        {
            "running": "max(sapwood_running_requests)",
            "waiting": "max(sapwood_waiting_requests)",
            "compiling": "max(sapwood_compiling_requests)",
        },
    ),
    Panel(
        "Where a request waits",
        "Means of ended requests: a tokenizer, text to ids, its turn, its constraint",
        means(REQUESTS, "tokenizer_wait_s", "encode_s", "queue_s", "compile_s"),
        "s",
        source="loki",
    ),
    Panel(
        "A step of an executor",
        "Means by stage",
        means(EXECUTOR_STEPS, "match_s", "forward_s", "mask_s", "sample_s"),
        "s",
        source="loki",
        stacked=True,
    ),
    Panel("Batch", "Requests in a step, its tokens", means(EXECUTOR_STEPS, "batch", "tokens"), source="loki"),
    Panel("A plan of the scheduler", "What it takes", means(SCHEDULER_STEPS, "plan_s"), "s", source="loki"),
    Panel(
        "Lost and submitted again",
        "Processes that left, requests that had to be submitted again; in an hour",
        {
            "{{stage}} lost": "max by (stage) (increase(sapwood_stage_lost_total[1h]))",
            "submitted again": "sum(increase(sapwood_resubmissions_total[1h]))",
        },
    ),
    Panel(
        "Slow or broken requests",
        "Those that took more than ten seconds to their first token, had to be submitted again, or failed",
        {
            "": having(REQUESTS, "ttft_s", "attempts", "outcome")
            + f' | outcome = "failed" or {above("ttft_s", 10)} or {above("attempts", 1)}'
        },
        source="loki",
        kind="logs",
        width=12,
    ),
    Panel(
        "Processes started, ended and stalled",
        "As the watchdog says, and those that stood still for more than a second",
        {"": '{event=~"process_.+|stalled"}'},
        source="loki",
        kind="logs",
        width=12,
    ),
    Panel(
        "The story of one request",
        "All lines of the request whose id stands above, from all processes",
        {"": '{job="sapwood"} |= "$request_id"'},
        source="loki",
        kind="logs",
        width=24,
    ),
]

FOUND_BY_TENANT = having(REQUESTS, "tenant", "cached_tokens") + f" | unwrap cached_tokens {SPAN}"
FOUND = "sum(rate(sapwood_cache_hit_total" + RATE + "))"
COMPUTED_MASKS = shared_rate("sapwood_constraint_computed_masks_total")
INHERITED_MASKS = shared_rate("sapwood_constraint_inherited_masks_total")

CACHE = [
    Panel(
        "Prompt tokens found",
        "Share of prompt tokens that were in the cache",
        {"found": f"{FOUND} / {rate('sapwood_prompt_tokens_total')}"},
        "percentunit",
    ),
    Panel(
        "Prompt tokens",
        "In a second: found and computed",
        {"found": FOUND, "computed": "sum(rate(sapwood_cache_miss_total" + RATE + "))"},
        stacked=True,
    ),
    Panel(
        "Found by tenant",
        "Tokens that ended requests found",
        {"{{tenant}}": f"sum by (tenant) (sum_over_time({FOUND_BY_TENANT}))"},
        source="loki",
    ),
    Panel(
        "KV pool",
        "Slots that requests hold, that are cached and can go, that hold nothing",
        {
            "held": "max(sapwood_kv_pinned_tokens)",
            "cached": "max(sapwood_kv_evictable_tokens)",
            "free": "max(sapwood_kv_free_tokens)",
        },
        stacked=True,
    ),
    Panel(
        "KV held, by executor",
        "Share of its pool",
        {"{{executor}}": "max by (executor) (sapwood_executor_kv_pinned_tokens / sapwood_executor_kv_capacity_tokens)"},
        "percentunit",
    ),
    Panel(
        "Making room",
        "Cached tokens that went, in a second",
        {"evicted": shared_rate("sapwood_cache_evicted_tokens_total")},
    ),
    Panel("Tree", "Nodes of all executors", {"nodes": "max(sapwood_cache_nodes)"}),
    Panel(
        "Namespaces",
        "Cheap ones see so little reuse that little is kept",
        {"{{mode}}": "max by (mode) (sapwood_cache_namespaces)"},
    ),
    Panel("Requests that gave way", "And were admitted again", {"gave way": summed("preemptions")}, source="loki"),
    Panel("Masks", "In a second", {"computed": COMPUTED_MASKS, "inherited": INHERITED_MASKS}, stacked=True),
    Panel(
        "Masks inherited",
        "Share that was known from a request before",
        {"inherited": f"{INHERITED_MASKS} / ({COMPUTED_MASKS} + {INHERITED_MASKS})"},
        "percentunit",
    ),
    Panel(
        "Forced tokens",
        "Share of output tokens that a constraint left no choice about",
        {"forced": f"{summed('forced_tokens')} / {summed('completion_tokens')}"},
        "percentunit",
        source="loki",
    ),
    Panel(
        "Tokens for a forward step",
        "Of ended requests: above one, forced tokens and drafts pay",
        {"tokens": f"{summed('completion_tokens')} / {summed('forward_steps')}"},
        source="loki",
    ),
    Panel(
        "Compiling a constraint",
        "What requests waited for it, of all requests",
        {"p95": f"quantile_over_time(0.95, {figure(REQUESTS, 'compile_s')}) by (event)"},
        "s",
        source="loki",
    ),
    Panel(
        "Grammars",
        "Compiled and refused, in an hour",
        {
            "compiled": "max(increase(sapwood_constraint_compiled_grammars_total[1h]))",
            "refused": "max(increase(sapwood_constraint_refused_grammars_total[1h]))",
        },
    ),
    Panel(
        "Grammars kept",
        "With their states",
        {"grammars": "max(sapwood_constraint_grammars)", "states": "max(sapwood_constraint_states)"},
    ),
    Panel("Memory of states", "And of their masks", {"states": "max(sapwood_constraint_state_bytes)"}, "bytes"),
    Panel(
        "Drafts accepted",
        "Share of the tokens guessed from a request's own text",
        {
            "accepted": f"{shared_rate('sapwood_accepted_draft_tokens_total')}"
            f" / {shared_rate('sapwood_drafted_tokens_total')}"
        },
        "percentunit",
    ),
]


def dashboard(uid: str, title: str, panels: list[Panel], variables: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "uid": uid,
        "title": title,
        "tags": ["sapwood"],
        "schemaVersion": 39,
        "version": 1,
        "editable": True,
        "refresh": "10s",
        "time": {"from": "now-30m", "to": "now"},
        "timezone": "browser",
        "graphTooltip": 1,  # one cross for all panels
        "links": [{"type": "dashboards", "tags": ["sapwood"], "title": "Sapwood", "asDropdown": False}],
        "templating": {"list": variables},
        "annotations": {"list": []},
        "panels": [_drawn(number, panel, place) for number, (panel, place) in enumerate(_placed(panels), 1)],
    }


def _placed(panels: list[Panel]) -> list[tuple[Panel, dict[str, int]]]:
    """From left to right, line by line. All of a line are as high as its first one."""
    placed, x, y, height = [], 0, 0, 0
    for panel in panels:
        if x + panel.width > 24:
            x, y = 0, y + height
        if x == 0:
            height = {"stat": 4, "timeseries": 8, "logs": 10}[panel.kind]
        placed.append((panel, {"x": x, "y": y, "w": panel.width, "h": height}))
        x += panel.width
    return placed


def _drawn(number: int, panel: Panel, place: dict[str, int]) -> dict[str, Any]:
    return {
        "id": number,
        "type": panel.kind,
        "title": panel.title,
        "description": panel.says,
        "gridPos": place,
        "datasource": SOURCES[panel.source],
        "targets": [
            _target(letter, panel, *query) for letter, query in zip("ABCDEF", panel.queries.items(), strict=False)
        ],
        **({} if panel.kind == "logs" else {"fieldConfig": {"defaults": _looks(panel), "overrides": []}}),
        "options": _options(panel),
    }


def _target(letter: str, panel: Panel, legend: str, query: str) -> dict[str, Any]:
    kind = (
        {"queryType": "range"}
        if panel.source == "loki"
        else {"instant": panel.kind == "stat", "range": panel.kind != "stat"}
    )
    return {"refId": letter, "expr": query, "legendFormat": legend, "datasource": SOURCES[panel.source], **kind}


def _looks(panel: Panel) -> dict[str, Any]:
    if panel.kind == "stat":
        return {"unit": panel.unit, "decimals": 0 if panel.unit == "short" else 1}
    stacking = {"mode": "normal" if panel.stacked else "none", "group": "A"}
    lines = {"lineWidth": 1, "fillOpacity": 30 if panel.stacked else 0, "showPoints": "never", "stacking": stacking}
    return {"unit": panel.unit, "min": 0, "custom": lines}


def _options(panel: Panel) -> dict[str, Any]:
    match panel.kind:
        case "logs":
            return {"showTime": True, "wrapLogMessage": True, "enableLogDetails": True, "sortOrder": "Ascending"}
        case "stat":
            return {"colorMode": "none", "graphMode": "none", "reduceOptions": {"calcs": ["lastNotNull"]}}
        case "timeseries":
            return {
                "legend": {"displayMode": "list", "placement": "bottom"},
                "tooltip": {"mode": "multi", "sort": "desc"},
            }


REQUEST_ID = {
    "type": "textbox",
    "name": "request_id",
    "label": "Request id",
    "query": "",
    "current": {"text": "", "value": ""},
    "options": [{"text": "", "value": "", "selected": True}],
}

DASHBOARDS = {
    "overview.json": dashboard("sapwood-overview", "Sapwood: overview", OVERVIEW, [REQUEST_ID]),
    "cache.json": dashboard("sapwood-cache", "Sapwood: cache and constraints", CACHE, []),
}


def text(name: str) -> str:
    return json.dumps(DASHBOARDS[name], indent=1) + "\n"


def main() -> int:
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name in DASHBOARDS:
        (FOLDER / name).write_text(text(name))
    return 0


if __name__ == "__main__":
    sys.exit(main())
