"""The CUDA kernel by Triton's interpreter, which must be chosen before Triton is imported: `test_apply` runs this file
in a process of its own."""

import pytest
import torch

from services.executor.constraint.cuda_mask import apply_masks
from tests.support.masked import CASES, Case, expected


@pytest.mark.parametrize("case", CASES)
def test_what_has_no_bit_becomes_minus_infinity(case: Case) -> None:
    logits, rows, bitmask = case.make()
    wanted = expected(logits, rows, bitmask)
    apply_masks(logits, torch.tensor(rows), bitmask[: len(rows)])
    torch.testing.assert_close(logits, wanted, rtol=0, atol=0)
