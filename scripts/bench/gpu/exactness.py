"""Tokens and logits of our forward pass against those of transformers, on the same device and in the same type.

In a half type both differ from the exact logits by rounding: ours may be off by not much more than theirs are, measured
against transformers in float32.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer
from torch import Tensor
from transformers import AutoModelForCausalLM, PreTrainedModel

from scripts.bench.gpu.agreement import Tokens, compare_tokens, root_mean_square
from scripts.bench.gpu.decoding import Decoder
from services.executor.model.forward import Model

PREFIX = (
    "The river begins in the hills above the town and runs south through meadows, mills and old stone bridges. " * 12
)
SHARERS = ["Where does it begin?", "Name three things along the river:", "1. The hills\n2.", "def length_of_river("]
OTHERS = ["The capital of France is", "1, 2, 3, 4, 5,", "Once upon a time there was a", "Water boils at"]
FLOAT32_TIE = 1e-3  # a gap of two logits that the order of a sum may turn round
ERRORS_IN_TIE = 4  # so many times transformers' own error, in a half type
FLOAT32_LIMIT = 1e-2  # the largest difference of a logit
WORSE_LIMIT = 1.5  # our error in a half type to that of transformers


@dataclass(frozen=True)
class Output:
    before: list[int]  # the shared prefix
    token_ids: list[int]  # behind it: the prompt's, then the chosen ones
    logits: Tensor  # (token_ids - 1, vocab_size): of all but the last


@dataclass(frozen=True)
class Exactness:
    dtype: str
    tokens: Tokens
    tie: float
    largest: float  # difference of a logit to transformers' in the same type
    error: float  # root mean square of our difference to transformers in float32
    their_error: float  # the same of transformers in this type

    @property
    def is_good(self) -> bool:
        if self.tokens.wrong:
            return False
        if self.dtype == "float32":
            return self.largest < FLOAT32_LIMIT
        return self.error < WORSE_LIMIT * self.their_error

    def line(self) -> str:
        tokens = self.tokens
        return (
            f"{self.dtype:9} tokens: {tokens.equal} equal, {tokens.ties} ties (gaps under {self.tie:.2g}), "
            f"{tokens.wrong} wrong   logits: largest difference {self.largest:.2g}, error {self.error:.2g}, "
            f"transformers' own {self.their_error:.2g}   "
            f"{'good' if self.is_good else 'BAD'}"
        )


def load_oracle(source: Path, device: torch.device) -> PreTrainedModel:
    """The model's own folder or GGUF file as transformers reads it, in float32."""
    if source.is_dir():
        model = AutoModelForCausalLM.from_pretrained(source, dtype=torch.float32)
    else:
        model = AutoModelForCausalLM.from_pretrained(source.parent, gguf_file=source.name, dtype=torch.float32)
    return model.to(device).eval()


def check_exactness(
    load: Callable[[torch.dtype], Model[Any]],
    oracle: PreTrainedModel,
    tokenizer: Tokenizer,
    dtypes: Sequence[torch.dtype],
    *,
    prefix_tokens: int,
    new_tokens: int,
) -> list[Exactness]:
    """The oracle is moved from type to type, so float32 comes first."""
    prefix, *prompts = [encoding.ids for encoding in tokenizer.encode_batch([PREFIX, *SHARERS, *OTHERS])]
    room = max(map(len, prompts)) + new_tokens
    outputs = {}
    for dtype in dtypes:
        count = len(SHARERS)
        decoder = Decoder(load(dtype), prefix[:prefix_tokens], prompts[:count], prompts[count:], room)
        decoder.run(new_tokens)
        outputs[dtype] = [Output(decoder.before(row), row.token_ids, torch.cat(row.logits)) for row in decoder.rows]
    exact = {dtype: [_logits(oracle, output) for output in found] for dtype, found in outputs.items()}
    return [_compare(dtype, oracle.to(dtype), found, exact[dtype], new_tokens) for dtype, found in outputs.items()]


def _compare(
    dtype: torch.dtype,
    oracle: PreTrainedModel,
    outputs: Sequence[Output],
    exact: Sequence[Tensor],
    new_tokens: int,
) -> Exactness:
    theirs = [_logits(oracle, output) for output in outputs]
    own, other, truth = (torch.cat(list(parts)) for parts in ((output.logits for output in outputs), theirs, exact))
    their_error = root_mean_square(other - truth)
    tie = max(FLOAT32_TIE, ERRORS_IN_TIE * their_error)
    tokens = Tokens(0, 0, 0)
    for output, logits in zip(outputs, theirs, strict=True):
        chosen = torch.tensor(output.token_ids[-new_tokens:], device=logits.device)
        tokens += compare_tokens(chosen, logits[-new_tokens:], tie)
    return Exactness(
        str(dtype).removeprefix("torch."),
        tokens,
        tie,
        largest=float((own - other).abs().max()),
        error=root_mean_square(own - truth),
        their_error=their_error,
    )


def _logits(oracle: PreTrainedModel, output: Output) -> Tensor:
    """Those of the same tokens as the output's, in float32."""
    context = [*output.before, *output.token_ids[:-1]]
    with torch.inference_mode():
        logits = oracle(torch.tensor([context], device=oracle.device)).logits[0]
    return logits[len(output.before) :].to(torch.float32)
