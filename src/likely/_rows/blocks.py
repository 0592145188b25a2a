"""Rows of any array, on any device or disk, read in blocks."""

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor

from likely._typing import Array, Index

_BLOCK = 2**18  # numbers per block: 1 MB in float32, so that the passes stay in the cache and memory stays flat


class Rows:
    """An array of rows, of any kind and float type, on any device or disk, read in blocks and in at least float32."""

    def __init__(self, array: Any) -> None:
        self.array = array
        self.shape: tuple[int, ...] = tuple(array.shape)
        self.device = array.device if isinstance(array, Tensor) else torch.device("cpu")

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: slice) -> Tensor:
        part = self.array[rows]
        if not isinstance(part, Tensor):
            # torch cannot mark memory as read-only and warns of it: such a block is copied.
            part = torch.from_numpy(np.array(part, copy=True if not part.flags.writeable else None, order="C"))
        tensor = part.detach()
        return tensor.to(torch.promote_types(tensor.dtype, torch.float32))

    def taken(self, index: Index) -> "Rows":
        """Some of the rows, in memory; as :class:`Rows` read them, whatever they were read from."""
        return Rows(self[index])  # type: ignore[index]

    def blocks(self, stride: int = 1) -> Iterator[slice]:
        """Slices that cover every ``stride``-th row."""
        step = stride * max(1, _BLOCK // max(1, math.prod(self.shape[1:])))
        for start in range(0, len(self), step):
            yield slice(start, min(start + step, len(self)), stride)


def moments(features: Rows, weight: Array) -> tuple[Array, Array]:
    """The weighted mean and deviation of every feature; 1 for the deviation of a constant."""
    total = weight.sum()
    low, high = np.full((2, features.shape[1]), np.inf) * [[1], [-1]]
    for rows in features.blocks():
        ends = (end.double().cpu().numpy() for end in torch.aminmax(features[rows], dim=0))
        low, high = (f(old, new) for f, old, new in zip((np.minimum, np.maximum), (low, high), ends, strict=True))
    # In units of a power of two, which rounds nothing: squares of huge numbers would overflow.
    unit = np.ldexp(1.0, np.frexp(np.maximum(np.abs(low), np.abs(high)))[1].clip(-1000, 1000))
    mean, square = np.zeros((2, features.shape[1]))
    for rows in features.blocks():
        mean += (weight[rows] @ (features[rows].double().cpu().numpy() / unit)) / total
    mean = np.where(low == high, low / unit, mean)  # exactly: a constant less its mean is zero, not rounding
    for rows in features.blocks():
        square += (weight[rows] @ (features[rows].double().cpu().numpy() / unit - mean) ** 2) / total
    mean, deviation = mean * unit, np.sqrt(square) * unit
    return mean, np.where(deviation > 1e-7 * np.abs(mean), deviation, 1.0)
