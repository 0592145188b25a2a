"""The audit of a classifier's outputs on rows it was not trained on."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.special import log_softmax

from likely._page import Picture, Table
from likely._page.svg import SERIES, panel, styled, to_svg
from likely._rows.reading.read_table import read_array
from likely._rows.reading.table import counted, readable
from likely._typing import Array, Index
from likely.auditing.checks.order import order
from likely.auditing.checks.overview import balance
from likely.auditing.columns.kinds import Columns, Kind, read_columns
from likely.auditing.copies.repeated_rows import repeated_rows
from likely.auditing.copies.twins import find_twins
from likely.auditing.odd_rows.odd_rows import odd_rows
from likely.auditing.results.audit import Audit, Progress
from likely.auditing.results.finding import Finding
from likely.auditing.target.label_verdict import LabelVerdict, judge_labels
from likely.auditing.target.wrong_labels import wrong_labels
from likely.metrics import brier_score, expected_calibration_error, negative_log_likelihood
from likely.plots import ReliabilityDisplay

_DIRECTIONS = 50  # of the features, along which odd rows and copies are looked for
_SHOWN = 50_000  # rows that speak for the calibration of all
_ORDERED = 10  # of them, those that are looked at for what their order tells


def audit_logits(
    logits: Any,
    labels: Any,
    features: Any,
    classes: Sequence[str] | None,
    seed: int,
    progress: Progress,
) -> Audit:
    """Labels and calibration by the logits; odd rows and copies by the features."""
    progress("reading", 0.0)
    z, y = read_array(logits, "logits"), read_array(labels, "labels")
    if z.ndim != 2 or z.shape[1] < 2 or z.dtype.kind not in "fiu":
        raise ValueError(f"logits must be numbers of the shape (rows, classes), got {z.dtype} of {z.shape}")
    if len(z) < 20:
        raise ValueError(f"there are {len(z)} rows of logits: 20 or more are needed")
    if not np.isfinite(z).all():
        raise ValueError("logits hold NaN or infinities: clean them first")
    if y.shape != (len(z),):
        raise ValueError(f"labels must hold one class per row, shape ({len(z)},); got {y.shape}")
    if y.dtype.kind not in "iub" or y.min() < 0 or y.max() >= z.shape[1]:
        raise ValueError(f"labels must be class numbers from 0 to {z.shape[1] - 1}")
    if classes is not None and len(classes) != z.shape[1]:
        raise ValueError(f"there are {len(classes)} class names for {z.shape[1]} classes")
    names = (
        [readable(str(label_name)) for label_name in classes]
        if classes is not None
        else [f"class {c}" for c in range(z.shape[1])]
    )
    h = _features(features, len(z))
    z, y = z.astype(np.float32 if z.dtype.itemsize <= 4 else np.float64), y.astype(np.int64)
    progress("judging labels", 0.0)
    verdict = judge_labels(z, y, h, seed)
    findings = [
        wrong_labels(verdict, names, np.arange(len(z)), len(z), "the logits"),
        _noisy_classes(verdict.temperature, y, names),
        _calibration(z, verdict),
        *_in_space(z if h is None else h, progress, pd.Series([names[c] for c in y], name="label")),
        *_balance(y, names),
    ]
    present = tuple(finding for finding in findings if finding is not None)
    notes = (
        () if h is not None else ("No features were given, so odd rows and temperatures are computed from the logits.",)
    )
    return Audit("a classifier's outputs", len(z), "classification", "label", present, notes)


def _features(features: Any, rows: int) -> NDArray[np.floating] | None:
    if features is None:
        return None
    h = read_array(features, "features")
    if h.ndim != 2 or len(h) != rows or h.dtype.kind not in "fiub":
        raise ValueError(f"features must be numbers of the shape ({rows}, width), got {h.dtype} of {h.shape}")
    h = h.astype(np.float32 if h.dtype.itemsize <= 4 else np.float64)
    if not np.isfinite(h).all():
        raise ValueError("features hold NaN or infinities: clean them first")
    return h


def _balance(y: Index, classes: list[str]) -> list[Finding]:
    """How many rows each class has."""
    sentence, numbers, tables = balance(np.bincount(y, minlength=len(classes)), classes, "label")
    numbers = {"rows": len(y), **numbers}
    return [
        Finding("overview", "Overview", f"{counted(len(y), 'row')}.{sentence}", numbers=numbers, tables=tuple(tables))
    ]


def _in_space(x: NDArray[np.floating], progress: Progress, target: pd.Series[Any]) -> list[Finding | None]:
    """Odd rows, copies and what their order tells, among rows of numbers without names."""
    progress("looking for odd rows", 0.0)
    reduced = _leading(x)
    names = [f"direction {j}" for j in range(reduced.shape[1])]
    kinds: dict[str, Kind] = dict.fromkeys(names, "number")
    columns = Columns(kinds, pd.DataFrame(reduced, columns=names), ())
    twins = find_twins(columns, None)
    with_target = read_columns(columns.typed.iloc[:, :_ORDERED].assign(**{str(target.name): target.to_numpy()}))
    return [
        repeated_rows(columns, twins, None),
        odd_rows(columns, set(), twins.first, named=False),
        order(with_target, str(target.name)),
    ]


def _leading(x: NDArray[np.floating]) -> Array:
    """The rows along the directions in which they spread most."""
    centred: Array = np.subtract(x, x.mean(0), dtype=np.float64)
    if x.shape[1] <= _DIRECTIONS:
        return centred
    some = centred[np.random.RandomState(0).permutation(len(x))[:20_000]]
    directions = np.linalg.eigh(some.T @ some)[1][:, -_DIRECTIONS:]
    return np.asarray(centred @ directions[:, ::-1])


def _noisy_classes(temperature: Array, y: Index, classes: Sequence[str]) -> Finding:
    """The temperature by label: where it is high, the model is less sure than it looks."""
    relative = pd.Series(temperature / np.median(temperature)).groupby(y).agg(["mean", "size"])
    frame = pd.DataFrame({"temperature": relative["mean"], "rows": relative["size"]})
    frame.index = pd.Index([classes[int(c)] for c in frame.index], name="label")
    frame = frame.sort_values("temperature", ascending=False)
    worst = frame.iloc[0]
    flat = bool(frame["temperature"].max() < 1.02)
    return Finding(
        "noise",
        "Where labels are noisy",
        "The temperature is similar for all labels."
        if flat
        else f"The temperature is highest for {frame.index[0]}: {worst['temperature']:.2f} times the median.",
        numbers={"temperature": {str(k): round(float(v), 4) for k, v in frame["temperature"].items()}},
        tables=(Table(frame.head(12), "Predicted temperature by label, in units of the median.", digits=2),),
    )


def _calibration(logits: NDArray[np.floating], verdict: LabelVerdict) -> Finding:
    """Before: the model's own probabilities. After: those at the predicted temperatures, fitted to other rows."""
    some = np.random.RandomState(0).permutation(len(verdict.y))[:_SHOWN]
    labels = verdict.y[some]
    probabilities = np.exp(log_softmax(logits[some].astype(np.float64), axis=1)), verdict.expected(some)
    before, after = (
        {
            "ece": expected_calibration_error(labels, p),
            "nll": float(negative_log_likelihood(labels, p)),
            "brier": float(brier_score(labels, p)),
        }
        for p in probabilities
    )
    frame = pd.DataFrame([before, after], index=pd.Index(["before", "after recalibration"], name="predictions"))
    was, now = before["ece"], after["ece"]
    what = "After recalibration, the ECE (expected calibration error, the mean gap between confidence and accuracy)"
    caption = "On rows held out from both the model and the recalibration; lower is better."
    return Finding(
        "calibration",
        "Calibration of the model",
        f"{what} stays about the same: {was:.3f} before, {now:.3f} after."
        if was <= now < 1.1 * was
        else f"{what} {'falls' if now < was else 'rises'} from {was:.3f} to {now:.3f}.",
        numbers={"before": before, "after": after},
        tables=(Table(frame, caption, digits=3),),
        pictures=(partial(_reliability, labels, *probabilities),),
    )


@styled
def _reliability(y: Index, before: Array, after: Array) -> Picture:
    figure, axes = panel(4.6, 4.2)
    for p, name, colour in ((before, "before", SERIES[4]), (after, "after", SERIES[1])):
        ReliabilityDisplay.from_predictions(y, p, name=name, ax=axes, histogram=False, color=colour)
    return Picture(
        to_svg(figure),
        "Accuracy over confidence before and after recalibration",
        "On the dashed line, confidence equals accuracy.",
    )
