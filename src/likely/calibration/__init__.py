"""Recalibration: temperatures for classifiers, scales for regressors, learned on rows the model was not trained on."""

from likely.calibration._auto import AutoCalibrator
from likely.calibration._base import Calibrator
from likely.calibration._classic import IsotonicCalibration, PlattScaling
from likely.calibration._classifier import CalibratedClassifier
from likely.calibration._compose import Composition, compose
from likely.calibration._conformal import ConformalRegressor
from likely.calibration._deep import DeepTemperature
from likely.calibration._deep_scale import DeepScale
from likely.calibration._isotonic_scale import IsotonicScale, Recalibrated
from likely.calibration._json import load, save
from likely.calibration._module import CalibratedModule
from likely.calibration._regressor import CalibratedRegressor
from likely.calibration._scale import GlobalScale, LinearScale, ScaleCalibrator
from likely.calibration._scale_pipeline import AutoScale, ScalePipeline, compose_scales
from likely.calibration._scaling import StructuredMatrixScaling, VectorScaling
from likely.calibration._temperature import FeatureTemperature, GlobalTemperature, LinearTemperature

__all__ = [
    "AutoCalibrator",
    "AutoScale",
    "CalibratedClassifier",
    "CalibratedModule",
    "CalibratedRegressor",
    "Calibrator",
    "Composition",
    "ConformalRegressor",
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
    "compose_scales",
    "load",
    "save",
]
