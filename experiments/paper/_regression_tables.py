"""A predicted scale in regressors, deep and linear, judged by CAL, MSE and NLL on the same splits: Tables 2 and 6.

The paper's recipe: three quarters of the rows train and a quarter judges, both in units of the training rows, with
missing values imputed; all rows a step, Adam. Its "base" learns the mean; σ is 1, or fitted to the training residuals.
Its "temp" learns mean and scale together. Glorot's weights make some scales tiny at the start; the gradients of those
rows slow Adam down for longer than the 3000 steps, so there is a second "temp" whose scale starts at 1 for every row.
Ours is `NetworkRegressor`, which learns the scale from rows left out.
With a data folder these are the paper's eight sets as far as they can be told, else a synthetic one and diabetes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator
from torch import Tensor, nn
from torch.distributions import Distribution, Normal

from experiments.data import Regression
from experiments.entries.cores import one_core
from experiments.entries.drawing import MUTED, PALETTE, styled, to_svg
from experiments.entries.entry import Context, Result
from experiments.entries.parts import Picture, Table
from experiments.paper._comparison import Comparison, Scores, beside_paper
from experiments.paper._regressors import Regressors, predict, train
from experiments.paper.regressor_calibration import regressions, standardised
from likely.metrics import negative_log_likelihood, quantile_calibration_error
from likely.tabular import NetworkRegressor

UNIT, FITTED, TEMP, LEVEL = "base, σ = 1", "base, σ fitted", "temp", "temp, from σ = 1"
OURS, DEFAULT = "ours", "ours, as it comes"
BASES, TEMPS, PREDICTED = (UNIT, FITTED), (TEMP, LEVEL), (TEMP, LEVEL, OURS, DEFAULT)
COLOURS = dict(zip((*BASES, *PREDICTED), ("muted", "gold", "red", "green", "blue", "violet"), strict=True))
CAL, MSE, NLL = MEASURES = ("CAL", "MSE", "NLL")
CONSTANT = 0.5 * math.log(2 * math.pi)  # of a normal's NLL, which the paper leaves out


Measured = tuple[float, float, float]


class Effort(NamedTuple):
    """How much of it all to run; quick takes fewer, longer steps, and gives ours fewer too."""

    splits: int
    steps: int
    rate: float
    rows: int
    ours: Mapping[str, Any]


QUICK, FULL = Effort(3, 150, 2e-2, 400, {"max_steps": 40}), Effort(10, 3000, 1e-3, 5000, {})


class Printed(NamedTuple):
    """A row of the paper's table: each measure of its base and of its temp."""

    cal: tuple[float, float]
    mse: tuple[float, float]
    nll: tuple[float, float]


@dataclass(frozen=True)
class Study:
    """One of the two tables: the network's width, none for a linear model, ours beside it, what the paper printed."""

    width: int | None
    ours: Mapping[str, Mapping[str, Any]]
    paper: Mapping[str, Printed]

    def networks(self, copies: int, inputs: int, *, predicted: bool, level: bool = False, seed: int) -> Regressors:
        """The paper's, one for each split. A scale that is not predicted stays at 1; a level one starts there."""
        generator = torch.Generator().manual_seed(seed)
        if self.width is None:
            networks: Regressors = Lines(copies, inputs, predicted=predicted, generator=generator)
        else:
            networks = Regressors(copies, inputs, self.width, predicted=predicted, generator=generator)
        networks.scale_bias.requires_grad_(predicted)
        if level and networks.scale is not None:
            nn.init.zeros_(networks.scale)
        return networks

    @one_core()
    def run(self, context: Context) -> Result:
        """Train on three quarters and judge on a quarter of every set, several times over."""
        effort = QUICK if context.quick else FULL
        sources = regressions(context)
        found = Comparison(
            {
                name: context.once((self.width, name), self.scores, sources[name](), effort, context.seed)
                for name in context.track(list(sources))
            },
            MEASURES,
            FITTED,
            test_per_train=1 / 3,
            order=(*BASES, *PREDICTED),
        )
        missing = [name for name in self.paper if name not in sources]
        return Result(
            "not judged",
            describe(found, missing if len(missing) < len(self.paper) else None),
            tables=tables(found, self.paper, effort),
            pictures=(picture(found, self.paper),),
        )

    def scores(self, data: Regression, effort: Effort, seed: int) -> Scores:
        """The measures of every method on the test rows of every split."""
        x, y, n = dealt(data, effort, seed)
        found = self.papers(x, y, n, effort, seed)
        for name, arguments in self.ours.items():
            found[name] = [
                fitted(NetworkRegressor(**arguments, **effort.ours, random_state=seed + i), x[i], y[i], n)
                for i in range(effort.splits)
            ]
        return {name: np.array(values) for name, values in found.items()}

    def papers(self, x: Tensor, y: Tensor, n: int, effort: Effort, seed: int) -> dict[str, list[Measured]]:
        """The measures of the paper's own methods."""

        def said_by(**options: bool) -> tuple[Tensor, Tensor]:
            networks = self.networks(len(x), x.shape[2], **options, seed=seed)
            return predict(train(networks, x[:, :n], y[:, :n], effort.steps, effort.rate), x)

        mean, one = said_by(predicted=False)
        likeliest = (y - mean)[:, :n].square().mean(1, keepdim=True).sqrt()
        said = {
            UNIT: (mean, one),
            FITTED: (mean, likeliest.expand_as(mean)),
            TEMP: said_by(predicted=True),
            LEVEL: said_by(predicted=True, level=True),
        }
        return {
            name: [measured(y[i, n:], Normal(means[i, n:], scales[i, n:])) for i in range(len(x))]
            for name, (means, scales) in said.items()
        }


def dealt(data: Regression, effort: Effort, seed: int) -> tuple[Tensor, Tensor, int]:
    """Inputs (splits, rows, inputs) and targets (splits, rows), and how many rows of a split train: its first."""
    rng = np.random.default_rng(seed)
    rows = min(len(data.y), effort.rows)
    n = 3 * rows // 4
    splits = [standardised(data, rng.permutation(len(data.y))[:rows], n) for _ in range(effort.splits)]
    x, y = (torch.stack(part) for part in zip(*splits, strict=True))
    return x, y, n


def fitted(model: NetworkRegressor, x: Tensor, y: Tensor, n: int) -> Measured:
    """Fit to the first rows of a split, judge by the others."""
    return measured(y[n:], model.fit(x[:n].numpy(), y[:n].numpy()).predict_dist(x[n:].numpy()))


def measured(y: Tensor, distribution: Distribution) -> Measured:
    """CAL, MSE and NLL."""
    error = float((y - distribution.mean).square().mean())
    return quantile_calibration_error(y, distribution), error, float(negative_log_likelihood(y, distribution))


class Lines(Regressors):
    """The paper's network without its hidden layer: mean and scale are linear in the inputs."""

    def __init__(self, copies: int, inputs: int, *, predicted: bool, generator: torch.Generator) -> None:
        super().__init__(copies, 0, inputs, predicted=predicted, generator=generator)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Means and scales of inputs of shape (copies, rows, inputs)."""
        raw = self.scale_bias if self.scale is None else (x @ self.scale)[..., 0] + self.scale_bias
        mean = (x @ self.mean)[..., 0] + self.mean_bias
        return mean, self.constraint(raw).expand_as(mean)


def tables(found: Comparison, paper: Mapping[str, Printed], effort: Effort) -> tuple[Table, ...]:
    """Who is clearly better, the three measures with the paper's beside, the worst splits, the differences."""
    splits = f"mean over {effort.splits} splits of at most {effort.rows:,} rows"
    cal, mse, nll = (found.means(measure, "set") for measure in MEASURES)
    mse = mse.drop(columns=UNIT).rename(columns={FITTED: "base"})
    printed_cal = {name: {UNIT: own.cal[0], TEMP: own.cal[1]} for name, own in paper.items()}
    printed_mse = {name: {"base": own.mse[0], TEMP: own.mse[1]} for name, own in paper.items()}
    printed_nll = {name: {FITTED: own.nll[0] + CONSTANT, TEMP: own.nll[1] + CONSTANT} for name, own in paper.items()}
    return (
        Table(
            records(found),
            "Sets on which a predicted scale is clearly better – neither – clearly worse: the paired difference over "
            "splits is more than two standard errors from zero (Nadeau and Bengio's, which allow for splits that share "
            f"rows). `{LEVEL}` starts with a scale of 1 for every row: Glorot's weights make some scales tiny, and the "
            f"gradients of those rows slow Adam down for longer than {effort.steps} steps.",
        ),
        Table(
            beside_paper(cal, printed_cal, CAL),
            f"CAL, {splits}. The paper has one base and does not say which; its CAL fits σ = 1. It names neither its "
            f"files nor its splits: wine is the white one here, bank is bank8FM, soil is visualizing_soil. "
            f"{found.spread(CAL, cal.columns)}",
            {tuple(cal.columns): "lower"},
            digits=4,
        ),
        Table(
            beside_paper(mse, printed_mse, MSE),
            f"MSE of the standardised target, {splits}; both bases have the same mean. What the paper prints cannot be "
            "the MSE of test rows (see the errata) and is not comparable.",
            {tuple(mse.columns): "lower"},
            digits=4,
        ),
        Table(
            beside_paper(nll, printed_nll, NLL),
            f"Full NLL in nats, in units of the standardised target, {splits}. The paper's leaves out ½ log 2π, which "
            "is added here; without it some of its base's in Table 2 are negative, so that σ was fitted there.",
            {tuple(nll.columns): "lower"},
        ),
        Table(
            worst(found),
            "The highest test NLL of any split.",
            {tuple(nll.columns): "lower"},
            digits=2,
        ),
        Table(differences(found), "The paired difference to the base with σ fitted, ± one standard error."),
    )


def records(found: Comparison) -> pd.DataFrame:
    """On how many sets each predicted scale is clearly better – neither – clearly worse than each rival."""
    rows = {}
    for ours in (method for method in PREDICTED if method in found.methods):
        for rival in (*BASES, *(() if ours in TEMPS else TEMPS)):
            signs = {measure: found.signs(ours, rival, measure) for measure in MEASURES}
            rows[ours, rival] = {m: f"{s.count(-1)} – {s.count(0)} – {s.count(1)}" for m, s in signs.items()}
    table = pd.DataFrame.from_dict(rows, orient="index")
    table.index = pd.MultiIndex.from_tuples(rows, names=["predicted scale", "against"])
    return table


def worst(found: Comparison) -> pd.DataFrame:
    """The highest NLL of any split."""
    which = MEASURES.index(NLL)
    rows = {name: {m: own[m][:, which].max() for m in found.methods} for name, own in found.scores.items()}
    table = pd.DataFrame.from_dict(rows, orient="index")
    table.index.name = "set"
    return table


def differences(found: Comparison) -> pd.DataFrame:
    """Every predicted scale less the base with σ fitted, in words."""
    parts = {measure: found.against_baseline(measure, "set", PREDICTED) for measure in MEASURES}
    return pd.concat(parts, names=["measure"]).swaplevel().loc[list(found.scores)]


def describe(found: Comparison, missing: Sequence[str] | None) -> str:
    """In which comparisons the paper's joint training is clearly better on half of the sets, from either start.

    Without any of the paper's sets ``missing`` is None.
    """
    total = len(found.scores)
    often = {}
    for measure in MEASURES:
        for base in BASES:
            starts = [found.signs(temp, base, measure) for temp in TEMPS]
            often[measure, base] = any(s.count(-1) >= max(total / 2, 1 + s.count(1)) for s in starts)
    met = [f"{measure} against `{base}`" for (measure, base), good in often.items() if good]
    sentences = [
        "A scale that learns with the mean, from the better of two starts, is clearly better on half of the sets in "
        f"{len(met)} of {len(often)} comparisons{': ' if met else ''}{'; '.join(met)}."
    ]
    steep = [f"`{method}` {value:,.2f}" for method, value in worst(found).max().items()]
    sentences += [f"The highest test NLL of any split of any set: {', '.join(steep)}."]
    if missing is None:
        sentences.append("These sets are stand-ins that need no data; with a data folder, the paper's are used.")
    elif missing:
        sentences.append(f"Not in the data folder: {', '.join(missing)}.")
    return " ".join(sentences)


@styled
def picture(found: Comparison, paper: Mapping[str, Printed]) -> Picture:
    """Every set's CAL, MSE relative to the base's, and NLL; the paper's own as rings."""
    names = list(found.scores)
    figure = Figure(figsize=(9.4, 1.5 + 0.5 * len(names)), layout="constrained")
    panels = dict(zip(MEASURES, figure.subplots(1, 3, sharey=True), strict=True))
    base = found.means(MSE, "set")[FITTED]
    heights = dict(zip(found.methods, np.linspace(0.3, -0.3, len(found.methods)), strict=True))
    for measure, axes in panels.items():
        means = found.means(measure, "set")
        for method in found.methods:
            values = means[method] / base if measure == MSE else means[method]
            axes.plot(values, heights[method] - np.arange(len(names)), **_dots(method), label=method)
        for place, name in enumerate(names if measure != MSE else ()):
            if own := paper.get(name):
                printed = own.cal if measure == CAL else np.add(own.nll, CONSTANT)
                for method, value in zip((UNIT if measure == CAL else FITTED, TEMP), printed, strict=True):
                    axes.plot(value, heights[method] - place, **_dots(method), fillstyle="none")
        axes.set_title(measure if measure != MSE else "MSE, relative to the base")
    panels[CAL].set_xscale("symlog", linthresh=1e-3)
    panels[MSE].axvline(1, color=MUTED, linewidth=1.0)
    panels[MSE].set_xscale("log")
    panels[MSE].xaxis.set_major_locator(LogLocator(subs=(1, 1.5, 2, 3, 5, 7)))
    panels[NLL].set_xscale("symlog", linthresh=2)
    for axes in panels.values():
        axes.xaxis.set_major_formatter("{x:g}")
        axes.xaxis.set_minor_formatter("")
    panels[CAL].set_ylim(0.6 - len(names), 0.5)
    panels[CAL].set_yticks([-place for place in range(len(names))], names)
    handles, labels = panels[NLL].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=len(labels), columnspacing=1.2, handlelength=1.2)
    return Picture(
        to_svg(figure),
        f"Dots for {', '.join(found.methods)} on each set, in three panels: CAL, MSE relative to the base's, and NLL.",
        "Means over splits; left is better. Rings are the paper's own numbers, with ½ log 2π added to its NLL; its MSE "
        "is not comparable and not shown.",
        wide=True,
    )


def _dots(method: str) -> dict[str, Any]:
    return {"color": PALETTE[COLOURS[method]][0], "marker": "o", "markersize": 4.5, "linestyle": "none"}
