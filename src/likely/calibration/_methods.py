"""Calibrators by name, of classifiers and of regressors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sklearn.base import clone

from likely.calibration._choice import AutoCalibrator, AutoScale
from likely.calibration.classifiers._base import Calibrator
from likely.calibration.classifiers._classic import IsotonicCalibration, PlattScaling
from likely.calibration.classifiers._scaling import StructuredMatrixScaling, VectorScaling
from likely.calibration.classifiers._temperature import (
    DeepTemperature,
    FeatureTemperature,
    GlobalTemperature,
    LinearTemperature,
)
from likely.calibration.regressors._isotonic import IsotonicScale
from likely.calibration.regressors._predicted import DeepScale, LinearScale
from likely.calibration.regressors._scale import GlobalScale, ScaleCalibrator

METHODS: dict[str, type[Calibrator]] = {
    "auto": AutoCalibrator,
    "global": GlobalTemperature,
    "linear": LinearTemperature,
    "feature": FeatureTemperature,
    "deep": DeepTemperature,
    "vector": VectorScaling,
    "matrix": StructuredMatrixScaling,
    "platt": PlattScaling,
    "isotonic": IsotonicCalibration,
}
SCALE_METHODS: dict[str, type[ScaleCalibrator]] = {
    "global": GlobalScale,
    "linear": LinearScale,
    "deep": DeepScale,
    "isotonic": IsotonicScale,
    "auto": AutoScale,
}


def make_calibrator(method: Any) -> Calibrator:
    """Return an unfitted calibrator of logits: a copy of the given one, or the one of that name."""
    calibrator: Calibrator = _made(method, Calibrator, METHODS, "calibrator")
    if calibrator.inputs != "logits":
        raise ValueError("the calibrator receives logits here: create it with inputs='logits'")
    return calibrator


def make_scale_calibrator(method: Any) -> ScaleCalibrator:
    """Return an unfitted scale calibrator: a copy of the given one, or the one of that name."""
    return _made(method, ScaleCalibrator, SCALE_METHODS, "scale calibrator")


def _made(method: Any, kind: type, known: Mapping[str, Any], name: str) -> Any:
    if isinstance(method, kind):
        return clone(method)
    if isinstance(method, str) and method in known:
        return known[method]()
    error = ValueError if isinstance(method, str) else TypeError
    raise error(f"method must be a {name} or one of {', '.join(known)}; got {method!r}")
