"""The two kernels: a piece's attention with its log-sum-exp, and the merge of a row's partial results.

Follows FlashAttention-2's loop (https://arxiv.org/abs/2307.08691) and the split along the tokens of Flash-Decoding.
The queries of a KV head's group stand one above the other, so keys and values are read once for all of them. All
tensors but the queries are contiguous; `plan` has the layout of its tables. Logarithms are to the base 2.

Knows nothing of why the pieces are what they are.
"""

# Triton has no types, and a kernel's constants are in capitals.
# mypy: disable-error-code="import-untyped, import-not-found, no-untyped-def, untyped-decorator"
# ruff: noqa: N803, N806

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def attend(
    queries,  # (tokens, HEADS, HEAD_DIM), the tokens query_stride numbers apart
    keys,  # (slots, KV_HEADS, HEAD_DIM)
    values,
    output,  # (tokens, HEADS, HEAD_DIM)
    partial,  # (scratch rows, HEADS, HEAD_DIM) float32
    log_sums,  # (scratch rows, HEADS) float32
    pieces,
    parts,
    query_stride,
    scale,  # of the scores, with log2(e) in it
    HEADS: tl.constexpr,
    KV_HEADS: tl.constexpr,
    HEAD_DIM: tl.constexpr,
    M: tl.constexpr,  # rows times heads of a group, at most
    N: tl.constexpr,  # tokens at a time
    D: tl.constexpr,  # HEAD_DIM, rounded up to a power of two
):
    """Programs: (pieces, KV_HEADS)."""
    GROUP: tl.constexpr = HEADS // KV_HEADS
    piece = pieces + 8 * tl.program_id(0)
    kv_head = tl.program_id(1)
    first_row = tl.load(piece)
    rows = tl.load(piece + 1)
    first_part = tl.load(piece + 2)
    end_part = tl.load(piece + 3)
    seen = tl.load(piece + 4)
    target = tl.load(piece + 5)
    is_direct = tl.load(piece + 6) != 0

    row = tl.arange(0, M) // GROUP
    head = kv_head * GROUP + tl.arange(0, M) % GROUP
    column = tl.arange(0, D)
    is_wanted = (row < rows)[:, None] & (column < HEAD_DIM)[None, :]
    query_at = (first_row + row).to(tl.int64) * query_stride + head * HEAD_DIM
    query = tl.load(queries + query_at[:, None] + column[None, :], mask=is_wanted, other=0.0)

    highest = tl.full((M,), float("-inf"), tl.float32)
    total = tl.zeros((M,), tl.float32)
    result = tl.zeros((M, D), tl.float32)
    for part in range(first_part, end_part):
        slot = tl.load(parts + 3 * part)
        length = tl.load(parts + 3 * part + 1)
        position = tl.load(parts + 3 * part + 2)
        for start in range(0, length, N):
            token = start + tl.arange(0, N)
            is_there = token < length
            at = ((slot + token).to(tl.int64) * KV_HEADS + kv_head) * HEAD_DIM
            key_mask = is_there[None, :] & (column < HEAD_DIM)[:, None]
            key = tl.load(keys + at[None, :] + column[:, None], mask=key_mask, other=0.0).to(query.dtype)
            scores = tl.dot(query, key, input_precision="ieee") * scale
            is_seen = is_there[None, :] & ((position + token)[None, :] < (seen + row)[:, None])
            scores = tl.where(is_seen, scores, float("-inf"))

            raised = tl.maximum(highest, tl.max(scores, 1))
            base = tl.where(raised == float("-inf"), 0.0, raised)  # a row that has seen nothing yet
            weights = tl.exp2(scores - base[:, None])
            kept = tl.exp2(highest - base)
            highest = raised
            total = total * kept + tl.sum(weights, 1)
            value_mask = is_there[:, None] & (column < HEAD_DIM)[None, :]
            value = tl.load(values + at[:, None] + column[None, :], mask=value_mask, other=0.0).to(query.dtype)
            result = result * kept[:, None] + tl.dot(weights.to(query.dtype), value, input_precision="ieee")

    result = result / tl.where(total > 0, total, 1.0)[:, None]
    result_at = ((target + row).to(tl.int64) * HEADS + head) * HEAD_DIM
    result_at = result_at[:, None] + column[None, :]
    tl.store(output + result_at, result.to(query.dtype), mask=is_wanted & is_direct)
    tl.store(partial + result_at, result, mask=is_wanted & (is_direct == 0))
    log_sum = tl.where(total > 0, highest + tl.log2(tl.where(total > 0, total, 1.0)), float("-inf"))
    tl.store(log_sums + (target + row) * HEADS + head, log_sum, mask=(row < rows) & (is_direct == 0))


@triton.jit
def merge(
    partial,
    log_sums,
    output,
    merged_rows,
    firsts,
    sources,
    HEADS: tl.constexpr,
    HEAD_DIM: tl.constexpr,
    D: tl.constexpr,
):
    """Programs: (merged rows, HEADS). Every row sees at least its own token, so not all of its log-sums are -inf."""
    head = tl.program_id(1)
    first = tl.load(firsts + tl.program_id(0))
    end = tl.load(firsts + tl.program_id(0) + 1)
    column = tl.arange(0, D)
    highest = float("-inf")
    for index in range(first, end):
        highest = tl.maximum(highest, tl.load(log_sums + tl.load(sources + index) * HEADS + head))
    total = 0.0
    result = tl.zeros((D,), tl.float32)
    for index in range(first, end):
        source = tl.load(sources + index)
        weight = tl.exp2(tl.load(log_sums + source * HEADS + head) - highest)
        at = (source.to(tl.int64) * HEADS + head) * HEAD_DIM + column
        result += weight * tl.load(partial + at, mask=column < HEAD_DIM, other=0.0)
        total += weight
    row = tl.load(merged_rows + tl.program_id(0)).to(tl.int64)
    result_at = (row * HEADS + head) * HEAD_DIM + column
    tl.store(output + result_at, (result / total).to(output.dtype.element_ty), mask=column < HEAD_DIM)
