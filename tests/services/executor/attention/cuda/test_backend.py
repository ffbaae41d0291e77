"""The CUDA backend as far as a machine without CUDA can tell: its results by Triton's interpreter, and that its kernels
compile for the devices on which they will run and need no more shared memory than those have."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

triton = pytest.importorskip("triton")  # there is none but for Linux

from triton.backends.compiler import GPUTarget  # noqa: E402
from triton.compiler import ASTSource  # noqa: E402

from services.executor.attention.cuda import is_available  # noqa: E402
from services.executor.attention.cuda.backend import SMALL_TILE, default_tile, tokens_at_a_time  # noqa: E402
from services.executor.attention.cuda.kernels import attend, merge  # noqa: E402

SHARED_BYTES = {80: 163 * 1024, 89: 99 * 1024, 90: 227 * 1024}  # of one program, by compute capability
NAMES = {torch.float32: "fp32", torch.float16: "fp16", torch.bfloat16: "bf16"}


def compiled(kernel, capability, pointers, scalars, **constants):
    """The kernel for a device that need not be there; pointers are aligned to 16 bytes."""
    names = kernel.arg_names
    source = ASTSource(
        kernel,
        {**pointers, **scalars, **dict.fromkeys(constants, "constexpr")},
        constexprs={(names.index(name),): value for name, value in constants.items()},
        attrs={(names.index(name),): [["tt.divisibility", 16]] for name in pointers},
    )
    return triton.compile(source, GPUTarget("cuda", capability, 32), options={"num_warps": 4, "num_stages": 2})


def test_results_by_the_interpreter(repository: Path) -> None:
    file = Path(__file__).with_name("interpreted.py")
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", str(file)]
    environment = {**os.environ, "TRITON_INTERPRET": "1"}
    done = subprocess.run(command, env=environment, cwd=repository, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout[-5000:]


@pytest.mark.parametrize(
    ("capability", "queries", "pool", "head_dim", "is_small"),
    [
        (80, torch.float32, torch.float16, 80, True),
        (89, torch.float32, torch.float32, 256, False),
        (89, torch.bfloat16, torch.bfloat16, 128, False),
        (90, torch.bfloat16, torch.bfloat16, 64, True),
    ],
)
def test_attention_compiles_for(capability, queries, pool, head_dim, is_small, tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    padded = 1 << (head_dim - 1).bit_length()
    own, pooled = "*" + NAMES[queries], "*" + NAMES[pool]
    pointers = {"queries": own, "keys": pooled, "values": pooled, "output": own, "partial": "*fp32"}
    pointers |= {"log_sums": "*fp32", "pieces": "*i32", "parts": "*i32"}
    sizes = {"HEADS": 12, "KV_HEADS": 4, "HEAD_DIM": head_dim, "M": SMALL_TILE if is_small else default_tile(padded)}
    kernel = compiled(
        attend,
        capability,
        pointers,
        {"query_stride": "i32", "scale": "fp32"},
        **sizes,
        N=tokens_at_a_time(padded, queries),
        D=padded,
    )
    assert kernel.metadata.shared <= SHARED_BYTES[capability]


def test_the_merge_compiles(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    pointers = {"partial": "*fp32", "log_sums": "*fp32", "output": "*bf16"}
    pointers |= dict.fromkeys(["merged_rows", "firsts", "sources"], "*i32")
    assert compiled(merge, 90, pointers, {}, HEADS=12, HEAD_DIM=80, D=128).asm["cubin"]


def test_it_is_available_where_triton_is() -> None:
    assert is_available()
