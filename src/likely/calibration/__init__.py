"""Recalibration: temperatures for classifiers and scales for regressors, learned on held-out rows."""

from likely.calibration._calibrator import Calibrator
from likely.calibration._choice import (
    METHODS as METHODS,
    SCALE_METHODS as SCALE_METHODS,
    AutoCalibrator,
    AutoScale,
    Composition,
    ScalePipeline,
    compose,
    make_calibrator as make_calibrator,
)
from likely.calibration._classic import IsotonicCalibration, PlattScaling
from likely.calibration._estimator import CalibratedClassifier, CalibratedRegressor
from likely.calibration._isotonic import IsotonicScale, Recalibrated
from likely.calibration._module import CalibratedModule
from likely.calibration._row_scale import DeepScale, LinearScale
from likely.calibration._saved import load, load_with_notes as load_with_notes, needs as needs, save
from likely.calibration._scale import GlobalScale, ScaleCalibrator
from likely.calibration._scaling import StructuredMatrixScaling, VectorScaling
from likely.calibration._temperature import (
    DeepTemperature,
    FeatureTemperature,
    GlobalTemperature,
    LinearTemperature,
)

__all__ = [
    "AutoCalibrator",
    "AutoScale",
    "CalibratedClassifier",
    "CalibratedModule",
    "CalibratedRegressor",
    "Calibrator",
    "Composition",
    "DeepScale",
    "DeepTemperature",
    "FeatureTemperature",
    "GlobalScale",
    "GlobalTemperature",
    "IsotonicCalibration",
    "IsotonicScale",
    "LinearScale",
    "LinearTemperature",
    "PlattScaling",
    "Recalibrated",
    "ScaleCalibrator",
    "ScalePipeline",
    "StructuredMatrixScaling",
    "VectorScaling",
    "compose",
    "load",
    "save",
]
