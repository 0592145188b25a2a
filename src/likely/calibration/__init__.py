"""Recalibration: temperatures for classifiers and scales for regressors, learned on held-out rows."""

from likely.calibration._choice import METHODS as METHODS
from likely.calibration._choice import SCALE_METHODS as SCALE_METHODS
from likely.calibration._choice import AutoCalibrator, AutoScale
from likely.calibration._choice import make_calibrator as make_calibrator
from likely.calibration._compose import Composition, ScalePipeline, compose
from likely.calibration._saved import load, save
from likely.calibration._saved import needs as needs
from likely.calibration.classifiers._base import Calibrator
from likely.calibration.classifiers._classic import IsotonicCalibration, PlattScaling
from likely.calibration.classifiers._classifier import CalibratedClassifier
from likely.calibration.classifiers._module import CalibratedModule
from likely.calibration.classifiers._scaling import StructuredMatrixScaling, VectorScaling
from likely.calibration.classifiers._temperature import (
    DeepTemperature,
    FeatureTemperature,
    GlobalTemperature,
    LinearTemperature,
)
from likely.calibration.regressors._isotonic import IsotonicScale, Recalibrated
from likely.calibration.regressors._predicted import DeepScale, LinearScale
from likely.calibration.regressors._regressor import CalibratedRegressor
from likely.calibration.regressors._scale import GlobalScale, ScaleCalibrator

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
