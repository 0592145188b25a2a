"""Outlier detectors: likelihoods in which every row has a scale of its own, which says how far to trust it."""

from likely.outliers._autoencoder import ScaledAutoencoderDetector
from likely.outliers._ensemble import EnsembleDetector
from likely.outliers._likelihood import LikelihoodDetector
from likely.outliers._pca import ScaledPCADetector
from likely.outliers._scatter import ScatterDetector

__all__ = [
    "EnsembleDetector",
    "LikelihoodDetector",
    "ScaledAutoencoderDetector",
    "ScaledPCADetector",
    "ScatterDetector",
]
