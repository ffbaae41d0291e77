"""What the spans of a request say, made of its account: the phases it went through, and what is known of it.

Names are those of OpenTelemetry's conventions for HTTP and for generative AI where they have one, else `sapwood.` and
the name in the log. Knows the account's fields, no library and no clock.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

WAITS = ("tokenizer_wait", "encode", "compile", "queue")  # as one follows the other

STANDARD_NAMES = {
    "status": "http.response.status_code",
    "stream": "gen_ai.request.stream",
    "n": "gen_ai.request.choice.count",
    "prompt_tokens": "gen_ai.usage.input_tokens",
    "cached_tokens": "gen_ai.usage.cache_read.input_tokens",
    "completion_tokens": "gen_ai.usage.output_tokens",
    "ttft_s": "gen_ai.response.time_to_first_chunk",
}
TOLD_OTHERWISE = frozenset({"trace_id", "route", "total_s", "finish_reason"})
METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "DELETE", "CONNECT", "OPTIONS", "TRACE", "PATCH"})

CHATS = frozenset({"/v1/chat/completions", "/v1/messages", "/v1/responses", "background"})
PROVIDER = "sapwood"


class Phase(NamedTuple):
    """Times are seconds from the request's arrival."""

    name: str
    begin_s: float
    end_s: float


def phases(line: Mapping[str, Any]) -> Iterator[Phase]:
    """Of waits the account has the sums: each is drawn where it came first, and none beyond the first output."""
    if "read_s" not in line:
        return
    first_s, total_s = line["ttft_s"], line["total_s"]
    at_s, most_s = line["read_s"], total_s if first_s is None else first_s
    yield Phase("read", 0.0, at_s)
    for name in WAITS:
        began_s, at_s = at_s, min(at_s + line[f"{name}_s"], most_s)
        if at_s > began_s:
            yield Phase(name, began_s, at_s)
    if first_s is not None:
        yield Phase("prefill", at_s, first_s)
        yield Phase("decode", first_s, total_s)


def root_name(method: str, route: str) -> str:
    return f"{_known_method(method) or 'HTTP'} {_known_route(route)}".rstrip()


def root_attributes(method: str, route: str) -> dict[str, str]:
    """What is known when the request comes. Of what there is no route for, the path is the client's own words."""
    named = {"http.route": route} if _known_route(route) else {}
    return {"http.request.method": _known_method(method) or "_OTHER", **named}


def attributes(line: Mapping[str, Any], model: str) -> dict[str, Any]:
    known = {name: value for name, value in line.items() if value is not None and name not in TOLD_OTHERWISE}
    generates = "completion_tokens" in line
    if not generates:
        known.pop("stream")  # a convention of what generates
    found = {STANDARD_NAMES.get(name, f"sapwood.{name}"): value for name, value in known.items()}
    if line["outcome"] == "failed":
        found["error.type"] = line["error"] or str(line["status"])
    return found | _generation(line, model) if generates else found


def _generation(line: Mapping[str, Any], model: str) -> dict[str, Any]:
    reason = line["finish_reason"]
    return {
        "gen_ai.operation.name": "chat" if line["route"] in CHATS else "text_completion",
        "gen_ai.provider.name": PROVIDER,
        "gen_ai.request.model": model,
        "gen_ai.response.model": model,
        **({} if reason is None else {"gen_ai.response.finish_reasons": [reason]}),
    }


def _known_method(method: str) -> str:
    return method if method in METHODS else ""


def _known_route(route: str) -> str:
    return route if route.startswith("/") else ""
