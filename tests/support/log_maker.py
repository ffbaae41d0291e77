"""Logs of a deployment that never was: its lines follow docs/logs.md, and a seed makes the same ones again."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import Any, TypeAlias

Line: TypeAlias = dict[str, Any]

START_S = 1_800_000_000.0
SERVICES = ("gateway-1", "tokenizer-1", "tokenizer-2", "scheduler-1", "executor-1", "detokenizer-1")
KV_TOTAL = 60_000


def made_log(requests: int, *, seconds: int, nodes: int = 40, seed: int = 0) -> list[Line]:
    """In the order of time. One executor dies half-way, one request is planted that waits for 4 s in the queue."""
    random = Random(seed)
    lines = [*_starts(), *_steps(random, seconds), tree_line(seconds - 1.0, nodes, random)]
    for number in range(requests):
        lines += _request(random, number, seconds * (number + random.random()) / requests)
    lines += planted_request(seconds / 2)
    lines += _death(seconds / 2)
    return sorted(lines, key=lambda line: str(line["timestamp"]))


def line(at_s: float, service: str, event: str, level: str = "info", **fields: Any) -> Line:
    """`at_s`: seconds after the log's beginning."""
    timestamp = datetime.fromtimestamp(START_S + at_s, UTC).isoformat().replace("+00:00", "Z")
    return {"event": event, "service": service, **fields, "level": level, "timestamp": timestamp}


def write(path: Path, lines: list[Line]) -> Path:
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    return path


def planted_request(at_s: float) -> list[Line]:
    return _story("planted", at_s, encode_s=0.002, queue_s=4.0, prefill_s=0.05, decode_s=0.4, tokens=(80, 40, 20))


def hostile_lines() -> list[Line]:
    """What a client may have caused to be logged, and worse."""
    script = "<img src=x onerror=\"document.title='broken'\"></script><script>document.title='broken'</script>"
    account = planted_request(3.0)[-1] | {"request_id": script, "tenant": script, "route": script, "outcome": "failed"}
    return [
        account | {"error": script},
        account
        | {"error": "__proto__", "service": "__proto__", "total_s": "x", "ttft_s": None, "prompt_tokens": -1e308},
        line(4.0, script, script, "error", request_id=script, attempt={}, process=[]),
        line(4.0, "executor-1", "step", batch="x", kv_total={}, waiting=None),
        line(
            4.0, "executor-9", "tree", nodes=[[1, 2, 3, 4, 5], [2, 1, 3, 4, 5], [3, 3, 9, None, None], "x", [1], None]
        ),
        line(4.0, "supervisor", "process_ended", "warning", process=script, reason=script),
    ]


def tree_line(at_s: float, count: int, random: Random) -> Line:
    """A few long prompts, many branches, as chats make them."""
    nodes: list[list[float | None]] = [[0, None, 400, 0.5, 3, 900]]
    ends = [400]
    for number in range(1, count):
        parent = min(int(random.expovariate(1 / 12)), number - 1) if random.random() < 0.5 else random.randrange(number)
        tokens = random.choice((6, 20, 60, 180, 400))
        if ends[parent] + tokens > 8000:
            parent = 0
        ends.append(ends[parent] + tokens)
        nodes.append(
            [
                number,
                parent,
                tokens,
                round(random.expovariate(1 / 200), 1),
                int(random.random() < 0.1),
                int(random.expovariate(0.2)),
            ]
        )
    return line(at_s, "executor-1", "tree", nodes=nodes, total=count)


def _starts() -> Iterator[Line]:
    for number, name in enumerate(SERVICES):
        yield line(0.01 * number, "supervisor", "process_ready", process=name, restarts=0)


def _death(at_s: float) -> Iterator[Line]:
    yield line(at_s, "supervisor", "process_ended", "warning", process="tokenizer-2", code=-9)
    yield line(at_s + 0.5, "supervisor", "process_ready", process="tokenizer-2", restarts=1)


def _steps(random: Random, seconds: int) -> Iterator[Line]:
    for second in range(1, seconds):
        batch = 1 + int(24 * (0.5 + 0.45 * random.random()))
        waiting = max(0, int(random.gauss(6, 5)))
        yield line(
            *(second, "scheduler-1", "step"),
            running=batch,
            waiting=waiting,
            batch=batch,
            tokens=4 * batch,
            plan_s=0.0008,
        )
        pinned, evictable = 700 * batch, min(20_000 + 40 * second, 38_000)
        yield line(
            *(second + 0.02, "executor-1", "step"),
            batch=batch,
            tokens=4 * batch,
            match_s=0.0002,
            forward_s=round(0.01 + 0.001 * batch, 6),
            mask_s=0.0004,
            sample_s=0.0011,
            nodes=1200,
            tree_tokens=evictable + pinned // 2,
            kv_total=KV_TOTAL,
            kv_free=KV_TOTAL - pinned - evictable,
            kv_evictable=evictable,
            kv_pinned=pinned,
            steps=40,
            computed_tokens=160 * batch,
            cached_tokens=300 * batch,
            forced_tokens=9,
            masks_computed=random.randrange(5),
            masks_inherited=random.randrange(60),
        )


def _request(random: Random, number: int, at_s: float) -> list[Line]:
    prompt, output = random.randrange(40, 3000), random.randrange(2, 300)
    error = random.choice((("queue_full", 429), ("internal_error", 500), ("timeout", 504)))
    return _story(
        f"{number:032x}",
        at_s,
        encode_s=random.expovariate(1 / 0.002),
        queue_s=random.expovariate(1 / 0.05),
        prefill_s=prompt / 20_000 + random.expovariate(1 / 0.02),
        decode_s=output * (0.012 + random.expovariate(1 / 0.004)),
        tokens=(prompt, int(prompt * random.random() ** 0.5), output),
        error=error if random.random() < 0.03 else None,
        constraint=random.choice((None, None, "json_schema")),
    )


def _story(
    request_id: str,
    at_s: float,
    *,
    encode_s: float,
    queue_s: float,
    prefill_s: float,
    decode_s: float,
    tokens: tuple[int, int, int],
    error: tuple[str, int] | None = None,
    constraint: str | None = None,
) -> list[Line]:
    prompt, cached, output = tokens
    forced = output // 3 if constraint else 0
    ids: Line = {"request_id": request_id, "attempt": 1}
    started_s = at_s + 0.001 + encode_s + (0.003 if constraint else 0.0) + queue_s
    ended_s = started_s + prefill_s + decode_s
    lengths = {"encode_s": round(encode_s, 6), "queue_s": round(queue_s, 6), "compile_s": 0.003 if constraint else None}
    account: Line = {
        "request_id": request_id,
        "tenant": f"{_tenant(request_id):016x}",
        "route": "/v1/chat/completions",
        "status": error[1] if error else 200,
        "outcome": _outcome(error),
        "stream": True,
        "n": 1,
        "prompts": 1,
        "finish_reason": "error" if error else "stop",
        "error": error[0] if error else None,
        "constraint": constraint,
        "prompt_tokens": prompt,
        "cached_tokens": cached,
        "completion_tokens": output,
        "forced_tokens": forced,
        "forward_steps": output - forced,
        "preemptions": 0,
        "attempts": 1,
        **lengths,
        "ttft_s": round(started_s + prefill_s - at_s, 6),
        "tpot_s": round(decode_s / max(1, output - 1), 6),
        "total_s": round(ended_s + 0.0005 - at_s, 6),
        "tokenizer": "tokenizer-1",
        "executor": "executor-1",
    }
    steps = {"steps": output, "forward_steps": output - forced, "forced_tokens": forced}
    waits = {"queue_s": lengths["queue_s"], "compile_s": lengths["compile_s"] or 0.0}
    accepted_s = at_s + 0.001 + encode_s
    first_step_s = started_s + 0.5 * prefill_s
    return [
        line(at_s + 0.001, "gateway-1", "received", **ids, route=account["route"]),
        line(
            accepted_s, "tokenizer-1", "encoded", **ids, prompt_tokens=prompt, encode_s=lengths["encode_s"], wait_s=0.0
        ),
        line(accepted_s, "scheduler-1", "accepted", **ids),
        line(first_step_s, "scheduler-1", "started", **ids, **waits, cached_tokens=cached),
        line(ended_s, "scheduler-1", "finished", **ids, **waits, **steps, preemptions=0),
        line(ended_s + 0.0005, "gateway-1", "request", **account),
    ]


def _outcome(error: tuple[str, int] | None) -> str:
    return "ok" if error is None else "refused" if error[1] < 500 else "failed"


def _tenant(text: str) -> int:
    return sum(map(ord, text)) % 5
