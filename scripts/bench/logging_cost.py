"""What logging costs: CPU seconds a token at batch 32, with lines and files against errors only, in turns.

    python -m scripts.bench.logging_cost [--starts 3] [--rounds 20]

Two deployments of the bundled model stand side by side, one of them at rest while the other answers the same 32
prompts; the order changes from round to round. CPU seconds are those of all processes of a deployment. Rounds are
short, so that what else the machine does falls on both sides, and what counts is the median of their ratios. Two
processes that do the same need not cost the same, so the deployments are started anew several times. The executor
computes the model, which takes nearly all and differs most; so what logging costs the others is told apart too.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

from scripts.bench.measure.timing import median_within, round_ratios
from tests.support.deployment import Deployment, deployed

BATCH = 32
TOKENS = 64
FORMS = {
    "logged": ("--set", "logging.level=info"),
    "silent": ("--set", "logging.level=error", "--set", "logging.directory=''"),
}


class Cost(NamedTuple):
    """CPU seconds."""

    all: float
    others: float  # than the executor

    @classmethod
    def of(cls, deployment: Deployment) -> Cost:
        seconds, others = 0.0, 0.0
        for process in deployment.processes():
            times = process.cpu_times()
            seconds += times.user + times.system
            if "services.executor" not in process.cmdline():
                others += times.user + times.system
        return cls(seconds, others)

    def since(self, earlier: Cost, tokens: int) -> Cost:
        """A token."""
        return Cost((self.all - earlier.all) / tokens, (self.others - earlier.others) / tokens)


def measure(deployment: Deployment, pool: ThreadPoolExecutor, story: str) -> Cost:
    """Of a token of 32 requests at once."""

    def one(index: int) -> int:
        reply = deployment.generate(f"Story {story} of {index}:", max_new_tokens=TOKENS, ignore_eos=True)
        return int(reply["meta_info"]["completion_tokens"])

    before = Cost.of(deployment)
    tokens = sum(pool.map(one, range(BATCH)))
    return Cost.of(deployment).since(before, tokens)


def compare(folder: Path, rounds: int, start: int) -> dict[str, list[Cost]]:
    """Of a token in each round, by form."""
    found: dict[str, list[Cost]] = {form: [] for form in FORMS}
    with ExitStack() as stack:
        pool = stack.enter_context(ThreadPoolExecutor(BATCH))
        servers = {form: stack.enter_context(deployed(folder / form, *FORMS[form])) for form in turns(start)}
        for number in range(rounds + 1):
            for form in turns(start + number):
                cost = measure(servers[form], pool, f"{start} {number}")
                if number:  # the first round warms up
                    found[form].append(cost)
    return found


def turns(number: int) -> list[str]:
    return sorted(FORMS, reverse=number % 2 == 1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--starts", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=20, help="after each start")
    arguments = parser.parse_args()
    ratios: list[float] = []
    shares: list[float] = []
    for start in range(arguments.starts):
        with tempfile.TemporaryDirectory() as folder:
            found = compare(Path(folder), arguments.rounds, start)
        logged, silent = found["logged"], found["silent"]
        ratios += (own := round_ratios([cost.all for cost in logged], [cost.all for cost in silent]))
        shares += [1 + (one.others - other.others) / other.all for one, other in zip(logged, silent, strict=True)]
        sides = ", ".join(
            f"{form} {1000 * statistics.median(cost.all for cost in costs):.3f}" for form, costs in found.items()
        )
        print(f"start {start + 1}: ms of CPU a token: {sides}; {percent(statistics.median(own))}", flush=True)
    print(f"logging costs {told(ratios)}; of this in other processes than the executor {told(shares)}")


def told(ratios: list[float]) -> str:
    low, high = median_within(ratios)
    return f"{percent(statistics.median(ratios))}, with 95% certainty {percent(low)} to {percent(high)}"


def percent(ratio: float) -> str:
    return f"{100 * (ratio - 1):+.2f}%"


if __name__ == "__main__":
    main()
