"""Recalibration: how fast, in how little memory, and how safe, beside the libraries people use."""

from __future__ import annotations

import multiprocessing
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar
from scipy.special import log_softmax
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.calibration import CalibratedClassifierCV
from sklearn.frozen import FrozenEstimator

from experiments.benchmarks._bars import result_of
from experiments.benchmarks._timing import compare, peak_megabytes, ratio
from experiments.entries import Bar, Context, Result
from experiments.entries.parts import Table
from likely.calibration import GlobalTemperature, LinearTemperature

FASTER_THAN_TEMPERATURES, FASTER_THAN_VECTORS, MEGABYTES, EXACT = 25, 3, 64, 1e-6
GLOBAL, LINEAR = "likely GlobalTemperature", "likely LinearTemperature"


def run(context: Context) -> Result:
    """Fit one temperature, and a linear one, to many logits, with every library that is installed."""
    rows, classes = (5_000, 200) if context.quick else (50_000, 1_000)
    logits, y = problem(rows, classes, context.seed)
    ours: dict[str, Callable[[], Any]] = {
        GLOBAL: lambda: GlobalTemperature().fit(logits, y),
        LINEAR: lambda: LinearTemperature().fit(logits, y),
    }
    times = compare({**ours, **peers(logits, y)}, repeats=5)
    context.progress(0.8)
    times[f"{GLOBAL} is"] = times["seconds"] / times["seconds"][GLOBAL]
    error = abs(GlobalTemperature().fit(logits, y).temperature_ / exact_temperature(logits, y) - 1)
    extra = {name: extra_megabytes(name, logits, y) for name in ("GlobalTemperature", "LinearTemperature")}
    context.progress(1.0)
    times.index.name = "what"
    size = f"{rows:,} × {classes:,} float32 logits"
    caption = f"{size}, one thread, in turns in one process; × is how many times faster ours is."
    bars = checks(times, error, extra, judge_speed=not context.quick)
    return result_of(bars, [Table(times, caption, digits=2)])


def problem(rows: int, classes: int, seed: int) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Logits of a classifier that is too sure, more so on one half of the rows, which a shift betrays."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, classes, rows)
    logits = rng.standard_normal((rows, classes), dtype=np.float32)
    logits[np.arange(rows), y] += 3
    hard = rng.random(rows) < 0.5
    logits[hard, : classes // 2] += 0.5
    logits *= np.where(hard, 3, 1.5)[:, None].astype(np.float32)
    return logits, y


def peers(logits: NDArray[np.float32], y: NDArray[np.int64]) -> dict[str, Callable[[], Any]]:
    """The same by scikit-learn and, where it is installed, probmetrics."""

    def by_sklearn() -> object:
        frozen = FrozenEstimator(_Logits().fit(logits, y))
        return CalibratedClassifierCV(frozen, method="temperature").fit(logits, y)

    found: dict[str, Callable[[], Any]] = {"scikit-learn temperature": by_sklearn}
    if find_spec("probmetrics"):
        from probmetrics import calibrators
        from probmetrics.distributions import CategoricalLogits

        def by_probmetrics(name: str) -> Callable[[], Any]:
            given, labels = CategoricalLogits(torch.from_numpy(logits)), torch.from_numpy(y)
            return lambda: getattr(calibrators, name)().fit_torch(given, labels)

        found["probmetrics temperature"] = by_probmetrics("TemperatureScalingCalibrator")
        found["probmetrics vector scaling"] = by_probmetrics("VectorScalingCalibrator")
    return found


class _Logits(ClassifierMixin, BaseEstimator):
    """A classifier whose decision is its input, so that only the calibration is timed."""

    def fit(self, X: Any, y: Any) -> _Logits:
        self.classes_ = np.unique(y)
        return self

    def decision_function(self, X: Any) -> Any:
        return X

    def predict(self, X: Any) -> Any:
        return X.argmax(1)


def exact_temperature(logits: NDArray[np.float32], y: NDArray[np.int64]) -> float:
    """The temperature by Brent's method in double precision."""
    rows = np.arange(len(y))

    def loss(log_tau: float) -> float:
        tau, total = np.exp(log_tau), 0.0
        for part in np.array_split(rows, max(1, len(rows) // 2000)):
            total -= log_softmax(logits[part].astype(np.float64) * tau, axis=1)[np.arange(len(part)), y[part]].sum()
        return total

    return float(np.exp(-minimize_scalar(loss, bracket=(-2.0, 0.0), tol=1e-10).x))


def extra_megabytes(name: str, logits: NDArray[np.float32], y: NDArray[np.int64]) -> float:
    """What a fit adds to the memory of a process of its own that holds the logits; NaN where Linux cannot tell it."""
    if not Path("/proc/self/clear_refs").exists():
        return float("nan")
    with tempfile.TemporaryDirectory() as folder:
        np.save(Path(folder) / "logits.npy", logits)
        with multiprocessing.get_context("spawn").Pool(1) as pool:
            return pool.apply(_measure, (name, folder, y))


def _measure(name: str, folder: str, y: NDArray[np.int64]) -> float:
    from likely import calibration

    torch.set_num_threads(1)
    small, labels = problem(500, 20, 0)
    getattr(calibration, name)().fit(small, labels)  # what the libraries take at first use is not the fit's
    logits = np.load(Path(folder) / "logits.npy")
    Path("/proc/self/clear_refs").write_text("5")  # the peak so far is forgotten, or it could hide the fit's own
    before = peak_megabytes()
    getattr(calibration, name)().fit(logits, y)
    return peak_megabytes() - before


def checks(times: pd.DataFrame, error: float, extra: Mapping[str, float], *, judge_speed: bool) -> Iterator[Bar]:
    """Measured values beside their bars; a small quick problem says nothing about speed."""

    def faster(name: str, ours: str, theirs: Sequence[str], bar: float) -> Bar:
        rival = min((t for t in theirs if t in times.index), key=lambda t: times["seconds"][t], default=None)
        found, spread = ratio(times, rival, ours) if rival else (np.nan, None)
        return Bar(name, found, "≥", bar if judge_speed else None, "×", spread)

    temperatures = [str(name) for name in times.index if str(name).endswith(" temperature")]
    yield faster("GS, faster than the fastest peer", GLOBAL, temperatures, FASTER_THAN_TEMPERATURES)
    yield faster("LS, faster than probmetrics' VS", LINEAR, ["probmetrics vector scaling"], FASTER_THAN_VECTORS)
    yield Bar("GS, relative error", error, "≤", EXACT)
    yield Bar("GS, extra memory", extra["GlobalTemperature"], "≤", MEGABYTES, " MB")
    yield Bar("LS, extra memory", extra["LinearTemperature"], "≤", MEGABYTES, " MB")
