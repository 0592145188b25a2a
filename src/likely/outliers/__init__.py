"""Outlier detectors: likelihoods in which every row has a scale of its own, which says how far to trust it."""

from likely.outliers._likelihood import LikelihoodDetector
from likely.outliers._scaled import ScaledAutoencoderDetector, ScaledPCADetector
from likely.outliers._scatter import ScatterDetector

__all__ = [
    "LikelihoodDetector",
    "ScaledAutoencoderDetector",
    "ScaledPCADetector",
    "ScatterDetector",
]
