#!/usr/bin/env python3
"""Ten times the load that a server can sustain: who gets in, how long they wait, how soon the others hear that not.

Starts servers of its own. Sustainable is what a closed loop gets; the flood comes at random moments, whatever the
server says. Outputs are long, so that on a machine of few cores the refused ones do not cost what is measured. Then
loop and flood in turns, for what a second of the executor's CPU time brings: that counts where the machine has other
work too. Then two tenants: one floods, and the other asks now and then.

    .venv/bin/python scripts/bench/overload.py [--factor 10] [--seconds 120] [--turns 4] [--tenant-seconds 180]
"""

from __future__ import annotations

import argparse
import asyncio
import re
import statistics
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import psutil
from cache.deployment import Deployment, deployed
from comparison.tables import markdown
from traffic.arrivals import Asked, Client, connected
from traffic.report import quantile

LONE_REQUESTS = 20
LOOP_S = 15.0
SETTLE_S = 5.0  # of a flood: the queue fills, and memory of its first requests is taken
SAMPLE_S = 5.0
DECODED = re.compile(r"^sapwood_decode_tokens_total (\S+)$", re.MULTILINE)
PROCESSES = ("gateway", "tokenizer", "scheduler", "executor", "detokenizer")
THIS = "this client"  # works on the same cores
FLOOD_KEY, QUIET_KEY = "key-of-the-flood", "key-of-the-quiet-one"


@dataclass(frozen=True)
class Pace:
    tok_s: float
    cores: dict[str, float]  # that a stage has kept busy

    @property
    def tok_per_cpu_s(self) -> float:
        """Of the executor's time."""
        return self.tok_s / self.cores["executor"]


@dataclass
class Watch:
    """What a server does while something goes on."""

    client: Client
    deployment: Deployment
    rss_mib: dict[str, list[float]] = field(default_factory=dict)

    async def run(self, seconds: float) -> Pace:
        """Once it has settled."""
        await asyncio.sleep(SETTLE_S)
        processes = stages(self.deployment)
        start_s, before = time.perf_counter(), await decoded_tokens(self.client)
        busy_s = {name: cpu_s(process) for name, process in processes.items()}
        while (left_s := start_s + seconds - SETTLE_S - time.perf_counter()) > 0:
            for name, process in processes.items():
                self.rss_mib.setdefault(name, []).append(process.memory_info().rss / 2**20)
            await asyncio.sleep(min(SAMPLE_S, left_s))
        after, wall_s = await decoded_tokens(self.client), time.perf_counter() - start_s
        cores = {name: (cpu_s(process) - busy_s[name]) / wall_s for name, process in processes.items()}
        return Pace((after - before) / wall_s, cores)


async def decoded_tokens(client: Client) -> float:
    async with client.session.get("/metrics") as response:
        found = DECODED.search(await response.text())
        assert found is not None
        return float(found[1])


def stages(deployment: Deployment) -> dict[str, psutil.Process]:
    found = {THIS: psutil.Process()}
    for process in psutil.Process(deployment.process.pid).children(recursive=True):
        words = process.cmdline()
        name = next((name for name in PROCESSES if f"services.{name}" in words), None)
        if name is not None:
            found[name] = process
    return found


def cpu_s(process: psutil.Process) -> float:
    times = process.cpu_times()
    return times.user + times.system


async def best_pace(client: Client, concurrency: int, deployment: Deployment) -> Pace:
    """Of a closed loop."""
    running = asyncio.create_task(client.closed_loop(concurrency, LOOP_S + SETTLE_S))
    pace = await Watch(client, deployment).run(LOOP_S + SETTLE_S - 1.0)
    await running
    return pace


async def lone_ttfts(client: Client) -> list[float]:
    return [(await client.ask()).ttft_s for _ in range(LONE_REQUESTS)]


async def flooded(client: Client, rate: float, seconds: float, watch: Watch) -> tuple[list[asyncio.Task[Asked]], Pace]:
    """Those that were sent may be open still."""
    watching = asyncio.create_task(watch.run(seconds))
    sent = await client.arrivals(rate, seconds)
    return sent, await watching


async def one_tenant(deployment: Deployment, arguments: argparse.Namespace) -> None:
    shape = (deployment.url, arguments.prompt_words, arguments.new_tokens)
    async with connected(*shape, seed=1) as client:
        await client.closed_loop(arguments.running, SETTLE_S)  # warm
        async with connected(deployment.url, arguments.prompt_words, 8, seed=2) as lone:
            p95_s = _quantile(await lone_ttfts(lone), 0.95)
        best = await best_pace(client, arguments.running + arguments.queued // 2, deployment)
        rate = best.tok_s / arguments.new_tokens
        if arguments.seconds:
            await overloaded(client, rate, p95_s, best, deployment, arguments)
        if arguments.turns:
            await in_turns(client, rate, deployment, arguments)


async def overloaded(
    client: Client, rate: float, p95_s: float, best: Pace, deployment: Deployment, arguments: argparse.Namespace
) -> None:
    watch = Watch(client, deployment)
    sent, pace = await flooded(client, arguments.factor * rate, arguments.seconds, watch)
    asked = await asyncio.gather(*sent)
    again = await best_pace(client, arguments.running + arguments.queued // 2, deployment)
    best_tok_s = max(best.tok_s, again.tok_s)
    print(f"sustainable: {rate:.2f} requests/s; unloaded ttft p95 {p95_s * 1000:.0f} ms")
    for name, tok_s in (("best", best_tok_s), ("flood's own", pace.tok_s)):
        bound_s = arguments.queued * arguments.new_tokens / tok_s
        print(f"at the {name} pace a full queue takes {bound_s:.1f} s: {2 * p95_s + bound_s:.1f} s to begin")
    taken_s = queues_taken(asked, arguments.queued)
    bound_s = _quantile(taken_s, 0.95)
    print(f"a queue took {bound_s:.1f} s (p95), {max(taken_s):.1f} s (max): {2 * p95_s + bound_s:.1f} s to begin")
    begun, passed = begun_before(asked)
    print(f"others that began while one waited: {begun} at most, and {passed} of them came later\n")
    print(table([report(f"{arguments.factor:g} times, {arguments.seconds:g} s", asked)]), "\n")
    print(f"throughput meanwhile {pace.tok_s:.0f} tok/s, {pace.tok_s / best_tok_s:.1%} of the best\n")
    print(stage_table(watch, pace), flush=True)


async def in_turns(client: Client, rate: float, deployment: Deployment, arguments: argparse.Namespace) -> None:
    loops, floods = [], []
    for _ in range(arguments.turns):
        loops.append(await best_pace(client, arguments.running + arguments.queued // 2, deployment))
        sent, pace = await flooded(client, arguments.factor * rate, LOOP_S + SETTLE_S, Watch(client, deployment))
        floods.append(pace)
        for task in sent:
            task.cancel()
        await asyncio.wait(sent)
    print(f"\n{turns_table({'closed loop': loops, 'flood': floods}, list(loops[0].cores))}", flush=True)


def turns_table(found: Mapping[str, Sequence[Pace]], processes: Sequence[str]) -> str:
    cores = [f"{process}, cores" for process in processes]
    header = ["in turns", "tok/s", "tok for each s of the executor's CPU time", *cores]
    rows = [
        [
            name,
            _each(pace.tok_s for pace in paces),
            _each(pace.tok_per_cpu_s for pace in paces),
            *(f"{statistics.median(pace.cores[process] for pace in paces):.3f}" for process in processes),
        ]
        for name, paces in found.items()
    ]
    return markdown(header, rows)


def queues_taken(asked: Sequence[Asked], queued: int) -> list[float]:
    """How long it took each time until so many more had begun, whoever they were."""
    begun = sorted(one.first_s for one in asked if one.first_s is not None)
    return [later - earlier for earlier, later in zip(begun, begun[queued:], strict=False)]


def begun_before(asked: Sequence[Asked]) -> tuple[int, int]:
    """While one waited how many others began to answer, at most; and how many of those that came after it."""
    times = [(one.sent_s, one.first_s) for one in asked if one.first_s is not None]
    begun = [sum(sent_s < other < first_s for _, other in times) for sent_s, first_s in times]
    passed = [sum(sent_s < came and other < first_s for came, other in times) for sent_s, first_s in times]
    return max(begun, default=0), max(passed, default=0)


def _each(values: Iterable[float]) -> str:
    values = list(values)
    return f"{statistics.median(values):.0f} ({', '.join(f'{value:.0f}' for value in values)})"


async def two_tenants(deployment: Deployment, arguments: argparse.Namespace) -> None:
    shape = (deployment.url, arguments.prompt_words, arguments.new_tokens)
    async with connected(*shape, seed=3, key=FLOOD_KEY) as flood, connected(*shape, seed=4, key=QUIET_KEY) as quiet:
        await flood.closed_loop(arguments.running, SETTLE_S)
        rate = (await best_pace(flood, arguments.running, deployment)).tok_s / arguments.new_tokens
        quiet.new_tokens = 32
        unloaded = await lone_ttfts(quiet)
        quiet.asked.clear()
        watch = Watch(flood, deployment)
        flooding = asyncio.create_task(flooded(flood, arguments.factor * rate, arguments.tenant_seconds, watch))
        await asyncio.sleep(SETTLE_S)
        await asyncio.gather(*await quiet.arrivals(1 / 3, arguments.tenant_seconds - 2 * SETTLE_S))
        sent, _ = await flooding
        asked = await asyncio.gather(*sent)
    print(f"\nthe quiet one's ttft when it is alone: p95 {_quantile(unloaded, 0.95) * 1000:.0f} ms\n")
    print(table([report("the flood", asked), report("the quiet one", quiet.asked)]), flush=True)


def report(name: str, asked: Sequence[Asked]) -> list[str]:
    accepted = [one for one in asked if one.status == 200]
    refused = [one for one in asked if one.status == 429]
    retries = [one.retry_after_s for one in refused if one.retry_after_s is not None]
    return [
        name,
        str(len(asked)),
        f"{len(accepted)} ({sum(one.whole for one in accepted)} whole)",
        str(len(refused)),
        str(len(asked) - len(accepted) - len(refused)),
        _quantiles([one.ttft_s for one in accepted], (0.5, 0.95, 1.0), "{:.2f}"),
        _quantiles([1000 * (one.answered_s - one.sent_s) for one in refused], (0.5, 0.99, 1.0), "{:.0f}"),
        f"{min(retries)} to {max(retries)}" if retries else "–",
    ]


def table(rows: list[list[str]]) -> str:
    header = ["", "requests", "accepted", "429", "other", "ttft s: p50, p95, max"]
    return markdown([*header, "refused after ms: p50, p99, max", "Retry-After, s"], rows)


def stage_table(watch: Watch, pace: Pace) -> str:
    rows = [
        [name, *(f"{mib[at]:.0f}" for at in (0, len(mib) // 2, -1)), f"{pace.cores[name]:.3f}"]
        for name, mib in watch.rss_mib.items()
    ]
    return markdown(["", "MiB at the beginning", "in the middle", "in the end", "cores busy"], rows)


def _quantile(values: Sequence[float], share: float) -> float:
    return quantile(values, share) or 0.0


def _quantiles(values: Sequence[float], shares: Sequence[float], form: str) -> str:
    return ", ".join(form.format(_quantile(values, share)) for share in shares) if values else "–"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--factor", type=float, default=10.0)
    parser.add_argument("--seconds", type=float, default=120.0, help="of the flood; 0: none")
    parser.add_argument("--turns", type=int, default=4, help="of loop and flood")
    parser.add_argument("--tenant-seconds", type=float, default=180.0, help="of that beside a quiet tenant; 0: none")
    parser.add_argument("--running", type=int, default=16, help="requests that run at once")
    parser.add_argument("--queued", type=int, default=16, help="that wait")
    parser.add_argument("--prompt-words", type=int, default=32)
    parser.add_argument("--new-tokens", type=int, default=256)
    arguments = parser.parse_args()
    bounds = (
        f"scheduler.max_running_requests={arguments.running}",
        f"scheduler.max_queued_requests={arguments.queued}",
    )
    flags = [word for bound in bounds for word in ("--set", bound)]
    if arguments.seconds or arguments.turns:
        with deployed(*flags) as deployment:
            asyncio.run(one_tenant(deployment, arguments))
    if arguments.tenant_seconds:
        with deployed(*flags, "--api-key", FLOOD_KEY, "--api-key", QUIET_KEY, "--public-metrics") as deployment:
            asyncio.run(two_tenants(deployment, arguments))


if __name__ == "__main__":
    main()
