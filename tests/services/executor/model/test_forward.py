"""The forward pass against transformers, however the tokens are cut into batches and wherever their slots lie."""

from dataclasses import dataclass

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from services.executor.attention.base import SequenceSpan, SlotRun
from services.executor.attention.reference import ReferenceAttention
from services.executor.model.forward import Batch
from services.executor.model.load import load_model
from tests.support.tiny_model import ARCHITECTURES, VOCAB_SIZE, make_tiny_model

pytestmark = pytest.mark.oracle

CPU = torch.device("cpu")
POOL_SLOTS = 256
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


@pytest.fixture(scope="module", params=VARIANTS)
def pair(request, tmp_path_factory):
    from transformers import AutoModelForCausalLM

    architecture, changes = VARIANTS[request.param]
    folder = make_tiny_model(tmp_path_factory.mktemp("model"), architecture, seed=3, **changes)
    return Pair(
        load_model(folder, attention=ReferenceAttention(), device=CPU, dtype=torch.float32),
        AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval(),
    )


class Sequence:
    """Token ids, the slots that were set aside for them, and how far they are computed."""

    def __init__(self, token_ids, slots, *, contiguous):
        self.token_ids, self.slots, self.contiguous, self.computed = token_ids, slots, contiguous, 0

    def place(self, end):
        return SlotRun(int(self.slots[0]), end) if self.contiguous else self.slots[:end]


def pool(model):
    shape = model.shape
    return torch.full((2, shape.layers, POOL_SLOTS, shape.kv_heads, shape.head_dim), torch.nan)


def step(model, keys, values, chunks):
    """Compute (sequence, tokens) chunks in one batch; logits of every row, by sequence."""
    token_ids, positions, slots, spans = [], [], [], []
    for sequence, tokens in chunks:
        start, end, row = sequence.computed, sequence.computed + tokens, len(token_ids)
        token_ids += sequence.token_ids[start:end]
        positions += range(start, end)
        slots += sequence.slots[start:end].tolist()
        spans.append(SequenceSpan(row, row + tokens, start, sequence.place(end)))
        sequence.computed = end
    batch = Batch(
        *(torch.tensor(numbers) for numbers in (token_ids, positions, slots)),
        spans=tuple(spans),
        logits_rows=torch.arange(len(token_ids)),
    )
    logits = model.forward(batch, keys, values)
    return logits.split([tokens for _, tokens in chunks])


@st.composite
def schedules(draw):
    """Sequences, each cut into chunks, and for each step which sequences take part with their next chunk."""
    lengths = draw(st.lists(st.integers(1, 40), min_size=1, max_size=4))
    cuts = [draw(st.lists(st.integers(1, 12), min_size=1, max_size=6)) for _ in lengths]
    absent = draw(st.lists(st.sets(st.integers(0, 3)), max_size=12))
    contiguous = [draw(st.booleans()) for _ in lengths]
    return lengths, cuts, absent, contiguous, draw(st.integers(0, 2**31))


@settings(deadline=None, max_examples=25)
@given(schedules())
def test_any_cut_of_the_tokens_gives_the_same_logits(pair, schedule):
    lengths, cuts, absent, contiguous, seed = schedule
    generator = torch.Generator().manual_seed(seed)
    scattered = torch.randperm(POOL_SLOTS, generator=generator)
    sequences, used = [], 0
    for length, together in zip(lengths, contiguous, strict=True):
        slots = torch.arange(used, used + length) if together else scattered[scattered >= sum(lengths)][used:][:length]
        token_ids = torch.randint(VOCAB_SIZE, (length,), generator=generator).tolist()
        sequences.append(Sequence(token_ids, slots, contiguous=together))
        used += length
    keys, values = pool(pair.ours)
    found = [[] for _ in sequences]
    turn = 0
    while any(sequence.computed < len(sequence.token_ids) for sequence in sequences):
        away = absent[turn] if turn < len(absent) else set()
        chunks = []
        for number, sequence in enumerate(sequences):
            left = len(sequence.token_ids) - sequence.computed
            if left and number not in away:
                chunks.append((number, min(left, cuts[number][turn % len(cuts[number])])))
        turn += 1
        if chunks:
            logits = step(pair.ours, keys, values, [(sequences[number], tokens) for number, tokens in chunks])
            for (number, _), rows in zip(chunks, logits, strict=True):
                found[number].append(rows)
    for sequence, rows in zip(sequences, found, strict=True):
        torch.testing.assert_close(torch.cat(rows), pair.expected(sequence.token_ids), rtol=0, atol=1e-4)


def test_writes_the_slots_of_the_batch_and_no_others(pair):
    keys, values = pool(pair.ours)
    slots = torch.tensor([7, 3, 200])
    step(pair.ours, keys, values, [(Sequence([5, 6, 7], slots, contiguous=False), 3)])
    for part in (keys, values):
        written = part.isfinite().all(dim=-1).all(dim=-1)  # (layers, slots)
        assert written.nonzero()[:, 1].unique().tolist() == [3, 7, 200]
        assert written[:, slots].all()


def test_gives_logits_of_the_rows_asked_for_and_none_if_none_are(pair):
    keys, values = pool(pair.ours)
    span = (SequenceSpan(0, 4, 0, SlotRun(0, 4)),)
    ids, places = torch.tensor([9, 8, 7, 6]), torch.arange(4)
    expected = pair.expected([9, 8, 7, 6])
    wanted = Batch(ids, places, places, span, torch.tensor([3, 1]))
    logits = pair.ours.forward(wanted, keys, values)
    torch.testing.assert_close(logits, expected[[3, 1]], rtol=0, atol=1e-4)
    assert logits.dtype == torch.float32
    nothing = Batch(ids, places, places, span, torch.empty(0, dtype=torch.int64))
    assert pair.ours.forward(nothing, keys, values).shape == (0, VOCAB_SIZE)


def test_half_precision_stays_near(pair, tmp_path):
    architecture = pair.ours.shape.architecture
    half = load_model(
        make_tiny_model(tmp_path, architecture), attention=ReferenceAttention(), device=CPU, dtype=torch.bfloat16
    )
    keys, values = pool(half).to(torch.bfloat16)
    whole = load_model(
        make_tiny_model(tmp_path, architecture), attention=ReferenceAttention(), device=CPU, dtype=torch.float32
    )
    token_ids = list(range(20))
    slots = torch.arange(20)
    (near,) = step(half, keys, values, [(Sequence(token_ids, slots, contiguous=True), 20)])
    (exact,) = step(whole, *pool(whole), [(Sequence(token_ids, slots, contiguous=True), 20)])
    assert near.dtype == torch.float32
    assert (near - exact).abs().max() < 0.3
