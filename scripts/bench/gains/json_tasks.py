"""JSON for a client: held to its schema, or asked for again until it obeys.

Both sides ask the same server and show the model the same messages: the schema, an example, the task. One also sends
the schema as a constraint. The other reads the first JSON value in the text, whatever stands around it, and asks again
with another seed while that is wrong; after the last try a task has failed, and took as long as it did until then.
"""

from __future__ import annotations

import json
import re
import statistics
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

import httpx

from scripts.bench.comparison.tables import markdown
from scripts.bench.gains.sides import Sides, new_namespace
from scripts.bench.structured.kinds import KINDS, SUBJECTS, Json, Kind

HELD, PROMPTED = "constraint", "prompt alone"
SIDES = (HELD, PROMPTED)
MOST_TRIES = 5
TIMEOUT_S = 600.0
JSON_KINDS = tuple(kind for kind in KINDS if "response_format" in kind.fields)
HEADER = (
    "task",
    "constraint: right at once",
    "s, median",
    "prompt alone: right at once",
    "in the end",
    "tries",
    "s, median",
    "less, %",
)

Ask = Callable[[Json], str]  # a request's body → the text of the answer


@dataclass(frozen=True)
class Solved:
    is_right: bool  # after the last try
    tries: int
    took_s: float

    @property
    def is_right_at_once(self) -> bool:
        return self.is_right and self.tries == 1


Found = dict[str, dict[str, list[Solved]]]  # by kind and side


def measure(sides: Sides) -> Found:
    """Each round every task twice: greedy at first, and at temperature 1."""
    found: Found = {kind.name: defaultdict(list) for kind in JSON_KINDS}
    with httpx.Client(base_url=sides.url, timeout=TIMEOUT_S, trust_env=False) as client:
        for number in range(2 * sides.rounds):
            namespaces = {side: new_namespace() for side in SIDES}
            for kind in JSON_KINDS:
                for side in sorted(SIDES, reverse=number % 2 == 1):
                    bodies = tries(kind, number, side, namespaces[side])
                    found[kind.name][side].append(solve(partial(ask, client), kind, bodies))
    return found


def tries(kind: Kind, number: int, side: str, namespace: str) -> Iterator[Json]:
    for attempt in range(MOST_TRIES):
        temperature = 1.0 if attempt else float(number % 2)
        body = kind.body(SUBJECTS[number // 2 % len(SUBJECTS)], temperature, number * MOST_TRIES + attempt)
        fields = kind.fields if side == HELD else {}
        free = {name: value for name, value in body.items() if name not in kind.fields}
        yield {**free, **fields, "messages": [_order(kind), *body["messages"]], "extra_key": namespace}


def _order(kind: Kind) -> Json:
    form = kind.fields["response_format"].get("json_schema")
    schema = f" It obeys this schema: {json.dumps(form['schema'], ensure_ascii=False)}" if form else ""
    return {"role": "system", "content": f"Answer with JSON and nothing else.{schema}"}


def ask(client: httpx.Client, body: Json) -> str:
    response = client.post("/v1/chat/completions", json=body)
    response.raise_for_status()
    return str(response.json()["choices"][0]["message"]["content"])


def solve(ask: Ask, kind: Kind, bodies: Iterator[Json], clock: Callable[[], float] = time.perf_counter) -> Solved:
    start_s, count, is_right = clock(), 0, False
    for body in bodies:
        count += 1
        is_right = obeys(kind, first_json(ask(body)))
        if is_right:
            break
    return Solved(is_right, count, clock() - start_s)


def obeys(kind: Kind, text: str) -> bool:
    try:
        kind.check({"content": text})
    except Exception:  # whatever the judge says
        return False
    return True


def first_json(text: str) -> str:
    """The first object or list in a text; all of it, if there is none."""
    decoder = json.JSONDecoder()
    for opening in re.finditer(r"[{\[]", text):
        with suppress(ValueError, RecursionError):
            return text[opening.start() : decoder.raw_decode(text, opening.start())[1]]
    return text


def show(sides: Sides) -> None:
    found = measure(sides)
    print(f"**JSON by constraint, and by prompt with up to {MOST_TRIES} tries**\n")
    print(markdown(HEADER, [row(name, by_side) for name, by_side in found.items()]))
    everything = {side: [each for by_side in found.values() for each in by_side[side]] for side in SIDES}
    print(f"\nall {len(everything[HELD])} tasks: {_seconds(everything, sum)} in all; ", end="")
    print(f"{_seconds(everything, statistics.median)} at the median\n", flush=True)


def row(name: str, found: dict[str, list[Solved]]) -> list[str]:
    held, prompted = found[HELD], found[PROMPTED]
    held_s, prompted_s = (statistics.median(each.took_s for each in side) for side in (held, prompted))
    return [
        name,
        f"{sum(each.is_right_at_once for each in held)} of {len(held)}",
        f"{held_s:.2f}",
        f"{sum(each.is_right_at_once for each in prompted)} of {len(prompted)}",
        f"{sum(each.is_right for each in prompted)} of {len(prompted)}",
        f"{statistics.mean(each.tries for each in prompted):.1f}",
        f"{prompted_s:.2f}",
        f"{100 * (1 - held_s / prompted_s):.0f}",
    ]


def _seconds(found: dict[str, list[Solved]], of: Callable[[Sequence[float]], float]) -> str:
    held, prompted = (of([each.took_s for each in found[side]]) for side in SIDES)
    return f"{held:.2f} s held, {prompted:.2f} s by prompt, {100 * (1 - held / prompted):.0f}% less"
