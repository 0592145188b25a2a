"""What a file says of each calibrator of classifiers, and the calibrator again from what it says."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.isotonic import IsotonicRegression

from likely.calibration._json import _parts as parts
from likely.calibration._json._fields import Record, bare
from likely.calibration._json._parts import Again, Nested
from likely.calibration.classifiers._auto import AutoCalibrator
from likely.calibration.classifiers._base import Calibrator
from likely.calibration.classifiers._classic import IsotonicCalibration, PlattScaling
from likely.calibration.classifiers._compose import Composition
from likely.calibration.classifiers._deep import DeepTemperature
from likely.calibration.classifiers._scaling import StructuredMatrixScaling, VectorScaling
from likely.calibration.classifiers._temperature import FeatureTemperature, GlobalTemperature, LinearTemperature


def write(calibrator: Any, nested: Nested) -> dict[str, Any]:
    """What was learned, in JSON's types."""
    match calibrator:
        case GlobalTemperature():
            return {"temperature": float(calibrator.temperature_)}
        case LinearTemperature() | FeatureTemperature():
            return {"global_temperature": float(calibrator.global_temperature_), **parts.line(calibrator.solution_)}
        case DeepTemperature():
            return {
                "global_temperature": float(calibrator.global_temperature_),
                "features": int(calibrator.n_features_),
                **parts.networks(calibrator),
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
            return parts.steps(calibrator, nested)
    members = [{"name": name, **nested(member)} for name, member in calibrator.members_.items()]
    return {**parts.comparison(calibrator), "members": members}


def read(calibrator: Any, record: Record, classes: int, again: Again) -> None:
    """Give an unfitted calibrator what the record says was learned."""
    calibrator.n_classes_, calibrator.classes_ = classes, np.arange(classes)
    match calibrator:
        case GlobalTemperature():
            calibrator.temperature_ = record.number("temperature", positive=True)
        case LinearTemperature() | FeatureTemperature():
            calibrator.global_temperature_ = record.number("global_temperature", positive=True)
            calibrator.solution_ = parts.solution(
                record, classes if isinstance(calibrator, LinearTemperature) else None
            )
            calibrator.n_iter_, calibrator.precision_ = calibrator.solution_.n_iter, calibrator.solution_.precision
        case DeepTemperature():
            calibrator.global_temperature_ = record.number("global_temperature", positive=True)
            calibrator.n_features_ = record.whole("features")
            parts.read_networks(calibrator, record, calibrator.n_features_ or classes)
        case VectorScaling():
            _read_scaling(calibrator, record, classes)
        case PlattScaling():
            calibrator.curves_ = [(curve.number("slope"), curve.number("intercept")) for curve in _all(record, classes)]
        case IsotonicCalibration():
            calibrator.curves_ = [_curve(curve) for curve in _all(record, classes)]
        case Composition():
            parts.read_steps(calibrator, record, again)
        case AutoCalibrator():
            members = record.records("members")
            calibrator.members_ = {member.text("name"): again(member) for member in members}
            if len(calibrator.members_) < len(members):
                raise ValueError(f"{record.name}: each of 'members' must have a name of its own")
            calibrator.candidates = {name: clone(member) for name, member in calibrator.members_.items()}
            parts.read_comparison(calibrator, record)


def features_of(calibrator: Calibrator) -> int:
    """How many features per row it reads; 0 for none."""
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
