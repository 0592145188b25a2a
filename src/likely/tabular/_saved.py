"""Files of fitted stacks: the classes that one may name, and plain forms of networks, trees and frames."""

import copy
import copyreg
from dataclasses import dataclass, replace
from importlib import import_module
from typing import Any, Self

import numpy as np
import torch
from sklearn.ensemble import (
    ExtraTreesClassifier,
    ExtraTreesRegressor,
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
)
from sklearn.utils import check_array
from sklearn.utils.validation import check_is_fitted
from torch import nn

from likely._numerics.random import Seeded
from likely._rows.columns import as_codes, each_column, is_frame
from likely._saving.archive import packed, read_archive, write_archive
from likely._saving.codec import Codec, RecordReader, Unsaved
from likely._typing import FilePath, Index
from likely.tabular._columns import Dates, Encoders, Indicator, LevelCodes, MeanEncoding, Number, Numbers, TableColumns
from likely.tabular._stack import ClassPool, Pool, Stack
from likely.tabular.members.estimators import Boosted, Estimated, Flat, Foreign, Forest
from likely.tabular.members.kernel import LevelIndicators, Smooth
from likely.tabular.members.linear import Lines
from likely.tabular.members.network import Network
from likely.tabular.members.task import StackMember
from likely.tabular.networks.modules import MLP
from likely.tabular.targets.atoms import AtomTarget
from likely.tabular.targets.continuous import ContinuousTarget
from likely.tabular.targets.counts import CountTarget, Dispersion
from likely.tabular.targets.links import Link
from likely.tabular.targets.noise import Noise, Shape

ESTIMATORS = ("LikelihoodRegressor", "LikelihoodClassifier")
PASSING = ("_began", "_device", "_metadata_request")  # attributes that are no part of the model
EQUAL = 1e-9  # largest difference of predictions before and after saving
ALIKE = 1e-3  # the same for a model on another device
ALIKE_SHARE = 0.9  # of rows that must meet it
LIBRARIES = ("pandas", "polars")
OTHERWISE = "leave it out by model=[…], or save the whole model with joblib or skops"


def save_model(estimator: Any, path: FilePath) -> None:
    """Write a fitted estimator; see its ``save``."""
    check_is_fitted(estimator)
    _, codec = _codec(type(estimator))
    plain = copy.copy(estimator)
    rows = estimator._sample
    plain._sample = PlainFrame.of(rows, estimator.columns_) if is_frame(rows) else np.asarray(rows)
    header, arrays = packed(codec, plain)
    _check_equal(estimator, RecordReader(codec, arrays).read(header["model"]))
    write_archive(path, header, arrays)


def load_model(cls: type, path: FilePath) -> Any:
    """Return the estimator in a file that :func:`save_model` wrote; see its ``load``."""
    name, codec = _codec(cls)
    return read_archive(codec, path, name, lambda model: model._location_and_log_scale(model._sample[:2]))


def _codec(cls: type) -> tuple[str, Codec]:
    """Return the name of the class of this package that a class is or extends, and a codec that uses it."""
    name = next(base.__name__ for base in cls.__mro__ if base.__name__ in ESTIMATORS)
    return name, replace(CODEC, classes={**CODEC.classes, name: cls})


def _check_equal(estimator: Any, restored: Any) -> None:
    """Raise an error if the copy predicts differently."""
    # The copy is on the CPU: another device rounds differently, which can move a row to another branch of a tree.
    on_cpu = torch.device(estimator.device or "cpu").type == "cpu"
    tolerance, share = (EQUAL, 1.0) if on_cpu else (ALIKE, ALIKE_SHARE)
    before, after = (model._location_and_log_scale(model._sample) for model in (estimator, restored))
    for expected, actual in zip(before, after, strict=True):
        if np.isclose(expected, actual, rtol=tolerance, atol=tolerance, equal_nan=True).mean() < share:
            raise RuntimeError(
                "the model was not saved, because its copy does not predict the same: save it with joblib or skops, "
                "and report this with the version of scikit-learn"
            )


@dataclass(frozen=True)
class PlainNetwork:
    """The tensors of an :class:`MLP`, by name."""

    tensors: dict[str, torch.Tensor]

    def restored(self) -> MLP:
        """Return the network."""
        layers = [value for name, value in self.tensors.items() if name.startswith("body.") and name.endswith("weight")]
        models, inputs, outputs = self.tensors["line.weight"].shape
        with Seeded(0, all_draws=False):
            network = MLP(models, inputs, outputs, [layer.shape[-1] for layer in layers], 0.0)
        network.load_state_dict(self.tensors)
        return network.eval()


@dataclass(frozen=True)
class PlainFrame:
    """A frame whose columns hold numbers or levels; times are numbers of days."""

    library: str
    names: tuple[Any, ...]
    values: tuple[Any, ...]

    @classmethod
    def of(cls, X: Any, columns: TableColumns) -> Self:
        """Convert a frame, whose columns are read by ``columns``."""
        values: list[Any] = []
        for kind, column in zip(columns.kinds, each_column(X), strict=True):
            if isinstance(kind, LevelCodes):
                missing = np.isnan(as_codes(column, kind.codes))
                levels = np.asarray(column, dtype=object).tolist()
                values.append([None if gap else level for gap, level in zip(missing, levels, strict=True)])
            else:
                values.append(kind.read(column)[0])
        return cls(type(X).__module__.split(".")[0], tuple(X.columns), tuple(values))

    def restored(self) -> Any:
        """Return a frame that is read as the same columns."""
        if self.library not in LIBRARIES:
            raise ValueError(f"the sample of rows is damaged: it names an unknown library of frames ({self.library!r})")
        try:
            library = import_module(self.library)
        except ImportError:
            raise ImportError(
                f"this model was fitted on a frame of {self.library}: pip install {self.library}"
            ) from None
        if self.library == "polars":
            return library.DataFrame(dict(zip(self.names, self.values, strict=True)))
        columns = {
            position: library.Series(values, dtype=object if isinstance(values, list) else None)
            for position, values in enumerate(self.values)
        }
        frame = library.DataFrame(columns)
        frame.columns = library.Index(self.names, tupleize_cols=False)
        return frame


def _replace(value: Any) -> Any:
    """Return an object of a listed class in place of one that is not; an error names what cannot be saved."""
    if isinstance(value, MLP):
        return PlainNetwork(value.state_dict())
    library = type(value).__module__.split(".")[0]
    try:
        return PlainState.of(value)
    except KeyError:
        pass
    kind, shown = type(value).__name__, repr(value)[:60]
    if isinstance(value, Foreign):
        raise Unsaved(f"it is a {type(value.estimator).__name__}, an estimator of another library; {OTHERWISE}")
    if isinstance(value, nn.Module):
        raise Unsaved(f"it is a {kind}, a module of your own; save its state_dict, or {OTHERWISE}")
    if library == "sklearn":
        raise Unsaved(f"this version of scikit-learn stores its trees in another way (with a {kind}); {OTHERWISE}")
    raise Unsaved(
        f"it holds {shown} of the type {kind}, and a file holds only numbers, strings and booleans; "
        "convert such columns or labels to text before the fit, or save the model with joblib or skops"
    )


TREES = (ExtraTreesClassifier, ExtraTreesRegressor, HistGradientBoostingClassifier, HistGradientBoostingRegressor)
BOOSTING = "sklearn.ensemble._hist_gradient_boosting"
LISTED = {
    "builtins": ["slice"],
    "numpy": ["float32", "float64"],
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
    "sklearn.utils.validation": ["check_array"],
    "sklearn._loss.link": ["IdentityLink", "Interval", "LogitLink", "LogLink", "MultinomialLogit"],
    "sklearn._loss.loss": [
        "HalfBinomialLoss", "HalfGammaLoss", "HalfMultinomialLoss", "HalfPoissonLoss", "HalfSquaredError",
    ],
    "sklearn._loss._loss": [
        "CyHalfBinomialLoss", "CyHalfGammaLoss", "CyHalfMultinomialLoss", "CyHalfPoissonLoss", "CyHalfSquaredError",
    ],
}  # fmt: skip
THEMSELVES = (check_array, np.float64, np.float32)  # parts that are no objects


@dataclass(frozen=True)
class PlainState:
    """An object of a listed class: the arguments of ``__new__``, and the state of ``__setstate__``.

    Without arguments it is the class or function itself.
    """

    module: str
    name: str
    args: tuple[Any, ...] | None
    state: Any

    @classmethod
    def of(cls, value: Any) -> Self | None:
        """Convert an object of a listed class; None for a random generator, which only a fit needs.

        Raises KeyError for an object of any other class.
        """
        if isinstance(value, np.random.Generator):
            return None
        if any(value is one for one in THEMSELVES):
            return cls(value.__module__, value.__name__, None, None)
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
        if self.args is None:
            return kind
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


CLASSES: tuple[type, ...] = (
    TableColumns, Numbers, Dates, LevelCodes,
    Encoders, Number, Indicator, MeanEncoding,
    Stack, StackMember, Pool, ClassPool,
    ContinuousTarget, Link, Noise, Shape, CountTarget, Dispersion, AtomTarget,
    Lines, Smooth, LevelIndicators, Network, Forest,
    Boosted, Flat, Estimated,
    PlainFrame, PlainNetwork, PlainState,
)  # fmt: skip
CODEC = Codec({kind.__name__: kind for kind in CLASSES}, _replace, skipped=PASSING)
