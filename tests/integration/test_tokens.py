"""The whole pipeline against transformers' own forward pass: same greedy tokens, same log-probabilities."""

from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

from tests.support.oracle import oracle_model
from tests.support.prompts import PROMPTS

# The server's KV pool holds float16. In float32 a hundredth of this suffices: see the executor's own test.
TIE = 0.05  # two logits closer than this may fall either way
LOGPROB_TOLERANCE = 0.05

pytestmark = pytest.mark.oracle


@pytest.fixture(scope="module")
def oracle():
    return oracle_model()


def logits_of(oracle, ids):
    with torch.inference_mode():
        return oracle(torch.tensor([ids])).logits[0].float()


def compare(oracle, prompt_ids, reply):
    """Teacher-forced: at each position our token is the argmax or ties with it; returns the ties' gaps."""
    output = reply["output_ids"]
    logits = logits_of(oracle, prompt_ids + output)[len(prompt_ids) - 1 : -1]
    logprobs = torch.log_softmax(logits, dim=-1)
    ties = []
    for position, (token, (ours, _, _)) in enumerate(
        zip(output, reply["meta_info"]["output_token_logprobs"], strict=True)
    ):
        gap = float(logits[position].max() - logits[position][token])
        assert gap < TIE, f"position {position}: {token} is {gap} below the best"
        assert abs(float(logprobs[position][token]) - ours) < LOGPROB_TOLERANCE
        if gap > 0:
            ties.append(gap)
    return ties


def ask(server, prompt, tokens):
    body = {"text": prompt, "return_logprob": True, "sampling_params": {"temperature": 0, "max_new_tokens": tokens}}
    reply = server.post("/generate", body, timeout_s=600)
    assert reply.status_code == 200, reply.text
    return reply.json()


@pytest.mark.parametrize(
    ("count", "tokens"), [(12, 24), pytest.param(50, 64, marks=pytest.mark.soak)], ids=["sample", "all"]
)
def test_same_tokens_and_logprobs(server, oracle, tokenizer, count, tokens):
    prompts = PROMPTS[:: len(PROMPTS) // count][:count]
    ids = [tokenizer.encode(prompt, add_special_tokens=False).ids for prompt in prompts]
    server.post("/flush_cache", {})
    alone_cold = [ask(server, prompt, tokens) for prompt in prompts]
    alone_warm = [ask(server, prompt, tokens) for prompt in prompts]
    server.post("/flush_cache", {})
    with ThreadPoolExecutor(16) as pool:
        batch_cold = list(pool.map(lambda prompt: ask(server, prompt, tokens), prompts))
        batch_warm = list(pool.map(lambda prompt: ask(server, prompt, tokens), prompts))
    assert all(reply["meta_info"]["cached_tokens"] > 0 for reply in alone_warm + batch_warm)
    for name, replies in [("alone, cold", alone_cold), ("alone, warm", alone_warm), ("batch", batch_cold + batch_warm)]:
        ties = [gap for i, reply in enumerate(replies) for gap in compare(oracle, ids[i % count], reply)]
        print(f"{name}: {len(replies)} replies, ties with the gaps {ties}")
        assert len(ties) <= max(1, len(replies) // 50)
