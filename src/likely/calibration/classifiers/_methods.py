"""Calibrators of classifiers by name."""

from __future__ import annotations

from sklearn.base import clone

from likely.calibration.classifiers._auto import AutoCalibrator
from likely.calibration.classifiers._base import Calibrator
from likely.calibration.classifiers._classic import IsotonicCalibration, PlattScaling
from likely.calibration.classifiers._deep import DeepTemperature
from likely.calibration.classifiers._scaling import StructuredMatrixScaling, VectorScaling
from likely.calibration.classifiers._temperature import FeatureTemperature, GlobalTemperature, LinearTemperature

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


def make_calibrator(method: str | Calibrator) -> Calibrator:
    """Return an unfitted calibrator of logits: a copy of the one given, or the one of that name."""
    if isinstance(method, Calibrator):
        if getattr(method, "inputs", "logits") != "logits":
            raise ValueError("the calibrator is handed logits here: make it with inputs='logits'")
        copy: Calibrator = clone(method)
        return copy
    if method not in METHODS:
        raise ValueError(f"method must be a calibrator or one of {', '.join(METHODS)}; got {method!r}")
    return METHODS[method]()
