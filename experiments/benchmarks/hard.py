"""Do promises hold where statistics is hard: few rows, many columns, targets of few values, columns of any kind?"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import product
from typing import Any, NamedTuple

import joblib
import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from scipy import special, stats

from experiments.benchmarks._bars import result_of, worst
from experiments.entries import Bar, Context, Result
from experiments.entries.cores import one_core
from experiments.entries.parts import Table
from likely import calibration, linear, outliers, tabular

Array = NDArray[np.float64]
ROWS, PER_ROW, FRESH = (15, 30, 100), (0.5, 1.0, 3.0), 1000
COLUMNS = ("normal", "collinear", "copies", "heavy", "units")
TARGETS = ("signal", "noise", "zeros", "cap", "two values", "tiny", "huge")
CLASSES = ("two", "rare", "many", "noise")
PART = 20  # tables of one class that a core measures at a time; the same whatever the machine, as it sets WEIGHTED's
WEIGHTED = 0.1  # of the cases are fitted again with rows repeated

Make = Callable[[], Any]
LINEAR: dict[str, Make] = {
    **{kind.__name__: kind for kind in (linear.DynamicRegression, linear.DynamicRidge, linear.DynamicLasso)},
    **{kind.__name__: kind for kind in (linear.MultiRidge, linear.MultiLasso, linear.SpikeSlabRegression)},
    "RobustLinearRegression": partial(linear.RobustLinearRegression, random_state=0),
}
REGRESSORS: dict[str, Make] = {
    **LINEAR,
    "CalibratedRegressor": partial(calibration.CalibratedRegressor, linear.DynamicRidge()),
    "LikelihoodRegressor": partial(tabular.LikelihoodRegressor, random_state=0),
    "NetworkRegressor": partial(tabular.NetworkRegressor, random_state=0),
}
CLASSIFIERS: dict[str, Make] = {
    "DynamicLogisticRegression": linear.DynamicLogisticRegression,
    "RobustLogisticRegression": linear.RobustLogisticRegression,
    "CalibratedClassifier": partial(calibration.CalibratedClassifier, linear.DynamicLogisticRegression(), cv=3),
    "LikelihoodClassifier": partial(tabular.LikelihoodClassifier, random_state=0),
    "NetworkClassifier": partial(tabular.NetworkClassifier, random_state=0),
}
DETECTORS: dict[str, Make] = {
    "ScatterDetector": outliers.ScatterDetector,
    "LikelihoodDetector": partial(outliers.LikelihoodDetector, random_state=0),
    "ScaledPCADetector": partial(outliers.ScaledPCADetector, random_state=0),
    "ScaledAutoencoderDetector": partial(outliers.ScaledAutoencoderDetector, random_state=0),
}
SLOW = ("LikelihoodRegressor", "NetworkRegressor", "LikelihoodClassifier", "NetworkClassifier")
SLOW_DETECTORS = ("ScaledPCADetector", "ScaledAutoencoderDetector")


class Cell(NamedTuple):
    """One kind of table: numbers of rows and columns, and what columns and target are like."""

    rows: int
    columns: int
    kind: str
    target: str = ""

    def __str__(self) -> str:
        return f"{self.rows} × {self.columns}, {self.kind}" + (f", {self.target}" if self.target else "")


def grid(targets: Sequence[str] = ("",)) -> list[Cell]:
    """Every cell."""
    sizes = [(n, max(round(n * ratio), 2)) for n, ratio in product(ROWS, PER_ROW)]
    return [Cell(n, d, kind, target) for (n, d), kind, target in product(sizes, COLUMNS, targets)]


def thinned(cells: Sequence[Cell], count: int) -> list[Cell]:
    """Some of the cells, spread over all: a step without a common divisor meets every kind of column and target."""
    step = next(step for step in range(max(len(cells) // count, 1), len(cells) + 2) if np.gcd(step, len(cells)) == 1)
    return [cells[step * place % len(cells)] for place in range(min(count, len(cells)))]


def table(cell: Cell, rows: int, rng: np.random.Generator) -> tuple[Array, Array]:
    """A table, and a normal score of each row, which some of its columns tell."""
    fixed = np.random.default_rng(cell.columns)  # what all rows of a table share
    factors = max(cell.columns // 4, 1) if cell.kind == "collinear" else cell.columns
    normal = rng.normal(size=(rows, factors))
    slope = np.where(np.arange(factors) < 3, 1.0, 0.0)
    score = normal @ slope / np.sqrt(slope.sum())
    if cell.kind == "collinear":
        return normal @ fixed.normal(size=(factors, cell.columns)) + 1e-3 * rng.normal(size=(rows, cell.columns)), score
    if cell.kind == "copies":
        half = -(-cell.columns // 2)
        return np.hstack([normal[:, :half], 1e9 * normal[:, :half]])[:, : cell.columns], score
    if cell.kind == "heavy":
        return stats.t(2).ppf(special.ndtr(normal)), score
    return (normal * 10.0 ** fixed.choice([-9, 0, 9], cell.columns) if cell.kind == "units" else normal), score


def regression(cell: Cell, rows: int, rng: np.random.Generator) -> tuple[Array, Array]:
    """A table and its target, of mean 3 and noise 1 before values are made alike."""
    X, score = table(cell, rows, rng)
    y = 3 + (0 if cell.target == "noise" else 1) * score + rng.normal(size=rows)
    if cell.target == "zeros":
        return X, np.maximum(y - 3, 0)
    if cell.target == "cap":
        return X, np.minimum(y, 3.5)
    if cell.target == "two values":
        return X, (y > 4).astype(float)
    return X, y * {"tiny": 1e-9, "huge": 1e9}.get(cell.target, 1.0)


def classification(cell: Cell, rows: int, rng: np.random.Generator) -> tuple[Array, NDArray[np.int64]]:
    """A table and its classes, in the order of a latent number; of training rows each class has three at least."""
    X, score = table(cell, rows, rng)
    latent = rng.random(rows) if cell.target == "noise" else score + rng.normal(size=rows)
    many = cell.rows // 3
    shares = {"two": [0.5, 0.5], "rare": [0.9, 0.07, 0.03], "many": [1 / many] * many, "noise": [0.2] * 5}[cell.target]
    counts = np.round(rows * np.asarray(shares))
    if rows == cell.rows:
        counts = np.maximum(counts, 3)
    counts[0] += rows - counts.sum()
    y = np.empty(rows, dtype=np.int64)
    y[np.argsort(latent)] = np.repeat(np.arange(len(shares)), counts.astype(int))
    return X, y


def fitted(make: Make, X: Array, y: Any = None, weight: Any = None) -> Any:
    """A fitted object; what it warns of is not what is asked here."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        given = {} if weight is None else {"sample_weight": weight}
        return make().fit(X, **given) if y is None else make().fit(X, y, **given)


def forecast(model: Any, X: Array, truth: Array) -> tuple[Array, Array, Array]:
    """Predicted means, the NLL of each row, and whether its 90% interval holds the truth."""
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        dist, y = model.predict_dist(X), torch.as_tensor(truth)
        mean, nll = np.asarray(model.predict(X), dtype=float), -dist.log_prob(y).double().numpy()
        if hasattr(model, "predict_interval"):
            lower, upper = model.predict_interval(X)
            return mean, nll, (lower <= truth) & (truth <= upper)
        return mean, nll, np.abs(dist.cdf(y).numpy() - 0.5) <= 0.45


def of_regressor(make: Make, cell: Cell, seed: int, weighted: bool) -> dict[str, float]:
    """Coverage, error of the mean, and excess NLL on new rows; and how far weights are from repeated rows."""
    rng = np.random.default_rng([seed, cell.rows, cell.columns])
    (X, y), (fresh, truth) = regression(cell, cell.rows, rng), regression(cell, FRESH, rng)
    model = fitted(make, X, y)
    mean, nll, inside = forecast(model, fresh, truth)
    spread = float(y.std()) or 1.0
    # Rows are drawn: the mean of a few of them is known to two standard errors only.
    allowed = 0.35 * abs(truth.mean()) + 2 * truth.std() / np.sqrt(cell.rows)
    found = {
        "coverage": float(inside.mean()),
        "mean": float(abs(mean.mean() - truth.mean()) / allowed),
        # The marginal of a constant is a point too, and the NLL of any other value without bound.
        "NLL": float(nll.mean() + stats.norm(y.mean(), spread).logpdf(truth).mean()) if y.std() else np.nan,
    }
    if weighted:
        times = rng.integers(1, 4, cell.rows)
        by_weight = fitted(make, X, y, times.astype(float)).predict(fresh)
        by_rows = fitted(make, np.repeat(X, times, 0), np.repeat(y, times)).predict(fresh)
        found["weights"] = float(np.abs(by_weight - by_rows).max() / spread)
    return found


def of_classifier(make: Make, cell: Cell, seed: int, weighted: bool) -> dict[str, float]:
    """Excess NLL over that of the shares of classes; and how far weights are from repeated rows."""
    rng = np.random.default_rng([seed, cell.rows, cell.columns])
    (X, y), (fresh, truth) = classification(cell, cell.rows, rng), classification(cell, FRESH, rng)
    shares = (np.bincount(y) + 0.5) / (len(y) + 0.5 * (y.max() + 1))
    proba = fitted(make, X, y).predict_proba(fresh)
    given = np.maximum(proba[np.arange(FRESH), truth], 1e-300)
    found = {"NLL": float(-np.log(given).mean() + np.log(shares[truth]).mean())}
    if weighted:
        times = rng.integers(1, 4, cell.rows)
        by_weight = fitted(make, X, y, times.astype(float)).predict_proba(fresh)
        by_rows = fitted(make, np.repeat(X, times, 0), np.repeat(y, times)).predict_proba(fresh)
        found["weights"] = float(np.abs(by_weight - by_rows).max())
    return found


def of_detector(make: Make, cell: Cell, seed: int, weighted: bool = False) -> dict[str, float]:
    """Shares of new clean rows that are called outliers, where a tenth is asked for and by the automatic threshold."""
    rng = np.random.default_rng([seed, cell.rows, cell.columns])
    X, fresh = table(cell, cell.rows, rng)[0], table(cell, FRESH, rng)[0]
    model = fitted(lambda: make().set_params(contamination=0.1), X)
    tenth = float(np.mean(model.predict(fresh) < 0))
    automatic = fitted(lambda: make().set_params(contamination="auto"), X)
    return {"a tenth": tenth, "auto": float(np.mean(automatic.predict(fresh) < 0))}


KINDS: tuple[tuple[dict[str, Make], tuple[str, ...], Callable[..., dict[str, float]]], ...] = (
    (REGRESSORS, TARGETS, of_regressor),
    (CLASSIFIERS, CLASSES, of_classifier),
    (DETECTORS, ("",), of_detector),
)


@one_core()
def measured(name: str, cells: Sequence[Cell], seeds: Sequence[int], weighted: float = WEIGHTED) -> pd.DataFrame:
    """What was measured of one class, one line per table."""
    makes, _, measure = next(kind for kind in KINDS if name in kind[0])
    lines = []
    for place, (cell, seed) in enumerate(product(cells, seeds)):
        again = weighted > 0 and place % round(1 / weighted) == 0
        with torch.random.fork_rng():
            lines.append({"class": name, "table": str(cell), "seed": seed, **measure(makes[name], cell, seed, again)})
    return pd.DataFrame(lines)


def run(context: Context) -> Result:
    """Measure every class on the tables of its grid, one core each; the slow ones on some."""
    seeds = range(context.seed, context.seed + (1 if context.quick else 3))
    work = []
    for makes, targets, _ in KINDS:
        cells = grid(targets)
        for name in makes:
            most = (
                (6 if name in SLOW + SLOW_DETECTORS else 20) if context.quick else (40 if name in SLOW else len(cells))
            )
            some = thinned(cells, most)
            work += [(name, some[start : start + PART]) for start in range(0, len(some), PART)]
    tasks = (joblib.delayed(measured)(name, cells, seeds) for name, cells in context.track(work))
    frames = list(joblib.Parallel(n_jobs=-1)(tasks))
    return result_of(judge(pd.concat(frames)), [summary(pd.concat(frames))])


def summary(lines: pd.DataFrame) -> Table:
    """One row per class: means, and the worst of all runs."""
    ends = {"coverage": "min"} | dict.fromkeys(("mean", "NLL", "weights", "a tenth", "auto"), "max")
    by_class = lines.groupby("class", sort=False)
    columns = {"runs": by_class.size()}
    for name, end in ends.items():
        if name in lines:
            columns |= {name: by_class[name].mean(), f"{name}, worst": by_class[name].agg(end)}
    return Table(
        pd.DataFrame(columns),
        "Tables of 15, 30 and 100 rows and half as many, as many and three times as many columns. Coverage: share of "
        f"{FRESH} new rows in 90% intervals. Mean: distance of the mean prediction from the mean of new rows, over "
        "what is allowed: 35% of it and two standard errors of the mean of the training rows. NLL: less that of the "
        "marginal. Weights: largest difference between weights as counts and repeated rows, over the spread. A tenth, "
        "auto: share of new clean rows called outliers where a tenth is asked for, and by the automatic threshold.",
        digits=3,
    )


def judge(lines: pd.DataFrame) -> Iterator[Bar]:
    """Of each class: coverage, the mean, the NLL, weights and thresholds."""
    for name, own in lines.groupby("class", sort=False):
        label = str(name)
        if "coverage" in own and own["coverage"].notna().any():
            yield Bar(f"{label}, mean coverage of 90% intervals", float(own["coverage"].mean()), "≥", 0.8)
            yield from worst(f"{label}, coverage in a run", of(own, "coverage"), "≥", 0.6)
            yield from worst(f"{label}, error of the mean over what is allowed", of(own, "mean"), "≤", 1.0)
        if "NLL" in own and own["NLL"].notna().any():
            yield Bar(f"{label}, mean NLL above that of the marginal", float(own["NLL"].mean()), "≤", 0.05)
        if "weights" in own and label not in SLOW:  # whose folds and batches are drawn by row
            yield from worst(f"{label}, weights as repeated rows", of(own, "weights"), "≤", 1e-5)
        if "a tenth" in own and own["a tenth"].notna().any():
            yield Bar(f"{label}, mean share of clean rows, a tenth asked for", float(own["a tenth"].mean()), "≤", 0.2)
            yield from worst(f"{label}, share of clean rows, a tenth asked for", of(own, "a tenth"), "≤", 0.2)
            yield Bar(f"{label}, mean share of clean rows, automatic", float(own["auto"].mean()), "≤", 0.08)


def of(lines: pd.DataFrame, name: str) -> pd.Series[float]:
    """One measure by table and seed."""
    found: pd.Series[float] = lines.set_index(["table", "seed"])[name]
    return found
