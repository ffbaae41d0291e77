"""Questions at once behind a system prompt that the server has seen: time to first token by how many there are."""

from __future__ import annotations

import statistics
from collections import defaultdict
from pathlib import Path

from scripts.bench.cache.program import one_request
from scripts.bench.comparison.figures import Spread
from scripts.bench.comparison.tables import markdown, spread_text
from scripts.bench.gains.sides import CACHED, PLAIN, Found, Sides, new_namespace

CONCURRENCIES = (1, 2, 4, 8, 16)
SYSTEM_TOKENS, QUESTION_TOKENS, ANSWER_TOKENS = 600, 50, 16


def measure(sides: Sides) -> dict[int, Found]:
    system = sides.desk.author("system").text(SYSTEM_TOKENS)
    namespace = new_namespace()
    for side in sides.urls:
        sides.play(side, [one_request(system, 1)], 1, namespace)
    found: dict[int, Found] = {size: defaultdict(list) for size in CONCURRENCIES}
    for number in range(sides.rounds):
        for size in CONCURRENCIES:
            ends = [sides.desk.author("question", number, size, n).text(QUESTION_TOKENS) for n in range(size)]
            for side in sides.in_turns(number):
                questions = [one_request(system + end, ANSWER_TOKENS) for end in ends]
                found[size][side].append(sides.play(side, questions, size, namespace))
    return found


def show(sides: Sides) -> None:
    found = measure(sides)
    rows = []
    for size, by_side in found.items():
        on, off = ([each.ttft_p95_s * 1e3 for each in by_side[side]] for side in (CACHED, PLAIN))
        less = [100 * (1 - a / b) for a, b in zip(on, off, strict=True)]
        rows.append([str(size), *(spread_text(Spread.of(each), ".0f") for each in (on, off, less))])
    print(f"**Questions at once behind {SYSTEM_TOKENS} tokens that were seen before: TTFT p95, ms**\n")
    print(f"{markdown(('at once', CACHED, PLAIN, 'less, %'), rows)}\n", flush=True)
    if sides.pictures:
        draw(sides.pictures, found)


def draw(folder: Path, found: dict[int, Found]) -> None:
    from scripts.bench.measure import chart

    series: dict[str, dict[float, float]] = {
        side: {size: statistics.median(each.ttft_p95_s for each in found[size][side]) for size in found}
        for side in (CACHED, PLAIN)
    }
    title = f"Time to first token behind {SYSTEM_TOKENS} shared tokens, 95th percentile"
    chart.lines(folder / "ttft_concurrency.png", title, "requests at once", "s", series)
