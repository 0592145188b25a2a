# Kernels are compiled by Triton, which reads their types off the call.
# mypy: disable-error-code="no-untyped-def, attr-defined"
"""The step of many rows in place: a sort brings the places of a row together, and one kernel adds them up and moves it.

Where the batch is small, each place of :mod:`likely.row_store._rule_triton` looks at all others, which needs no sort.
"""

import math

import torch
import triton
import triton.language as tl
from torch import Tensor

from likely.row_store._memory import Pair
from likely.row_store._rule import Rule
from likely.row_store._rule_triton import SGD, pace

WIDEST = 128  # numbers per row; wider rows are so many numbers that launches do not count
TILE, FEWEST = 1024, 16  # numbers per program, and rows at least
_INT32 = 2**31 - 1


@triton.jit
def _added_up(left, left_begins, right, right_begins):
    """Sums that begin anew at the first place of each row."""
    return tl.where(right_begins != 0, right, left + right), left_begins | right_begins


@triton.jit
def _slopes(order, grad, places, mask, width, columns):
    """The gradients of some places of the sorted batch, (places, columns)."""
    at = tl.load(order + places, mask, other=0).to(tl.int64) * width
    return tl.load(grad + at[:, None] + columns[None, :], mask[:, None] & (columns < width)[None, :], other=0.0)


@triton.jit
def _from_before(ordered, order, grad, first, row, width, columns, ROWS: tl.constexpr):
    """The sum of a row's gradients at places before ``first``, a tile at a time."""
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
    """A program for a tile of the sorted batch: whoever has the last place of a row moves it, wherever it began."""
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
    strange = tl.sum((total - total != 0.0).to(tl.int32), 1) > 0  # of an infinity and of NaN
    # Of a single number the square may be too large.
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
    """Move the rows of ``index`` in a table, ``old``, which is ``new`` too."""
    assert new is old
    batch, width = len(index), max(1, grad[0].numel())
    columns = triton.next_power_of_2(width)
    tile = max(FEWEST, TILE // columns)
    with torch.cuda.device_of(grad):
        # Numbers of half the size are sorted in half the time; a stable sort adds up in the order of the batch.
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
