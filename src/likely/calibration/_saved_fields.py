"""What each calibrator learns: one table of the fields of its record in a file, for reading and writing."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from sklearn.base import clone
from torch import Tensor

from likely._saving.record import Record
from likely._solvers.evidence import Solution
from likely._typing import Array
from likely.calibration._choice import AutoCalibrator, AutoScale
from likely.calibration._compose import Composed, Composition, ScalePipeline
from likely.calibration._row_factor import Networks
from likely.calibration.classifiers._classic import IsotonicCalibration, PlattScaling, Polygon, Sigmoid
from likely.calibration.classifiers._scaling import StructuredMatrixScaling, VectorScaling
from likely.calibration.classifiers._temperature import (
    DeepTemperature,
    FeatureTemperature,
    GlobalTemperature,
    LinearTemperature,
)
from likely.calibration.regressors._isotonic import IsotonicScale, Tails
from likely.calibration.regressors._predicted import DeepScale, LinearScale, MetRanges
from likely.calibration.regressors._scale import GlobalScale

Read = Callable[[Record, str], Any]  # the checked value of a field


def _per_class(record: Record, field: str) -> Array:
    return record.array(field, record.classes)


def _check_order(record: Record, low: Array, high: Array, fields: str) -> None:
    if (low > high).any():
        raise ValueError(f"{record.name}: {fields} must be a lower and then an upper end, found the reverse")


def _interval(record: Record, field: str) -> tuple[float, float]:
    low, high = record.array(field, 2)
    _check_order(record, low, high, repr(field))
    return float(low), float(high)


def _line(record: Record, field: str) -> Solution:
    return Solution(
        mean=record.per_column("mean"),
        deviation=record.per_column("deviation", positive=True),
        coef=record.per_column("coef"),
        intercept=record.number("intercept"),
        precision=record.limit("precision"),
        n_iter=record.whole("n_iter"),
    )


def _met(record: Record, field: str) -> MetRanges:
    low, high = record.per_column("low"), record.per_column("high")
    _check_order(record, low, high, "'low' and 'high'")
    return MetRanges(torch.as_tensor(low), torch.as_tensor(high), _interval(record, "range"))


def _networks(record: Record, field: str) -> Networks | None:
    if record.whole("n_iter") == 0:
        return None
    layers = record.record(field)
    inputs = layers.array("first", None, record.columns, None)
    n, _, hidden = inputs.shape
    arrays = inputs, layers.array("shift", n, hidden), layers.array("last", n, hidden), layers.array("bias", n)
    first, shift, last, bias = (torch.as_tensor(array).float() for array in arrays)
    return Networks(first, shift, last, bias, _interval(layers, "range"))


def _sigmoids(record: Record, field: str) -> list[Sigmoid]:
    curves = record.records(field, record.classes)
    return [Sigmoid(curve.number("slope"), curve.number("intercept")) for curve in curves]


def _polygons(record: Record, field: str) -> list[Polygon]:
    polygons = []
    for curve in record.records(field, record.classes):
        odds = curve.array("odds", None)
        probability = curve.array("probability", len(odds), positive=True)
        if (np.diff(odds) <= 0).any() or (np.diff(probability) < 0).any() or probability[-1] > 1:
            raise ValueError(f"{curve.name}: 'odds' must rise, and 'probability' not fall or exceed one")
        polygons.append(Polygon(odds, probability))
    return polygons


def _tails(record: Record, field: str) -> Tails | None:
    if record.value(field) is None:
        return None
    tails = record.record(field)
    return Tails(tails.positive("df"), tails.positive("scale"))


def _levels(record: Record, field: str) -> Array:
    levels = record.array(field, None)
    if len(levels) < 2 or levels[0] != 0 or (np.diff(levels) < 0).any() or abs(levels[-1] - 1) > 1e-9:
        raise ValueError(f"{record.name}: {field!r} must rise from 0 to 1")
    return levels


def _by_name(record: Record, field: str) -> dict[str, float]:
    numbers = record.record(field)
    return {name: numbers.limit(name) for name in numbers.content}


def _steps(record: Record, field: str) -> list[Any]:
    return [record.again(step) for step in record.records(field)]


def _members(record: Record, field: str) -> dict[str, Any]:
    members = {member.text("name"): record.again(member) for member in record.records(field)}
    if len(members) < len(record.records(field)):
        raise ValueError(f"{record.name}: the names of {field!r} must differ")
    return members


def _inner(record: Record, field: str) -> Any:
    return record.again(record.record(field))


_TEMPERATURE: dict[str, Read] = {"global_temperature": Record.positive}
_SCALE: dict[str, Read] = {"has_scale": Record.truth, "global_scale": Record.positive}
_LINE: dict[str, Read] = {"solution": _line, "precision": Record.limit, "n_iter": Record.whole}
_VECTOR: dict[str, Read] = {**_TEMPERATURE, "factors": _per_class, "bias": _per_class}
_CHOICE: dict[str, Read] = {"best": Record.text, "scores": _by_name, "behind": _by_name}
_DEEP: dict[str, Read] = {
    "features": Record.whole,
    "mean": Record.per_column,
    "deviation": lambda record, field: record.per_column(field, positive=True),
    "n_iter": Record.whole,
    "gain": Record.limit,
    "networks": _networks,
}
LEARNED: dict[type, dict[str, Read]] = {
    GlobalTemperature: {"temperature": Record.positive},
    LinearTemperature: {**_TEMPERATURE, **_LINE},
    FeatureTemperature: {**_TEMPERATURE, **_LINE},
    DeepTemperature: {**_TEMPERATURE, **_DEEP},
    VectorScaling: {**_VECTOR, "precision": Record.limits},
    StructuredMatrixScaling: {
        **_VECTOR,
        "mixing": lambda record, field: record.array(field, record.classes, record.classes),
        "precision": Record.limits,
    },
    PlattScaling: {"curves": _sigmoids},
    IsotonicCalibration: {"curves": _polygons},
    Composition: {"steps": _steps},
    AutoCalibrator: {**_CHOICE, "members": _members},
    GlobalScale: _SCALE,
    LinearScale: {**_SCALE, "features": Record.whole, **_LINE, "share": Record.number, "met": _met},
    DeepScale: {**_SCALE, **_DEEP},
    IsotonicScale: {**_SCALE, "tails": _tails, "firmness": Record.limit, "levels": _levels},
    ScalePipeline: {"steps": _steps},
    AutoScale: {**_CHOICE, "calibrator": _inner},
}
_ATTRIBUTES = {"features": "n_features_", "best": "name_", "steps": "fitted_"}  # others have their field's name
_SPREAD = ("solution", "met")  # their fields are those of the record itself


def write(calibrator: Any, nested: Callable[[Any], dict[str, Any]]) -> dict[str, Any]:
    """Return what a calibrator learned, in JSON's types; ``nested`` writes a calibrator inside it."""
    record: dict[str, Any] = {}
    for field in LEARNED[type(calibrator)]:
        value = getattr(calibrator, _attribute(field))
        if field in ("steps", "members"):
            names = value if field == "members" else [name for name, _ in calibrator.steps]
            parts = zip(names, inside(calibrator), strict=True)
            record[field] = [{"name": name, **nested(part)} for name, part in parts]
        elif field == "calibrator":
            record[field] = nested(value)
        else:
            record |= _plain(value) if field in _SPREAD else {field: _plain(value)}
    return record


def read(calibrator: Any, record: Record) -> None:
    """Set the learned attributes of an unfitted calibrator from its record."""
    kind = type(calibrator)
    if kind in (LinearTemperature, FeatureTemperature):
        record.columns = record.classes if kind is LinearTemperature else len(record.array("coef", None))
    elif "features" in LEARNED[kind]:
        record.columns = record.whole("features") or record.classes or 1 + record.truth("has_scale")
    for field, look in LEARNED[kind].items():
        setattr(calibrator, _attribute(field), look(record, field))
    if record.classes:
        calibrator.n_classes_ = record.classes
    if isinstance(calibrator, Composed):
        names = [step.text("name") for step in record.records("steps")]
        calibrator.steps = [(name, clone(step)) for name, step in zip(names, calibrator.fitted_, strict=True)]
    elif isinstance(calibrator, AutoCalibrator):
        calibrator.candidates = {name: clone(member) for name, member in calibrator.members_.items()}


def inside(calibrator: Any) -> list[Any]:
    """Return the fitted calibrators that a calibrator consists of; none for most."""
    if isinstance(calibrator, AutoScale):
        return [calibrator.calibrator_]
    if isinstance(calibrator, AutoCalibrator):
        return list(calibrator.members_.values())
    return list(calibrator.fitted_) if isinstance(calibrator, Composed) else []


def _attribute(field: str) -> str:
    return _ATTRIBUTES.get(field, f"{field}_")


def _plain(value: Any) -> Any:
    """Return the value in JSON's types, with null for ∞."""
    if isinstance(value, Tensor | np.ndarray | np.generic):
        return _plain(value.tolist())
    if isinstance(value, Solution) or hasattr(value, "_asdict"):
        return _plain(vars(value) if isinstance(value, Solution) else value._asdict())
    if isinstance(value, dict):
        return {name: _plain(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(part) for part in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
