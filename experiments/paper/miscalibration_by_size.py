"""Figure 12: the calibration error of a regressor against the width of its hidden layer.

The paper does not say which synthetic set it used. Here it is Friedman's first, with more noise than signal to
memorise: 200 rows to learn from, 2000 to judge by.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import combinations
from typing import NamedTuple

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from sklearn.datasets import make_friedman1
from torch import Tensor

from experiments.entries.cores import one_thread
from experiments.entries.drawing import MUTED, PALETTE, panel, styled, to_svg
from experiments.entries.entry import Context, Result
from experiments.entries.parts import Picture, Table
from experiments.paper._comparison import Difference, paired
from experiments.paper._regressors import OFFSET, Regressors, predict, train
from likely.metrics import quantile_calibration_error

TRAINED, JUDGED, INPUTS = 200, 2000, 10
KINDS = {"one scale": False, "predicted scale": True}
COLOURS = {"one scale": PALETTE["blue"][0], "predicted scale": PALETTE["violet"][0]}
CAL, OVER, TRAIN, TEST = "CAL", "error / scale", "RMSE, training rows", "RMSE, test rows"
FLOOR = OFFSET / (math.log(2) + OFFSET)  # the least scale a network can say
MEASURES = (CAL, OVER, TRAIN, TEST)


class Effort(NamedTuple):
    """How much of it all to run; quick takes fewer, longer steps."""

    seeds: int
    widths: tuple[int, ...]
    steps: int
    rate: float


QUICK = Effort(3, (2, 8, 32, 128), 400, 1e-2)
FULL = Effort(10, (2, 4, 8, 16, 32, 64, 128, 256, 512), 3000, 1e-3)

Found = dict[str, NDArray[np.float64]]  # for each kind: (widths, seeds, measures)


@one_thread()
def run(context: Context) -> Result:
    """Train every width on several sets and judge it on rows it has not seen."""
    effort = QUICK if context.quick else FULL
    x, y = synthetic(range(context.seed, context.seed + effort.seeds))
    found: Found = {kind: np.zeros((len(effort.widths), effort.seeds, len(MEASURES))) for kind in KINDS}
    for kind, place in context.track([(kind, place) for kind in KINDS for place in range(len(effort.widths))]):
        width = effort.widths[place]
        generator = torch.Generator().manual_seed(context.seed)
        networks = Regressors(effort.seeds, INPUTS, width, predicted=KINDS[kind], generator=generator)
        train(networks, x[:, :TRAINED], y[:, :TRAINED], effort.steps, effort.rate)
        found[kind][place] = measure(networks, x, y)
    return Result(
        "not judged",
        describe(found, effort.widths),
        tables=(
            Table(
                summarise(found, effort.widths),
                f"Means over {effort.seeds} sets; ± is the standard error of CAL. Test rows unless said. `{OVER}` is "
                "the root mean square of residual over predicted scale: 1 is honest, more is overconfident. The paper "
                "prints a curve but no numbers.",
                {},
            ),
        ),
        pictures=(
            _picture(found, effort.widths, 0, "CAL by width", "CAL of the test rows", log=False),
            _picture(found, effort.widths, 1, "How overconfident", "residual / scale, root mean square", log=True),
        ),
    )


def synthetic(seeds: Sequence[int]) -> tuple[Tensor, Tensor]:
    """Friedman's first set, once a seed, standardised by its training rows: (seeds, rows, inputs) and (seeds, rows)."""
    sets = [make_friedman1(TRAINED + JUDGED, INPUTS, noise=1.0, random_state=seed) for seed in seeds]
    x, y = (torch.tensor(np.stack(part), dtype=torch.float32) for part in zip(*sets, strict=True))
    return _standardised(x), _standardised(y)


def _standardised(values: Tensor) -> Tensor:
    seen = values[:, :TRAINED]
    return (values - seen.mean(1, keepdim=True)) / seen.std(1, keepdim=True)


def measure(networks: Regressors, x: Tensor, y: Tensor) -> NDArray[np.float64]:
    """All measures of every network: (seeds, measures)."""
    mean, scale = predict(networks, x)
    error = y - mean
    rows = slice(TRAINED, None)
    cal = [quantile_calibration_error(y[i, rows], mean=mean[i, rows], scale=scale[i, rows]) for i in range(len(y))]
    roots = [values.square().mean(1).sqrt() for values in (error[:, rows] / scale[:, rows], error[:, :TRAINED])]
    return np.stack([cal, *roots, error[:, rows].square().mean(1).sqrt()], axis=1)


def summarise(found: Found, widths: Sequence[int]) -> pd.DataFrame:
    """A row for each kind and width."""
    rows = {}
    for kind, values in found.items():
        for width, own in zip(widths, values, strict=True):
            error = own[:, 0].std(ddof=1) / np.sqrt(len(own))
            mean = own.mean(0)
            rows[kind, f"{width}"] = (mean[0], error, *mean[1:])
    frame = pd.DataFrame.from_dict(rows, orient="index", columns=[CAL, "±", *MEASURES[1:]])
    frame.index = pd.MultiIndex.from_tuples(rows, names=["scale", "width"])
    return frame


def describe(found: Found, widths: Sequence[int]) -> str:
    """By paired differences over sets: the widest against the narrowest, and where growth ends in between."""
    rises = {kind: _between(values, 0, -1) for kind, values in found.items()}
    falls = {kind: _falls(values) for kind, values in found.items()}
    honest = {kind: values[-1, :, 1].mean() > 1 for kind, values in found.items()}
    grown = [kind for kind in found if rises[kind].sign > 0 and honest[kind]]
    sentences = [
        f"From width {widths[0]} to {widths[-1]} CAL changes by {rises[kind]} with {kind}, and residuals become "
        f"{values[0, :, 1].mean():.1f} to {values[-1, :, 1].mean():.1f} times what the network says."
        for kind, values in found.items()
    ]
    for kind in grown:
        if (fall := falls[kind]) is not None:
            low, high, difference = fall
            train_error, test_error = found[kind][low, :, 2].mean(), found[kind][[low, high], :, 3].mean(1)
            sentences.append(
                f"With {kind} the growth ends: from width {widths[low]} to {widths[high]} CAL falls again, by "
                f"{difference}; the RMSE is {train_error:.3f} on the training rows by then, where the floor of the "
                f"scale is {FLOOR:.3f}, and goes from {test_error[0]:.2f} to {test_error[1]:.2f} on the test rows."
            )
    return " ".join(sentences)


def _between(values: NDArray[np.float64], low: int, high: int) -> Difference:
    # Each seed has a set of its own, so the differences are independent.
    return paired(values[high, :, 0], values[low, :, 0], test_per_train=0)


def _falls(values: NDArray[np.float64]) -> tuple[int, int, Difference] | None:
    """The deepest clear fall of CAL from a width to a greater one."""
    pairs = [(low, high, _between(values, low, high)) for low, high in combinations(range(len(values)), 2)]
    clear = [pair for pair in pairs if pair[2].sign < 0]
    return min(clear, key=lambda pair: pair[2].mean) if clear else None


@styled
def _picture(found: Found, widths: Sequence[int], which: int, title: str, label: str, *, log: bool) -> Picture:
    figure, axes = panel(height=3.2)
    for kind, values in found.items():
        mean, error = values[:, :, which].mean(1), values[:, :, which].std(1, ddof=1) / np.sqrt(values.shape[1])
        axes.fill_between(widths, mean - 2 * error, mean + 2 * error, color=COLOURS[kind], alpha=0.15, linewidth=0)
        axes.plot(widths, mean, color=COLOURS[kind], label=kind, marker="o", markersize=4)
    if log:
        axes.axhline(1, color=MUTED, linestyle=":", linewidth=1.2)
        axes.set_yscale("log")
        axes.yaxis.set_major_formatter("{x:g}")
    else:
        axes.set_ylim(bottom=0)
    axes.set_xscale("log", base=2)
    axes.set_xticks(list(widths), [f"{width}" for width in widths])
    axes.set_title(title)
    axes.set_xlabel("units in the hidden layer")
    axes.set_ylabel(label)
    axes.legend(loc="best")
    ends = ", ".join(f"{kind} {v[0, :, which].mean():.2f} to {v[-1, :, which].mean():.2f}" for kind, v in found.items())
    return Picture(
        to_svg(figure),
        f"{label} against the width of the hidden layer, from the narrowest to the widest: {ends}.",
        "Mean and two standard errors over sets." + (" The dotted line is an honest scale." if log else ""),
    )
