"""How surely each target or label of a long table is wrong, by models of a sample of its rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.special import log_softmax
from sklearn.ensemble import HistGradientBoostingRegressor

from likely._typing import Array
from likely.auditing import _label_models as label_models
from likely.auditing import _labels
from likely.auditing import _target_models as target_models
from likely.auditing import _target_verdict as verdicts
from likely.auditing._changed_rows import fillings, has_gaps, spread_by_gaps
from likely.auditing._columns import MODELLED, Columns, ranked
from likely.auditing._exact import ExactRelations
from likely.auditing._finding import Finding
from likely.auditing._identities import Identity, confirmed
from likely.auditing._labels import LabelVerdict, judge_labels, reconsider, wrong_labels
from likely.auditing._out_of_fold import FITTED, by_content
from likely.auditing._squash import Squash
from likely.auditing._target_verdict import TargetVerdict, judge_targets
from likely.auditing._targets import wrong_targets
from likely.auditing.blocks._columns import BlockColumns, as_kind
from likely.calibration import LinearScale, LinearTemperature

_LINE = 5_000  # rows that a line is fitted to
Tell = Callable[[float], None]


@dataclass(frozen=True)
class Judged:
    """The rows of a sample that have a target, in an order that follows from what they hold."""

    rows: NDArray[np.int64]
    X: NDArray[np.float32]
    groups: NDArray[np.int64]
    columns: BlockColumns

    @classmethod
    def of(cls, columns: Columns, target: str, groups: NDArray[np.int64]) -> Self:
        """Of a sample."""
        names = [name for name in columns.named(*MODELLED) if name != target]
        rows = by_content(columns.typed[[target, *names]], np.flatnonzero(columns.typed[target].notna().to_numpy()))
        known = BlockColumns.of(columns, {target})
        X = known.design(columns.typed[names].iloc[rows])
        return cls(rows, X, pd.factorize(groups[rows])[0], known)


@dataclass(frozen=True)
class TargetScores:
    """What :func:`likely.auditing._target_verdict.judge_targets` learned from a sample, for further rows."""

    target: str
    columns: BlockColumns
    squash: Squash
    model: HistGradientBoostingRegressor
    line: LinearScale | None
    units: tuple[Array, Array]  # mean and deviation of each column
    factor: float
    verdict: TargetVerdict  # on the sample
    reach: tuple[Array, Array]  # given and expected targets of the sample
    known: NDArray[np.int64]  # of each row of the sample its place in the verdict, -1 if it has no target
    exact: ExactRelations  # of the target with the columns of numbers
    sums: list[Identity]  # that the target is in
    seed: int

    @classmethod
    def of(
        cls,
        columns: Columns,
        target: str,
        groups: NDArray[np.int64],
        seed: int,
        tell: Tell,
        identities: Sequence[Identity] = (),
    ) -> Self:
        """Fit to a sample."""
        data = Judged.of(columns, target, groups)
        y = columns.typed[target].to_numpy(np.float64)[data.rows]
        squash = Squash.of(y)
        u = squash(y)
        forecast = target_models._long(data.X, u, seed, tell, data.groups)
        X64 = data.X.astype(np.float64)
        with np.errstate(invalid="ignore", divide="ignore"):
            units = np.nanmean(X64, axis=0), np.maximum(np.nanstd(X64, axis=0), 1e-300)
        features = _for_a_line(data.X, units)
        # One model, as each fold has, for rows that none has seen: five take five times as long.
        some = np.random.RandomState(seed).permutation(len(u))[: target_models.FITTED]
        model = HistGradientBoostingRegressor(max_iter=target_models._ROUNDS, early_stopping=False, random_state=0)
        model.fit(data.X[some], np.clip(u[some], -target_models._BENT, target_models._BENT))
        widen = spread_by_gaps(data.X, forecast.mean, forecast.again, seed)
        numbers = _beside_target(data.columns, columns.typed, columns.typed[target].to_numpy(np.float64))
        exact = ExactRelations.of(numbers, wanted=[0])
        sums = [identity for identity in identities if target in identity.members]
        follows = (exact(numbers, len(columns.typed))[:, 0] | confirmed(sums, columns.typed))[data.rows]
        verdict = judge_targets(forecast.mean, u, features, seed, scale=None, squash=squash, widen=widen, exact=follows)
        line, factor = None, 1.0
        if verdict.predictable:
            some = np.random.RandomState(seed).permutation(len(u))[:_LINE]
            line = _fitted_line(u - forecast.mean, _doubles(features, forecast.mean), some)
            read = _doubles(features[some], forecast.mean[some])
            predicted = line.predict_scale(np.zeros(len(some)), None, features=read)
            factor = float(np.median(verdict.scale[some] / predicted))
        known = np.full(len(columns.typed) + 1, -1)
        known[data.rows] = np.arange(len(data.rows))
        reach = squash.back(u), squash.back(verdict.mean)
        return cls(target, data.columns, squash, model, line, units, factor, verdict, reach, known, exact, sums, seed)

    def __call__(self, block: pd.DataFrame, typed: pd.DataFrame, places: NDArray[np.int64]) -> dict[str, Any]:
        """Of each row P(its target is wrong), the logarithm of the odds, the NLL, and what is expected."""
        y = self.given(block)
        judged = self.judge(typed, y, places)
        there = ~np.isnan(y)
        return {
            "target_wrong": np.where(there, judged.wrong, 0.0).astype(np.float32),
            "odds": np.where(there, judged.odds, -np.inf).astype(np.float32),
            "target_nll": np.where(there, judged.nll, np.nan).astype(np.float32),
            "expected": self.squash.back(judged.mean).astype(np.float32),
        }

    def given(self, block: pd.DataFrame) -> Array:
        """The targets of a block; NaN where one is missing."""
        return np.asarray(as_kind(block[self.target], "number"))

    def judge(self, typed: pd.DataFrame, y: Array, places: NDArray[np.int64]) -> TargetVerdict:
        """The verdict on some rows."""
        X = self.columns.design(typed)
        verdict, u = self.verdict, self.squash(np.nan_to_num(y, nan=self.squash.centre))
        if verdict.predictable and self.line is not None:
            mean = self.model.predict(X)
            features = _doubles(_for_a_line(X, self.units), mean)
            scale = self.factor * self.line.predict_scale(np.zeros(len(u)), None, features=features)
        else:
            mean, scale = np.full(len(u), verdict.mean[0]), np.full(len(u), verdict.scale[0])
        at = self.known[places]
        # Rows of the sample are judged by models that have not seen them.
        mean, scale = np.where(at >= 0, verdict.mean[at], mean), np.where(at >= 0, verdict.scale[at], scale)
        odds = self._odds(u, mean, scale)
        if verdict.predictable and len(doubted := np.flatnonzero((odds > 0) & (at < 0))):
            moved = spread_by_gaps(X, mean, lambda rows: (self.model.predict(rows), mean), self.seed)(doubted)
            scale[doubted] = np.sqrt(np.square(scale[doubted]) + moved)
            odds[doubted] = np.minimum(odds[doubted], self._odds(u[doubted], mean[doubted], scale[doubted]))
        follows = self.exact(_beside_target(self.columns, typed, y), len(y))[:, 0]
        follows = follows | confirmed(self.sums, typed.assign(**{self.target: y}))
        odds = np.where(follows, np.minimum(odds, -verdicts._RIGHT), odds)
        odds = np.where(at >= 0, verdict.odds[at], odds)
        wrong = 1 / (1 + np.exp(-np.clip(odds, -700, 700)))
        wrong = np.minimum(wrong, 0.5) if verdict.too_many else wrong
        nll = verdicts._nll(u - mean, scale, verdict.df)
        return replace(verdict, mean=mean, scale=scale, nll=nll, odds=odds, wrong=wrong)

    def _odds(self, u: Array, mean: Array, scale: Array) -> Array:
        verdict = self.verdict

        def others(values: Array) -> Array:
            grid = np.unique(np.quantile(self.squash(self.reach[0]), np.linspace(0, 1, verdicts._GRID)))
            return np.interp(values, grid, verdicts._others(grid, verdict.mean, verdict.scale, verdict.df))

        density = verdicts._wrong_density(u, mean, scale, verdict.df, self.squash, others)
        right = -verdicts._nll(u - mean, scale, verdict.df) - (self._rarer(u) if verdict.predictable else 0.0)
        return np.log(max(verdict.share, _labels.LEAST)) - np.log1p(-verdict.share) + density - right

    def _rarer(self, u: Array) -> Array:
        """Right targets beyond all that is expected are rarer than tails say; what is beyond, the sample tells."""
        sample_targets, expected = self.reach
        return verdicts._beyond(np.concatenate([sample_targets, self.squash.back(u)]), expected)[len(sample_targets) :]

    def finding(self, typed: pd.DataFrame, y: Array, places: NDArray[np.int64], count: int, rows: int) -> Finding:
        """The finding about the worst rows, whose places in it are those among the rows given."""
        judged = self.judge(typed, y, places)
        finding = wrong_targets(judged, self.squash(y), self.squash, self.target, np.arange(len(y)), len(y))
        summary = finding.summary
        if judged.predictable and not judged.too_many:
            summary = f"{count:,} of {rows:,} values of {self.target} are more likely wrong than right"
            summary += f"{_labels.overall(judged.share)}."
        return replace(finding, summary=summary, scores={}, pictures=(), numbers={**finding.numbers, "rows": count})


@dataclass(frozen=True)
class LabelScores:
    """What :func:`likely.auditing._labels.judge_labels` learned from a sample, for further rows."""

    target: str
    columns: BlockColumns
    kind: str
    classes: list[str]
    models: list[Any]
    temperature: Any  # a number, or a calibrator that predicts one
    verdict: LabelVerdict
    known: NDArray[np.int64]
    seed: int

    @classmethod
    def of(cls, columns: Columns, target: str, groups: NDArray[np.int64], seed: int, tell: Tell) -> Self:
        """Fit to a sample."""
        data = Judged.of(columns, target, groups)
        codes, classes = ranked(columns.typed[target])
        labels = codes[data.rows]
        forecast = label_models.classify(data.X, labels, seed, tell, data.groups)
        verdict = judge_labels(forecast.log_p, labels, None, seed)
        some = np.random.RandomState(seed).permutation(len(labels))[:FITTED]
        models = label_models._fitted(data.X[some], labels[some], np.ones(len(some)))
        temperature: Any = float(verdict.temperature[0])
        if np.ptp(verdict.temperature) > 0:
            right = 1 - verdict.wrong[some] + 1e-3
            temperature = LinearTemperature().fit(forecast.log_p[some], labels[some], sample_weight=right)
        known = np.full(len(columns.typed) + 1, -1)
        known[data.rows] = np.arange(len(data.rows))
        kind = columns.kinds[target]
        return cls(target, data.columns, kind, classes, models, temperature, verdict, known, seed)

    def _logits(self, X: NDArray[np.float32]) -> Array:
        return label_models._logs(label_models._probabilities(self.models, X, len(self.classes)))

    def given(self, block: pd.DataFrame) -> NDArray[np.int64]:
        """Class numbers; -1 where a label is missing, or is none of the sample's."""
        values = as_kind(block[self.target], self.kind)
        words = [
            None if pd.isna(value) else str(value).removesuffix(".0") if self.kind == "number" else value
            for value in values
        ]
        return np.asarray(pd.Index(self.classes).get_indexer(pd.Index(words, dtype=object)))

    def __call__(self, block: pd.DataFrame, typed: pd.DataFrame, places: NDArray[np.int64]) -> dict[str, Any]:
        """Of each row P(its label is wrong), the NLL, the temperature, and the class that is likelier."""
        labels = self.given(block)
        judged = self.judge(typed, labels, places)
        guess = judged.log_p.argmax(1)
        there = (labels >= 0) & judged.predictable.classes[labels] & judged.judged
        named = there & (judged.wrong > 0.5) & (guess != labels)
        return {
            "label_wrong": np.where(there, judged.wrong, np.nan).astype(np.float32),
            "label_nll": np.where(labels >= 0, judged.nll, np.nan).astype(np.float32),
            "temperature": judged.temperature.astype(np.float32),
            "odds": np.where(named, judged.nll, -np.inf).astype(np.float32),
            "suggested": np.where(named, guess, -1).astype(np.int32),
        }

    def judge(self, typed: pd.DataFrame, labels: NDArray[np.int64], places: NDArray[np.int64]) -> LabelVerdict:
        """The verdict on some rows; of those without a label it means nothing."""
        verdict, at, row = self.verdict, self.known[places], np.arange(len(labels))
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
        classes, share = log_p.shape[1], max(verdict.share, _labels.LEAST)
        wrong = _labels._posterior(np.exp(-nll), share, classes) * verdict.predictable.classes[labels]
        named = np.flatnonzero(wrong > 0.5)
        accused = _labels._accused(log_p[named], verdict.share) > _labels.MOST
        wrong[named[accused | verdict.too_many]] = 0.5
        judged = replace(verdict, log_p=log_p, temperature=temperature, nll=nll, wrong=wrong)
        gaps = np.flatnonzero((wrong > 0.5) & has_gaps(X))
        if not len(gaps):
            return judged
        filled = np.log(np.mean([np.exp(self._logits(part)) for part in fillings(X, gaps, self.seed)], axis=0))
        return reconsider(judged, labels, gaps, filled)

    def finding(self, typed: pd.DataFrame, labels: Any, places: NDArray[np.int64], count: int, rows: int) -> Finding:
        """The finding about the worst rows, whose places in it are those among the rows given."""
        judged = self.judge(typed, labels, places)
        finding = wrong_labels(judged, labels, self.classes, np.arange(len(labels)), len(labels))
        summary = finding.summary
        if judged.judged and not judged.too_many:
            summary = f"{count:,} of {rows:,} labels {'is' if count == 1 else 'are'} more likely wrong than right"
            summary += f"{_labels.overall(judged.share)}."
        return replace(finding, summary=summary, scores={}, pictures=(), numbers={**finding.numbers, "rows": count})


def _beside_target(columns: BlockColumns, typed: pd.DataFrame, y: Array) -> list[Array]:
    """The target and the columns of numbers, in the order in which relations between them are read."""
    return [y, *(typed[name].to_numpy(np.float64) for name, kind in columns.kinds.items() if kind == "number")]


def _fitted_line(residual: Array, features: Array, some: NDArray[np.int64]) -> LinearScale:
    usual = float(np.median(np.abs(residual))) or float(np.abs(residual).mean()) or 1.0
    tame = np.clip(residual[some], -8 * usual, 8 * usual)
    return LinearScale(likelihood="laplace").fit(
        np.zeros(len(some)), None, tame, features=features[some].astype(np.float64)
    )


def _for_a_line(X: NDArray[np.float32], units: tuple[Array, Array], most: int = 200) -> NDArray[np.float32]:
    """Columns in the sample's units, without gaps and without far values."""
    centre, spread = (unit[:most] for unit in units)
    return np.clip(np.nan_to_num((X[:, :most] - centre) / spread), -5, 5).astype(np.float32)


def _doubles(features: Any, mean: Array) -> Array:
    return np.column_stack([features, mean]).astype(np.float64)
