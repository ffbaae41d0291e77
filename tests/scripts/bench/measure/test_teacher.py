from types import SimpleNamespace

import pytest
import torch

from scripts.bench.measure.outputs import Output
from scripts.bench.measure.teacher import Agreement, Teacher
from shared.wire import TokenLogprob

LOGITS = torch.tensor([[0.0, 2.0, 1.5], [3.0, 0.0, 0.0], [0.0, 0.0, 1.0], [9.0, 9.0, 0.0]])  # by the token before


class Model:
    """Looks at the last token only."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, context: torch.Tensor, logits_to_keep: int) -> SimpleNamespace:
        self.calls += 1
        return SimpleNamespace(logits=LOGITS[context][:, -logits_to_keep:])


def output(prompt: tuple[int, ...], *token_ids: int, off: float = 0.0) -> Output:
    logprobs = LOGITS.log_softmax(dim=-1)
    before = (prompt[-1], *token_ids)
    return Output(
        prompt,
        tuple(
            TokenLogprob(token, float(logprobs[last, token]) + off)
            for last, token in zip(before, token_ids, strict=False)
        ),
    )


def test_each_token_is_judged_behind_the_output_itself():
    found = Teacher(Model()).compare([output((3, 0), 1, 0, 2, 2), output((0,), 1, off=-0.25)])
    assert (found.positions, found.gaps) == (5, (0.5,))
    assert found.logprob_error == pytest.approx(0.25)


def test_of_equal_logits_either_will_do():
    assert Teacher(Model()).compare([output((3,), 0), output((3,), 1)]).gaps == ()


def test_the_same_output_is_judged_once():
    model = Model()
    Teacher(model).compare([output((0,), 1, 0), output((0,), 1, 0), output((0,), 1, 1)])
    assert model.calls == 2


@pytest.mark.parametrize(
    ("found", "holds"),
    [
        (Agreement(100, (), 0.0), True),
        (Agreement(100, (0.04, 0.01), 0.04), True),
        (Agreement(100, (0.04, 0.01, 0.01), 0.04), False),
        (Agreement(100, (0.06,), 0.04), False),
        (Agreement(100, (), 0.06), False),
    ],
)
def test_what_holds(found: Agreement, holds: bool):
    assert found.holds(tie=0.05, error=0.05, part=0.02) is holds
