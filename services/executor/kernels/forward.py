"""The whole forward pass of a step as one function, run by all threads of a team at once.

Knows the order of a decoder layer, and how its work is shared out. Does not know where the numbers of its frames come
from (`model/fused.py`).

Each stage is cut into items that the threads take one by one; between stages they meet. Numbers are addresses of
float32, int64 or packed weights, or strides in bytes, where nothing else is said.
"""

from __future__ import annotations

from typing import NamedTuple

from services.executor.kernels.attention import attend_all
from services.executor.kernels.linear import ENTRY_BYTES, FLOAT32, PANELS, TAKES_SHORTS, linear
from services.executor.kernels.merge import MERGED_ROWS, merge
from services.executor.kernels.piece import LONG
from services.executor.kernels.rows import gate, keep, norm, rotate
from services.executor.kernels.shorts import linear_of_shorts, shorten
from services.executor.kernels.team import meet, take
from services.executor.kernels.tile import PANEL
from services.executor.kernels.vector import compiled, get_long

CUT_ROWS = 64  # of a linear layer with few panels: so many rows are worth an item of their own
GATE_ROWS = 512  # of which a panel of the ups fits into scratch memory
PANEL_BYTES = 4 * PANEL
SHARES = 4  # for each thread: neighbouring panels, since memory is fastest read in long stretches
ITEMS = 4  # for each thread, where there are rows enough to cut

# A layer's record, in bytes from its start: the table entries of its matrices, and the addresses of its norms.
QKV, OUTPUT, GATE, UP, DOWN = range(0, 5 * ENTRY_BYTES, ENTRY_BYTES)
INPUT_NORM, POST_ATTENTION_NORM, QUERY_NORM, KEY_NORM = range(5 * ENTRY_BYTES, 5 * ENTRY_BYTES + 4 * LONG, LONG)
RECORD_BYTES = 5 * ENTRY_BYTES + 4 * LONG


class ModelFrame(NamedTuple):
    """What stays from step to step."""

    layers: int
    records: int  # (layers) of RECORD_BYTES
    final_norm: int
    head: int  # the table entry of the output matrix
    heads: int
    kv_heads: int
    head_dim: int
    hidden_size: int
    cosines: int  # (positions, head_dim / 2)
    sines: int


class Rows(NamedTuple):
    """A buffer of float32 rows, each padded to whole panels."""

    at: int
    stride: int


class StepFrame(NamedTuple):
    """What a step works on."""

    rows: int
    positions: int  # (rows)
    slots: int  # (rows): where each row's key and value go
    hidden: Rows
    normed: Rows
    qkv: Rows
    attended: Rows
    gated: Rows
    wanted: int  # (wanted_rows): those whose logits are wanted
    wanted_rows: int
    logits: Rows
    keys: int
    values: int
    pool_stride: int  # from layer to layer
    pool_kind: int
    plan: int  # of attention
    pieces: int
    merges: int  # whether there are partial results
    scratch: int
    scratch_stride: int  # from thread to thread


class Member(NamedTuple):
    """A thread of the team."""

    threads: int
    sync: int
    scratch: int  # its own


@compiled
def forward(member: int, threads: int, sync: int, model: ModelFrame, step: StepFrame, epsilon: float) -> None:
    """Hidden rows hold the embeddings; at the end, the wanted rows' logits are there and the pool is written."""
    me = Member(threads, sync, step.scratch + member * step.scratch_stride)
    for layer in range(model.layers):
        record = model.records + layer * RECORD_BYTES
        keys, values = step.keys + layer * step.pool_stride, step.values + layer * step.pool_stride
        shorts = get_long(record + QKV + TAKES_SHORTS)
        _norms(me, step, get_long(record + INPUT_NORM), model.hidden_size, epsilon, shorts)
        _linear(me, record + QKV, step.normed, step.rows, step.qkv, 0, shorts)
        _places(me, model, step, record, keys, values, epsilon)
        _attention(me, step, keys, values)
        shorts = get_long(record + OUTPUT + TAKES_SHORTS)
        _finish_attention(me, step, model.heads * model.head_dim, shorts)
        _linear(me, record + OUTPUT, step.attended, step.rows, step.hidden, 1, shorts)
        shorts = get_long(record + GATE + TAKES_SHORTS) * get_long(record + UP + TAKES_SHORTS)
        _norms(me, step, get_long(record + POST_ATTENTION_NORM), model.hidden_size, epsilon, shorts)
        down_shorts = get_long(record + DOWN + TAKES_SHORTS)
        _gates(me, step, record, shorts, down_shorts)
        _linear(me, record + DOWN, step.gated, step.rows, step.hidden, 1, down_shorts)
    shorts = get_long(model.head + TAKES_SHORTS)
    _last_norms(me, model, step, epsilon, shorts)
    _linear(me, model.head, step.normed, step.wanted_rows, step.logits, 0, shorts)


@compiled
def _norms(me: Member, step: StepFrame, weight: int, length: int, epsilon: float, shorts: int) -> None:
    row = take(me.sync)
    while row < step.rows:
        source, target = step.hidden.at + row * step.hidden.stride, step.normed.at + row * step.normed.stride
        norm(source, weight, target, length, epsilon)
        if shorts != 0:
            shorten(target, length)
        row = take(me.sync)
    meet(me.sync, me.threads)


@compiled
def _last_norms(me: Member, model: ModelFrame, step: StepFrame, epsilon: float, shorts: int) -> None:
    """Of the wanted rows alone, one behind the other."""
    number = take(me.sync)
    while number < step.wanted_rows:
        source = step.hidden.at + get_long(step.wanted + LONG * number) * step.hidden.stride
        target = step.normed.at + number * step.normed.stride
        norm(source, model.final_norm, target, model.hidden_size, epsilon)
        if shorts != 0:
            shorten(target, model.hidden_size)
        number = take(me.sync)
    meet(me.sync, me.threads)


@compiled
def _linear(me: Member, entry: int, x: Rows, rows: int, y: Rows, adds: int, shorts: int) -> None:
    """All panels; where those are few for the threads, some rows of a panel at a time."""
    panels = get_long(entry + PANELS)
    parts = max(1, min(-(-ITEMS * me.threads // panels), rows // CUT_ROWS))
    share = max(1, panels * parts // (SHARES * me.threads))
    start = take(me.sync) * share
    while start < panels * parts:
        for item in range(start, min(start + share, panels * parts)):
            first, end = rows * (item % parts) // parts, rows * (item % parts + 1) // parts
            source, target = x.at + first * x.stride, y.at + first * y.stride
            panel = item // parts
            _panel(panel, entry, source, x.stride, end - first, target, y.stride, adds, me.scratch, shorts)
        start = take(me.sync) * share
    meet(me.sync, me.threads)


@compiled
def _panel(
    panel: int,
    entry: int,
    x: int,
    x_stride: int,
    rows: int,
    y: int,
    y_stride: int,
    adds: int,
    scratch: int,
    shorts: int,
) -> None:
    if shorts != 0:
        linear_of_shorts(panel, entry, x, x_stride, rows, y, y_stride, adds)
    else:
        linear(panel, entry, x, x_stride, rows, y, y_stride, adds, scratch)


@compiled
def _gates(me: Member, step: StepFrame, record: int, shorts: int, down_shorts: int) -> None:
    """GATE_ROWS rows of a panel at a time."""
    parts = -(-step.rows // GATE_ROWS)
    items = get_long(record + GATE + PANELS) * parts
    share = max(1, items // (SHARES * me.threads))
    start = take(me.sync) * share
    while start < items:
        for item in range(start, min(start + share, items)):
            _gated_panel(me, step, record, item // parts, item % parts * GATE_ROWS, shorts, down_shorts)
        start = take(me.sync) * share
    meet(me.sync, me.threads)


@compiled
def _gated_panel(
    me: Member, step: StepFrame, record: int, panel: int, first: int, shorts: int, down_shorts: int
) -> None:
    """A panel of the gates and the same panel of the ups, then both as one."""
    ups, unpacked = me.scratch, me.scratch + GATE_ROWS * PANEL_BYTES
    x_stride, y_stride = step.normed.stride, step.gated.stride
    rows = min(GATE_ROWS, step.rows - first)
    x, gates = step.normed.at + first * x_stride, step.gated.at + first * y_stride
    _panel(panel, record + GATE, x, x_stride, rows, gates, y_stride, 0, unpacked, shorts)
    _panel(panel, record + UP, x, x_stride, rows, ups - panel * PANEL_BYTES, PANEL_BYTES, 0, unpacked, shorts)
    for row in range(rows):
        own = gates + row * y_stride + panel * PANEL_BYTES
        gate(own, ups + row * PANEL_BYTES, PANEL)
        if down_shorts != 0:
            shorten(own, PANEL)


@compiled
def _places(
    me: Member, model: ModelFrame, step: StepFrame, record: int, keys: int, values: int, epsilon: float
) -> None:
    row = take(me.sync)
    while row < step.rows:
        _place(model, step, record, keys, values, epsilon, row)
        row = take(me.sync)
    meet(me.sync, me.threads)


@compiled
def _place(model: ModelFrame, step: StepFrame, record: int, keys: int, values: int, epsilon: float, row: int) -> None:
    """A row's queries and key rotated to its position, its key and value put into the pool."""
    size, half = 4 * model.head_dim, model.head_dim // 2
    angles = get_long(step.positions + LONG * row) * half * 4
    own = step.qkv.at + row * step.qkv.stride
    query_norm, key_norm = get_long(record + QUERY_NORM), get_long(record + KEY_NORM)
    for head in range(model.heads + model.kv_heads):
        if query_norm != 0:
            weight = query_norm if head < model.heads else key_norm
            norm(own + head * size, weight, own + head * size, model.head_dim, epsilon)
        rotate(own + head * size, model.cosines + angles, model.sines + angles, half)
    length = model.kv_heads * model.head_dim
    place = get_long(step.slots + LONG * row) * length * (4 if step.pool_kind == FLOAT32 else 2)
    keep(own + model.heads * size, keys + place, length, step.pool_kind)
    keep(own + model.heads * size + 4 * length, values + place, length, step.pool_kind)


@compiled
def _attention(me: Member, step: StepFrame, keys: int, values: int) -> None:
    queries, target = step.qkv, step.attended
    attend_all(
        me.sync,
        me.threads,
        step.plan,
        step.pieces,
        queries.at,
        queries.stride,
        target.at,
        target.stride,
        keys,
        values,
        step.pool_kind,
        me.scratch,
    )


@compiled
def _finish_attention(me: Member, step: StepFrame, length: int, shorts: int) -> None:
    """Partial results merged, and what the next layer takes as shorts shortened."""
    if step.merges == 0 and shorts == 0:
        return
    target = step.attended
    first = take(me.sync) * MERGED_ROWS
    while first < step.rows:
        end = min(first + MERGED_ROWS, step.rows)
        if step.merges != 0:
            merge(step.plan, first, end, target.at, target.stride)
        if shorts != 0:
            for row in range(first, end):
                shorten(target.at + row * target.stride, length)
        first = take(me.sync) * MERGED_ROWS
    meet(me.sync, me.threads)
