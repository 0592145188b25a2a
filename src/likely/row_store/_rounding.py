"""Rounding up or down by chance, so that steps smaller than half a unit of bfloat16 are not lost.

The chance comes from the row's number and the number of steps, not from a generator: copies of a table in several
processes, or its parts, then round alike, and a row that is in a batch twice is rounded the same way twice.
"""

import torch
from torch import Tensor

# 0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9 and 0x94D049BB133111EB, as signed numbers of 64 bits
_GOLDEN, _FIRST, _SECOND = -7046029254386353131, -4658895280553007687, -7723592293110705685


def rounded(rows: Tensor, dtype: torch.dtype, index: Tensor, step: Tensor) -> Tensor:
    """The rows in ``dtype``; of the two bfloat16 beside a value, each with the chance that makes the mean right."""
    if dtype != torch.bfloat16:
        return rows.to(dtype)
    bits = rows.float().view(torch.int32) + _noise(rows, index, step)
    return (bits & -65536).view(torch.float32).to(dtype)


def _noise(rows: Tensor, index: Tensor, step: Tensor) -> Tensor:
    """A uniform number of 16 bits for every element of every row: splitmix64 of where it is and of the step."""
    size = rows[0].numel()
    x = index[:, None] * size + (torch.arange(size, device=index.device) + step * _GOLDEN)
    x = (x ^ (x >> 30)) * _FIRST
    x = (x ^ (x >> 27)) * _SECOND
    return ((x >> 31) & 0xFFFF).int().view_as(rows)
