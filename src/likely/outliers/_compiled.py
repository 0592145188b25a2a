"""The views and scores of LikelihoodDetector by compiled code, from rows as they are read (scores.cpp)."""

import ctypes
import struct
from dataclasses import dataclass
from functools import cache
from typing import Any, Self

import numpy as np

from likely._native import load, typed
from likely._typing import Array, Index, Values
from likely.outliers._columns import FeatureUnits
from likely.outliers._row_scores import Histograms, Nearest, Tails
from likely.outliers._scatter import Covariance

VIEWS = 5
_MAX_COLUMNS, _KNOTS = 128, 128  # as in scores.cpp


@cache
def _library() -> Any:
    """The compiled function, or None where the wheel was built without it."""
    library = load("outliers/scores")
    if library is None:
        return None
    return typed(library.likely_outlier_scores, "PP")


@dataclass(frozen=True)
class Compiled:
    """A fitted detector as the compiled code reads it: the struct ``Detector`` of scores.cpp."""

    numbers: tuple[int, ...]  # the fields of the struct, in its order
    arrays: tuple[Values, ...]
    df: float

    @classmethod
    def of(
        cls,
        column: Index,
        units: FeatureUnits,
        covariance: Covariance,
        tails: Tails,
        columns: Histograms,
        components: Histograms,
        nearest: Nearest,
    ) -> Self | None:
        """Return the tables of a detector, or None if there is no compiled code for it."""
        width = len(column)
        if _library() is None or not 1 <= width <= _MAX_COLUMNS:
            return None
        curves = zip(*(_curve(*curve) for curve in zip(tails.knots, tails.nats, strict=True)), strict=True)
        arrays = (
            *(array[column] for array in (units.unit, units.centre, units.inverse)),
            covariance.location,
            covariance.root @ covariance.root,
            np.concatenate([covariance.root, covariance.root @ covariance.axes], axis=1),
            *map(np.array, curves),
            tails.usual,
            *_densities(columns),
            *_densities(components),
            nearest.centres,
        )
        draws, count, _ = nearest.centres.shape
        doubles = (np.ascontiguousarray(array, np.float64) for array in arrays)
        return cls((width, draws, count), (column.astype(np.int64), *doubles), covariance.df)

    def views(self, table: Array, levels: Array | None) -> Array:
        """Return the five views of each row, in nats."""
        views = np.empty((len(table), VIEWS))
        self._run(table, levels, views)
        return views

    def scores(self, table: Array, levels: Array | None, middle: Array, unit: Array) -> Array:
        """Return the outlier score of each row."""
        scores = np.empty(len(table))
        self._run(table, levels, None, scores, middle, unit)
        return scores

    def _run(self, table: Array, levels: Array | None, *others: Array | None) -> None:
        if table.dtype not in (np.float32, np.float64) or any(stride % table.itemsize for stride in table.strides):
            table = np.ascontiguousarray(table, np.float64)
        strides = (stride // table.itemsize for stride in table.strides)
        job = (_at(table), table.itemsize == 8, len(table), *strides, *map(_at, (levels, *others)))
        fields = (*self.numbers, *map(_at, self.arrays))
        _library()(struct.pack(f"{len(fields)}qd", *fields, self.df), (ctypes.c_int64 * 10)(*job))


def _at(array: Array | None) -> int:
    return 0 if array is None else array.ctypes.data


def _curve(knots: Array, nats: Array) -> tuple[Array, Array, Array]:
    """Where each interval of a curve begins, and last where the curve ends; the nats there, and the slope."""
    intervals = len(knots) - 1
    starts, level, slopes = np.full(_KNOTS + 1, np.inf), np.zeros(_KNOTS), np.zeros(_KNOTS)
    starts[0], starts[-1], level[0] = knots[0], knots[-1], nats[0]
    starts[:intervals], level[:intervals] = knots[:-1], nats[:-1]
    slopes[:intervals] = np.diff(nats) / np.diff(knots)
    return starts, level, slopes


def _densities(histograms: Histograms) -> tuple[Array, ...]:
    return histograms.low, 1 / histograms.width, histograms.nats, histograms.usual
