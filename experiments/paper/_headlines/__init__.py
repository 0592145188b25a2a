"""Each table and figure in a few rows, read from its stored run."""

from __future__ import annotations

from collections.abc import Callable

from experiments.entries.entry import Result
from experiments.paper._headlines import calibration, outliers, robust, toys
from experiments.paper._headlines.row import Headline, Numbers, Row

__all__ = ["HEADLINES", "Headline", "Row", "headline"]

HEADLINES: dict[str, Callable[[Numbers], Headline]] = {
    "loss-likelihood": toys.loss_likelihood,
    "conditioning": toys.conditioning,
    "dimensionality": toys.dimensionality,
    "robust-classification": toys.robust_classification,
    "vae": robust.vae,
    "robust-regression-deep": robust.robust_regression_tables,
    "svhn-temperatures": outliers.svhn_temperatures,
    "outlier-detection": outliers.outlier_detection,
    "outlier-distribution": outliers.outlier_distribution,
    "adaptive-regularization": robust.adaptive_regularization,
    "classifier-calibration": calibration.classifier_calibration,
    "regressor-calibration": calibration.regressor_calibration,
    "corruption-aupr": outliers.corruption_aupr,
    "robust-models": toys.robust_models,
    "robust-regression-linear": robust.robust_regression_tables,
    "robust-regression": robust.robust_regression,
    "vae-shape-scale": robust.vae_shape_scale,
    "miscalibration-by-size": toys.miscalibration_by_size,
    "offset-stability": calibration.offset_stability,
    "conditioning-cost": toys.conditioning_cost,
}


def headline(name: str, result: Result) -> Headline:
    """The rows of one entry."""
    return HEADLINES[name](Numbers(result))
