# Kernels are compiled by Triton, which infers the types of their arguments from the call.
# mypy: disable-error-code="no-untyped-def, attr-defined"
"""A step of many rows in place: the batch is sorted by row, and one kernel adds up each row's gradients and moves it.

For a small batch, each program of :mod:`likely.row_store._rule_triton` searches the whole batch, which needs no sort.
"""

import math

import torch
import triton
import triton.language as tl
from torch import Tensor

from likely.row_store._memory import Pair
from likely.row_store._rule import Rule
from likely.row_store._rule_triton import SGD, pace

WIDEST = 128  # largest number of values per row; for wider rows the time of launches does not matter
TILE, FEWEST = 1024, 16  # values per program, and the smallest number of rows
_INT32 = 2**31 - 1


@triton.jit
def _added_up(left, left_begins, right, right_begins):
    """Add up within each row: a sum begins anew at the first place of a row."""
    return tl.where(right_begins != 0, right, left + right), left_begins | right_begins


@triton.jit
def _slopes(order, grad, places, mask, width, columns):
    """Load the gradients at some places of the sorted batch, (places, columns)."""
    at = tl.load(order + places, mask, other=0).to(tl.int64) * width
    return tl.load(grad + at[:, None] + columns[None, :], mask[:, None] & (columns < width)[None, :], other=0.0)


@triton.jit
def _from_before(ordered, order, grad, first, row, width, columns, ROWS: tl.constexpr):
    """Add up a row's gradients at places before ``first``, one tile at a time."""
    total = (columns * 0).to(tl.float32)
    start = first
    begun = first > 0
    while begun:
        start -= ROWS
        places = start + tl.arange(0, ROWS)
        alike = tl.load(ordered + places) == row
        total += tl.sum(_slopes(order, grad, places, alike, width, columns), 0)
        begun = (start > 0) & (tl.load(ordered + start) == row)
    return total


@triton.jit(do_not_specialize=["batch", "width"])
def _step_kernel(
    ordered,
    order,
    grad,
    rows,
    mean_square,
    batch,
    width,
    lr,
    new_weight,
    eps,
    clip,
    weight_decay,
    RULE: tl.constexpr,
    DECAYS: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
):
    """Process one tile of the sorted batch; the program with the last place of a row moves it, wherever it began."""
    first = tl.program_id(0) * ROWS
    places = first + tl.arange(0, ROWS)
    columns = tl.arange(0, COLUMNS)
    here = places < batch
    row = tl.load(ordered + places, here, other=-1)
    begins = row != tl.load(ordered + places - 1, here & (places > 0), other=-1)
    moves = here & (row != tl.load(ordered + places + 1, places + 1 < batch, other=-1))
    slope = _slopes(order, grad, places, here, width, columns)
    total, _ = tl.associative_scan((slope, (begins[:, None] | (columns < 0)[None, :]).to(tl.int32)), 0, _added_up)
    leading = tl.load(ordered + first)
    if tl.sum((moves & (row == leading)).to(tl.int32)) > 0:
        before = _from_before(ordered, order, grad, first, leading, width, columns, ROWS)
        total += tl.where((row == leading)[:, None], before[None, :], 0.0)
    strange = tl.sum((total - total != 0.0).to(tl.int32), 1) > 0  # of infinity and NaN
    # The square of a single number could overflow.
    length = tl.where(width == 1, tl.max(tl.abs(total), 1), tl.sqrt(tl.sum(total * total, 1)))
    old = tl.zeros([ROWS], tl.float32)
    if RULE != SGD:
        old = tl.load(mean_square + row, moves, other=0.0)
    mean, factor = pace(length, old, strange, width, new_weight, eps, clip, RULE)
    if RULE != SGD:
        tl.store(mean_square + row, mean, moves)
    at = row.to(tl.int64)[:, None] * width + columns[None, :]
    mask = (moves & (strange == 0))[:, None] & (columns < width)[None, :]
    value = tl.load(rows + at, mask, other=0.0)
    change = total * factor[:, None]
    if DECAYS:
        change += weight_decay * value
    tl.store(rows + at, value - lr * change, mask)


def step(rule: "Rule", index: Tensor, grad: Tensor, old: Pair, new: Pair) -> None:
    """Move the rows of ``index`` in place: ``old`` and ``new`` are the same table."""
    assert new is old
    batch, width = len(index), max(1, grad[0].numel())
    columns = triton.next_power_of_2(width)
    tile = max(FEWEST, TILE // columns)
    with torch.cuda.device_of(grad):
        # 32-bit numbers are sorted in half the time; with a stable sort, sums have the order of the batch.
        ordered, order = (index.int() if len(old.rows) <= _INT32 else index).sort(stable=True)
        _step_kernel[(triton.cdiv(batch, tile),)](
            ordered,
            order,
            grad.contiguous(),
            *old,
            batch,
            width,
            rule.lr,
            1 - rule.decay,
            rule.eps,
            math.inf if rule.clip is None else rule.clip,
            rule.weight_decay,
            RULE=rule.number,
            DECAYS=rule.weight_decay != 0,
            ROWS=tile,
            COLUMNS=columns,
        )
