"""Figure 4: logistic regression with and without a predicted temperature, and the map of that temperature.

Two classes and, far out at the bottom left, a cluster of blue points on the wrong side. Beside it stand what the figure
does not show: fewer outliers, none, and labels that are flipped at random.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray
from scipy.stats import binom
from sklearn.linear_model import LogisticRegression

from experiments.entries.cores import one_core
from experiments.entries.drawing import HEAT, INK, MUTED, PALETTE, styled, to_svg
from experiments.entries.entry import Context, Result
from experiments.entries.parts import Picture, Table
from experiments.paper._comparison import Difference, paired
from likely.linear import RobustLogisticRegression

Array = NDArray[np.float64]
PLAIN, ROBUST = "plain", "predicted temperature"
CLUSTER, FEW, FLIPPED, CLEAN = "far cluster, 25%", "far cluster, 10%", "random flips, 25%", "no outliers"
SHARES = {CLUSTER: 0.25, FEW: 0.1, FLIPPED: 0.25, CLEAN: 0.0}
ROWS, JUDGED, FAR = 400, 4000, (-9.0, -5.5)
RED, BLUE = PALETTE["red"][0], PALETTE["blue"][0]


class Effort(NamedTuple):
    """How many sets of each kind."""

    seeds: int


QUICK, FULL = Effort(5), Effort(25)


@one_core()
def run(context: Context) -> Result:
    """Fit both models to every kind of wrong label and judge them on clean rows."""
    seeds = range(context.seed, context.seed + (QUICK if context.quick else FULL).seeds)
    found: dict[str, list[tuple[float, float, float]]] = {kind: [] for kind in SHARES}
    for kind, seed in context.track([(kind, seed) for kind in SHARES for seed in seeds]):
        found[kind].append(compare(kind, seed))
    scores = {kind: np.array(values) for kind, values in found.items()}
    gains = {kind: paired(s[:, 1], s[:, 0], test_per_train=0) for kind, s in scores.items()}
    table = summarise(scores, gains)
    notes = describe(table, gains)
    return Result(
        "not judged",
        notes,
        tables=(
            Table(
                table,
                f"Accuracy on {JUDGED} clean rows after a fit of {ROWS}, mean over {len(seeds)} seeds; the gain ± one "
                "standard error of the paired difference; the temperature of a wrong label over that of a right one, "
                "median, with its 95% interval. The paper prints no numbers.",
                {(PLAIN, ROBUST): "higher"},
            ),
        ),
        pictures=(_boundaries(context.seed), _temperature(context.seed)),
    )


def labelled(kind: str, seed: int, rows: int = ROWS) -> tuple[Array, NDArray[np.int64], NDArray[np.bool_]]:
    """Points, labels (1 is blue) and which labels are wrong."""
    rng = np.random.default_rng([seed, list(SHARES).index(kind)])
    y = rng.integers(0, 2, rows)
    X = 4.0 * y[:, None] - 2 + rng.normal(size=(rows, 2))
    bad = np.arange(rows) < SHARES[kind] * rows
    if kind == FLIPPED:
        return X, np.where(bad, 1 - y, y), bad
    X[bad] = np.array(FAR) + rng.normal(size=(bad.sum(), 2))
    return X, np.where(bad, 1, y), bad


def compare(kind: str, seed: int) -> tuple[float, float, float]:
    """The accuracy of the plain and of the robust model, and how much hotter wrong labels are than right ones."""
    X, y, bad = labelled(kind, seed)
    fresh, truth, _ = labelled(CLEAN, seed + 1_000_000, JUDGED)
    plain, robust = LogisticRegression().fit(X, y), RobustLogisticRegression().fit(X, y)
    heat = robust.temperature(X)
    hotter = float(np.median(heat[bad]) / np.median(heat[~bad])) if bad.any() else np.nan
    return plain.score(fresh, truth), robust.score(fresh, truth), hotter


def summarise(scores: Mapping[str, Array], gains: Mapping[str, Difference]) -> pd.DataFrame:
    """A row for each kind of wrong label."""
    frame = pd.DataFrame(
        {
            kind: (s[:, 0].mean(), s[:, 1].mean(), str(gains[kind]), float(np.median(s[:, 2])), _middle(s[:, 2]))
            for kind, s in scores.items()
        },
        index=[PLAIN, ROBUST, "gain", "hotter", "hotter, 95%"],
    ).T.astype({PLAIN: float, ROBUST: float, "hotter": float})
    frame.index.name = "wrong labels"
    return frame


def _middle(values: Array) -> str:
    """The 95% interval of a median, by the order of the values."""
    low = max(int(binom.ppf(0.025, len(values), 0.5)), 1)
    ordered = np.sort(values)
    return "–" if np.isnan(values).any() else f"{ordered[low - 1]:,.2f} to {ordered[len(values) - low]:,.2f}"


def describe(table: pd.DataFrame, gains: Mapping[str, Difference]) -> str:
    """Accuracy with and without a predicted temperature, and how hot the outliers are."""
    hotter = table.loc[CLUSTER, "hotter"]
    return (
        f"With a far cluster of 25% wrong labels accuracy on clean rows is {table.loc[CLUSTER, PLAIN]:.3f} for plain "
        f"logistic regression and {table.loc[CLUSTER, ROBUST]:.3f} with a predicted temperature, which is "
        f"{min(hotter, 1e4):.0f} times higher in the cluster than elsewhere. It takes outliers that sit together: with "
        f"25% of the labels flipped at random the gain is {gains[FLIPPED]}, and without outliers {gains[CLEAN]}."
    )


@styled
def _boundaries(seed: int) -> Picture:
    X, y, _ = labelled(CLUSTER, seed)
    figure = Figure(figsize=(4.6, 4.2), layout="constrained")
    axes = figure.subplots()
    _points(axes, X, y)
    for model, name, style, colour in _models(X, y):
        _boundary(axes, model, style, colour, name)
    axes.legend(loc="upper left")
    axes.set_title("The boundary")
    return Picture(
        to_svg(figure),
        "Red points left, blue points right, a blue cluster at the bottom left. The plain boundary cuts through the "
        "red points, the robust one runs between the classes.",
        "The blue cluster at the bottom left turns the boundary of plain logistic regression; with a predicted "
        "temperature it hardly pulls.",
    )


@styled
def _temperature(seed: int) -> Picture:
    X, y, _ = labelled(CLUSTER, seed)
    figure = Figure(figsize=(4.6, 4.2), layout="constrained")
    axes = figure.subplots()
    models = _models(X, y)
    robust = models[1][0]
    side = np.linspace(-13, 6, 120)
    grid = np.stack(np.meshgrid(side, side), axis=-1).reshape(-1, 2)
    heat = np.log10(robust.temperature(grid)).reshape(len(side), len(side))
    image = axes.imshow(heat, origin="lower", extent=(-13, 6, -13, 6), cmap=HEAT, aspect="auto", vmin=-3, vmax=5)
    _points(axes, X, y, edge="white")
    for model, name, style, _ in models:
        _boundary(axes, model, style, "white", name)
    axes.grid(visible=False)
    axes.set_title("The temperature")
    figure.colorbar(image, ax=axes, label="log₁₀ temperature (the median row has 0)", shrink=0.85)
    return Picture(
        to_svg(figure),
        "A map of the predicted temperature: low at the top right, rising by orders of magnitude towards the blue "
        "cluster at the bottom left.",
        "The predicted temperature, which rises towards the outliers: there the model is sure of nothing. The "
        "boundaries are those of the other picture.",
    )


def _models(X: Array, y: NDArray[np.int64]) -> tuple[tuple[Any, str, str, str], tuple[Any, str, str, str]]:
    plain, robust = LogisticRegression().fit(X, y), RobustLogisticRegression().fit(X, y)
    return (plain, PLAIN, "--", MUTED), (robust, ROBUST, "-", INK)


def _points(axes: Axes, X: Array, y: NDArray[np.int64], edge: str = "none") -> None:
    colours = np.where(y == 1, BLUE, RED)
    axes.scatter(X[:, 0], X[:, 1], s=11, c=colours, edgecolors=edge, linewidths=0.3)
    axes.set(xlim=(-13, 6), ylim=(-13, 6), xlabel="$x_1$", ylabel="$x_2$")


def _boundary(axes: Axes, model: Any, style: str, colour: str, name: str) -> None:
    (a, b), c = model.coef_[0], float(model.intercept_[0])
    # a x + b y + c = 0, as two points far apart on it.
    foot, along = -c * np.array([a, b]) / (a * a + b * b), np.array([-b, a]) / np.hypot(a, b)
    ends = foot + np.array([[-40], [40]]) * along
    axes.plot(ends[:, 0], ends[:, 1], style, color=colour, label=name)
