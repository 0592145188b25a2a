"""Table 7: what global, data and predicted parameters cost in space and time, measured against the formulas.

Bytes are counted on the modules themselves. Times are those of one step on a batch: the loss, its gradient, the update
of its parameters. The ways to do it take turns in one process and are compared with the plain squared error.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from time import process_time
from typing import NamedTuple

import numpy as np
import pandas as pd
import torch
from matplotlib.figure import Figure
from torch import Tensor, nn

from experiments.entries.cores import one_thread
from experiments.entries.drawing import MUTED, PALETTE, styled, to_svg
from experiments.entries.entry import Context, Result
from experiments.entries.parts import Picture, Table
from experiments.paper.conditioning import learned_numbers
from likely import paper
from likely.losses import NormalLoss
from likely.parameters import Data, Global, Parameter, Predicted

AXES = {"n": "rows of the training set", "p": "parameters a row", "d": "features"}
KINDS: dict[str, Callable[[Setting], Parameter]] = {
    "global": lambda at: Global(at.p, **paper.SCALE),
    "data": lambda at: Data(at.n, at.p, **paper.SCALE),
    "predicted": lambda at: Predicted(at.d, at.p, **paper.SCALE, **paper.NETWORK),
}
COLOURS = dict(zip(KINDS, (PALETTE[name][0] for name in ("blue", "gold", "violet")), strict=True))
PAPER = {"global": ("O(p)", "O(p)"), "data": ("O(pn)", "O(p)"), "predicted": ("O(pd)", "O(pd)")}
PLAIN = "plain"
BATCH, HIDDEN = 1024, 256
EXACT, NOISE = 0.05, 0.15  # how far a slope may be from an exponent: bytes are affine in d, times are not exact


@dataclass(frozen=True)
class Setting:
    """Rows of the training set, parameters a row and features."""

    n: int
    p: int
    d: int

    def along(self, axis: str, values: Sequence[int]) -> list[Setting]:
        """The same but for one of the three."""
        return [replace(self, **{axis: value}) for value in values]


CENTRE = Setting(n=10_000, p=16, d=64)


class Effort(NamedTuple):
    """How long to measure."""

    repeats: int
    steps: int


QUICK, FULL = Effort(5, 3), Effort(25, 10)
SWEEPS = {  # around the centre
    "n": CENTRE.along("n", (1_000, 10_000, 100_000, 1_000_000)),
    "p": CENTRE.along("p", (1, 4, 16, 64, 256)),
    "d": CENTRE.along("d", (4, 16, 64, 256, 1024)),
}


@one_thread()
def run(context: Context) -> Result:
    """Count bytes and time steps along n, p and d."""
    effort = QUICK if context.quick else FULL
    settings = list(dict.fromkeys(at for sweep in SWEEPS.values() for at in sweep))
    space = {kind: {at: space_of(kind, at) for at in settings} for kind in KINDS}
    alone = timed({(kind, at): Step(kind, at, None) for at in settings for kind in (PLAIN, *KINDS)}, effort)
    context.progress(0.8)
    inside = timed({(kind, CENTRE): Step(kind, CENTRE, HIDDEN) for kind in (PLAIN, *KINDS)}, effort)
    seconds = {kind: {at: alone.loc[_name(kind, at), "seconds"] for at in settings} for kind in KINDS}
    slopes = {"bytes": slopes_of(space), "time": slopes_of(seconds)}
    context.progress(1.0)
    return Result(
        "not judged",
        describe(slopes, summary := summarise(space, alone, inside)),
        tables=(
            Table(
                summary,
                f"At n = {CENTRE.n:,}, p = {CENTRE.p}, d = {CENTRE.d}, {BATCH} rows a step, float32, one thread: "
                "bytes of what is learned, and step times relative to the squared error's. The loss alone takes "
                f"predictions as given; in training they come from a network with {HIDDEN} hidden units that learns, "
                f"too. Medians of {effort.repeats} turns, ± half the distance of their quartiles.",
            ),
            Table(
                beside_formulas(slopes),
                "Exponents: the slopes of log bytes and log seconds (the loss alone) against log n, log p and log d, "
                "with the paper's formulas. A time may grow more slowly than its formula, as a step has costs that "
                "do not depend on its size. The paper's g, f and s (the time of a gradient, a forward pass and a "
                "store) are constants.",
                digits=2,
            ),
        ),
        pictures=(picture("bytes", space, slopes["bytes"]), picture("seconds", seconds, slopes["time"])),
    )


def space_of(kind: str, at: Setting) -> float:
    """Bytes of the numbers that a parameter learns, in single precision."""
    parameter = loss_of(kind, at).scale
    assert isinstance(parameter, Parameter)
    return 4.0 * learned_numbers(parameter)


def loss_of(kind: str, at: Setting) -> NormalLoss:
    """The normal likelihood with a scale of this kind; with a fixed one it is the squared error."""
    return NormalLoss(1.0 if kind == PLAIN else KINDS[kind](at), validate_args=False)


class Step:
    """One training step: of a loss alone, or of a network and its loss."""

    def __init__(self, kind: str, at: Setting, hidden: int | None) -> None:
        generator = torch.Generator().manual_seed(0)

        def random(columns: int) -> Tensor:
            return torch.randn(BATCH, columns, generator=generator)

        self.loss_fn: nn.Module = nn.MSELoss() if kind == PLAIN else loss_of(kind, at)
        self.inputs = (
            {}
            if kind == PLAIN
            else {
                "features": random(at.d),
                "index": torch.randint(at.n, (BATCH,), generator=generator),
            }
        )
        self.x, self.target = random(at.d), random(at.p)
        self.prediction = random(at.p).requires_grad_()
        self.model = None
        if hidden is not None:
            self.model = nn.Sequential(nn.Linear(at.d, hidden), nn.ReLU(), nn.Linear(hidden, at.p))
        learned = [*self.loss_fn.parameters(), *(self.model.parameters() if self.model else ())]
        self.optimizer = torch.optim.Adam(learned, fused=True) if learned else None

    def __call__(self) -> None:
        """Take it."""
        self.prediction.grad = None
        prediction = self.model(self.x) if self.model else self.prediction
        self.loss_fn(prediction, self.target, **self.inputs).backward()
        if self.optimizer:
            self.optimizer.step()
            self.optimizer.zero_grad()


def timed(steps: Mapping[tuple[str, Setting], Step], effort: Effort) -> pd.DataFrame:
    """Median seconds of a step, of CPU time, and the distance of their quartiles; the ways take turns."""
    taken: dict[str, list[float]] = {_name(*key): [] for key in steps}
    for turn in range(1 + effort.repeats):
        for key, step in steps.items():
            start = process_time()
            for _ in range(effort.steps):
                step()
            if turn:  # the first warms up
                taken[_name(*key)].append((process_time() - start) / effort.steps)
    rows = {name: (np.median(t), float(np.ptp(np.quantile(t, [0.25, 0.75])))) for name, t in taken.items()}
    return pd.DataFrame.from_dict(rows, orient="index", columns=["seconds", "spread"])


def _name(kind: str, at: Setting) -> str:
    return f"{kind} at {at}"


def slopes_of(measured: Mapping[str, Mapping[Setting, float]]) -> pd.DataFrame:
    """The slope of log measure against log n, log p and log d, for each kind."""
    rows = {
        kind: {
            axis: np.polyfit(np.log([getattr(at, axis) for at in sweep]), np.log([own[at] for at in sweep]), 1)[0]
            for axis, sweep in SWEEPS.items()
        }
        for kind, own in measured.items()
    }
    return pd.DataFrame.from_dict(rows, orient="index")


def exponents(formula: str) -> dict[str, int]:
    """Of n, p and d in a formula.

    >>> exponents("O(pn)")
    {'n': 1, 'p': 1, 'd': 0}
    """
    return {axis: formula[2:-1].count(axis) for axis in AXES}


def summarise(space: Mapping[str, Mapping[Setting, float]], alone: pd.DataFrame, inside: pd.DataFrame) -> pd.DataFrame:
    """A row for each kind, at the centre."""
    rows = {}
    for kind in KINDS:
        words = [_ratio(frame, kind) for frame in (alone, inside)]
        rows[kind] = (int(space[kind][CENTRE]), *words)
    frame = pd.DataFrame.from_dict(rows, orient="index", columns=["bytes", "loss alone", "in training"])
    frame.index.name = "parameters"
    return frame


def _ratio(times: pd.DataFrame, kind: str) -> str:
    own, plain = (times.loc[_name(k, CENTRE)] for k in (kind, PLAIN))
    return f"{own['seconds'] / plain['seconds']:.2f} ± {own['spread'] / 2 / plain['seconds']:.2f}"


def beside_formulas(slopes: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """What was measured, under what the paper says."""
    rows = {}
    for kind, formulas in PAPER.items():
        for (what, found), formula in zip(slopes.items(), formulas, strict=True):
            rows[kind, what] = {"formula": formula, **{f"in {axis}": found.loc[kind, axis] for axis in AXES}}
    table = pd.DataFrame.from_dict(rows, orient="index")
    table.index = pd.MultiIndex.from_tuples(rows, names=["parameters", "of"])
    return table


def describe(slopes: Mapping[str, pd.DataFrame], summary: pd.DataFrame) -> str:
    """Bytes must grow exactly as the formulas say, times no faster."""
    held = {}
    for what, place in (("bytes", 0), ("time", 1)):
        wanted = pd.DataFrame({kind: exponents(formulas[place]) for kind, formulas in PAPER.items()}).T
        gap = slopes[what] - wanted
        held[what] = bool((gap.abs() <= EXACT if what == "bytes" else gap <= NOISE).to_numpy().all())
    grown = slopes["time"]
    trained = ", ".join(f"{kind} {row['in training'].split()[0]}" for kind, row in summary.iterrows())
    return (
        f"Bytes {'grow' if held['bytes'] else 'do not grow'} as the formulas say, a predicted parameter's as p(d + 1): "
        f"it has a bias. Step times grow {'no ' if held['time'] else ''}faster than theirs: that of data parameters as "
        f"n to the power of {grown.loc['data', 'n']:.2f}, since a step touches the rows of its batch only; that of "
        f"predicted ones as d to the power of {grown.loc['predicted', 'd']:.2f}. In training, relative to the squared "
        f"error: {trained}."
    )


@styled
def picture(what: str, measured: Mapping[str, Mapping[Setting, float]], slopes: pd.DataFrame) -> Picture:
    """The measure against n, p and d, with the slopes as labels."""
    figure = Figure(figsize=(9.4, 3.3), layout="constrained")
    for axes, (axis, sweep) in zip(figure.subplots(1, 3, sharey=True), SWEEPS.items(), strict=True):
        places = [getattr(at, axis) for at in sweep]
        for kind, own in measured.items():
            values = [own[at] for at in sweep]
            axes.plot(places, values, color=COLOURS[kind], marker="o", markersize=4, label=kind)
            axes.annotate(
                f"{slopes.loc[kind, axis]:z.2f}",
                (places[-1], values[-1]),
                xytext=(4, 0),
                textcoords="offset points",
                color=COLOURS[kind],
                va="center",
                fontsize=8,
            )
        axes.axvline(getattr(CENTRE, axis), color=MUTED, linestyle=":", linewidth=1.0)
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.margins(x=0.14)
        axes.set_title(f"against {axis}")
        axes.set_xlabel(AXES[axis])
    figure.axes[0].set_ylabel(f"{what} of {'what is learned' if what == 'bytes' else 'a step of the loss'}")
    handles, labels = figure.axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=len(labels))
    return Picture(
        to_svg(figure),
        f"Log-log curves of {what} against n, p and d for {', '.join(measured)}, with their slopes.",
        f"{what.capitalize()} along one of n, p and d; the other two stay where the dotted lines are. Numbers at the "
        "ends are slopes.",
        wide=True,
    )
