"""Figure 13: learning curves of a predicted temperature for several maps from the real line to temperatures.

The paper recalibrates a ResNet-50 on CIFAR-100. The full run does so too where the outputs of one are in the data
folder. Else a small network memorises 200 of scikit-learn's digits, and a temperature is predicted from its hidden
layer on 700 others: the same ingredients, on data that is always at hand.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator
from numpy.typing import NDArray
from sklearn.datasets import load_digits
from torch import Tensor, nn
from torch.distributions.transforms import ExpTransform, Transform

from experiments.data import list_logits, load_logits
from experiments.entries.cores import one_thread
from experiments.entries.drawing import INK, MUTED, PALETTE, panel, styled, to_svg
from experiments.entries.entry import Context, Result
from experiments.entries.parts import Picture, Table
from experiments.paper._fit import descend
from likely import paper
from likely.constraints import ShiftedSoftplus
from likely.functional import softmax_nll
from likely.losses import SoftmaxLoss
from likely.parameters import Global, Predicted

MAPS: dict[str, Transform] = {
    "exp": ExpTransform(),  # ours has a floor
    "offset 0": ShiftedSoftplus(0.0),
    "offset 0.01": ShiftedSoftplus(0.01),
    "offset 0.05": ShiftedSoftplus(0.05),
    "offset 0.2": ShiftedSoftplus(0.2),
}
COLOURS = dict(zip(MAPS, (PALETTE[name][0] for name in ("red", "gold", "green", "blue", "violet")), strict=True))
WITHOUT = "offset 0"
PAPERS_CHOICE = "offset 0.2"
GLOBAL = "one temperature (GS)"
SHOWN_RATE = 0.1
NETWORK = "cifar100_resnet50"


class Effort(NamedTuple):
    """How much of it all to run."""

    seeds: int
    steps: int
    rates: tuple[float, ...]


QUICK, FULL = Effort(5, 100, (0.03, SHOWN_RATE)), Effort(10, 300, (0.01, 0.03, SHOWN_RATE, 0.3))
REAL = Effort(8, 300, (SHOWN_RATE, 0.3))
TRAINED, CALIBRATED, HIDDEN, BATCH, EVERY = 200, 700, 64, 64, 10

# (seeds, evaluations, 3): the NLL on the calibration rows, on the test rows, and the lowest temperature of the former
Curves = NDArray[np.float64]


@dataclass(frozen=True)
class Task:
    """What recalibration starts from: hidden features, logits and labels of rows the network has not seen.

    The first ``calibrated`` of them are fitted to, the others test.
    """

    features: Tensor
    logits: Tensor
    labels: Tensor
    calibrated: int

    @property
    def parts(self) -> tuple[slice, slice]:
        """The calibration rows and the test rows."""
        return slice(None, self.calibrated), slice(self.calibrated, None)


@one_thread()
def run(context: Context) -> Result:
    """Fit a predicted temperature through each map, at each learning rate, for several seeds."""
    make, (count, steps, rates), about = source(context)
    seeds = range(context.seed, context.seed + count)
    work = [(seed, rate, name) for seed in seeds for rate in rates for name in MAPS]
    tasks: dict[int, Task] = {}
    curves: dict[tuple[float, str], list[Curves]] = {(rate, name): [] for rate in rates for name in MAPS}
    for seed, rate, name in context.track(work):
        if seed not in tasks:
            tasks[seed] = make(seed)
        curves[rate, name].append(calibrate(tasks[seed], MAPS[name], rate, steps, seed))
    stacked = {key: np.stack(found) for key, found in curves.items()}
    plain = np.array([uncalibrated(task) for task in tasks.values()])
    fitted = np.array([global_scaling(task) for task in tasks.values()])
    shown = {name: stacked[SHOWN_RATE, name] for name in MAPS}
    summary = summarise(shown, plain, fitted)
    failures = pd.DataFrame({f"lr {r:g}": {n: diverged(stacked[r, n], plain).sum() for n in MAPS} for r in rates})
    failures.index.name = "temperature"
    notes = describe(summary, failures / count)
    return Result(
        "not judged",
        f"{about} {notes}",
        tables=(
            Table(
                summary,
                f"After {steps} steps of Adam at learning rate {SHOWN_RATE:g}: medians over seeds; the spread is the "
                "distance of the quartiles of the test NLL. Steps are counted until the median calibration NLL stays "
                "below the uncalibrated one. A run has diverged when it ends above the uncalibrated NLL or is no "
                f"longer finite. Rates are for {HIDDEN} features, and for d features {HIDDEN}/d of that, by which a "
                "step moves a temperature as far. The paper prints curves but no numbers.",
                {"calibration NLL": "lower", "test NLL": "lower", "steps": "lower", "diverged": "lower"},
            ),
            Table(
                failures,
                f"Runs that diverged, of {count}, by learning rate.",
                {f"lr {rate:g}": "lower" for rate in rates},
            ),
        ),
        pictures=(_maps(), _lowest(shown), _curves(shown, plain, fitted, 0), _curves(shown, plain, fitted, 1)),
    )


def source(context: Context) -> tuple[Callable[[int], Task], Effort, str]:
    """How to get a seed's task, how much of it to run, and what to say of it."""
    data = context.data
    if context.quick or data is None or NETWORK not in list_logits(data):
        effort = QUICK if context.quick else FULL
        return overtrained, effort, f"The network memorised {TRAINED} of scikit-learn's digits, others for each seed."

    @cache
    def stored() -> Task:
        found = load_logits(NETWORK, data).described
        order = np.argsort(~found.calibration, kind="stable")
        assert found.features is not None
        features, logits, labels = (torch.from_numpy(a[order]) for a in (found.features, found.logits, found.labels))
        return Task(features, logits, labels, int(found.calibration.sum()))

    return lambda seed: stored(), REAL, "The network is the paper's: a ResNet-50 trained on CIFAR-100."


def overtrained(seed: int) -> Task:
    """A network that has memorised a few digits, seen through the rows it was not shown."""
    torch.manual_seed(seed)
    pixels, digits = load_digits(return_X_y=True)
    images, labels = torch.tensor(pixels / 16, dtype=torch.float32), torch.tensor(digits)
    order = torch.randperm(len(labels))
    train, rest = order[:TRAINED], order[TRAINED:]
    body, head = nn.Sequential(nn.Linear(64, HIDDEN), nn.ReLU()), nn.Linear(HIDDEN, 10)
    optimizer = torch.optim.Adam([*body.parameters(), *head.parameters()], lr=0.01)
    for _ in range(500):
        optimizer.zero_grad()
        nn.functional.cross_entropy(head(body(images[train])), labels[train]).backward()
        optimizer.step()
    with torch.no_grad():
        features = body(images[rest])
        return Task(features, head(features), labels[rest], CALIBRATED)


def calibrate(task: Task, constraint: Transform, rate: float, steps: int, seed: int) -> Curves:
    """One seed's curves, every few steps, while a temperature predicted from the features is learned."""
    torch.manual_seed(seed)
    temperature = Predicted(task.features.shape[1], init=1.0, constraint=constraint, **paper.NETWORK)
    # No checks of values here: a temperature that reaches zero is what this experiment is about.
    loss_fn = SoftmaxLoss(temperature, validate_args=False)
    # Adam moves every weight by the rate, and so the temperature by the rate times the number of features.
    optimizer = torch.optim.Adam(loss_fn.parameters(), lr=rate * HIDDEN / task.features.shape[1])
    curve = [evaluate(temperature, task)]
    for step in range(1, steps + 1):
        rows = torch.randint(task.calibrated, (BATCH,))
        optimizer.zero_grad()
        loss_fn(task.logits[rows], task.labels[rows], features=task.features[rows]).backward()
        optimizer.step()
        if step % EVERY == 0:
            curve.append(evaluate(temperature, task))
    return np.array(curve)


@torch.no_grad()
def evaluate(temperature: Predicted, task: Task) -> list[float]:
    """The NLL on both parts, infinite where it is no number, and the lowest temperature on the first."""
    temperature.eval()
    found = temperature(features=task.features)
    temperature.train()
    nll = [
        float(softmax_nll(task.logits[part], task.labels[part], temperature=found[part], validate_args=False))
        for part in task.parts
    ]
    return [*(value if np.isfinite(value) else np.inf for value in nll), float(found[task.parts[0]].min())]


def uncalibrated(task: Task) -> list[float]:
    """The NLL on both parts at temperature 1."""
    return [float(nn.functional.cross_entropy(task.logits[part], task.labels[part])) for part in task.parts]


def global_scaling(task: Task) -> list[float]:
    """The NLL on both parts after fitting one temperature on the first."""
    loss_fn = SoftmaxLoss(Global(**paper.TEMPERATURE))
    logits = task.logits.double()
    fit, test = task.parts
    best = descend(loss_fn, logits[fit], task.labels[fit])
    with torch.no_grad():
        return [best, float(loss_fn(logits[test], task.labels[test]))]


def diverged(curves: Curves, plain: Curves) -> NDArray[np.bool_]:
    """Which runs end above the uncalibrated NLL of the rows they were fitted on."""
    return ~(curves[:, -1, 0] <= plain[:, 0])


def summarise(shown: Mapping[str, Curves], plain: Curves, fitted: Curves) -> pd.DataFrame:
    """A row for each map, after one for the baseline."""
    columns = ("calibration NLL", "test NLL", "spread", "test − GS", "steps", "diverged", "seeds")
    base = np.median(fitted, axis=0)
    quartiles = np.quantile(fitted[:, 1], [0.25, 0.75])
    rows = {GLOBAL: (base[0], base[1], float(np.ptp(quartiles)), 0.0, np.nan, 0, len(fitted))}
    for name, curves in shown.items():
        calibration, test = np.median(curves[:, -1, :2], axis=0)
        low, high = np.quantile(curves[:, -1, 1], [0.25, 0.75], method="nearest")
        spread = high - low if np.isfinite(high) else np.inf
        failed = int(diverged(curves, plain).sum())
        rows[name] = (calibration, test, spread, test - base[1], steps_needed(curves, plain), failed, len(curves))
    frame = pd.DataFrame.from_dict(rows, orient="index", columns=columns)
    frame.index.name = "temperature"
    return frame


def steps_needed(curves: Curves, plain: Curves) -> float:
    """Steps until the median calibration NLL is below the uncalibrated one and stays there; inf if it never is."""
    above = np.median(curves[:, :, 0], axis=0) > np.median(plain[:, 0])
    if above[-1]:
        return np.inf
    return float(EVERY * (np.flatnonzero(above)[-1] + 1)) if above.any() else 0.0


def describe(summary: pd.DataFrame, failures: pd.DataFrame) -> str:
    """How often runs diverged at each rate, how many steps they took, and what they are worth on test rows."""
    steps = summary["steps"]
    gap = summary.loc[PAPERS_CHOICE, "test − GS"]
    taken = ", ".join(f"{_count(steps[name])} with {name}" for name in (WITHOUT, PAPERS_CHOICE, "exp"))
    return (
        f"{_divergence(failures)} Steps until the NLL stays below the uncalibrated one, at learning rate "
        f"{SHOWN_RATE:g}: {taken}. The offset buys stability, not skill: on the test rows the temperature predicted "
        f"with {PAPERS_CHOICE} ends {abs(gap):.3f} nats {'above' if gap > 0 else 'below'} a single fitted temperature."
    )


def _divergence(failures: pd.DataFrame) -> str:
    """What share of the runs diverged at every rate, where some did."""
    calm, sentences = [], []
    for column, shares in failures.items():
        rate = str(column).removeprefix("lr ")
        if shares.any():
            told = ", ".join(f"{share:.0%} with {name}" for name, share in shares.items())
            sentences.append(f"At learning rate {rate} there diverged {told}.")
        else:
            calm.append(rate)
    if calm:
        sentences.append(f"At {' and '.join(calm)} no run did, whatever the map.")
    return " ".join(sentences)


def _count(steps: float) -> str:
    return f"{steps:.0f}" if np.isfinite(steps) else "never"


@styled
def _maps() -> Picture:
    raw = torch.linspace(-8, 4, 200)
    figure, axes = panel(height=3.3)
    for name, constraint in MAPS.items():
        axes.plot(raw, constraint(raw), **_line(name))
    axes.set_yscale("log")
    axes.set_ylim(1e-3, 30)
    _finish(axes, "From the real line to a temperature", "raw value", "temperature")
    return Picture(
        to_svg(figure),
        "Five increasing curves through (0, 1). Exp and offset 0 fall to zero on the left; the others reach a floor.",
        "The offset is a floor: a temperature cannot fall below s / (log 2 + s), so a step too far cannot blow the "
        "logits up. Upwards exp runs away where the softplus grows linearly.",
    )


@styled
def _lowest(shown: Mapping[str, Curves]) -> Picture:
    figure, axes = panel(height=3.3)
    for name, curves in shown.items():
        lowest = np.median(np.nan_to_num(curves[:, :, 2]), axis=0)
        axes.plot(EVERY * np.arange(len(lowest)), lowest.clip(min=1e-12), **_line(name))
    axes.set_yscale("log")
    axes.set_ylim(1e-9, 3)
    _finish(axes, "How low the temperature gets", "step", "lowest temperature")
    return Picture(
        to_svg(figure),
        "The lowest temperature of the calibration rows against the step; without an offset it falls by many orders.",
        "The lowest temperature of any calibration row, median over seeds. One row that comes out cold and wrong is "
        "enough: its NLL grows as one over its temperature.",
    )


@styled
def _curves(shown: Mapping[str, Curves], plain: Curves, fitted: Curves, part: int) -> Picture:
    where = ("calibration", "test")[part]
    figure, axes = panel(height=3.5)
    for name, curves in shown.items():
        steps = EVERY * np.arange(curves.shape[1])
        # Far off the scale stands for infinity, to which no band could be drawn.
        low, middle, high = (
            np.quantile(curves[:, :, part], q, axis=0, method="nearest").clip(max=1e3) for q in (0.25, 0.5, 0.75)
        )
        axes.fill_between(steps, low, high, color=COLOURS[name], alpha=0.15, linewidth=0)
        axes.plot(steps, middle, **_line(name))
    axes.axhline(np.median(plain[:, part]), color=MUTED, linestyle="-.", linewidth=1.2, label="uncalibrated")
    axes.axhline(np.median(fitted[:, part]), color=INK, linestyle=":", linewidth=1.4, label=GLOBAL)
    axes.set_yscale("log")
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.set_ylim(0.8 * fitted[:, part].min(), 8 * plain[:, part].max())
    _finish(axes, f"NLL on the {where} rows", "step", f"{where} NLL")
    return Picture(
        to_svg(figure),
        f"Learning curves of the {where} NLL, one for each map; those without an offset spread widest.",
        "Median and quartiles over seeds. A line or band that leaves at the top is far off or no longer finite.",
    )


def _line(name: str) -> dict[str, Any]:
    return {"color": COLOURS[name], "label": name, "linestyle": "--" if name == "exp" else "-"}


def _finish(axes: Axes, title: str, xlabel: str, ylabel: str) -> None:
    axes.set_title(title)
    axes.set_xlabel(xlabel)
    axes.set_ylabel(ylabel)
    axes.yaxis.set_major_formatter("{x:g}")
    axes.yaxis.set_minor_formatter("")
    figure = axes.figure
    assert isinstance(figure, Figure)
    columns = len(MAPS) if len(axes.get_legend_handles_labels()[0]) == len(MAPS) else 4
    figure.legend(loc="outside lower center", ncols=columns, columnspacing=1.0, handlelength=1.5)
