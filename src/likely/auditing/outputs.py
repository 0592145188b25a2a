"""The audit of a classifier's outputs on rows it was not trained on."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import log_softmax
from sklearn.decomposition import PCA

from likely._page import Table
from likely._rows.reading.read_table import read_array
from likely._rows.reading.table import counted, readable
from likely._typing import Floats, Values
from likely.auditing.checks.copies import find_twins, repeated_rows
from likely.auditing.checks.overview import balance
from likely.auditing.columns.kinds import Columns
from likely.auditing.odd_rows.odd_rows import odd_rows
from likely.auditing.results.audit import Audit, Progress
from likely.auditing.results.finding import Finding
from likely.auditing.target.label_verdict import LabelVerdict, judge_labels
from likely.auditing.target.wrong_targets import wrong_labels
from likely.metrics import brier_score, expected_calibration_error, negative_log_likelihood

_DIRECTIONS = 50  # of the features, along which odd rows and copies are looked for
_SHOWN = 50_000  # rows that speak for the calibration of all
_FITTED = 20_000  # rows, about, that tell the directions


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
    y, z = read_array(labels, "labels"), _matrix(_bounded(logits), "logits", "(rows, classes)")
    n, width = z.shape
    if width < 2:
        raise ValueError(f"logits must be numbers of the shape (rows, classes), got {z.dtype} of {z.shape}")
    if n < 20:
        raise ValueError(f"there are {n} rows of logits: 20 or more are needed")
    if y.shape != (n,):
        raise ValueError(f"labels must hold one class per row, shape ({n},); got {y.shape}")
    if y.dtype.kind not in "fiub" or y.min() < 0 or y.max() >= width or not np.array_equal(y, np.round(y)):
        raise ValueError(f"labels must be class numbers from 0 to {width - 1}")
    names = [f"class {c}" for c in range(width)] if classes is None else [readable(str(name)) for name in classes]
    if len(names) != width:
        raise ValueError(f"there are {len(names)} class names for {width} classes")
    h = None if features is None else _matrix(features, "features", f"({n}, width)", n)
    y = y.astype(np.int64)
    progress("judging labels", 0.0)
    verdict = judge_labels(z, y, z if h is None else h, seed)
    progress("looking for odd rows", 0.0)
    columns = _directions(z if h is None else h)
    twins = find_twins(columns, None)
    sentence, numbers, tables = balance(np.bincount(y, minlength=width), names, "label")
    overview = f"{counted(n, 'row')}.{sentence}"
    findings = [
        Finding("overview", "Overview", overview, numbers={"rows": n, **numbers}, tables=tuple(tables)),
        wrong_labels(verdict, names, np.arange(n), n, "the logits"),
        _calibration(z, verdict),
        repeated_rows(columns, twins, None),
        odd_rows(columns, set(), twins.first, named=False),
    ]
    present = tuple(finding for finding in findings if finding is not None)
    note = "No features were given, so odd rows and temperatures are computed from the logits."
    return Audit("a classifier's outputs", n, "classification", "label", present, () if h is not None else (note,))


def _bounded(source: Any) -> Values:
    """Logits of which none is minus infinity, the logarithm of a forest's zeros: these are one below all others."""
    logits = read_array(source, "logits")
    impossible = np.isneginf(logits) if logits.dtype.kind == "f" else np.zeros(logits.shape, bool)
    return logits if not impossible.any() else np.where(impossible, logits[~impossible].min(initial=0.0) - 1, logits)


def _matrix(source: Any, name: str, shape: str, rows: int | None = None) -> Floats:
    """Numbers with a row per row of the data, in their precision."""
    values = read_array(source, name)
    if values.ndim != 2 or len(values) != (rows or len(values)) or values.dtype.kind not in "fiub":
        raise ValueError(f"{name} must be numbers of the shape {shape}, got {values.dtype} of {values.shape}")
    if not np.isfinite(values).all():
        raise ValueError(f"{name} hold NaN or infinities: clean them first")
    return values.astype(np.float32 if values.dtype.itemsize <= 4 else np.float64)


def _directions(x: Floats) -> Columns:
    """The rows along the directions in which they spread most, as columns without names."""
    x = x - x.mean(0, dtype=np.float64)
    if x.shape[1] > _DIRECTIONS:
        x = PCA(_DIRECTIONS, svd_solver="covariance_eigh").fit(x[:: max(1, len(x) // _FITTED)]).transform(x)
    names = [f"direction {j}" for j in range(x.shape[1])]
    return Columns(dict.fromkeys(names, "number"), pd.DataFrame(x, columns=names), ())


def _calibration(logits: Floats, verdict: LabelVerdict) -> Finding:
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
    what = "After recalibration, the ECE (expected calibration error, the mean gap between confidence and accuracy)"
    caption = "On rows held out from both the model and the recalibration; lower is better."
    return Finding(
        "calibration",
        "Calibration of the model",
        f"{what} is {after['ece']:.3f}, before it {before['ece']:.3f}.",
        numbers={"before": before, "after": after},
        tables=(Table(frame, caption, digits=3),),
    )
