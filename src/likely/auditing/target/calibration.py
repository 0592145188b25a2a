"""How far to trust the predictions: calibration before and after a temperature or a scale per row."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from scipy.special import log_softmax
from torch.distributions import Normal

from likely._page import Picture, Table
from likely._page.svg import SERIES, panel, styled, to_svg
from likely._typing import Array, Index
from likely.auditing.results.finding import Finding
from likely.auditing.target.label_verdict import LabelVerdict
from likely.auditing.target.target_verdict import TargetVerdict
from likely.metrics import (
    brier_score,
    expected_calibration_error,
    miscalibration_area,
    negative_log_likelihood,
    pit_values,
)
from likely.plots import PITDisplay, ReliabilityDisplay

_SHOWN = 50_000  # rows that speak for all


def classifier_calibration(logits: NDArray[np.floating], verdict: LabelVerdict) -> Finding:
    """Before: the model's own probabilities. After: those at the predicted temperatures, fitted to other rows."""
    some = np.random.RandomState(0).permutation(len(verdict.y))[:_SHOWN]
    labels = verdict.y[some]
    probabilities = np.exp(log_softmax(logits[some].astype(np.float64), axis=1)), verdict.expected(some)
    numbers = [
        {
            "ece": expected_calibration_error(labels, p),
            "nll": float(negative_log_likelihood(labels, p)),
            "brier": float(brier_score(labels, p)),
        }
        for p in probabilities
    ]
    what = "ECE (expected calibration error, the mean gap between confidence and accuracy)"
    return _finding(numbers, "ece", what, partial(_reliability, labels, *probabilities))


def regressor_calibration(mean: Array, verdict: TargetVerdict) -> Finding:
    """Before: a normal with one scale for all rows. After: Student's t with a scale per row, fitted to other rows."""
    some = np.random.RandomState(0).permutation(len(mean))[:_SHOWN]
    targets = verdict.u[some]
    common_scale = torch.tensor(max(float(np.std(targets - mean[some])), 1e-12), dtype=torch.float64)
    forecasts = Normal(torch.as_tensor(mean[some]), common_scale), verdict.distribution(some)
    numbers = [
        {"area": miscalibration_area(targets, forecast), "nll": float(negative_log_likelihood(targets, forecast))}
        for forecast in forecasts
    ]
    what = "miscalibration area (the mean gap between nominal and observed coverage)"
    return _finding(numbers, "area", what, partial(_pit, *(pit_values(targets, forecast) for forecast in forecasts)))


def _finding(numbers: list[dict[str, float]], key: str, name: str, picture: Callable[[], Picture]) -> Finding:
    """What is told of two forecasts, before and after, by the number that matters most."""
    frame = pd.DataFrame(numbers, index=pd.Index(["before", "after recalibration"], name="predictions"))
    was, now = (of_forecast[key] for of_forecast in numbers)
    what = f"After recalibration, the {name}"
    return Finding(
        "calibration",
        "Calibration of the model",
        f"{what} stays about the same: {was:.3f} before, {now:.3f} after."
        if was <= now < 1.1 * was
        else f"{what} {'falls' if now < was else 'rises'} from {was:.3f} to {now:.3f}.",
        numbers=dict(zip(("before", "after"), numbers, strict=True)),
        tables=(
            Table(frame, "On rows held out from both the model and the recalibration; lower is better.", digits=3),
        ),
        pictures=(picture,),
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
        "Flat is calibrated; a hump means underconfident, a U overconfident.",
    )
