"""Outlier detectors: likelihoods in which every row has its own scale, which measures how unusual it is."""

from likely.outliers._likelihood import LikelihoodDetector
from likely.outliers._scaled import ScaledAutoencoderDetector, ScaledPCADetector
from likely.outliers._scatter import ScatterDetector

__all__ = [
    "LikelihoodDetector",
    "ScaledAutoencoderDetector",
    "ScaledPCADetector",
    "ScatterDetector",
]
