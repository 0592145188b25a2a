"""Outlier detectors: likelihoods in which every row has its own scale, which measures how unusual it is."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from likely.outliers._scatter import ScatterDetector

if TYPE_CHECKING:
    from likely.outliers._likelihood import LikelihoodDetector
    from likely.outliers._scaled import ScaledAutoencoderDetector, ScaledPCADetector

__all__ = [
    "LikelihoodDetector",
    "ScaledAutoencoderDetector",
    "ScaledPCADetector",
    "ScatterDetector",
]


def __getattr__(name: str) -> Any:
    """Load the detectors that need torch when they are first asked for."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = "_likelihood" if name == "LikelihoodDetector" else "_scaled"
    return getattr(import_module(f"{__name__}.{module}"), name)


def __dir__() -> list[str]:
    return __all__
