"""What is checked where a target is named: wrong targets or labels, and leaks."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from likely._rows.contents import frame_keys
from likely._typing import Array, Floats, Index, Mask
from likely.auditing.checks.leaks import leaking_columns
from likely.auditing.columns.kinds import ColumnReader, as_kind, as_numbers, ranked
from likely.auditing.columns.scale import AsinhScale
from likely.auditing.identities.functions import ExactRelations
from likely.auditing.identities.identity import confirmed
from likely.auditing.results.finding import Finding, OfAll
from likely.auditing.sample import Sample, Told
from likely.auditing.target.forecasts import WIDE, LabelForecast, TargetForecast, classify, regress
from likely.auditing.target.held_out import FITTED
from likely.auditing.target.label_verdict import LabelVerdict, judge_labels
from likely.auditing.target.target_verdict import TargetVerdict, judge_targets
from likely.auditing.target.wrong_targets import spread_scores, wrong_labels, wrong_targets

_CLASSES = 100  # more are no classification
_FEWEST = 20  # rows with a target that a model can be fitted to
_FILLINGS = 12  # copies of a row with different values in its gaps
_DONORS = 20_000  # rows that gaps are filled from, at most


class TargetCheck(ABC):
    """What is expected of a target or a label, and which of those given are probably wrong, by the rows of a sample.

    ``rows`` are those that have a target, in an order that follows from what they hold; ``verdict`` is on them.
    """

    forecast: Any
    verdict: Any

    def __init__(self, sample: Sample) -> None:
        assert sample.target is not None
        self.columns, self.target, self.seed = sample.columns, sample.target, sample.seed
        self.reader = ColumnReader.of(self.columns, {self.target})
        rows = np.flatnonzero(self.columns.typed[self.target].notna().to_numpy())
        if len(rows) < _FEWEST:
            raise ValueError(f"only {len(rows)} rows have a {self.target}: {_FEWEST} or more are needed to judge it")
        if not self.reader.kinds:
            raise ValueError(f"there is no column besides {self.target} that a model could read")
        self.rows = by_content(self.columns.typed[[self.target, *self.reader.kinds]], rows)
        self.groups = pd.factorize(sample.twins.groups[self.rows])[0]  # rows of one group are in the same fold
        self.sums = [identity for identity in sample.identities if self.target in identity.members]

    @property
    def typed(self) -> pd.DataFrame:
        """The columns of the rows, with their own types."""
        return self.columns.typed.iloc[self.rows]

    @abstractmethod
    def given(self, column: pd.Series[Any]) -> tuple[Any, Mask]:
        """What is judged of each row of a block, and whether it is there."""

    @abstractmethod
    def judge_new(self, typed: pd.DataFrame, given: Any) -> Any:
        """The verdict on rows outside the sample."""

    @abstractmethod
    def finding(self, verdict: Any, rows: Index, n: int, of_all: OfAll) -> Finding:
        """What is told of ``rows``, of ``n``."""

    def leaks(self) -> Finding:
        """The columns that tell the target by themselves."""
        labels, judged = isinstance(self, LabelCheck), getattr(self.verdict, self.verdict.ROWS[0]).astype(np.float64)
        return leaking_columns(self.columns, self.target, judged, self.rows, labels=labels, sums=self.sums)

    def filled(self, rows: pd.DataFrame, sample: pd.DataFrame, predict: Callable[[pd.DataFrame], Array]) -> Array:
        """Predictions of several copies of rows, in which every gap holds the value of a random row of the sample."""
        donors = sample.iloc[:: max(1, len(sample) // _DONORS)].ffill().bfill()
        predictions = []
        for random in np.random.RandomState(self.seed).randint(2**31, size=_FILLINGS):
            others = donors.sample(len(rows), replace=True, random_state=random).set_axis(rows.index)
            predictions.append(predict(rows.where(rows.notna(), others)))
        return np.array(predictions)

    def judge(self, frame: pd.DataFrame, typed: pd.DataFrame, places: Index) -> tuple[Any, Index]:
        """The verdict on the rows that have a target, and these rows."""
        given, there = self.given(frame[self.target])
        rows = np.flatnonzero(there)
        of_sample = np.full(len(self.columns.typed) + 1, -1)
        of_sample[self.rows] = np.arange(len(self.rows))
        at = of_sample[places[rows]]
        arrays = {name: getattr(self.verdict, name)[at] for name in self.verdict.ROWS}
        new = np.flatnonzero(at < 0)
        if len(new):
            judged = self.judge_new(typed.iloc[rows[new]], given[rows[new]])
            for name, values in arrays.items():
                values[new] = getattr(judged, name)
        return replace(self.verdict, **arrays), rows

    def score(self, block: pd.DataFrame, typed: pd.DataFrame, places: Index) -> dict[str, Any]:
        """The scores of the rows of a block."""
        return spread_scores(*self.judge(block, typed, places), len(block))

    def tell(self, told: Told, of_all: OfAll) -> Finding:
        """The finding about the sample and further rows."""
        typed = told.columns.typed
        return self.finding(*self.judge(typed, typed, told.places), len(typed), of_all)


class NumberCheck(TargetCheck):
    """Expected targets, and which are probably wrong."""

    forecast: TargetForecast
    verdict: TargetVerdict

    def __init__(self, sample: Sample) -> None:
        super().__init__(sample)
        self.many = len(self.reader.kinds) > WIDE or len(self.rows) > FITTED  # for all but models that read numbers
        self.frame = self._readable(self.typed)
        y = self.typed[self.target].to_numpy(np.float64)
        self.exact = ExactRelations.of(self._beside_target(self.typed, y), wanted=[0])
        squash = AsinhScale.of(y)
        tell = partial(sample.progress, "predicting out of fold")
        self.forecast = regress(self.frame, squash(y), self.seed, tell, self.groups)
        sample.progress("judging targets", 0.0)
        verdict = judge_targets(self.forecast.mean, squash(y), self.forecast.scale, self.seed, squash=squash)
        self.verdict = self._reconsidered(verdict, self.typed, self.frame, y).settled()

    def _readable(self, typed: pd.DataFrame) -> pd.DataFrame:
        """Columns as models of targets read them: numbers within reach, dates as times, categories as words."""
        if self.many:
            return pd.DataFrame(self.reader.design(typed))
        parts: dict[str, Any] = {}
        for name, kind in self.reader.kinds.items():
            parts[name] = as_numbers(typed[name])[0] if kind == "number" else typed[name].to_numpy(object)
            if kind == "date":
                parts[name] = pd.to_datetime(typed[name].to_numpy(), unit="D", errors="coerce")
        return pd.DataFrame(parts)

    def _beside_target(self, typed: pd.DataFrame, y: Array) -> list[Array]:
        """The target and the columns of numbers, in the order in which relations between them are read."""
        return [y, *(typed[name].to_numpy(np.float64) for name, kind in self.reader.kinds.items() if kind == "number")]

    def _reconsidered(
        self, verdict: TargetVerdict, typed: pd.DataFrame, frame: pd.DataFrame, y: Array
    ) -> TargetVerdict:
        """The verdict in view of gaps in the rows, and of columns that the target follows from."""
        deviation = np.zeros(len(y))
        gaps = np.flatnonzero((verdict.odds > 0) & verdict.judged & frame.isna().any(axis=1))
        if len(gaps):
            moved = self.filled(frame.iloc[gaps], self.frame, self.forecast.expected) - verdict.mean[gaps]
            deviation[gaps] = np.sqrt(np.square(moved).mean(0))
        follows = self.exact(self._beside_target(typed, y), len(y))[:, 0]
        return verdict.reconsider(deviation, follows | confirmed(self.sums, typed.assign(**{self.target: y})))

    def given(self, column: pd.Series[Any]) -> tuple[Any, Mask]:
        """The targets, as numbers."""
        y = as_kind(column, "number")
        return y, ~np.isnan(y)

    def judge_new(self, typed: pd.DataFrame, given: Array) -> TargetVerdict:
        """The verdict on rows outside the sample."""
        frame = self._readable(typed)
        expected = self.verdict.forecast(*self.forecast.again(frame))
        return self._reconsidered(self.verdict.judge(self.verdict.squash(given), *expected), typed, frame, given)

    def finding(self, verdict: TargetVerdict, rows: Index, n: int, of_all: OfAll) -> Finding:
        """The targets that are probably wrong."""
        return wrong_targets(verdict, self.target, rows, n, of_all)


class LabelCheck(TargetCheck):
    """Expected labels, and which are probably wrong."""

    forecast: LabelForecast
    verdict: LabelVerdict

    def __init__(self, sample: Sample) -> None:
        super().__init__(sample)
        column = self.typed[self.target]
        labels, self.classes = ranked(column)
        most = min(_CLASSES, len(labels) // 2)
        if len(self.classes) > most:
            numeric = pd.api.types.is_numeric_dtype(column.dtype)
            remedy = "group them, or use task='regression'" if numeric else "group them"
            raise ValueError(f"{self.target} has {len(self.classes):,} classes, more than {most}: {remedy}")
        self.X, tell = self.reader.design(self.typed), partial(sample.progress, "predicting out of fold")
        self.forecast = classify(self.X, labels, self.seed, tell, self.groups)
        sample.progress("judging labels", 0.0)
        self.verdict = self._reconsidered(judge_labels(self.forecast.log_p, labels, None, self.seed), self.X)

    def _reconsidered(self, verdict: LabelVerdict, X: Floats) -> LabelVerdict:
        """The verdict where rows with gaps are judged by what the gaps may hold, too."""
        gaps = np.flatnonzero((verdict.wrong > 0.5) & np.isnan(X).any(1))
        if not len(gaps):
            return verdict
        filled = self.filled(pd.DataFrame(X[gaps]), pd.DataFrame(self.X), self.forecast.again)
        return verdict.reconsider(gaps, np.exp(filled).mean(0))

    def given(self, column: pd.Series[Any]) -> tuple[Any, Mask]:
        """Class numbers; -1 where a label is missing, or is none of the sample's."""
        kind = self.columns.kinds[self.target]
        words = [
            None if pd.isna(value) else str(value).removesuffix(".0") if kind == "number" else value
            for value in as_kind(column, kind)
        ]
        labels = pd.Index(self.classes).get_indexer(pd.Index(words, dtype=object))
        return labels, labels >= 0

    def judge_new(self, typed: pd.DataFrame, given: Index) -> LabelVerdict:
        """The verdict on rows outside the sample."""
        X = self.reader.design(typed)
        return self._reconsidered(self.verdict.judge(self.forecast.again(X), given), X)

    def finding(self, verdict: LabelVerdict, rows: Index, n: int, of_all: OfAll) -> Finding:
        """The labels that are probably wrong."""
        return wrong_labels(verdict, self.classes, rows, n, of_all=of_all)


def by_content(typed: pd.DataFrame, rows: Index) -> Index:
    """Row numbers in an order that follows from what the rows hold, so that folds do not depend on where a row stands.

    Equal rows stay in the order they had.
    """
    return rows[np.argsort(frame_keys(typed)[rows], kind="stable")]
