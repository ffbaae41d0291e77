"""What logging costs: CPU seconds a token at batch 32, with lines and files against errors only, in turns.

    python -m scripts.bench.logging_cost [--rounds 6]

Two deployments of the bundled model stand side by side, one of them at rest while the other is measured. CPU seconds
are those of all processes of a deployment.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

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


def measure(deployment: Deployment, number: int) -> float:
    """CPU seconds a token of 32 requests at once."""

    def one(index: int) -> int:
        reply = deployment.generate(f"Story {number} of {index}:", max_new_tokens=TOKENS, ignore_eos=True)
        return int(reply["meta_info"]["completion_tokens"])

    before_s = cpu_s(deployment)
    with ThreadPoolExecutor(BATCH) as pool:
        tokens = sum(pool.map(one, range(BATCH)))
    return (cpu_s(deployment) - before_s) / tokens


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=6)
    rounds = parser.parse_args().rounds
    found: dict[str, list[float]] = {form: [] for form in FORMS}
    with ExitStack() as stack, tempfile.TemporaryDirectory() as folder:
        servers = {form: stack.enter_context(deployed(Path(folder) / form, *more)) for form, more in FORMS.items()}
        for number in range(rounds + 1):
            for form in sorted(FORMS, reverse=number % 2 == 1):
                seconds = measure(servers[form], number)
                if number:  # the first round warms up
                    found[form].append(seconds)
    for form, values in found.items():
        print(f"{form}: {1000 * statistics.median(values):.3f} ms of CPU a token, {len(values)} rounds")
    ratios = [logged / silent for logged, silent in zip(found["logged"], found["silent"], strict=True)]
    print(f"logging costs {100 * (statistics.median(ratios) - 1):+.2f}%", [f"{ratio:.3f}" for ratio in ratios])


if __name__ == "__main__":
    main()
