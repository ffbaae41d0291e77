"""Masks on logits: the kernel of each device against torch's operators, and those against a loop."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import Tensor

from services.executor.constraint.apply import apply_masks, apply_with_torch
from tests.support.masked import CASES, Case, expected


def on_torch(logits: Tensor, rows: list[int], bitmask: Tensor) -> None:
    apply_with_torch(logits, torch.tensor(rows), bitmask[: len(rows)])


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("apply", [apply_masks, on_torch])
def test_what_has_no_bit_becomes_minus_infinity(apply, case: Case) -> None:
    logits, rows, bitmask = case.make()
    wanted = expected(logits, rows, bitmask)
    apply(logits, rows, bitmask)
    torch.testing.assert_close(logits, wanted, rtol=0, atol=0)


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_numbers_that_have_no_kernel(dtype: torch.dtype) -> None:
    logits, rows, bitmask = CASES[0].make()
    wanted = expected(logits, rows, bitmask).to(dtype)
    logits = logits.to(dtype)
    apply_masks(logits, rows, bitmask)
    torch.testing.assert_close(logits, wanted, rtol=0, atol=0)


def test_rows_that_lie_apart() -> None:
    logits, rows, bitmask = CASES[0].make()
    wide = torch.zeros(logits.shape[0], logits.shape[1] + 5)
    wide[:, : logits.shape[1]] = logits
    apply_masks(wide[:, : logits.shape[1]], rows, bitmask)
    torch.testing.assert_close(wide[:, : logits.shape[1]], expected(logits, rows, bitmask), rtol=0, atol=0)
    assert not wide[:, logits.shape[1] :].any()


def test_no_rows_at_all() -> None:
    logits = torch.ones(2, 40)
    apply_masks(logits, [], torch.zeros(0, 2, dtype=torch.int32))
    assert (logits == 1).all()


@pytest.mark.parametrize("rows", [[2], [-1]])
def test_a_row_that_is_not_there(rows: list[int]) -> None:
    with pytest.raises(IndexError):
        apply_masks(torch.ones(2, 40), rows, torch.zeros(1, 2, dtype=torch.int32))


def test_the_cuda_kernel_by_the_interpreter(repository: Path) -> None:
    pytest.importorskip("triton")
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-x",
        "-p",
        "no:cacheprovider",
        str(_beside("masks_interpreted.py")),
    ]
    environment = {**os.environ, "TRITON_INTERPRET": "1"}
    done = subprocess.run(command, env=environment, cwd=repository, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout[-5000:]


@pytest.mark.parametrize("capability", [80, 90])
def test_the_cuda_kernel_compiles(capability: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    triton = pytest.importorskip("triton")
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    from services.executor.constraint.cuda_mask import BLOCK, forbid

    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    pointers = {"logits": "*fp32", "rows": "*i64", "masks": "*i32"}
    scalars = dict.fromkeys(["row_stride", "mask_stride", "vocab_size", "words"], "i32")
    source = ASTSource(
        forbid, {**pointers, **scalars, "BLOCK": "constexpr"}, constexprs={(forbid.arg_names.index("BLOCK"),): BLOCK}
    )
    assert triton.compile(source, GPUTarget("cuda", capability, 32), options={"num_warps": 4}).asm["cubin"]


def _beside(name: str) -> Path:
    return Path(__file__).with_name(name)
