"""Table 5: recalibrating regressors, judged by CAL and NLL with paired differences.

The regressor is the paper's: a hidden layer of ten units, a mean and a predicted scale, trained by NLL on half of the
rows. A quarter calibrates and a quarter judges, several times over. With a data folder these are the paper's eight
sets as far as they can be told; without one, a synthetic set and scikit-learn's diabetes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.datasets import load_diabetes
from sklearn.impute import SimpleImputer
from sklearn.isotonic import IsotonicRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from torch import Tensor
from torch.distributions import Distribution, Normal, Uniform

from experiments.data import Regression, list_regression, load_regression, make_heteroscedastic
from experiments.entries.cores import one_core
from experiments.entries.entry import Context, Result
from experiments.entries.parts import Table
from experiments.paper._comparison import Comparison, Scores, beside_paper
from experiments.paper._regressors import Regressors, predict, train
from likely.calibration import DeepScale, GlobalScale, IsotonicScale, LinearScale, compose
from likely.metrics import negative_log_likelihood, pit_values, quantile_calibration_error

UNCALIBRATED, ISOTONIC, GS, LS, DS = "Uncalibrated", "Isotonic", "GS", "LS", "DS"
OURS, RIVALS = (LS, DS), (ISOTONIC, GS)
METHODS: dict[str, Callable[[], Any]] = {
    GS: GlobalScale,
    LS: LinearScale,
    DS: DeepScale,
    "LS, no penalty": lambda: LinearScale(penalty=None),
    "Isotonic, ours": IsotonicScale,
    "LS, then isotonic": lambda: compose(LinearScale(), IsotonicScale()),
}
SETS = {  # what the paper calls it: its file, and the paper's CAL by Uncalibrated, Isotonic, GS, LS and DS
    "crime": ("crime", (0.3624, 0.3499, 0.0693, 0.0125, 0.0310)),
    "kinematics": ("kinematics_kin8nm", (0.0164, 0.0103, 0.0022, 0.0021, 0.0032)),
    "bank": ("bank8FM", (0.0122, 0.0056, 0.0027, 0.0024, 0.0020)),
    "wine": ("wine_white", (0.0091, 0.0108, 0.0152, 0.0131, 0.0064)),
    "mpg": ("mpg", (0.2153, 0.2200, 0.1964, 0.1483, 0.0233)),
    "cpu": ("cpu", (0.0862, 0.0340, 0.3018, 0.2078, 0.1740)),
    "soil": ("soil_visualizing", (0.3083, 0.3000, 0.3130, 0.3175, 0.3137)),
    "fried": ("fried", (0.0006, 0.0002, 0.0002, 0.0002, 0.0002)),
}
PAPER = {
    name: dict(zip((UNCALIBRATED, ISOTONIC, GS, LS, DS), values, strict=True)) for name, (_, values) in SETS.items()
}
WIDTH = 10
SHOWN = {ISOTONIC: "gold", LS: "blue", DS: "green", "Isotonic, ours": "red", "LS, then isotonic": "violet"}
MEASURES = ("CAL", "NLL")


class Effort(NamedTuple):
    """How much of it all to run; quick takes fewer rows and fewer, longer steps."""

    splits: int
    steps: int
    rate: float
    rows: int


QUICK, FULL = Effort(3, 150, 2e-2, 600), Effort(10, 3000, 1e-3, 50_000)


@dataclass(frozen=True)
class Part:
    """Standardised inputs and targets, and what the regressor says of them."""

    x: NDArray[np.float64]
    y: NDArray[np.float64]
    mean: NDArray[np.float64]
    scale: NDArray[np.float64]


@one_core()
def run(context: Context) -> Result:
    """Train on a half, calibrate on a quarter and judge on a quarter of every set, several times over."""
    effort = QUICK if context.quick else FULL
    sources = regressions(context)
    found = Comparison(
        {
            name: context.once((name,), scores, sources[name](), effort, context.seed)
            for name in context.track(list(sources))
        },
        MEASURES,
        GS,
        test_per_train=1 / 3,  # three quarters are fitted to, by the network or the calibrator
        order=(UNCALIBRATED, ISOTONIC, *METHODS),
    )
    cal, nll = (found.means(measure, "set") for measure in MEASURES)
    return Result(
        "not judged",
        describe(found, missing=[name for name in SETS if name not in sources] if set(sources) & set(SETS) else []),
        tables=(
            Table(
                found.records(OURS, RIVALS),
                "Sets on which ours is clearly better – neither – clearly worse than the rival: the paired difference "
                "over splits is more than two standard errors from zero (Nadeau and Bengio's, which allow for splits "
                "that share rows). Kuleshov's isotonic map has steps, so it has no NLL.",
            ),
            Table(
                beside_paper(cal, PAPER, "CAL"),
                f"CAL, mean over {effort.splits} splits. Isotonic is Kuleshov's map; ours has a density and starts "
                "from GS. The paper names neither its files nor its splits: wine is the white one here, bank is "
                f"bank8FM, soil is visualizing_soil. {found.spread('CAL', cal.columns)}",
                {tuple(cal.columns): "lower"},
                digits=4,
            ),
            Table(
                nll,
                f"Full NLL in nats, in units of the standardised target, mean over {effort.splits} splits. "
                f"{found.spread('NLL', nll.columns.drop(UNCALIBRATED))}",
                {tuple(nll.columns): "lower"},
            ),
            *(
                Table(
                    found.against_baseline(measure, "set", SHOWN),
                    f"{measure}: the paired difference to GS, ± one standard error.",
                )
                for measure in MEASURES
            ),
        ),
        pictures=tuple(found.picture(measure, SHOWN) for measure in MEASURES),
    )


def regressions(context: Context) -> dict[str, Callable[[], Regression]]:
    """How to get each set: the paper's that are in the data folder, else two that always are."""
    there = list_regression(context.data) if context.data else []
    found = {name: _later(file, context.data) for name, (file, _) in SETS.items() if file in there}
    return found or {"synthetic": lambda: synthetic(context.seed), "diabetes": diabetes}


def _later(file: str, data: Path | None) -> Callable[[], Regression]:
    return lambda: load_regression(file, data)


def synthetic(seed: int) -> Regression:
    """Noise that varies tenfold over the rows."""
    made = make_heteroscedastic(2000, random_state=seed)
    return Regression("synthetic", made.X, made.y)


def diabetes() -> Regression:
    """442 patients, ten measurements, how far the disease went in a year."""
    found = load_diabetes()
    return Regression("diabetes", found.data, found.target)


def scores(data: Regression, effort: Effort, seed: int) -> Scores:
    """CAL and NLL of every method on the test rows of every split."""
    found: dict[str, list[tuple[float, float]]] = {}
    for fit, test in forecasts(data, effort, seed):
        plain = Normal(torch.as_tensor(test.mean), torch.as_tensor(test.scale))
        found.setdefault(UNCALIBRATED, []).append(_judged(test.y, plain))
        found.setdefault(ISOTONIC, []).append((kuleshov(fit, test), np.nan))
        for name, make in METHODS.items():
            calibrator = make().fit(fit.mean, fit.scale, fit.y, features=fit.x)
            distribution = calibrator.distribution(test.mean, test.scale, features=test.x)
            found.setdefault(name, []).append(_judged(test.y, distribution))
    return {name: np.array(values) for name, values in found.items()}


def _judged(y: NDArray[np.float64], distribution: Distribution) -> tuple[float, float]:
    return quantile_calibration_error(y, distribution), float(negative_log_likelihood(y, distribution))


def kuleshov(fit: Part, test: Part) -> float:
    """CAL after isotonic regression of the share of rows below a level on the level."""
    levels = np.sort(pit_values(fit.y, mean=fit.mean, scale=fit.scale))
    share = np.arange(1, len(levels) + 1) / len(levels)
    curve = IsotonicRegression(y_min=0, y_max=1, out_of_bounds="clip").fit(levels, share)
    moved = curve.predict(pit_values(test.y, mean=test.mean, scale=test.scale))
    return quantile_calibration_error(moved, Uniform(torch.zeros(len(moved)), torch.ones(len(moved))))


def forecasts(data: Regression, effort: Effort, seed: int) -> list[tuple[Part, Part]]:
    """For every split, the calibration and test rows as a network trained on the other half sees them."""
    rng = np.random.default_rng(seed)
    rows = min(len(data.y), effort.rows)
    orders = [rng.permutation(len(data.y))[:rows] for _ in range(effort.splits)]
    half, quarter = rows // 2, rows // 4
    x, y = (torch.stack(part) for part in zip(*(standardised(data, own, half) for own in orders), strict=True))
    generator = torch.Generator().manual_seed(seed)
    networks = Regressors(effort.splits, x.shape[2], WIDTH, predicted=True, generator=generator)
    train(networks, x[:, :half], y[:, :half], effort.steps, effort.rate)
    mean, scale = predict(networks, x)

    def part(split: int, rows: slice) -> Part:
        return Part(*(values[split, rows].double().numpy() for values in (x, y, mean, scale)))

    return [(part(i, slice(half, half + quarter)), part(i, slice(half + quarter, None))) for i in range(effort.splits)]


def standardised(data: Regression, order: NDArray[np.int64], half: int) -> tuple[Tensor, Tensor]:
    """Inputs, imputed, and targets in units of their training rows."""
    x, y = data.X[order], data.y[order, None]
    inputs = make_pipeline(SimpleImputer(keep_empty_features=True), StandardScaler()).fit(x[:half])
    target = StandardScaler().fit(y[:half])
    return torch.tensor(inputs.transform(x)).float(), torch.tensor(target.transform(y)[:, 0]).float()


def describe(found: Comparison, missing: Sequence[str] = ()) -> str:
    """On how many sets LS or DS is clearly better than each rival, and the mean CAL of every method."""
    good_on = []
    total = len(found.scores)
    for rival in RIVALS:
        pairs = list(zip(*(found.signs(ours, rival, "CAL") for ours in OURS), strict=True))
        good_on.append(f"{rival} on {sum(min(pair) < 0 for pair in pairs)}")
    means = found.means("CAL", "set").mean().sort_values()
    sentences = [
        f"In CAL, LS or DS is clearly better than {' and than '.join(good_on)} of {total} sets.",
        f"Mean CAL over the sets: {', '.join(f'{name} {mean:.4f}' for name, mean in means.items())}.",
    ]
    if not set(found.scores) & set(SETS):
        sentences.append("These sets are stand-ins that need no data; with a data folder, the paper's are used.")
    if missing:
        sentences.append(f"Not in the data folder: {', '.join(missing)}.")
    return " ".join(sentences)
