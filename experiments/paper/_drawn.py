"""Pictures of a stored run, drawn from the numbers of its tables, for entries whose own picture is not stored."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from experiments.entries.drawing import MUTED, PALETTE, styled, to_svg
from experiments.entries.entry import Result
from experiments.entries.parts import Picture
from experiments.paper._headlines.row import Numbers

FROM = "Drawn from the stored table."
Values = Mapping[str, Sequence[float] | pd.Series]


def drawn(name: str, result: Result) -> Picture | None:
    """The picture of an entry, or None where its tables do not make one."""
    numbers = Numbers(result)
    if name.startswith("robust-regression-"):
        return _regressors(numbers)
    draw = {
        "outlier-detection": _medians,
        "outlier-distribution": _boxes,
        "classifier-calibration": _classifiers,
        "regressor-calibration": _recalibrated,
        "robust-regression": _lines,
        "conditioning-cost": _step_times,
        "miscalibration-by-size": _widths,
        "offset-stability": _offsets,
        "adaptive-regularization": _sparsities,
    }.get(name)
    return draw(numbers) if draw else None


def _regressors(numbers: Numbers) -> Picture:
    """The calibration error on each set."""
    here, paper = numbers.rows("here", 1), numbers.rows("paper", 1)
    dots = {"base, σ fitted": here["base, σ fitted"], "to the letter (temp)": here["temp"], "ours": here["ours"]}
    caption = f"CAL on each set, mean over splits; left is better. {FROM}"
    return _dots(list(here.index), dots, {"paper (temp)": paper["temp"].clip(lower=5e-4)}, "CAL", caption, log=True)


def _medians(numbers: Numbers) -> Picture:
    """The median AUC of each detector."""
    frame = numbers.frames[0].iloc[::-1]
    own = [str(name).startswith(("PCA+S", "AE+S")) or str(name).endswith("Detector") for name in frame.index]
    letter = [name in ("PCA+S", "AE+S") for name in frame.index]
    median = frame["median AUC"]
    dots = {
        "rivals": median.where(~np.array(own)),
        "to the letter": median.where(letter),
        "ours": median.where(np.array(own) & ~np.array(letter)),
    }
    caption = f"Median AUC over sets, ± the standard deviation over seeds; right is better. {FROM}"
    errors = dict.fromkeys(dots, frame["±"].fillna(0.0))
    return _dots(list(frame.index), dots, {"paper": frame["paper"]}, "median AUC", caption, errors=errors)


def _classifiers(numbers: Numbers) -> Picture:
    """The ECE of each network less that of one temperature."""
    return _differences(numbers.frames[3][["VS", "LS", "LFS"]], "ECE")


def _recalibrated(numbers: Numbers) -> Picture:
    """The CAL of each set less that of one scale."""
    return _differences(numbers.frames[3][["Isotonic", "LS", "DS"]], "CAL")


def _lines(numbers: Numbers) -> Picture:
    """The slope error by kind of outlier."""
    frame = numbers.frames[1].T
    dots = {
        "RANSAC": frame["RANSAC"],
        "to the letter (MPLS-XY)": frame["MPLS-XY"],
        "ours (two scales)": frame["two scales (ours)"],
    }
    caption = f"Median absolute error of the slope by kind of outlier; left is better. {FROM}"
    return _dots(list(frame.index), dots, {"least squares": frame["LS"]}, "slope error", caption, log=True)


def _step_times(numbers: Numbers) -> Picture:
    """The step times of the three kinds."""
    frame = numbers.frames[0]
    cells = {column: [_parted(text) for text in frame[column]] for column in ("loss alone", "in training")}
    dots = {column: [value for value, _ in parts] for column, parts in cells.items()}
    errors = {column: [error for _, error in parts] for column, parts in cells.items()}
    caption = f"Time of a step relative to the squared error's, ± half the distance of the quartiles. {FROM}"
    return _dots(list(frame.index), dots, {}, "times the squared error's step", caption, errors=errors, log=True)


def _widths(numbers: Numbers) -> Picture:
    """The calibration error by width."""
    frame = numbers.frames[0]
    dots = {kind: frame.loc[kind, "CAL"] for kind in ("one scale", "predicted scale")}
    errors = {kind: 2 * frame.loc[kind, "±"] for kind in dots}
    labels = [f"width {width}" for width in dots["one scale"].index]
    return _dots(labels, dots, {}, "CAL", f"CAL by width, ± two standard errors. {FROM}", errors=errors)


def _offsets(numbers: Numbers) -> Picture:
    """How many runs diverged with each map."""
    frame = numbers.frames[1]
    return _dots(
        list(frame.index),
        dict(frame.items()),
        {},
        "runs that diverged",
        f"Runs that diverged, of 8, by learning rate. {FROM}",
    )


def _sparsities(numbers: Numbers) -> Picture:
    """The error by the share of weights that are not zero."""
    frame = numbers.frames[1]
    dots = {name: frame[name] for name in ("best single strength", "Multi Lasso", "spike and slab")}
    labels = [f"{share} not zero" for share in frame.index]
    rings = {"Dynamic Lasso": frame["Dynamic Lasso"]}
    return _dots(
        labels, dots, rings, "error over |w|", f"Error by sparsity, medians over seeds; left is better. {FROM}"
    )


def _differences(frame: pd.DataFrame, measure: str) -> Picture:
    parted = {column: [_parted(text) for text in frame[column]] for column in frame}
    dots = {column: [value for value, _ in cells] for column, cells in parted.items()}
    errors = {column: [2 * error for _, error in cells] for column, cells in parted.items()}
    caption = f"{measure}: the paired difference to GS and two standard errors; left of the line is better. {FROM}"
    return _dots(list(frame.index), dots, {}, f"{measure} less that of GS", caption, errors=errors, zero=True)


def _parted(text: str) -> tuple[float, float]:
    """The two numbers of a text such as −0.0021 ± 0.0069."""
    value, _, error = text.replace("−", "-").partition(" ± ")
    return (float(value), float(error)) if error else (np.nan, np.nan)


@styled
def _boxes(numbers: Numbers) -> Picture:
    """The quartiles and the range of each detector over sets."""
    frame = numbers.frames[0].iloc[::-1]
    figure = Figure(figsize=(4.8, 0.8 + 0.21 * len(frame)), layout="constrained")
    axes = figure.subplots()
    for place, (name, of) in enumerate(frame.iterrows()):
        own = str(name) in ("PCA+S", "AE+S")
        colour = PALETTE["violet"][0] if own else PALETTE["blue"][0] if "ours" in str(name) else MUTED
        axes.plot([of["min"], of["max"]], [-place, -place], color=colour, linewidth=0.8)
        axes.plot(
            [of["25%"], of["75%"]], [-place, -place], color=colour, linewidth=6, solid_capstyle="butt", alpha=0.55
        )
        axes.plot(of["50%"], -place, "o", color=colour, markersize=4)
    axes.set_yticks([-place for place in range(len(frame))], [str(name) for name in frame.index])
    axes.set_xlabel("AUC")
    alt = f"The AUC of {len(frame)} detectors over the sets: range, quartiles and median."
    caption = "Range, quartiles (bar) and median (dot) of the AUC over sets; violet: to the letter, blue: ours. " + FROM
    return Picture(to_svg(figure), alt, caption)


@styled
def _dots(
    labels: Sequence[object],
    dots: Values,
    rings: Values,
    axis: str,
    caption: str,
    *,
    errors: Values | None = None,
    log: bool = False,
    zero: bool = False,
) -> Picture:
    """A row for each label, a coloured dot for each series, and a ring for what the paper prints."""
    figure = Figure(figsize=(4.8, 1.0 + 0.27 * len(labels)), layout="constrained")
    axes = figure.subplots()
    apart = not any(np.isnan(np.asarray(values, float)).any() for values in dots.values()) or zero
    heights = np.linspace(0.24, -0.24, len(dots)) if apart else np.zeros(len(dots))
    colours = (MUTED, PALETTE["violet"][0], PALETTE["blue"][0])
    places = -np.arange(len(labels), dtype=float)
    for (name, values), height, colour in zip(dots.items(), heights, colours, strict=False):
        bars = None if errors is None else np.asarray(errors[name], float)
        axes.errorbar(
            np.asarray(values, float),
            places + height,
            xerr=bars,
            fmt="o",
            color=colour,
            label=name,
            markersize=4,
            linewidth=1.2,
        )
    for name, values in rings.items():
        axes.plot(
            np.asarray(values, float), places, "o", color=PALETTE["gold"][0], fillstyle="none", markersize=8, label=name
        )
    if zero:
        axes.axvline(0, color=MUTED, linewidth=1.2)
    if log:
        axes.set_xscale("log")
    axes.set_yticks(places, [str(label) for label in labels])
    axes.set_ylim(places[-1] - 0.5, 0.5)
    axes.set_xlabel(axis)
    figure.legend(loc="outside upper center", ncols=2, columnspacing=1.2, handletextpad=0.2)
    alt = f"{axis} for each of {len(labels)} rows: {', '.join([*dots, *rings])}."
    return Picture(to_svg(figure), alt, caption)
