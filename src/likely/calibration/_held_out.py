"""Rows held out, and what their gains are sure of."""

from __future__ import annotations

import math
from typing import overload

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from likely._evidence import Rows


def deal(n: int, folds: int, random: np.random.RandomState) -> list[NDArray[np.int64]]:
    """Rows dealt out at random.

    Folds with equal shares of every class would have held-out rows repeat the class frequencies of the rows fitted,
    and biases that follow chance frequencies would look good.
    """
    dealt = random.permutation(n)
    return [dealt[k::folds] for k in range(min(folds, n))]


@overload
def take(rows: Rows, index: NDArray[np.int64]) -> Rows: ...
@overload
def take(rows: None, index: NDArray[np.int64]) -> None: ...
def take(rows: Rows | None, index: NDArray[np.int64]) -> Rows | None:
    """Some of the rows, in memory."""
    return None if rows is None else Rows(rows[index])  # type: ignore[index]


def sure(gain: Tensor, margin: float) -> float:
    """The sum of the rows' gains, less ``margin`` standard errors of it."""
    return float(gain.sum()) - margin * math.sqrt(len(gain)) * float(gain.std(correction=0))
