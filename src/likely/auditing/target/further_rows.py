"""How surely targets and labels of rows outside the sample are wrong, by the models and the verdict of the sample."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.special import expit, log_softmax
from sklearn.ensemble import HistGradientBoostingRegressor

from likely._typing import Array, Index
from likely.auditing.columns.kinds import ColumnReader, Columns, as_kind
from likely.auditing.columns.scale import Squash
from likely.auditing.identities.functions import ExactRelations
from likely.auditing.identities.identity import Identity, confirmed
from likely.auditing.target import label_forecast as label_models
from likely.auditing.target import label_verdict as label_verdicts
from likely.auditing.target import target_forecast as target_models
from likely.auditing.target import target_verdict as verdicts
from likely.auditing.target.counterfactuals import fillings, has_gaps, spread_by_gaps
from likely.auditing.target.folds import FITTED
from likely.auditing.target.label_verdict import LabelVerdict, reconsider
from likely.auditing.target.target_verdict import TargetVerdict
from likely.calibration import LinearScale, LinearTemperature

_LINE = 5_000  # rows that a line is fitted to
_CLIP = 5.0  # deviations at which features of a line are clipped
_WIDEST = 200  # columns that a line reads
Scores = dict[str, Array]


@dataclass(frozen=True)
class FurtherTargets:
    """The verdict on targets of a sample, carried over to further rows; rows of the sample keep theirs."""

    target: str
    columns: ColumnReader
    squash: Squash
    verdict: TargetVerdict  # on the sample
    model: HistGradientBoostingRegressor
    line: LinearScale | None
    units: tuple[Array, Array]  # mean and deviation of each column
    factor: float
    reach: tuple[Array, Array]  # given and expected targets of the sample
    places: Index  # of each row of the sample its place in the verdict, -1 if it has no target
    exact: ExactRelations  # of the target with the columns of numbers
    sums: Sequence[Identity]  # that the target is in
    seed: int

    @classmethod
    def of(
        cls,
        sample: Columns,
        columns: ColumnReader,
        target: str,
        squash: Squash,
        verdict: TargetVerdict,
        X: NDArray[np.float32],
        u: Array,
        mean: Array,
        places: Index,
        sums: Sequence[Identity],
        seed: int,
    ) -> Self:
        """Fit one model, as each fold has, for rows that none has seen: five take five times as long."""
        random = np.random.RandomState(seed).permutation(len(u))
        model = HistGradientBoostingRegressor(max_iter=target_models.ROUNDS, early_stopping=False, random_state=0)
        some = random[: target_models.FITTED]
        model.fit(X[some], np.clip(u[some], -target_models.CLIP_SCALES, target_models.CLIP_SCALES))
        with np.errstate(invalid="ignore", divide="ignore"):
            X64 = X.astype(np.float64)
            units = np.nanmean(X64, axis=0), np.maximum(np.nanstd(X64, axis=0), 1e-300)
        line, factor = None, 1.0
        if verdict.predictable:
            some = random[:_LINE]
            features = _of_line(X[some], units, mean[some])
            line = _fitted_line((u - mean), features, some)
            predicted = line.predict_scale(np.zeros(len(some)), None, features=features)
            factor = float(np.median(verdict.scale[some] / predicted))
        exact = ExactRelations.of(_beside_target(columns, sample.typed, sample.typed[target]), wanted=[0])
        reach = squash.back(u), squash.back(verdict.mean)
        return cls(target, columns, squash, verdict, model, line, units, factor, reach, places, exact, sums, seed)

    def score(self, block: pd.DataFrame, typed: pd.DataFrame, places: Index) -> Scores:
        """Of each row P(its target is wrong), the logarithm of the odds, the NLL, and what is expected."""
        y = self.given(block)
        judged, there = self.judge(typed, y, places), ~np.isnan(y)
        return {
            "target_wrong": np.where(there, judged.wrong, 0.0),
            "odds": np.where(there, judged.odds, -np.inf),
            "target_nll": np.where(there, judged.nll, np.nan),
            "expected": self.squash.back(judged.mean),
        }

    def given(self, block: pd.DataFrame) -> Array:
        """The targets of a block; NaN where one is missing."""
        return np.asarray(as_kind(block[self.target], "number"))

    def judge(self, typed: pd.DataFrame, y: Array, places: Index) -> TargetVerdict:
        """The verdict on some rows."""
        X = self.columns.design(typed)
        verdict, u = self.verdict, self.squash(np.nan_to_num(y, nan=self.squash.centre))
        if verdict.predictable and self.line is not None:
            mean = self.model.predict(X)
            features = _of_line(X, self.units, mean)
            scale = self.factor * self.line.predict_scale(np.zeros(len(u)), None, features=features)
        else:
            mean, scale = np.full(len(u), verdict.mean[0]), np.full(len(u), verdict.scale[0])
        at = self.places[places]
        mean, scale = np.where(at >= 0, verdict.mean[at], mean), np.where(at >= 0, verdict.scale[at], scale)
        odds = self._odds(u, mean, scale)
        if verdict.predictable and len(doubted := np.flatnonzero((odds > 0) & (at < 0))):
            moved = spread_by_gaps(X, mean, lambda rows: (self.model.predict(rows), mean), self.seed)(doubted)
            scale[doubted] = np.sqrt(np.square(scale[doubted]) + moved)
            odds[doubted] = np.minimum(odds[doubted], self._odds(u[doubted], mean[doubted], scale[doubted]))
        follows = self.exact(_beside_target(self.columns, typed, y), len(y))[:, 0]
        follows = follows | confirmed(self.sums, typed.assign(**{self.target: y}))
        odds = np.where(follows, np.minimum(odds, -verdicts.SURELY_RIGHT), odds)
        odds = np.where(at >= 0, verdict.odds[at], odds)
        wrong = expit(odds)
        wrong = np.minimum(wrong, 0.5) if verdict.too_many else wrong
        nll = verdicts.student_nll(u - mean, scale, verdict.df)
        return replace(verdict, mean=mean, scale=scale, nll=nll, odds=odds, wrong=wrong)

    def _odds(self, u: Array, mean: Array, scale: Array) -> Array:
        verdict = self.verdict
        given, expected = self.reach

        def others(values: Array) -> Array:
            grid = np.unique(np.quantile(self.squash(given), np.linspace(0, 1, verdicts.GRID_POINTS)))
            return np.interp(values, grid, verdicts.density_of_others(grid, verdict.mean, verdict.scale, verdict.df))

        density = verdicts.wrong_density(u, mean, scale, verdict.df, self.squash, others)
        right = -verdicts.student_nll(u - mean, scale, verdict.df)
        if verdict.predictable:  # right targets beyond all that is expected are rarer than tails say
            right = right - verdicts.beyond_limits(np.concatenate([given, self.squash.back(u)]), expected)[len(given) :]
        return np.log(max(verdict.share, label_verdicts.LEAST)) - np.log1p(-verdict.share) + density - right


@dataclass(frozen=True)
class FurtherLabels:
    """The verdict on labels of a sample, carried over to further rows; rows of the sample keep theirs."""

    target: str
    columns: ColumnReader
    kind: str
    classes: list[str]
    verdict: LabelVerdict
    models: list[Any]
    temperature: Any  # a number, or a calibrator that predicts one
    places: Index
    seed: int

    @classmethod
    def of(
        cls,
        columns: ColumnReader,
        target: str,
        kind: str,
        classes: list[str],
        verdict: LabelVerdict,
        X: NDArray[np.float32],
        labels: Index,
        log_p: Array,
        places: Index,
        seed: int,
    ) -> Self:
        """Fit one pair of models, as each fold has, for rows that none has seen."""
        some = np.random.RandomState(seed).permutation(len(labels))[:FITTED]
        models = label_models.fit_models(X[some], labels[some], np.ones(len(some)))
        temperature: Any = float(verdict.temperature[0])
        if np.ptp(verdict.temperature) > 0:
            right = 1 - verdict.wrong[some] + 1e-3
            temperature = LinearTemperature().fit(log_p[some], labels[some], sample_weight=right)
        return cls(target, columns, kind, classes, verdict, models, temperature, places, seed)

    def _logits(self, X: NDArray[np.float32]) -> Array:
        return label_models.bounded_logs(label_models.mean_probabilities(self.models, X, len(self.classes)))

    def given(self, block: pd.DataFrame) -> Index:
        """Class numbers; -1 where a label is missing, or is none of the sample's."""
        values = as_kind(block[self.target], self.kind)
        words = [
            None if pd.isna(value) else str(value).removesuffix(".0") if self.kind == "number" else value
            for value in values
        ]
        return np.asarray(pd.Index(self.classes).get_indexer(pd.Index(words, dtype=object)))

    def score(self, block: pd.DataFrame, typed: pd.DataFrame, places: Index) -> Scores:
        """Of each row P(its label is wrong), the NLL, the temperature, and the class that is likelier."""
        labels = self.given(block)
        judged = self.judge(typed, labels, places)
        guess = judged.log_p.argmax(1)
        there = (labels >= 0) & judged.predictable.classes[labels] & judged.judged
        named = there & (judged.wrong > 0.5) & (guess != labels)
        return {
            "label_wrong": np.where(there, judged.wrong, np.nan),
            "label_nll": np.where(labels >= 0, judged.nll, np.nan),
            "temperature": judged.temperature,
            "odds": np.where(named, judged.nll, -np.inf),
            "suggested": np.where(named, guess, -1),
        }

    def judge(self, typed: pd.DataFrame, labels: Index, places: Index) -> LabelVerdict:
        """The verdict on some rows; of those without a label it means nothing."""
        verdict, at, row = self.verdict, self.places[places], np.arange(len(labels))
        if not verdict.judged:
            log_p = np.broadcast_to(verdict.log_p.mean(0), (len(labels), len(self.classes)))
            return replace(
                verdict, log_p=log_p, temperature=np.ones(len(row)), nll=-log_p[row, labels], wrong=np.zeros(len(row))
            )
        X = self.columns.design(typed)
        z = self._logits(X)
        fixed = isinstance(self.temperature, float)
        temperature = np.full(len(z), self.temperature) if fixed else self.temperature.temperature(z)
        log_p = log_softmax(z / temperature[:, None], axis=1)
        log_p = np.where((at >= 0)[:, None], verdict.log_p[at], log_p)
        temperature = np.where(at >= 0, verdict.temperature[at], temperature)
        nll = -log_p[row, labels]
        classes, share = log_p.shape[1], max(verdict.share, label_verdicts.LEAST)
        wrong = label_verdicts.posterior_of_wrong(np.exp(-nll), share, classes) * verdict.predictable.classes[labels]
        named = np.flatnonzero(wrong > 0.5)
        accused = label_verdicts.accused_share(log_p[named], verdict.share) > label_verdicts.MOST
        wrong[named[accused | verdict.too_many]] = 0.5
        judged = replace(verdict, log_p=log_p, temperature=temperature, nll=nll, wrong=wrong)
        gaps = np.flatnonzero((wrong > 0.5) & has_gaps(X))
        if len(gaps):
            filled = np.log(np.mean([np.exp(self._logits(part)) for part in fillings(X, gaps, self.seed)], axis=0))
            judged = reconsider(judged, labels, gaps, filled)
        return replace(judged, wrong=np.where(at >= 0, verdict.wrong[at], judged.wrong))


def _beside_target(columns: ColumnReader, typed: pd.DataFrame, y: Any) -> list[Array]:
    """The target and the columns of numbers, in the order in which relations between them are read."""
    numbers = [name for name, kind in columns.kinds.items() if kind == "number"]
    return [np.asarray(y, np.float64), *(typed[name].to_numpy(np.float64) for name in numbers)]


def _fitted_line(residual: Array, features: Array, some: Index) -> LinearScale:
    usual = float(np.median(np.abs(residual))) or float(np.abs(residual).mean()) or 1.0
    tame = np.clip(residual[some], -8 * usual, 8 * usual)
    return LinearScale(likelihood="laplace").fit(np.zeros(len(some)), None, tame, features=features)


def _of_line(X: NDArray[np.float32], units: tuple[Array, Array], mean: Array) -> Array:
    """Columns in the sample's units, without gaps and without far values, and the prediction."""
    centre, spread = (unit[:_WIDEST] for unit in units)
    features = np.clip(np.nan_to_num((X[:, :_WIDEST] - centre) / spread), -_CLIP, _CLIP)
    return np.column_stack([features, mean]).astype(np.float64)
