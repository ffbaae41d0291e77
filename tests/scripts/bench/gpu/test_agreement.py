import pytest
import torch

from scripts.bench.gpu.agreement import Tokens, compare_tokens, root_mean_square

LOGITS = torch.tensor([[0.0, 3.0, 1.0], [2.0, 1.9, 0.0], [0.0, 1.0, 5.0]])


def test_tokens_are_equal_or_tied_or_wrong() -> None:
    assert compare_tokens(torch.tensor([1, 1, 0]), LOGITS, tie=0.5) == Tokens(equal=1, ties=1, wrong=1)
    assert compare_tokens(torch.tensor([1, 1, 0]), LOGITS, tie=0.05) == Tokens(equal=1, ties=0, wrong=2)


def test_counts_add_up() -> None:
    assert Tokens(1, 2, 3) + Tokens(10, 20, 30) == Tokens(11, 22, 33)


def test_the_root_mean_square() -> None:
    assert root_mean_square(torch.tensor([3.0, -4.0])) == pytest.approx(12.5**0.5)
