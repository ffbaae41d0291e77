"""The bundled model: its weights, tokenizer and output against transformers and against the rules written out."""

import json
from itertools import pairwise

import numpy as np
import pytest
import regex
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer
from tokenizers.pre_tokenizers import ByteLevel

from services.executor.attention.reference import ReferenceAttention
from services.executor.model.checkpoint import open_checkpoint
from services.executor.model.load import load_model
from services.executor.model.prepare import prepare
from shared.config import ModelConfig
from shared.model_card import load_card, source_path
from tests.support.flat_batches import Sequence, empty_pool, step
from tests.support.oracle import oracle_model

pytestmark = pytest.mark.oracle

CPU = torch.device("cpu")
SLOTS = 512
NEW_TOKENS = 16
PROMPTS = [
    "The capital of France is",
    "<|im_start|>user\nWrite a haiku about rain.<|im_end|>\n<|im_start|>assistant\n",
    "def fibonacci(n):\n    ",
    "1, 2, 3, 4, 5,",
]
TEXTS = [
    "",
    " ",
    "Hello, world!",
    "In 2024, 1234567 people paid $9.99 each.",
    "\n\n1. First\n\n2. Second",
    "   leading and trailing   ",
    "tabs\tand\r\nline ends\n\n\n",
    "They're we'll I'd DON'T can't",
    "naïve café Ærøskøbing Straße",
    "東京は日本の首都です。人口は1400万人。",
    "مرحبا بالعالم ١٢٣",
    "Привет, мир! ½ ² Ⅷ",
    "🎉👩‍👩‍👧 emoji ❤️",
    "for i in range(10):\n    print(i ** 2)  # squares",
    '{"a": [1, 2.5e-3, null], "b": "\\n"}',
    "https://example.com/a?b=1&c=%20",
    "<|im_start|>user\nhi<|im_end|>\n<|endoftext|>",
    "a\u00a0non-breaking\u2003space\u200bzero",
    "x" * 300,
]


@pytest.fixture(scope="module")
def folder():
    return prepare(ModelConfig())


@pytest.fixture(scope="module")
def model(folder):
    return load_model(folder, attention=ReferenceAttention(), device=CPU, dtype=torch.float32)


@pytest.fixture(scope="module")
def tokenizer(folder):
    return Tokenizer.from_file(str(folder / "tokenizer.json"))


@pytest.fixture(scope="module")
def by_the_rules(folder):
    """Byte-pair encoding written out: digits alone, GPT-2's pattern, then the merges in their order."""
    content = json.loads((folder / "tokenizer.json").read_text())["model"]
    vocabulary = content["vocab"]
    ranks = {tuple(merge): rank for rank, merge in enumerate(content["merges"])}
    special = regex.compile("(" + "|".join(map(regex.escape, [t for t in vocabulary if vocabulary[t] < 17])) + ")")
    pattern = regex.compile(r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+")

    def merge(piece):
        symbols = "".join(text for text, _ in ByteLevel(False, False, use_regex=False).pre_tokenize_str(piece))
        parts = [symbol for symbol in symbols if symbol in vocabulary]  # it lacks a few bytes, of no assigned character
        while len(parts) > 1:
            pairs = list(pairwise(parts))
            best = min(pairs, key=lambda pair: ranks.get(pair, len(ranks)))
            if best not in ranks:
                break
            place = pairs.index(best)
            parts[place : place + 2] = ["".join(best)]
        return [vocabulary[part] for part in parts]

    def encode(text):
        ids = []
        for section in special.split(text):
            if section and special.fullmatch(section):
                ids.append(vocabulary[section])
                continue
            for span in regex.findall(r"\p{N}|\P{N}+", section):
                ids += [token_id for piece in pattern.findall(span) for token_id in merge(piece)]
        return ids

    return encode


def test_the_card(folder):
    card = load_card(ModelConfig(prepared=str(folder)))
    assert (card.architecture, card.max_model_len, card.vocab_size) == ("llama", 8192, 49152)
    assert (card.eos_token_ids, card.bos_token_id, card.add_bos) == ((0, 2), 1, False)
    assert "<|im_start|>" in card.chat_template


def test_weights_are_those_that_transformers_reads_bit_for_bit(folder):
    expected = oracle_model().state_dict()
    del expected["lm_head.weight"]  # tied
    with open_checkpoint(folder) as checkpoint:
        for name, values in expected.items():
            read = checkpoint.vector if values.dim() == 1 else lambda *key: checkpoint.matrix(*key).dequantised()
            np.testing.assert_array_equal(read(name, *values.shape), values.numpy(), err_msg=name)


def test_the_folder_takes_no_more_room_than_the_file(folder):
    taken = (folder / "model.safetensors").stat().st_size
    assert taken < source_path(ModelConfig()).stat().st_size


@pytest.mark.parametrize("text", TEXTS)
def test_texts_are_tokenized_by_the_models_rules(tokenizer, by_the_rules, text):
    ids = tokenizer.encode(text).ids
    assert ids == by_the_rules(text)
    assert tokenizer.decode(ids, skip_special_tokens=False) == text


@settings(deadline=None, max_examples=200)
@given(st.text(st.characters(codec="utf-8", exclude_characters="<"), max_size=40))
def test_any_text_is_tokenized_by_the_models_rules(tokenizer, by_the_rules, text):
    assert tokenizer.encode(text).ids == by_the_rules(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (" 1234", ["Ġ", "1", "2", "3", "4"]),
        ("a\n\n1. b", ["a", "ĊĊ", "1", ".", "Ġb"]),
        ("<|im_start|>user\n", ["<|im_start|>", "user", "Ċ"]),
    ],
)
def test_digits_stand_alone(tokenizer, text, expected):
    assert tokenizer.encode(text).tokens == expected


def expected_logits(token_ids):
    with torch.inference_mode():
        return oracle_model()(torch.tensor([token_ids])).logits[0]


@pytest.mark.parametrize("prompt", PROMPTS)
def test_logits_are_those_of_transformers(model, tokenizer, prompt):
    token_ids = tokenizer.encode(prompt).ids
    sequence = Sequence(token_ids, torch.arange(SLOTS))
    (logits,) = step(model, empty_pool(model, SLOTS), [(sequence, sequence.left)])
    torch.testing.assert_close(logits, expected_logits(token_ids), rtol=0, atol=1e-3)


def test_half_weights_stay_near(folder, tokenizer):
    half = load_model(folder, attention=ReferenceAttention(), device=CPU, dtype=torch.float32, weights="float16")
    token_ids = tokenizer.encode(PROMPTS[1]).ids
    (logits,) = step(half, empty_pool(half, SLOTS), [(Sequence(token_ids, torch.arange(SLOTS)), len(token_ids))])
    torch.testing.assert_close(logits, expected_logits(token_ids), rtol=0, atol=0.1)


def test_greedy_tokens_of_a_mixed_batch_are_those_of_transformers(model, tokenizer):
    """Four requests side by side with scattered slots, each prompt in chunks of seven, then token by token."""
    prompts = [tokenizer.encode(prompt).ids for prompt in PROMPTS]
    slots = torch.randperm(SLOTS, generator=torch.Generator().manual_seed(0)).view(len(prompts), -1)
    sequences = [Sequence(ids, own) for ids, own in zip(prompts, slots, strict=True)]
    ends = [len(ids) + NEW_TOKENS for ids in prompts]
    pool = empty_pool(model, SLOTS)
    while running := [s for s, end in zip(sequences, ends, strict=True) if s.computed < end - 1]:
        for sequence, logits in zip(running, step(model, pool, [(s, min(s.left, 7)) for s in running]), strict=True):
            if not sequence.left:
                sequence.token_ids.append(int(logits[-1].argmax()))
    for sequence, prompt in zip(sequences, prompts, strict=True):
        output = sequence.token_ids[len(prompt) :]
        expected = expected_logits(sequence.token_ids[:-1])[len(prompt) - 1 :]
        assert len(output) == NEW_TOKENS
        chosen = expected.gather(1, torch.tensor(output)[:, None])[:, 0]
        assert (expected.max(dim=-1).values - chosen).max() < 1e-3  # equal, or a tie
