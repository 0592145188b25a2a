"""The tables of the benchmark, split into training and test rows."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from torch.distributions import Normal

from experiments.benchmarks._tabular_columns import categorical
from experiments.data import (
    Frame,
    list_frames,
    list_outliers,
    list_regression,
    load_frame,
    load_outliers,
    load_regression as load_numbers,
)

Array = NDArray[np.float64]
Kind = Literal["regression", "classes", "counts"]
MOST = 5000  # largest number of training rows, and of test rows
NUMERIC = {  # files of the data folder, by the names on the page
    "bank32nh": "bank32nh",
    "bank8FM": "bank8FM",
    "cpu": "cpu",
    "crime": "crime",
    "fried": "fried",
    "kin8nm": "kinematics_kin8nm",
    "mpg": "mpg",
    "soil": "soil_visualizing",
    "boston": "uci_boston",
    "protein": "uci_protein",
    "wine red": "wine_red",
    "wine white": "wine_white",
}
# Sets that were used, in other splits, to choose the members and their defaults.
SEEN = {"bank8FM", "cpu", "crime", "kin8nm", "mpg", "boston", "protein", "wine red", "wine white"}
CLASSES = (
    *("annthyroid", "breastw", "cardio", "letter", "mammography", "mnist"),
    *("optdigits", "pendigits", "pima", "satellite", "thyroid", "vowels"),
)


@dataclass(frozen=True)
class Problem:
    """Training and test rows, with targets in their own units."""

    name: str
    kind: Kind
    X: pd.DataFrame
    y: NDArray[Any]
    X_test: pd.DataFrame
    y_test: NDArray[Any]
    chosen_on: bool = False

    @property
    def label(self) -> str:
        """The name, with a star where defaults may have been chosen on other splits of the set."""
        return f"{self.name}*" if self.chosen_on else self.name

    @property
    def classes(self) -> int:
        """The number of classes in the training rows, whose labels are numbers from zero."""
        return int(self.y.max()) + 1

    @property
    def has_categories(self) -> bool:
        """Whether a column is neither numbers nor dates nor booleans."""
        return bool(categorical(self.X))

    @cached_property
    def units(self) -> tuple[float, float]:
        """Mean and deviation of the training targets."""
        return float(self.y.mean()), float(self.y.std())

    @cached_property
    def learned(self) -> NDArray[Any]:
        """The training targets for rivals: standardised for regression, else unchanged."""
        return (self.y - self.units[0]) / self.units[1] if self.kind == "regression" else self.y

    def in_units_of_target(self, mean: Array, scale: Array | float) -> Normal:
        """Return a normal per test row, from means and scales in the units of `learned`."""
        middle, width = self.units
        spread = np.broadcast_to(np.maximum(scale, 1e-9), mean.shape) * width
        return Normal(torch.from_numpy(middle + width * np.asarray(mean)), torch.from_numpy(spread))


def list_problems(kind: Kind, *, frames: bool, data: str | os.PathLike[str] | None = None) -> list[str]:
    """Return the names of the available tables of packages, or sets of the data folder."""
    if frames:
        return list_frames(kind)
    if kind == "regression":
        available = set(list_regression(data))
        return [name for name, file in NUMERIC.items() if file in available]
    return [name for name in CLASSES if name in list_outliers(data)] if kind == "classes" else []


def load_problem(name: str, split: int, data: str | os.PathLike[str] | None = None) -> Problem:
    """Load a table of either source in the split of this number."""
    if name in NUMERIC:
        table = load_numbers(NUMERIC[name], data)
        return split_of(Frame(name, _numbered(table.X), table.y, "regression"), split, chosen_on=name in SEEN)
    if name in CLASSES:
        rows = load_outliers(name, data)
        return split_of(Frame(name, _numbered(rows.X.astype(np.float64)), rows.y, "classes"), split)
    return split_of(load_frame(name), split)


def split_of(frame: Frame, split: int, chosen_on: bool | None = None) -> Problem:
    """Split a table: four fifths of the rows, at most 5,000, for training; of the others at most 5,000 for testing."""
    order = np.random.default_rng([18, split]).permutation(len(frame.y))
    count = min(MOST, int(0.8 * len(order)))
    train, test = order[:count], order[count : count + MOST]
    if frame.task == "classes":
        test = test[np.isin(frame.y[test], frame.y[train])]
    X, X_test = (frame.X.iloc[rows].reset_index(drop=True) for rows in (train, test))
    chosen = frame.chosen_on if chosen_on is None else chosen_on
    return Problem(frame.name, frame.task, X, frame.y[train], X_test, frame.y[test], chosen)


def _numbered(X: Array) -> pd.DataFrame:
    return pd.DataFrame(X, columns=[f"x{i}" for i in range(X.shape[1])])
