"""How far to trust the predictions: calibration before and after a temperature or a scale a row."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.special import log_softmax

from likely._page import Picture, Table
from likely._page.svg import SERIES, panel, styled, to_svg
from likely._typing import Array
from likely.auditing._finding import Finding
from likely.auditing._wrong_labels import LabelVerdict
from likely.auditing._wrong_targets import TargetVerdict
from likely.metrics import (
    brier_score,
    expected_calibration_error,
    miscalibration_area,
    negative_log_likelihood,
    pit_values,
)
from likely.plots import PITDisplay, ReliabilityDisplay

_SHOWN = 50_000  # rows that speak for all


def classifier_calibration(logits: NDArray[np.floating], y: NDArray[np.int64], verdict: LabelVerdict) -> Finding:
    """Before: the model's own probabilities. After: those at the predicted temperatures, fitted to other rows."""
    some = np.random.RandomState(0).permutation(len(y))[:_SHOWN]
    labels = y[some]
    before = np.exp(log_softmax(logits[some].astype(np.float64), axis=1))
    after = verdict.expected(some)
    numbers = {
        name: {
            "ece": expected_calibration_error(labels, p),
            "nll": float(negative_log_likelihood(labels, p)),
            "brier": float(brier_score(labels, p)),
        }
        for name, p in (("before", before), ("after", after))
    }
    return _finding(
        numbers, "ece", "ECE", partial(_reliability, labels, before, after), "the mean gap of confidence and accuracy"
    )


def regressor_calibration(mean: Array, u: Array, verdict: TargetVerdict) -> Finding:
    """Before: a normal with one scale for all rows. After: Student's t with a scale a row, fitted to other rows."""
    some = np.random.RandomState(0).permutation(len(u))[:_SHOWN]
    one = np.full(len(some), max(float(np.std((u - mean)[some])), 1e-12))
    distribution = verdict.distribution(some)
    numbers = {
        "before": {
            "area": miscalibration_area(u[some], mean=mean[some], scale=one),
            "nll": float(negative_log_likelihood(u[some], mean=mean[some], scale=one)),
        },
        "after": {
            "area": miscalibration_area(u[some], distribution),
            "nll": float(negative_log_likelihood(u[some], distribution)),
        },
    }
    levels = pit_values(u[some], mean=mean[some], scale=one), pit_values(u[some], distribution)
    return _finding(
        numbers, "area", "miscalibration area", partial(_pit, *levels), "promised and observed coverage, apart"
    )


def _finding(
    numbers: dict[str, dict[str, float]], key: str, name: str, picture: Callable[[], Picture], meaning: str
) -> Finding:
    frame = pd.DataFrame(numbers).T
    frame.index = pd.Index(["before", "after recalibration"], name="predictions")
    was, now = numbers["before"][key], numbers["after"][key]
    change = "falls" if now < was else "rises"
    what = f"Recalibrated row by row, the {name} ({meaning})"
    same = was <= now < 1.1 * was
    return Finding(
        "calibration",
        "How sure the model should be",
        f"{what} stays about the same: {was:.3f} before, {now:.3f} after."
        if same
        else f"{what} {change} from {was:.3f} to {now:.3f}.",
        numbers=numbers,
        tables=(Table(frame, "On rows held out from both the model and the recalibration; less is better.", digits=3),),
        pictures=(picture,),
    )


@styled
def _reliability(y: NDArray[np.int64], before: Array, after: Array) -> Picture:
    figure, axes = panel(4.6, 4.2)
    for p, name, colour in ((before, "before", SERIES[4]), (after, "after", SERIES[1])):
        ReliabilityDisplay.from_predictions(y, p, name=name, ax=axes, histogram=False, color=colour)
    return Picture(
        to_svg(figure),
        "Accuracy over confidence before and after recalibration",
        "On the dashed line, confidence is right.",
    )


@styled
def _pit(before: Array, after: Array) -> Picture:
    figure, axes = panel(4.6, 3.2)
    PITDisplay(before, name="before").plot(axes, color=SERIES[4], alpha=0.35)
    PITDisplay(after, name="after").plot(axes, color=SERIES[1], alpha=0.6)
    handles = dict(zip(*axes.get_legend_handles_labels()[::-1], strict=True))  # the band is drawn twice
    axes.legend(handles.values(), handles.keys(), loc="upper center", ncols=2)
    return Picture(
        to_svg(figure),
        "Histogram of the levels at which targets fell",
        "Flat is calibrated; a hump means too unsure, a U too sure.",
    )
