"""scikit-learn's trees, as the state that they give to pickle; in reading, only the classes listed here are made."""

from __future__ import annotations

import copyreg
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np
from sklearn.ensemble import (
    ExtraTreesClassifier,
    ExtraTreesRegressor,
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
)
from sklearn.utils import check_array

from likely._typing import Index

TREES = (ExtraTreesClassifier, ExtraTreesRegressor, HistGradientBoostingClassifier, HistGradientBoostingRegressor)
BOOSTING = "sklearn.ensemble._hist_gradient_boosting"
LISTED = {
    "builtins": ["slice"],
    "functools": ["partial"],
    "sklearn.ensemble._forest": ["ExtraTreesClassifier", "ExtraTreesRegressor"],
    "sklearn.tree._classes": ["ExtraTreeClassifier", "ExtraTreeRegressor"],
    "sklearn.tree._tree": ["Tree"],
    f"{BOOSTING}.gradient_boosting": ["HistGradientBoostingClassifier", "HistGradientBoostingRegressor"],
    f"{BOOSTING}.binning": ["_BinMapper"],
    f"{BOOSTING}.predictor": ["TreePredictor"],
    "sklearn.compose._column_transformer": ["ColumnTransformer"],
    "sklearn.preprocessing._encoders": ["OrdinalEncoder"],
    "sklearn.preprocessing._function_transformer": ["FunctionTransformer"],
    "sklearn.preprocessing._label": ["LabelEncoder"],
    "sklearn._loss.link": ["IdentityLink", "Interval", "LogitLink", "LogLink", "MultinomialLogit"],
    "sklearn._loss.loss": [
        "HalfBinomialLoss", "HalfGammaLoss", "HalfMultinomialLoss", "HalfPoissonLoss", "HalfSquaredError",
    ],
    "sklearn._loss._loss": [
        "CyHalfBinomialLoss", "CyHalfGammaLoss", "CyHalfMultinomialLoss", "CyHalfPoissonLoss", "CyHalfSquaredError",
    ],
}  # fmt: skip
VALUES = {"check_array": check_array, "float64": np.float64, "float32": np.float32}  # parts that are no objects


@dataclass(frozen=True)
class PlainValue:
    """A function or a type, by its name in ``VALUES``."""

    name: str

    def restored(self) -> Any:
        """Return it."""
        return VALUES[self.name]


@dataclass(frozen=True)
class PlainState:
    """An object of a listed class: the arguments of ``__new__``, and the state of ``__setstate__``."""

    module: str
    name: str
    args: tuple[Any, ...]
    state: Any

    @classmethod
    def of(cls, value: Any) -> PlainState | PlainValue | None:
        """Convert an object of a listed class; None for a random generator, which only a fit needs.

        Raises KeyError for an object of any other class.
        """
        if isinstance(value, np.random.Generator):
            return None
        for name, listed in VALUES.items():
            if value is listed:
                return PlainValue(name)
        kind = type(value)
        if kind.__name__ not in LISTED[kind.__module__]:
            raise KeyError(kind.__name__)
        make, args, *state = value.__reduce_ex__(4)[:3]
        if make is copyreg.__newobj__:  # type: ignore[attr-defined]
            args = args[1:]
        elif make is not kind:  # a function of Cython's, for a class without arguments
            args = ()
        return cls(kind.__module__, kind.__name__, tuple(args), state[0] if state else None)

    def restored(self) -> Any:
        """Return the object."""
        if self.name not in LISTED.get(self.module, ()):
            raise ValueError(f"it has a part of an unknown class, {self.module[:40]}.{self.name[:40]}")
        kind = getattr(import_module(self.module), self.name)
        value = kind.__new__(kind, *self.args)
        if self.state is not None and hasattr(value, "__setstate__"):
            value.__setstate__(self.state)
        elif self.state is not None:
            vars(value).update(self.state)
        if isinstance(value, TREES):
            check_nodes(value)
        return value


def check_nodes(model: Any) -> None:
    """Raise an error for nodes that a walk would leave or never end, since compiled code follows them unchecked."""
    columns = int(model.n_features_in_)
    if isinstance(model, ExtraTreesClassifier | ExtraTreesRegressor):
        for tree in (estimator.tree_ for estimator in model.estimators_):
            _check(tree.children_left, tree.children_right, tree.feature, tree.children_left == -1, columns)
        return
    for predictor in (predictor for turn in model._predictors for predictor in turn):
        nodes, is_leaf = predictor.nodes, predictor.nodes["is_leaf"] != 0
        by_level = ~is_leaf & (nodes["is_categorical"] != 0)
        _check(nodes["left"].astype(int), nodes["right"].astype(int), nodes["feature_idx"], is_leaf, columns)
        levels = model._bin_mapper.is_categorical_[nodes["feature_idx"][by_level]].all()
        if not levels or (nodes["bitset_idx"][by_level] >= len(predictor.raw_left_cat_bitsets)).any():
            raise ValueError("the trees are damaged: a split by category is out of range")


def _check(left: Index, right: Index, feature: Index, is_leaf: Any, columns: int) -> None:
    places = np.arange(len(left))
    inside = (left > places) & (right > places) & (left < len(left)) & (right < len(left))
    if not len(left) or not (is_leaf | (inside & (feature >= 0) & (feature < columns))).all():
        raise ValueError("the trees are damaged: an index of a node is out of range")
