"""What a file says of each calibrator of classifiers, and the calibrator again from what it says."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from sklearn.base import clone
from sklearn.isotonic import IsotonicRegression

from likely._solvers.evidence import Solution
from likely.calibration._auto import AutoCalibrator
from likely.calibration._base import Calibrator
from likely.calibration._classic import IsotonicCalibration, PlattScaling
from likely.calibration._compose import Composition
from likely.calibration._deep import DeepTemperature
from likely.calibration._deep_network import Networks
from likely.calibration._json_fields import Record, bare
from likely.calibration._scaling import StructuredMatrixScaling, VectorScaling
from likely.calibration._temperature import FeatureTemperature, GlobalTemperature, LinearTemperature

Nested = Callable[[Any], dict[str, Any]]  # of a calibrator inside another one
Again = Callable[[Record], Any]


def write(calibrator: Any, nested: Nested) -> dict[str, Any]:
    """What was learned, in JSON's types."""
    match calibrator:
        case GlobalTemperature():
            return {"temperature": float(calibrator.temperature_)}
        case LinearTemperature() | FeatureTemperature():
            return {"global_temperature": float(calibrator.global_temperature_), **line(calibrator.solution_)}
        case DeepTemperature():
            return {
                "global_temperature": float(calibrator.global_temperature_),
                "features": int(calibrator.n_features_),
                **networks(calibrator),
            }
        case VectorScaling():
            mixing = {"mixing": calibrator.mixing_.tolist()} if calibrator.mixing_.size else {}
            return {
                "global_temperature": float(calibrator.global_temperature_),
                "factors": calibrator.factors_.tolist(),
                "bias": calibrator.bias_.tolist(),
                **mixing,
                "precision": [bare(strength) for strength in calibrator.precision_],
            }
        case PlattScaling():
            return {"curves": [{"slope": slope, "intercept": intercept} for slope, intercept in calibrator.curves_]}
        case IsotonicCalibration():
            return {"curves": [_knots(curve) for curve in calibrator.curves_]}
        case Composition():
            names = [name for name, _ in calibrator.steps]
            steps = zip(names, calibrator.fitted_, strict=True)
            return {"steps": [{"name": name, **nested(step)} for name, step in steps]}
    return {
        "best": calibrator.name_,
        "scores": {name: bare(score) for name, score in calibrator.scores_.items()},
        "behind": {name: bare(errors) for name, errors in calibrator.behind_.items()},
        "members": [{"name": name, **nested(member)} for name, member in calibrator.members_.items()],
    }


def read(calibrator: Any, record: Record, classes: int, again: Again) -> None:
    """Give an unfitted calibrator what the record says was learned."""
    calibrator.n_classes_, calibrator.classes_ = classes, np.arange(classes)
    match calibrator:
        case GlobalTemperature():
            calibrator.temperature_ = record.number("temperature", positive=True)
        case LinearTemperature() | FeatureTemperature():
            calibrator.global_temperature_ = record.number("global_temperature", positive=True)
            calibrator.solution_ = solution(record, classes if isinstance(calibrator, LinearTemperature) else None)
            calibrator.n_iter_, calibrator.precision_ = calibrator.solution_.n_iter, calibrator.solution_.precision
        case DeepTemperature():
            calibrator.global_temperature_ = record.number("global_temperature", positive=True)
            calibrator.n_features_ = record.whole("features")
            read_networks(calibrator, record, calibrator.n_features_ or classes)
        case VectorScaling():
            _read_scaling(calibrator, record, classes)
        case PlattScaling():
            calibrator.curves_ = [(curve.number("slope"), curve.number("intercept")) for curve in _all(record, classes)]
        case IsotonicCalibration():
            calibrator.curves_ = [_curve(curve) for curve in _all(record, classes)]
        case Composition():
            steps = record.records("steps")
            calibrator.fitted_ = [again(step) for step in steps]
            names = [step.text("name") for step in steps]
            calibrator.steps = [(name, clone(own)) for name, own in zip(names, calibrator.fitted_, strict=True)]
        case AutoCalibrator():
            members = record.records("members")
            calibrator.members_ = {member.text("name"): again(member) for member in members}
            if len(calibrator.members_) < len(members):
                raise ValueError(f"{record.name}: each of 'members' must have a name of its own")
            calibrator.candidates = {name: clone(member) for name, member in calibrator.members_.items()}
            calibrator.name_ = record.text("best")
            for field in ("scores", "behind"):
                told = record.record(field)
                setattr(calibrator, f"{field}_", {name: told.limit(name) for name in told.content})


def line(fitted: Solution) -> dict[str, Any]:
    """A parameter linear in standardised columns."""
    return {
        "mean": fitted.mean.tolist(),
        "deviation": fitted.deviation.tolist(),
        "coef": fitted.coef.tolist(),
        "intercept": float(fitted.intercept),
        "precision": bare(fitted.precision),
        "n_iter": int(fitted.n_iter),
    }


def solution(record: Record, columns: int | None) -> Solution:
    """The same again."""
    coef = record.array("coef", columns)
    return Solution(
        record.array("mean", len(coef)),
        record.array("deviation", len(coef), positive=True),
        coef,
        record.number("intercept"),
        record.limit("precision"),
        record.whole("n_iter"),
    )


def networks(calibrator: Any) -> dict[str, Any]:
    """Five networks and what standardises their input; null where held-out rows spoke for none of them."""
    told = {
        "mean": calibrator.mean_.tolist(),
        "deviation": calibrator.deviation_.tolist(),
        "n_iter": int(calibrator.n_iter_),
        "gain": bare(calibrator.gain_),
    }
    if calibrator.n_iter_ == 0:
        return {**told, "networks": None}
    first, shift, last, bias = (layer.double().cpu() for layer in calibrator.networks_.layers)
    layers = {
        "range": [float(end) for end in calibrator.networks_.range],
        "first": first.tolist(),
        "shift": shift[:, 0].tolist(),
        "last": last[..., 0].tolist(),
        "bias": bias[:, 0, 0].tolist(),
    }
    return {**told, "networks": layers}


def read_networks(calibrator: Any, record: Record, columns: int) -> None:
    """The same again."""
    calibrator.mean_ = record.array("mean", columns)
    calibrator.deviation_ = record.array("deviation", columns, positive=True)
    calibrator.n_iter_, calibrator.gain_ = record.whole("n_iter"), record.limit("gain")
    layers, ends = [], (0.0, 0.0)
    if calibrator.n_iter_:
        told = record.record("networks")
        low, high = told.array("range", 2)
        told.interval(low, high, "'range'")
        first = told.array("first", None, columns, None)
        n, _, hidden = first.shape
        shift, last, bias = told.array("shift", n, hidden), told.array("last", n, hidden), told.array("bias", n)
        shaped = (first, shift[:, None], last[..., None], bias[:, None, None])
        layers, ends = [torch.as_tensor(layer).float() for layer in shaped], (float(low), float(high))
    calibrator.networks_ = Networks(layers, ends, calibrator.n_iter_, calibrator.gain_)


def features_of(calibrator: Calibrator) -> int:
    """How many features a row it reads; 0 for none."""
    match calibrator:
        case FeatureTemperature():
            return len(calibrator.solution_.coef)
        case DeepTemperature():
            return int(calibrator.n_features_)
        case Composition():
            return max(map(features_of, calibrator.fitted_))
        case AutoCalibrator():
            return max(map(features_of, calibrator.members_.values()))
    return 0


def _read_scaling(calibrator: VectorScaling, record: Record, classes: int) -> None:
    matrix = isinstance(calibrator, StructuredMatrixScaling)
    calibrator.global_temperature_ = record.number("global_temperature", positive=True)
    calibrator.factors_, calibrator.bias_ = record.array("factors", classes), record.array("bias", classes)
    calibrator.mixing_ = record.array("mixing", classes, classes) if matrix else np.zeros((0, classes))
    calibrator.precision_ = record.limits("precision")


def _all(record: Record, classes: int) -> list[Record]:
    curves = record.records("curves")
    if len(curves) != classes:
        raise ValueError(f"{record.name}: 'curves' must hold one for each of {classes} classes, found {len(curves)}")
    return curves


def _knots(curve: IsotonicRegression) -> dict[str, Any]:
    return {"odds": curve.X_thresholds_.tolist(), "probability": curve.y_thresholds_.tolist()}


def _curve(record: Record) -> IsotonicRegression:
    odds = record.array("odds", None)
    probability = record.array("probability", len(odds), positive=True)
    if (np.diff(odds) <= 0).any() or (np.diff(probability) < 0).any() or probability[-1] > 1:
        raise ValueError(f"{record.name}: 'odds' must rise, and 'probability' not fall or exceed one")
    # A fit to knots that rise gives these knots back.
    return IsotonicRegression(out_of_bounds="clip").fit(odds, probability)
