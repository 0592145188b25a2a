"""Calibrators in a row against each alone and against probmetrics, and the choice among them, on every network."""

from __future__ import annotations

import math
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray

from experiments.benchmarks._bars import result_of, worst
from experiments.benchmarks.safety import nll
from experiments.data import list_logits, load_logits
from experiments.entries import Bar, Context, Result
from experiments.entries.cores import one_core
from experiments.entries.parts import Table
from likely.calibration import AutoCalibrator

SIZES, SEEDS = (1000, 2500, 5000), 2
AUTO, NEAR, SHARE = "Auto", 0.002, 0.9
PEERS = ("probmetrics SVS", "probmetrics SMS")
COMPOSED = "SMS → LS"  # the one that every file has, held against the peers
CHOSEN_ON = (
    "cifar10_lenet5, cifar10_resnet20, svhn_densenet121, cifar10_cleanlab_cv and (the rule) cifar100_densenet_bc100"
)


@one_core()
def run(context: Context) -> Result:
    """Fit every method on calibration rows of several numbers, and judge by the NLL of the other rows."""
    names = list_logits(context.data)
    if not names:
        raise FileNotFoundError("no logits/*.npz in the data folder: set LIKELY_DATA to one that has them")
    sizes, seeds = (SIZES[:1], 1) if context.quick else (SIZES, SEEDS)
    work = [(name, n, seed) for name in names for n in sizes for seed in range(context.seed, context.seed + seeds)]
    found = {case: measure(*case, context.data) for case in context.track(work)}
    splits = pd.DataFrame.from_dict({case: row for case, row in found.items() if row}, orient="index")
    splits.index = pd.MultiIndex.from_tuples(splits.index, names=["network", "n", "seed"])
    ours = [method for method in splits if method not in (AUTO, *PEERS)]
    shown = splits[[*ours, *(method for method in (AUTO, *PEERS) if method in splits)]]
    return result_of(
        judge(splits),
        (
            Table(
                shown.groupby(["network", "n"]).mean(),
                f"Test NLL by calibration rows, mean over {seeds} splits. Priors and Auto's rule were chosen on other "
                f"splits of {CHOSEN_ON}. Some files have features for 5,000 rows only, which larger splits lack.",
                {tuple(map(str, shown.columns)): "lower"},
                digits=4,
            ),
            Table(
                pd.DataFrame({f"less {base}": gaps(shown, base).mean() for base in ("GS", AUTO)}),
                "Mean over networks of the differences on the splits that have both.",
                digits=4,
            ),
        ),
        notes="" if set(PEERS) & set(splits) else "probmetrics is not installed: compared without it.",
    )


def measure(name: str, n: int, seed: int, data: Path | None) -> dict[str, float]:
    """The test NLL of every method on one split; nothing where the file has too few rows."""
    rows = load_logits(name, data)
    if rows.features is not None and n <= len(rows.described.labels) // 2:
        rows = rows.described
    half = len(rows.labels) // 2
    if n > half:
        return {}
    order = np.random.default_rng([seed, n]).permutation(len(rows.labels))
    fit, test = order[:n], order[half:]
    features = rows.features if rows.features is not None and len(rows.features) == len(rows.labels) else None
    known, new = (None, None) if features is None else (features[fit], features[test])
    z, y, logits, labels = rows.logits[fit], rows.labels[fit], rows.logits[test], rows.labels[test]
    # With all the slack there is, every candidate is a member: fitted as it would be alone, in less time.
    every = AutoCalibrator(slack=math.inf).fit(z, y, known)
    answers = {method: each.transform(logits, new) for method, each in every.members_.items()}
    near = [answers[method] for method, errors in every.behind_.items() if errors <= AutoCalibrator().slack]
    answers |= {AUTO: np.mean(near, axis=0), **peers(z, y, logits)}
    return {method: float(nll(answer, labels).mean()) for method, answer in answers.items()}


def peers(z: NDArray[np.float32], y: NDArray[np.int64], logits: NDArray[np.float32]) -> dict[str, NDArray[np.float32]]:
    """Logits by probmetrics' structured scalings, where it is installed."""
    if not find_spec("probmetrics"):
        return {}
    from probmetrics.calibrators import get_calibrator
    from probmetrics.distributions import CategoricalLogits

    found = {}
    for name in PEERS:
        kind = name.split()[1].lower()
        calibrator = get_calibrator(kind, **{f"{kind}_print_init_info": False})
        calibrator.fit_torch(CategoricalLogits(torch.from_numpy(z)), torch.from_numpy(y))
        answer = calibrator.predict_proba_torch(CategoricalLogits(torch.from_numpy(logits)))
        found[name] = answer.get_logits().numpy()
    return found


def gaps(splits: pd.DataFrame, base: str) -> pd.DataFrame:
    """Every method less another on the same splits, the mean for each network."""
    table = splits.sub(splits[base], axis=0).groupby("network").mean()
    table.columns.name = "method"
    return table


def judge(splits: pd.DataFrame) -> Iterator[Bar]:
    """A composition is below its parts and its peers, and the choice among them near the best, in the mean NLL.

    ``splits`` has a column a method.
    """
    for name in map(str, splits):
        if " → " in name:
            yield from worst(f"{name}, below its parts", gaps(splits, name).mean()[name.split(" → ")], ">", 0)
    theirs = [name for name in PEERS if name in splits]
    for name in (COMPOSED, AUTO) if theirs else ():
        # That Auto is below the peers too was never claimed, and is told.
        behind = gaps(splits, name)[theirs].mean()
        yield from worst(f"{name}, below probmetrics' best", behind, ">", 0 if name == COMPOSED else None)
    regret = -gaps(splits, AUTO).drop(columns=[AUTO, *theirs]).min(axis=1)
    case = f"{len(regret)} networks, at worst {regret.max():+.4f}"
    near = float((regret <= NEAR).mean())
    yield Bar(f"{AUTO}, share of networks within {NEAR} of the best of ours", near, "≥", SHARE, case=case)
