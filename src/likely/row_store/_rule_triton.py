# Kernels are compiled by Triton, which infers the types of their arguments from the call.
# mypy: disable-error-code="no-untyped-def, attr-defined"
"""The step of likely.row_store._rule in one kernel: on a GPU most of the time of its forty operations is launches."""

import math

import triton
import triton.language as tl
from torch import Tensor

from likely._launch_triton import Kernel
from likely.row_store._rule import Pair, Rule

RMSPROP, ADAGRAD, SGD = tl.constexpr(0), tl.constexpr(1), tl.constexpr(2)
MAX_COLUMNS, MAX_PLACES, TILE = 1024, 32, 1024  # per block of gradients, and the most values in one
MAX_SEARCHED = 1024  # largest batch in which each program searches its row's places; a larger one is sorted
_INT32 = 2**31 - 1


@triton.jit
def _next_alike(index, row, after, batch, SEARCHED: tl.constexpr):
    """Return the next place of an unsorted batch with the same row."""
    places = tl.arange(0, SEARCHED)
    alike = tl.load(index + places, places < batch, other=-1) == row
    return tl.min(tl.where(alike & (places > after), places, batch))


@triton.jit
def _total(
    index,
    order,
    grad,
    first,
    row,
    batch,
    width,
    columns,
    SEARCHED: tl.constexpr,
    PLACES: tl.constexpr,
    COLUMNS: tl.constexpr,
):
    """Add up some columns of one row's gradients; in a sorted batch they are at consecutive places."""
    total = tl.zeros([COLUMNS], tl.float32)
    place = first
    while place < batch:
        if SEARCHED:
            total += tl.load(grad + place.to(tl.int64) * width + columns, columns < width, other=0.0)
            place = _next_alike(index, row, place, batch, SEARCHED)
        else:
            places = place + tl.arange(0, PLACES)
            alike = tl.load(index + places, places < batch, other=-1) == row
            at = tl.load(order + places, alike, other=0).to(tl.int64) * width
            mask = alike[:, None] & (columns < width)[None, :]
            total += tl.sum(tl.load(grad + at[:, None] + columns[None, :], mask, other=0.0), 0)
            place = tl.where(tl.sum(alike.to(tl.int32)) == PLACES, place + PLACES, batch)
    return total


@triton.jit
def _pace(length, old, strange, width, new_weight, eps, clip, RULE: tl.constexpr):
    """Return the mean square of a row after a gradient of this length, and the factor of the gradient."""
    shrink = tl.where(length > clip, clip / length, 1.0)  # without clipping, clip is infinite
    mean, per_square = old, shrink
    if RULE != SGD:
        shrunk = tl.where(shrink > 0.0, length * shrink, 0.0)
        square = shrunk * shrunk / width
        mean = old + square
        if RULE == RMSPROP:
            mean = tl.where(old == 0.0, square, old + new_weight * (square - old))
        mean = tl.where((square == 0.0) | strange, old, mean)
        per_square = shrink / (tl.sqrt(mean) + eps)
    return mean, per_square


@Kernel
@triton.jit(do_not_specialize=["batch", "width"])  # one is not a special case
def _move_kernel(
    index,
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
    SEARCHED: tl.constexpr,
    PLACES: tl.constexpr,
    COLUMNS: tl.constexpr,
):
    """One program per place of the batch; that of a row's first place moves the row."""
    place = tl.program_id(0)
    row = tl.load(index + place)
    if SEARCHED:
        if _next_alike(index, row, -1, batch, SEARCHED) != place:
            return
    elif tl.load(index + place - 1, place > 0, other=-1) == row:
        return
    squares, largest, strange = 0.0, 0.0, 0
    for start in range(0, width, COLUMNS):
        columns = start + tl.arange(0, COLUMNS)
        slope = _total(index, order, grad, place, row, batch, width, columns, SEARCHED, PLACES, COLUMNS)
        squares += tl.sum(slope * slope)
        largest = tl.maximum(largest, tl.max(tl.abs(slope)))
        strange += tl.sum((slope - slope != 0.0).to(tl.int32))  # of infinity and NaN
    length = tl.where(width == 1, largest, tl.sqrt(squares))  # the square of a single number could overflow
    old = 0.0
    if RULE != SGD:
        old = tl.load(mean_square + row)
    mean, factor = _pace(length, old, strange > 0, width, new_weight, eps, clip, RULE)
    if RULE != SGD:
        tl.store(mean_square + row, mean)
    for start in range(0, width, COLUMNS):
        columns = start + tl.arange(0, COLUMNS)
        at = rows + row.to(tl.int64) * width + columns
        value = tl.load(at, columns < width, other=0.0)
        slope = _total(index, order, grad, place, row, batch, width, columns, SEARCHED, PLACES, COLUMNS)
        change = slope * factor
        if DECAYS:
            change += weight_decay * value
        tl.store(at, tl.where(strange > 0, value, value - lr * change), columns < width)


def move(rule: Rule, index: Tensor, grad: Tensor, table: Pair) -> None:
    """Move the rows of ``index`` in place."""
    batch, width = len(index), max(1, grad[0].numel())
    columns = min(MAX_COLUMNS, triton.next_power_of_2(width))
    places = max(1, min(MAX_PLACES, TILE // columns))
    searched = triton.next_power_of_2(batch) if batch <= MAX_SEARCHED else 0
    index = order = index.contiguous()
    if not searched:
        # 32-bit numbers are sorted in half the time; with a stable sort, sums have the order of the batch.
        index, order = (index.int() if len(table.rows) <= _INT32 else index).sort(stable=True)
    numbers = (rule.lr, 1 - rule.decay, rule.eps, math.inf if rule.clip is None else rule.clip, rule.weight_decay)
    _move_kernel(
        batch,
        4 if searched or columns > 128 else 1,
        (index, order, grad.contiguous(), *table),
        batch,
        width,
        *map(float, numbers),
        RULE=rule.number,
        DECAYS=rule.weight_decay != 0,
        SEARCHED=searched,
        PLACES=places,
        COLUMNS=columns,
    )
