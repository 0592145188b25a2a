"""Scale calibrators by name."""

from __future__ import annotations

from typing import Any

from sklearn.base import clone

from likely.calibration.regressors._auto import AutoScale
from likely.calibration.regressors._deep import DeepScale
from likely.calibration.regressors._isotonic import IsotonicScale
from likely.calibration.regressors._linear import LinearScale
from likely.calibration.regressors._scale import GlobalScale

SCALE_METHODS: dict[str, Any] = {
    "global": GlobalScale,
    "linear": LinearScale,
    "deep": DeepScale,
    "isotonic": IsotonicScale,
    "auto": AutoScale,
}


def make_scale_calibrator(method: Any) -> Any:
    """Return an unfitted scale calibrator: a copy of the one given, or the one of that name."""
    if isinstance(method, str):
        if method not in SCALE_METHODS:
            raise ValueError(f"method must be a scale calibrator or one of {', '.join(SCALE_METHODS)}; got {method!r}")
        return SCALE_METHODS[method]()
    if not hasattr(method, "predict_interval"):
        raise TypeError(f"method must be a scale calibrator or its name, got {type(method).__name__}")
    return clone(method)
