"""Both forward passes against transformers, however tokens are cut into batches and wherever their slots lie."""

from dataclasses import dataclass
from itertools import count

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from services.executor.attention.base import Segment, SlotRun
from services.executor.attention.reference import ReferenceAttention
from services.executor.model.forward import Batch
from services.executor.model.fused import load_fused
from services.executor.model.load import load_model
from tests.support.flat_batches import Sequence, empty_pool, step
from tests.support.tiny_model import ARCHITECTURES, VOCAB_SIZE, make_tiny_model

pytestmark = pytest.mark.oracle

CPU = torch.device("cpu")
POOL_SLOTS = 400  # room for the longest sequences twice: contiguous ones lie in front, scattered ones behind
VARIANTS = {
    **{architecture: (architecture, {}) for architecture in ARCHITECTURES},
    "llama with biases": ("llama", {"attention_bias": True, "tie_word_embeddings": True}),
    "llama 3 rope": (
        "llama",
        {
            "rope_scaling": {
                "rope_type": "llama3",
                "factor": 8.0,
                "low_freq_factor": 1.0,
                "high_freq_factor": 4.0,
                "original_max_position_embeddings": 64,
            }
        },
    ),
    "mistral within its window": ("mistral", {"sliding_window": 128}),
}


@dataclass
class Pair:
    ours: object
    theirs: object

    def expected(self, token_ids):
        with torch.inference_mode():
            return self.theirs(torch.tensor([token_ids])).logits[0]


LOADERS = {
    "torch": lambda folder: load_model(folder, attention=ReferenceAttention(), device=CPU, dtype=torch.float32),
    "compiled": lambda folder: load_fused(folder, form="native", threads=2),
}


@pytest.fixture(scope="module", params=[(variant, loader) for variant in VARIANTS for loader in LOADERS], ids=str)
def pair(request, tmp_path_factory):
    from transformers import AutoModelForCausalLM

    variant, loader = request.param
    architecture, changes = VARIANTS[variant]
    if architecture == "qwen3" and loader == "compiled":
        changes = changes | {"head_dim": 48}
    folder = make_tiny_model(tmp_path_factory.mktemp("model"), architecture, seed=3, **changes)
    return Pair(LOADERS[loader](folder), AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval())


@st.composite
def schedules(draw):
    """Sequences, each cut into chunks, and for each step which sequences take part with their next chunk."""
    lengths = draw(st.lists(st.integers(1, 40), min_size=1, max_size=4))
    cuts = [draw(st.lists(st.integers(1, 12), min_size=1, max_size=6)) for _ in lengths]
    absent = draw(st.lists(st.sets(st.integers(0, 3)), max_size=12))
    contiguous = [draw(st.booleans()) for _ in lengths]
    return lengths, cuts, absent, contiguous, draw(st.integers(0, 2**31))


@settings(deadline=None, max_examples=15)
@given(schedules())
def test_any_cut_of_the_tokens_gives_the_same_logits(pair, schedule):
    lengths, cuts, absent, contiguous, seed = schedule
    generator = torch.Generator().manual_seed(seed)
    scattered = torch.randperm(POOL_SLOTS, generator=generator)
    sequences, used = [], 0
    for length, together in zip(lengths, contiguous, strict=True):
        slots = torch.arange(used, used + length) if together else scattered[scattered >= sum(lengths)][used:][:length]
        token_ids = torch.randint(VOCAB_SIZE, (length,), generator=generator).tolist()
        sequences.append(Sequence(token_ids, slots))
        used += length
    pool = empty_pool(pair.ours, POOL_SLOTS)
    found = [[] for _ in sequences]
    for turn in count():
        away = absent[turn] if turn < len(absent) else set()
        parts = {
            number: min(sequence.left, cuts[number][turn % len(cuts[number])])
            for number, sequence in enumerate(sequences)
            if sequence.left and number not in away
        }
        if parts:
            logits = step(pair.ours, pool, [(sequences[number], tokens) for number, tokens in parts.items()])
            for number, rows in zip(parts, logits, strict=True):
                found[number].append(rows)
        if not any(sequence.left for sequence in sequences):
            break
    for sequence, rows in zip(sequences, found, strict=True):
        torch.testing.assert_close(torch.cat(rows), pair.expected(sequence.token_ids), rtol=0, atol=1e-4)


def test_writes_the_slots_of_the_batch_and_no_others(pair):
    pool = empty_pool(pair.ours, POOL_SLOTS)
    slots = torch.tensor([7, 3, 200])
    step(pair.ours, pool, [(Sequence([5, 6, 7], slots), 3)])
    for part in pool:
        written = part.isfinite().all(dim=-1).all(dim=-1)  # (layers, slots)
        assert written.nonzero()[:, 1].unique().tolist() == [3, 7, 200]
        assert written[:, slots].all()


def test_gives_logits_of_the_rows_asked_for_and_none_if_none_are(pair):
    keys, values = empty_pool(pair.ours, POOL_SLOTS)
    whole = (Segment(0, 4, (SlotRun(0, 4),), causal=True),)
    ids, places = torch.tensor([9, 8, 7, 6]), torch.arange(4)
    logits = pair.ours.forward(Batch(ids, places, places, whole, torch.tensor([3, 1])), keys, values)
    torch.testing.assert_close(logits, pair.expected([9, 8, 7, 6])[[3, 1]], rtol=0, atol=1e-4)
    nothing = torch.empty(0, dtype=torch.int64)
    assert pair.ours.forward(Batch(ids, places, places, whole, nothing), keys, values).shape == (0, VOCAB_SIZE)


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_half_precision_stays_near_and_gives_whole_logits(tmp_path, architecture):
    folder = make_tiny_model(tmp_path, architecture)
    logits = []
    for dtype in (torch.float32, torch.bfloat16):
        model = load_model(folder, attention=ReferenceAttention(), device=CPU, dtype=dtype)
        sequence = Sequence(range(20), torch.arange(20))
        logits += step(model, empty_pool(model, 20), [(sequence, 20)])
    assert logits[1].dtype == torch.float32
    assert 0 < (logits[1] - logits[0]).abs().max() < 0.3
