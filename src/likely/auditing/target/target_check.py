"""What is checked where a target is named: wrong targets or labels, calibration and leaks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from likely._typing import Array, Index
from likely.auditing.checks.leaks import leaking_columns
from likely.auditing.columns.kinds import ColumnReader, Columns, as_numbers, for_a_line, ranked
from likely.auditing.columns.scale import Squash
from likely.auditing.identities.functions import exact_values
from likely.auditing.identities.identity import Identity, confirmed
from likely.auditing.results.audit import Progress
from likely.auditing.results.finding import Finding
from likely.auditing.sample import Told
from likely.auditing.target.calibration import classifier_calibration, regressor_calibration
from likely.auditing.target.counterfactuals import Swap, fillings, has_gaps, spread_by_gaps, swaps
from likely.auditing.target.folds import by_content
from likely.auditing.target.further_rows import FurtherLabels, FurtherTargets
from likely.auditing.target.label_forecast import LabelForecast, classify
from likely.auditing.target.label_verdict import LabelVerdict, judge_labels, overall, reconsider, wrong_labels
from likely.auditing.target.target_forecast import FITTED, WIDE, TargetForecast, regress
from likely.auditing.target.target_verdict import TargetVerdict, judge_targets
from likely.auditing.target.wrong_targets import wrong_targets

_CLASSES = 100  # more are no classification
_FEWEST = 20  # rows with a target that a model can be fitted to


class TargetData(NamedTuple):
    """The rows of a sample that have a target: as numbers, and as a frame that the estimators of tables read.

    ``rows`` are in an order that follows from what they hold.
    """

    columns: Columns
    target: str
    rows: Index
    X: NDArray[np.float32]
    frame: Any
    groups: Index
    reader: ColumnReader
    seed: int
    progress: Progress
    sums: list[Identity]  # that the target is in

    @classmethod
    def of(
        cls,
        columns: Columns,
        groups: Index,
        target: str,
        seed: int,
        progress: Progress,
        identities: Sequence[Identity] = (),
    ) -> TargetData:
        """Select the rows; rows of one group are never in different folds."""
        rows = np.flatnonzero(columns.typed[target].notna().to_numpy())
        if len(rows) < _FEWEST:
            raise ValueError(f"only {len(rows)} rows have a {target}: {_FEWEST} or more are needed to judge it")
        reader = ColumnReader.of(columns, {target})
        if not reader.kinds:
            raise ValueError(f"there is no column besides {target} that a model could read")
        names = list(reader.kinds)
        rows = by_content(columns.typed[[target, *names]], rows)
        X = reader.design(columns.typed[names].iloc[rows])
        frame = _frame(columns, names, rows) if len(names) <= WIDE and len(rows) <= FITTED else X
        sums = [identity for identity in identities if target in identity.members]
        return cls(columns, target, rows, X, frame, pd.factorize(groups[rows])[0], reader, seed, progress, sums)

    def tell(self, share: float) -> None:
        """Say how far the models are."""
        self.progress("predicting out of fold", share)

    def leaks(self, y: Any, *, labels: bool) -> Finding:
        """The columns that tell the target by themselves."""
        self.progress("looking for leaks", 0.0)
        return leaking_columns(self.columns, self.target, y, self.rows, labels=labels, sums=self.sums)

    @property
    def places(self) -> Index:
        """Of each row of the sample its place among these rows, -1 for one without a target, and for none."""
        places = np.full(len(self.columns.typed) + 1, -1)
        places[self.rows] = np.arange(len(self.rows))
        return places


@dataclass(frozen=True)
class TargetCheck:
    """Expected targets of a sample, and which of those given are probably wrong."""

    data: TargetData
    u: Array  # squashed
    squash: Squash
    forecast: TargetForecast
    verdict: TargetVerdict

    @classmethod
    def fit(cls, data: TargetData) -> TargetCheck:
        """Predict targets out of fold, and judge them."""
        y = data.columns.typed[data.target].to_numpy(np.float64)
        squash = Squash.of(y[data.rows])
        u = squash(y[data.rows])
        forecast = regress(data.frame, u, data.seed, data.tell, data.groups)
        data.progress("judging targets", 0.0)
        widen = spread_by_gaps(data.frame, forecast.mean, forecast.again, data.seed)
        names = [name for name in data.columns.named("number") if name != data.target]
        numbers = [y, *(data.columns.typed[name].to_numpy() for name in names)]
        exact = exact_values(numbers, len(y), wanted=[0])[:, 0] | confirmed(data.sums, data.columns.typed)
        verdict = judge_targets(
            forecast.mean,
            u,
            for_a_line(data.X),
            data.seed,
            scale=forecast.scale,
            squash=squash,
            widen=widen,
            exact=exact[data.rows],
        )
        return cls(data, u, squash, forecast, verdict)

    def tell(self, told: Told, count: int | None = None, rows: int = 0) -> Finding:
        """The finding about the sample and further rows; ``count`` of all ``rows`` are wrong, if there are more."""
        scale = self.forecast.scale
        factor = self.verdict.scale if scale is None else self.verdict.scale / scale
        verdict, u, own_rows = self.verdict, self.u, self.data.rows
        if len(told.further):
            y = told.further[self.data.target].to_numpy(np.float64)
            there = np.flatnonzero(~np.isnan(y))
            part = told.further.iloc[there]
            judged = self.further.judge(part, y[there], np.full(len(there), len(told.sample)))
            verdict, u = (
                _joined(verdict, judged, ("mean", "scale", "nll", "odds", "wrong")),
                np.append(u, self.squash(y[there])),
            )
            own_rows, factor = np.append(own_rows, len(told.sample) + there), np.append(factor, np.ones(len(there)))
        n = len(told.frame)
        finding = wrong_targets(
            verdict, u, self.squash, self.data.target, own_rows, n, swaps=self._swapped, factor=factor
        )
        judged_at_all = verdict.predictable and not verdict.too_many
        return (
            finding
            if count is None
            else _of_all(finding, judged_at_all, f"values of {self.data.target}", verdict.share, count, rows)
        )

    def _swapped(self, places: Index) -> dict[int, list[Swap]]:
        """The columns that targets of the sample may have been swapped with."""
        if not self.verdict.predictable or not isinstance(self.data.frame, pd.DataFrame):
            return {}
        y = self.data.columns.typed[self.data.target].to_numpy(np.float64)[self.data.rows]
        return swaps(self.data.frame, y, self.squash, self.forecast.again, places[places < len(y)])

    def others(self) -> list[Finding]:
        """Calibration and leaks."""
        return [regressor_calibration(self.forecast.mean, self.u, self.verdict), self.data.leaks(self.u, labels=False)]

    @cached_property
    def further(self) -> FurtherTargets:
        """The verdict on rows outside the sample."""
        data = self.data
        sample = data.X, self.u, self.forecast.mean, data.places
        return FurtherTargets.of(
            data.columns, data.reader, data.target, self.squash, self.verdict, *sample, data.sums, data.seed
        )


@dataclass(frozen=True)
class LabelCheck:
    """Expected labels of a sample, and which of those given are probably wrong."""

    data: TargetData
    labels: Index
    classes: list[str]
    forecast: LabelForecast
    verdict: LabelVerdict

    @classmethod
    def fit(cls, data: TargetData) -> LabelCheck:
        """Predict labels out of fold, and judge them."""
        column = data.columns.typed[data.target]
        codes, classes = ranked(column)
        most = min(_CLASSES, len(data.rows) // 2)
        if len(classes) > most:
            numeric = pd.api.types.is_numeric_dtype(column.dtype)
            remedy = "group them, or use task='regression'" if numeric else "group them"
            raise ValueError(f"{data.target} has {len(classes):,} classes, more than {most}: {remedy}")
        labels = codes[data.rows]
        forecast = classify(data.X, labels, data.seed, data.tell, data.groups)
        data.progress("judging labels", 0.0)
        verdict = judge_labels(forecast.log_p, labels, None, data.seed)
        gaps = np.flatnonzero((verdict.wrong > 0.5) & has_gaps(data.X))
        if len(gaps):
            filled = [np.exp(forecast.again(part)) for part in fillings(data.X, gaps, data.seed)]
            verdict = reconsider(verdict, labels, gaps, np.log(np.mean(filled, axis=0)))
        return cls(data, labels, classes, forecast, verdict)

    def tell(self, told: Told, count: int | None = None, rows: int = 0) -> Finding:
        """The finding about the sample and further rows; ``count`` of all ``rows`` are wrong, if there are more."""
        verdict, labels, own_rows = self.verdict, self.labels, self.data.rows
        if len(told.further):
            given = self.further.given(told.further)
            there = np.flatnonzero(given >= 0)
            judged = self.further.judge(told.further.iloc[there], given[there], np.full(len(there), len(told.sample)))
            verdict, labels = (
                _joined(verdict, judged, ("log_p", "temperature", "nll", "wrong")),
                np.append(labels, given[there]),
            )
            own_rows = np.append(own_rows, len(told.sample) + there)
        finding = wrong_labels(verdict, labels, self.classes, own_rows, len(told.frame))
        judged_at_all = verdict.judged and not verdict.too_many
        return finding if count is None else _of_all(finding, judged_at_all, "labels", verdict.share, count, rows)

    def others(self) -> list[Finding]:
        """Calibration and leaks."""
        leaks = self.data.leaks(self.labels.astype(np.float64), labels=True)
        return [classifier_calibration(self.forecast.log_p, self.labels, self.verdict), leaks]

    @cached_property
    def further(self) -> FurtherLabels:
        """The verdict on rows outside the sample."""
        data = self.data
        sample = data.X, self.labels, self.forecast.log_p, data.places
        kind = data.columns.kinds[data.target]
        return FurtherLabels.of(data.reader, data.target, kind, self.classes, self.verdict, *sample, data.seed)


def _joined(verdict: Any, further: Any, names: Sequence[str]) -> Any:
    """The verdict on the rows of a sample, and on further rows."""
    return replace(
        verdict, **{name: np.concatenate([getattr(verdict, name), getattr(further, name)]) for name in names}
    )


def _of_all(finding: Finding, judged: bool, what: str, share: float, count: int, rows: int) -> Finding:
    """A finding about the worst rows that counts all."""
    are = "is" if count == 1 else "are"
    summary = f"{count:,} of {rows:,} {what} {are} more likely wrong than right{overall(share)}."
    return replace(finding, summary=summary if judged else finding.summary, numbers={**finding.numbers, "rows": count})


def _frame(columns: Columns, names: list[str], rows: Index) -> pd.DataFrame:
    """Columns as the estimators of tables read them: numbers within reach, dates as times, categories as words."""
    parts: dict[str, Any] = {}
    for name in names:
        values = columns.typed[name].iloc[rows]
        if columns.kinds[name] == "number":
            parts[name] = as_numbers(values)[0]
        elif columns.kinds[name] == "date":
            parts[name] = pd.to_datetime(values.to_numpy(), unit="D", errors="coerce")
        else:
            parts[name] = values.to_numpy(object)
    return pd.DataFrame(parts)
