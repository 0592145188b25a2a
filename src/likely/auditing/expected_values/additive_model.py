"""An additive model that predicts each column of a table from the others, and the rarity of its residuals."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Self

import numpy as np

from likely._typing import Array, Mask, Places
from likely.auditing.expected_values.similar_rows import Neighbours, Series

# Judged by the benchmark of slips (20 tables): without modes there are twice as many false alarms.
_FOLDS = 4
_NARROW, _WIDE = 0.4, 3.0  # limits of the scale of a row, in usual scales
_SMOOTH = 0.2  # ridge penalty of the regression of scales, as a share of the number of rows
_CAP = 4.0  # deviations at which residuals are clipped for the fit
_MODE = 0.5  # share of the rows from which a value is the mode of its column
_FARTHEST = 1e6  # deviations at which residuals are clipped
_LEVELS = 12  # levels of a category with an indicator of their own; the others share one
_PIECES = 20  # most pieces of the piecewise linear function of a column
_MOST = 400  # basis functions in all, about
_EACH = 8  # least number of rows per basis function
_RIDGE, _ROWS = 1e-4, 1.0  # added to the diagonal: a share of the number of rows, and a number of rows
RARE = 3.0  # nats from which a value is rare: one in twenty has more
_BEYOND = 0.05  # share of the rows in a tail
_BODY = 0.5  # share of the rows that are nearer than a deviation which is not rare at all
_THINNEST = 0.3  # the least scale of a tail
_LIGHTEST, _HEAVIEST = 1e-6, 0.5  # limits of the shape: exponential, and infinite variance
_FEWEST = 10  # least number of deviations to which a tail is fitted
_PRIOR = 2000  # weight, in rows, of the prior that a tail is exponential


class Judged(NamedTuple):
    """Predictions, deviations and their rarity, each of shape (rows, columns)."""

    expected: Array
    far: Array
    nats: Array

    def of_row(self, place: int) -> Judged:
        """Those of one row."""
        return Judged(*(part[place] for part in self))


@dataclass(frozen=True)
class _Terms:
    """Piecewise linear functions of numbers and indicators of levels; all are zero where a value is missing."""

    words: list[bool]
    knots: list[Array]
    centre: Array
    unit: Array
    owner: Places  # for each function, the place of its column

    @classmethod
    def of(cls, z: Array, words: list[bool]) -> Self:
        """Choose knots."""
        rows, width = z.shape
        pieces = int(np.clip(min(rows // _EACH, _MOST) // max(1, width), 1, _PIECES))
        inner = np.linspace(0, 1, pieces + 1)[1:-1]
        knots = [
            np.arange(_LEVELS + 1.0) if word else np.unique(np.quantile(column[~np.isnan(column)], inner))
            for column, word in zip(z.T, words, strict=True)
        ]
        owner = np.repeat(np.arange(width), [len(at) + (not word) for at, word in zip(knots, words, strict=True)])
        plain = cls(words, knots, np.zeros(1), np.ones(1), owner)._raw(z)
        centre, unit = np.nanmean(plain, axis=0), np.nanstd(plain, axis=0)
        return cls(words, knots, centre, np.where(unit > 1e-9, unit, 1.0), owner)

    def __call__(self, z: Array) -> Array:
        """Return the functions of every column, one column each."""
        return np.nan_to_num((self._raw(z) - self.centre) / self.unit, copy=False)

    def _raw(self, z: Array) -> Array:
        """The functions as they are before they have mean zero, NaN where a value is missing."""
        parts = [
            _indicators(column) if word else np.column_stack([column, np.maximum(column[:, None] - at, 0)])
            for column, at, word in zip(z.T, self.knots, self.words, strict=True)
        ]
        return np.concatenate(parts, axis=1)


@dataclass(frozen=True)
class AdditiveModel:
    """Ridge regressions of every column on piecewise linear functions of all others, one without each fold."""

    terms: _Terms
    of_column: Places  # for each target (a number, or the indicator of a level), the place of its column
    first: Places  # for each column, the place of its first target
    middle: Array
    mean: Array  # coefficients, (fits, functions, targets)
    spread: Array  # coefficients of the scales, of the same shape
    usual: Array  # scale of each target

    @classmethod
    def of(cls, z: Array, words: list[bool], fold: Places) -> Self:
        """Fit the means three times, each time with far values drawn nearer and gaps filled, and then the scales."""
        terms = _Terms.of(z, words)
        basis, wanted = terms(z), _targets(z, words)
        of = np.repeat(np.arange(len(words)), [_LEVELS + 1 if word else 1 for word in words])
        first = np.searchsorted(of, np.arange(len(words)))
        seen, number = ~np.isnan(wanted), ~np.array(words)[of]
        near = np.where(number, np.clip(wanted, -_CAP, _CAP), wanted)
        for cap in (3 * _CAP, _CAP, _CAP):
            middle = np.nanmean(near, axis=0)
            mean = _regress(basis, np.where(seen, near - middle, 0.0), of, terms.owner, fold)
            expected = middle + _predicted(basis, mean, fold)
            residual = np.where(seen, wanted - expected, 0.0)
            usual = np.array([_scale(part[there]) for part, there in zip(residual.T, seen.T, strict=True)])
            near = np.where(number & seen, expected + np.clip(residual, -cap * usual, cap * usual), wanted)
            basis = terms(_filled(z, expected[:, first], words))
        size = np.where(seen, np.minimum(np.abs(residual) / usual, _CAP), np.nan)
        size = np.where(seen, size / np.maximum(np.nanmean(size, axis=0), 1e-9) - 1, 0.0)
        spread = _regress(basis, size, of, terms.owner, fold, _SMOOTH)
        return cls(terms, of, first, middle, mean, spread, usual)

    def deviations(self, z: Array, fold: Places) -> tuple[Array, Array]:
        """Return the prediction of each target, and the deviation from it in usual scales."""
        basis, wanted = self.terms(z), _targets(z, self.terms.words)
        expected = self.middle + _predicted(basis, self.mean, fold)
        if np.isnan(z).any():
            basis = self.terms(_filled(z, expected[:, self.first], self.terms.words))
            expected = self.middle + _predicted(basis, self.mean, fold)
        wide = np.clip(1 + _predicted(basis, self.spread, fold), _NARROW, _WIDE)
        far = np.clip((wanted - expected) / (self.usual * wide), -_FARTHEST, _FARTHEST)
        return expected, np.where(np.isnan(wanted), 0.0, far)


class Tails(NamedTuple):
    """Generalised Pareto tails of columns, beyond the 95% quantiles of their deviations on either side.

    How rare a deviation is depends on its sign. A missing value, and the mode of a column, deviate by nothing.

    >>> rng, modes = np.random.default_rng(0), np.full(3, np.nan)
    >>> z = np.column_stack([rng.normal(size=5000), rng.standard_t(2, size=5000), rng.exponential(size=5000)])
    >>> tails, some = Tails.of(z, z, [False] * 3, modes), np.array([[7.0, 7.0, 7.0], [0.0, -7.0, -7.0]])
    >>> tails.nats(some, some).round().astype(int).tolist()
    [[15, 5, 7], [0, 5, 25]]
    """

    modes: Array  # NaN where a column has none
    share: Array  # of the rows that deviate at all, by column
    middle: Array  # these by side, below and above, and column
    start: Array
    scale: Array
    shape: Array

    @classmethod
    def of(cls, deviations: Array, z: Array, words: list[bool], modes: Array) -> Self:
        """Fit them to the deviations of numbers that are there and are not the mode."""
        seen = ~np.isnan(z) & (z != modes)
        share = np.where(np.isnan(modes), 1.0, np.maximum(seen.mean(0), 1 / (len(z) + 1)))
        columns = list(zip(deviations.T, seen.T, words, strict=True))
        fits = [[_tail(sign * far[there], word) for far, there, word in columns] for sign in (-1, 1)]
        return cls(modes, share, *np.moveaxis(np.array(fits), 2, 0))

    def nats(self, deviations: Array, z: Array) -> Array:
        """Minus the log of the share of rows that deviate as much on the same side; zero of categories."""
        nats = self.of_columns(deviations, np.arange(z.shape[1]))
        return np.where(np.isnan(z) | (z == self.modes), 0.0, nats)

    def of_columns(self, deviations: Array, columns: Places | int) -> Array:
        """The same of deviations that are there, of some columns."""
        side, size = (deviations > 0).astype(np.intp), np.abs(deviations)
        middle, start, scale, shape = (part[side, columns] for part in self[2:])
        beyond = np.log1p(shape * np.maximum(size - start, 0) / scale) / shape
        inside = np.clip((size - middle) / (start - middle), 0, 1)
        return beyond - np.log(_BEYOND) * inside - np.log(self.share[columns])


def _tail(deviations: Array, word: bool) -> tuple[float, float, float, float]:
    """Middle, start, scale and shape of the upper tail, by quantiles, which a few outliers do not move."""
    if word or len(deviations) < _FEWEST:  # too few to estimate how rare larger ones are
        return 0.0, np.inf, 1.0, _LIGHTEST
    start, middle, far = np.quantile(deviations, [1 - _BEYOND / part for part in (1, 2, 4)]).tolist()
    near, next_one = middle - start, far - middle
    known = len(deviations) / (len(deviations) + _PRIOR)
    # Each half of the tail is wider than the one before if it is heavier than an exponential.
    shape = known * min(np.log2(next_one / near), _HEAVIEST) if next_one > near > 0 else 0.0
    shape = max(shape, _LIGHTEST)
    start = max(start, 0.5)
    # Where all deviate alike, as those with a rare flag do, none of them is rare for that.
    usual = min(max(np.quantile(deviations, _BODY), 0.0), start - 1e-9)
    return usual, start, max(near * shape / (2**shape - 1), _THINNEST), shape


def surprise(nats: Array) -> Array:
    """How surprising each row is: the nats by which its values exceed ``RARE``, summed over columns."""
    return np.maximum(nats - RARE, 0).sum(-1)


@dataclass(frozen=True)
class Pattern:
    """An additive model of every column by all others, fitted to other rows, with the tails of what it leaves.

    Ridge regression predicts each squashed number by a sum of piecewise linear functions of the other columns, and its
    scale by another such sum; each level of a category has a probability. How rare a deviation is follows from the tail
    of the deviations of its column, so that a heavy tail makes no row odd.

    >>> import pandas as pd
    >>> from likely.auditing.columns.kinds import read_columns
    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=500)
    >>> frame = pd.DataFrame({"x": x, "y": x**2 + 0.1 * rng.normal(size=500)})
    >>> frame.loc[7] = [1.5, 0.5]
    >>> table = Neighbours.of(read_columns(frame))
    >>> judged = Pattern.of(table).judge(table.points(np.arange(500)), np.arange(500))
    >>> int(judged.nats.max(1).argmax()), int(judged.nats[7].argmax())
    (7, 1)
    """

    model: AdditiveModel
    fold: Places  # for each row of the table, the place of the fit without it
    tails: Tails  # of the deviations from predictions
    rates: dict[int, tuple[Array, Array]]  # for each level: probabilities, and its frequency where it is no likelier
    centres: Array
    margins: Tails  # of the deviations from the centres of columns
    series: Series | None

    @classmethod
    def of(cls, table: Neighbours, first: Mask | None = None) -> Self:
        """Fit the model to a sample of the table."""
        rows = table.sample if first is None else table.sample[first[table.sample]]
        z, words = table.points(rows), [unit is None for unit in table.units]
        fold = np.full(table.rows, _FOLDS)
        fold[rows[np.lexsort(z.T)]] = np.arange(len(rows)) % _FOLDS  # by what rows hold, whatever their order
        model = AdditiveModel.of(z, words, fold[rows])
        modes = np.array([np.nan if word else _mode(column) for column, word in zip(z.T, words, strict=True)])
        expected, far = _deviations(model, table.series, z, rows, fold[rows])
        rates = {
            k: _rate(expected[:, k], z[:, j], k - model.first[j])
            for k, j in enumerate(model.of_column.tolist())
            if words[j]
        }
        centres = np.array([_median(column[column != mode]) for column, mode in zip(z.T, modes, strict=True)])
        tails = Tails.of(far[:, model.first], z, words, modes)
        return cls(model, fold, tails, rates, centres, Tails.of(z - centres, z, words, modes), table.series)

    @property
    def whole(self) -> int:
        """The place of the fit to all rows."""
        return len(self.model.mean) - 1

    def margin_nats(self, z: Array) -> Array:
        """How rare values are in their own columns, in nats."""
        return self.margins.nats(z - self.centres, z)

    def judge(self, z: Array, rows: Places) -> Judged:
        """Judge each value by its prediction from the other columns."""
        expected, far = _deviations(self.model, self.series, z, rows, self.fold[rows])
        first = self.model.first
        judged = Judged(expected[:, first], far[:, first], self.tails.nats(far[:, first], z))
        for j in np.flatnonzero(self.model.terms.words):
            probabilities = expected[:, first[j] : first[j] + _LEVELS + 1]
            judged.expected[:, j] = probabilities.argmax(1)
            for level, of_level in enumerate(probabilities.T):
                there = np.flatnonzero(np.minimum(z[:, j], _LEVELS) == level)
                known, seldom = self.rates[first[j] + level]
                at = np.searchsorted(known, of_level[there], "right") - 1
                judged.nats[there, j] = -np.log(seldom[np.maximum(at, 0)])
            judged.far[:, j] = np.sqrt(2 * judged.nats[:, j])
        return judged


def _deviations(
    model: AdditiveModel, series: Series | None, z: Array, rows: Places, fold: Places
) -> tuple[Array, Array]:
    """Predictions of targets and deviations from them, by the rows beside a row where those tell a column."""
    expected, far = model.deviations(z, fold)
    if series is not None:
        first, (near, off) = model.first, series.deviations(z, rows)
        expected[:, first] = np.where(np.isnan(off), expected[:, first], near)
        far[:, first] = np.where(np.isnan(off), far[:, first], off)
    return expected, far


def _targets(z: Array, words: list[bool]) -> Array:
    """The targets of the model: numbers, and indicators of levels; NaN where a value is missing."""
    parts = [_indicators(column) if word else column[:, None] for column, word in zip(z.T, words, strict=True)]
    return np.concatenate(parts, axis=1)


def _filled(z: Array, expected: Array, words: list[bool]) -> Array:
    """Replace missing numbers by their predictions, so that a gap makes its row neither more nor less ordinary."""
    return np.where(np.isnan(z) & ~np.array(words), expected, z)


def _rate(expected: Array, codes: Array, level: int) -> tuple[Array, Array]:
    """The probabilities of a level, in order, and how often it is there among the rows where it is no likelier."""
    seen = ~np.isnan(codes)
    order = np.argsort(expected[seen])
    there = np.cumsum(np.minimum(codes[seen], _LEVELS)[order] == level)
    seldom = np.minimum((there + 0.5) / (np.arange(len(order)) + 1.0), 1.0)
    return expected[seen][order], np.minimum.accumulate(seldom[::-1])[::-1]


def _median(values: Array) -> float:
    """The median of what is there; zero if nothing is."""
    seen = values[~np.isnan(values)]
    return float(np.median(seen)) if len(seen) else 0.0


def _mode(column: Array) -> float:
    """The value that more than half of the rows have; NaN if there is none."""
    seen = column[~np.isnan(column)]
    middle = float(np.quantile(seen, 0.5, method="lower"))
    return middle if (seen == middle).mean() > _MODE else np.nan


def _predicted(basis: Array, coefficients: Array, fold: Places) -> Array:
    """Predict each row by the fit without it."""
    predictions = np.empty((len(basis), coefficients.shape[2]))
    for k in np.unique(fold):
        predictions[fold == k] = basis[fold == k] @ coefficients[k]
    return predictions


def _scale(residual: Array) -> float:
    """A robust standard deviation; where most residuals are zero, it follows from their mean size."""
    if not len(residual):
        return 1.0
    size = np.abs(residual)
    mean = float(np.minimum(size, np.quantile(size, 0.99)).mean())
    return max(1.4826 * float(np.median(size)), 0.5 * mean) or float(size.mean()) or 1.0


def _indicators(codes: Array) -> Array:
    """A column of zeros and ones per level; rare levels share one. All are NaN where a value is missing."""
    there = np.minimum(codes, _LEVELS)[:, None] == np.arange(_LEVELS + 1.0)
    return np.where(np.isnan(codes)[:, None], np.nan, there)


def _regress(basis: Array, wanted: Array, of: Places, owner: Places, fold: Places, ridge: float = _RIDGE) -> Array:
    """Ridge regression of columns on the functions of all other columns, without each fold, and on all rows."""
    folds = int(fold.max()) + 1
    grams = [(basis[fold == k].T @ basis[fold == k], basis[fold == k].T @ wanted[fold == k]) for k in range(folds)]
    gram, cross = sum(part for part, _ in grams), sum(part for _, part in grams)
    coefficients = np.zeros((folds + 1, basis.shape[1], wanted.shape[1]))
    for k in range(folds + 1):
        left, right = (gram - grams[k][0], cross - grams[k][1]) if k < folds else (gram, cross)
        rows = len(fold) - (fold == k).sum()
        inverse = np.linalg.inv(left + (ridge * rows + _ROWS) * np.eye(len(left)))
        for j in np.unique(of):
            functions, targets = np.flatnonzero(owner == j), np.flatnonzero(of == j)
            others = np.where((owner == j)[:, None], 0.0, right[:, targets])
            solved = inverse @ others
            # Leaves out the functions of column j by a block of the inverse, instead of inverting once per column.
            coefficients[k][:, targets] = solved - inverse[:, functions] @ np.linalg.solve(
                inverse[np.ix_(functions, functions)], solved[functions]
            )
    return coefficients
