# Kernels are compiled by Triton, which infers the types of their arguments from the call.
# mypy: disable-error-code="no-untyped-def, attr-defined"
"""The step of likely.row_store._rule in one kernel: on a GPU most of the time of its forty operations is launches."""

import math

import torch
import triton
import triton.language as tl
from torch import Tensor

from likely.row_store._memory import Pair
from likely.row_store._rule import Rule

RMSPROP, ADAGRAD, SGD = tl.constexpr(0), tl.constexpr(1), tl.constexpr(2)
BLOCK = 1024  # columns per block


@triton.jit
def _next_alike(index, row_index, after, batch, PLACES: tl.constexpr):
    """Return the next place of the batch with the same row."""
    next_place = batch
    for start in range(0, batch, PLACES):
        places = start + tl.arange(0, PLACES)
        alike = tl.load(index + places, places < batch, other=-1) == row_index
        next_place = tl.minimum(next_place, tl.min(tl.where(alike & (places > after), places, batch)))
    return next_place


@triton.jit
def _summed(index, grad, row_index, batch, width, columns, PLACES: tl.constexpr, BLOCK: tl.constexpr):
    """Add up the gradients of the same row, in the order of the batch, for some columns."""
    total = tl.zeros([BLOCK], tl.float32)
    place = _next_alike(index, row_index, -1, batch, PLACES)
    while place < batch:
        total += tl.load(grad + place.to(tl.int64) * width + columns, columns < width, other=0.0)
        place = _next_alike(index, row_index, place, batch, PLACES)
    return total


@triton.jit
def pace(length, old, strange, width, new_weight, eps, clip, RULE: tl.constexpr):
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


@triton.jit(do_not_specialize=["batch", "width"])  # one is not a special case
def _step_kernel(
    index,
    grad,
    rows,
    mean_square,
    new_rows,
    new_mean_square,
    batch,
    width,
    lr,
    new_weight,
    eps,
    clip,
    weight_decay,
    RULE: tl.constexpr,
    DECAYS: tl.constexpr,
    RESIDENT: tl.constexpr,
    PLACES: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """One program per place of the batch.

    Gathered rows are in the order of the batch, and two copies of a row have the same result. Resident rows are moved
    by the program of their first place only.
    """
    place = tl.program_id(0)
    row_index = tl.load(index + place)
    row_number = place.to(tl.int64)
    if RESIDENT:
        row_number = row_index
        if _next_alike(index, row_index, -1, batch, PLACES) != place:
            return
    first = row_number * width
    squares, largest, strange = 0.0, 0.0, 0
    for start in range(0, width, BLOCK):
        slope = _summed(index, grad, row_index, batch, width, start + tl.arange(0, BLOCK), PLACES, BLOCK)
        squares += tl.sum(slope * slope)
        largest = tl.maximum(largest, tl.max(tl.abs(slope)))
        strange += tl.sum((slope - slope != 0.0).to(tl.int32))  # of infinity and NaN
    length = tl.where(width == 1, largest, tl.sqrt(squares))  # the square of a single number could overflow
    old = 0.0
    if RULE != SGD:
        old = tl.load(mean_square + row_number)
    mean, factor = pace(length, old, strange > 0, width, new_weight, eps, clip, RULE)
    if RULE != SGD:
        tl.store(new_mean_square + row_number, mean)
    for start in range(0, width, BLOCK):
        columns = start + tl.arange(0, BLOCK)
        row = tl.load(rows + first + columns, columns < width, other=0.0)
        slope = _summed(index, grad, row_index, batch, width, columns, PLACES, BLOCK)
        change = slope * factor
        if DECAYS:
            change += weight_decay * row
        tl.store(new_rows + first + columns, tl.where(strange > 0, row, row - lr * change), columns < width)


def step(rule: "Rule", index: Tensor, grad: Tensor, old: Pair, new: Pair) -> None:
    """Write the rows of ``index`` after a step into ``new``; where it is ``old`` itself, it has all rows of a table."""
    batch, width = len(index), max(1, grad[0].numel())
    with torch.cuda.device_of(grad):
        _step_kernel[(batch,)](
            index,
            grad.contiguous(),
            *old,
            *new,
            batch,
            width,
            rule.lr,
            1 - rule.decay,
            rule.eps,
            math.inf if rule.clip is None else rule.clip,
            rule.weight_decay,
            RULE=rule.number,
            DECAYS=rule.weight_decay != 0,
            RESIDENT=new is old,
            PLACES=min(1024, triton.next_power_of_2(batch)),
            BLOCK=min(BLOCK, triton.next_power_of_2(width)),
        )
