"""Metrics of probabilistic predictions, in scikit-learn's order ``(y_true, prediction)``.

NumPy arrays, torch tensors of any device and dtype, and lists are accepted; sums run in float64 on the CPU and a
Python float comes out. Where a metric is a mean over rows, ``reduction="none"`` returns the rows.
``sample_weight`` counts a row of weight 2 as two rows.
"""

from likely.metrics._crps import crps, crps_from_quantiles, crps_from_samples
from likely.metrics._likelihood import negative_log_likelihood
from likely.metrics._refinement import CalibrationRefinement, calibration_refinement
from likely.metrics._smooth import smooth_calibration_error
from likely.metrics.classification import (
    BrierDecomposition,
    brier_decomposition,
    brier_score,
    classwise_calibration_error,
    expected_calibration_error,
    maximum_calibration_error,
)
from likely.metrics.regression import (
    interval_coverage,
    interval_score,
    interval_width,
    miscalibration_area,
    pit_values,
    quantile_calibration_error,
    sharpness,
)

__all__ = [
    "BrierDecomposition",
    "CalibrationRefinement",
    "brier_decomposition",
    "brier_score",
    "calibration_refinement",
    "classwise_calibration_error",
    "crps",
    "crps_from_quantiles",
    "crps_from_samples",
    "expected_calibration_error",
    "interval_coverage",
    "interval_score",
    "interval_width",
    "maximum_calibration_error",
    "miscalibration_area",
    "negative_log_likelihood",
    "pit_values",
    "quantile_calibration_error",
    "sharpness",
    "smooth_calibration_error",
]
