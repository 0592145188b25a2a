"""Recalibration: temperatures for classifiers."""

from likely.calibration._base import Calibrator
from likely.calibration._temperature import FeatureTemperature, GlobalTemperature, LinearTemperature

__all__ = ["Calibrator", "FeatureTemperature", "GlobalTemperature", "LinearTemperature"]
