"""The log-likelihoods that lm-eval's own client gets from us are those of a forward pass by transformers."""

import json

import pytest
import torch

from tests.support.deployment import deployed
from tests.support.oracle import oracle_model
from tests.support.prompts import PROMPTS

# context and continuation, cut anywhere: in words, before and behind spaces
PAIRS = [(prompt[: len(prompt) // 2], prompt[len(prompt) // 2 :]) for prompt in PROMPTS]
FLOAT32 = ("--dtype", "float32")

pytestmark = pytest.mark.oracle


@pytest.fixture
def log_likelihoods(run_case, tmp_path):
    """What lm-eval's client says of the pairs, with the token ids that it scores."""

    def ask(url):
        (tmp_path / "pairs.json").write_text(json.dumps(PAIRS))
        run_case("lm_eval/log_likelihoods.py", url, "pairs.json", "scores.json")
        return json.loads((tmp_path / "scores.json").read_text())

    return ask


def of_transformers(context, continuation):
    with torch.inference_mode():
        logits = oracle_model()(torch.tensor([context + continuation])).logits[0, len(context) - 1 : -1].float()
    logprobs = logits.log_softmax(dim=-1)
    return float(logprobs.gather(1, torch.tensor(continuation)[:, None]).sum())


def compare(scores, tolerance):
    assert len(scores) == len(PAIRS) == 50
    differences = []
    for score in scores:
        expected = of_transformers(score["context"], score["continuation"])
        differences.append(abs(score["log_likelihood"] - expected))
    print(f"largest difference {max(differences):.2e}")
    assert max(differences) < tolerance


def test_in_float32(log_likelihoods, tmp_path):
    with deployed(tmp_path / "server", *FLOAT32) as server:
        compare(log_likelihoods(server.url), tolerance=1e-3)


def test_as_served_by_default(log_likelihoods, server):
    compare(log_likelihoods(server.url), tolerance=5e-2)
