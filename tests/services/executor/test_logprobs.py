import pytest
import torch

from services.executor.logprobs import prompt_logprobs, token_logprobs


@pytest.fixture
def logits():
    return torch.randn(3, 40, generator=torch.Generator().manual_seed(0)) * 4


def test_scores_are_the_log_softmax_of_the_logits(logits):
    expected = logits.log_softmax(-1)
    found = token_logprobs(logits, [5, 6, 7], [0, 2, 40])
    for row, (score, top) in enumerate(zip(found, (0, 2, 40), strict=True)):
        assert score.token_id == row + 5
        assert score.logprob == pytest.approx(float(expected[row, row + 5]), abs=1e-5)
        values, ids = expected[row].sort(descending=True)
        assert [token_id for token_id, _ in score.top] == ids[:top].tolist()
        assert [logprob for _, logprob in score.top] == pytest.approx(values[:top].tolist(), abs=1e-5)


def test_more_than_the_vocabulary_is_all_of_it(logits):
    assert len(token_logprobs(logits, [1, 2, 3], [100, 0, 0])[0].top) == 40


def test_the_logits_stay_as_they_are(logits):
    before = logits.clone()
    token_logprobs(logits, [1, 2, 3], [2, 2, 2])
    assert torch.equal(logits, before)


def test_a_prompt_has_the_same_scores_row_by_row(logits):
    assert prompt_logprobs(logits, [1, 2, 3], 2) == token_logprobs(logits, [1, 2, 3], [2, 2, 2])
    assert prompt_logprobs(logits[:0], [], 2) == []
