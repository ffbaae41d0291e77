"""What logging costs: CPU seconds a token at batch 32, with lines and files against errors only, in turns.

    python -m scripts.bench.logging_cost [--starts 3] [--rounds 20]

Two deployments of the bundled model stand side by side, one of them at rest while the other answers the same 32
prompts; the order changes from round to round. CPU seconds are those of all processes of a deployment. Rounds are
short, so that what else the machine does falls on both sides, and what counts is the median of their ratios. Two
processes that do the same need not cost the same, so the deployments are started anew several times.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

from scripts.bench.measure.timing import median_within, round_ratios
from tests.support.deployment import Deployment, deployed

BATCH = 32
TOKENS = 64
FORMS = {
    "logged": ("--set", "logging.level=info"),
    "silent": ("--set", "logging.level=error", "--set", "logging.directory=''"),
}


def cpu_s(deployment: Deployment) -> float:
    times = [process.cpu_times() for process in deployment.processes()]
    return sum(time.user + time.system for time in times)


def measure(deployment: Deployment, pool: ThreadPoolExecutor, story: str) -> float:
    """CPU seconds a token of 32 requests at once."""

    def one(index: int) -> int:
        reply = deployment.generate(f"Story {story} of {index}:", max_new_tokens=TOKENS, ignore_eos=True)
        return int(reply["meta_info"]["completion_tokens"])

    before_s = cpu_s(deployment)
    tokens = sum(pool.map(one, range(BATCH)))
    return (cpu_s(deployment) - before_s) / tokens


def compare(folder: Path, rounds: int, start: int) -> dict[str, list[float]]:
    """CPU seconds a token of each round, by form."""
    found: dict[str, list[float]] = {form: [] for form in FORMS}
    with ExitStack() as stack:
        pool = stack.enter_context(ThreadPoolExecutor(BATCH))
        servers = {form: stack.enter_context(deployed(folder / form, *FORMS[form])) for form in turns(start)}
        for number in range(rounds + 1):
            for form in turns(start + number):
                seconds = measure(servers[form], pool, f"{start} {number}")
                if number:  # the first round warms up
                    found[form].append(seconds)
    return found


def turns(number: int) -> list[str]:
    return sorted(FORMS, reverse=number % 2 == 1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--starts", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=20, help="after each start")
    arguments = parser.parse_args()
    ratios: list[float] = []
    for start in range(arguments.starts):
        with tempfile.TemporaryDirectory() as folder:
            found = compare(Path(folder), arguments.rounds, start)
        ratios += (own := round_ratios(found["logged"], found["silent"]))
        sides = ", ".join(f"{form} {1000 * statistics.median(values):.3f}" for form, values in found.items())
        print(f"start {start + 1}: ms of CPU a token: {sides}; {percent(statistics.median(own))}", flush=True)
    low, high = median_within(ratios)
    print(f"logging costs {percent(statistics.median(ratios))}, with 95% certainty {percent(low)} to {percent(high)}")


def percent(ratio: float) -> str:
    return f"{100 * (ratio - 1):+.2f}%"


if __name__ == "__main__":
    main()
