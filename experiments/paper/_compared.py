"""For every entry: what the paper prints of it, what ours is held against, and over what its numbers spread."""

from __future__ import annotations

from typing import NamedTuple

CURVES = "curves, no numbers"
PICTURES = "pictures, no numbers"


class Compared(NamedTuple):
    """What the paper prints, what ours is held against, over what its numbers spread: each the end of a sentence."""

    paper: str
    against: str
    spread: str


COMPARED: dict[str, Compared] = {
    "loss-likelihood": Compared(
        CURVES,
        "the closed forms of the best scale and the best temperature",
        "none: nothing is drawn",
    ),
    "conditioning": Compared(
        "a diagram, no numbers",
        "each other: a temperature that is global, for each row, or predicted; and chance, an AUC of 0.5",
        "standard deviation over seeds, each with its own digits, spoiled rows and weights",
    ),
    "dimensionality": Compared(
        "a diagram, no numbers",
        "the scales that made the photographs",
        "standard deviation over seeds, each with its own photographs",
    ),
    "robust-classification": Compared(
        PICTURES,
        "scikit-learn's `LogisticRegression`",
        "standard error over seeds of the paired difference",
    ),
    "vae": Compared(
        "MSE 222.3 (predicted for each pixel and channel), 225.8 (one global) to 252.6 (data), and steps of 1.04 to "
        "9.42 times the time",
        "the normal likelihood, six parametrisations of the robust one, our recipe, and principal components",
        "standard deviation over seeds; of a step's time, over turns",
    ),
    "robust-regression-deep": Compared(
        "CAL, MSE and NLL of a base and of a predicted scale on eight sets: beside ours where the sets are in the data "
        "folder",
        "the same network with a fixed and with a fitted scale",
        "standard deviation over splits, and the standard error of paired differences",
    ),
    "svhn-temperatures": Compared(
        PICTURES,
        "the confidence of the same network, two other ways to learn the temperature, and chance, an AUC of 0.5",
        "standard deviation over seeds, each with its own network",
    ),
    "outlier-detection": Compared(
        "a median AUC for each detector, 0.669 (LOF) to 0.868 (PCA+S): in the table",
        "thirteen detectors of PyOD with their defaults, where it is installed",
        "standard deviation over seeds of detectors that draw, and an interval over sets drawn anew",
    ),
    "outlier-distribution": Compared(
        "a box plot, no numbers",
        "thirteen detectors of PyOD with their defaults, where it is installed",
        "quartiles over sets; standard deviation over seeds of detectors that draw",
    ),
    "adaptive-regularization": Compared(
        CURVES,
        "every fixed strength, `LassoCV`, least squares on the known support, and the paper's own objective",
        "quartiles over seeds, each with its own weights, rows and noise",
    ),
    "classifier-calibration": Compared(
        "the ECE of seven methods on six networks: beside ours, two of which are in the data folder only",
        "no calibration, Platt scaling, isotonic regression, one temperature (GS) and vector scaling (VS)",
        "standard deviation over splits, and the standard error of paired differences",
    ),
    "regressor-calibration": Compared(
        "the CAL of five methods on eight sets: beside ours where the sets are in the data folder",
        "no calibration, Kuleshov's isotonic regression and one scale (GS)",
        "standard deviation over splits, and the standard error of paired differences",
    ),
    "corruption-aupr": Compared(
        CURVES,
        "the loss and the confidence of a network without temperatures, and chance, the share of corrupted rows",
        "standard deviation over seeds, and the standard error of paired differences",
    ),
    "robust-models": Compared(
        PICTURES,
        "the same models without likelihood parameters",
        "standard error over seeds of the paired difference",
    ),
    "robust-regression-linear": Compared(
        "CAL, MSE and NLL of a base and of a predicted scale on eight sets: beside ours where the sets are in the data "
        "folder",
        "the same line with a fixed and with a fitted scale",
        "standard deviation over splits, and the standard error of paired differences",
    ),
    "robust-regression": Compared(
        PICTURES,
        "least squares, and scikit-learn's Huber, Theil-Sen and RANSAC",
        "quartiles over seeds, of the error and of the time",
    ),
    "vae-shape-scale": Compared(
        "shapes generally in 1.8 to 3.0 and scales in 0.20 to 0.43",
        "the absolute error of each pixel, which the scale should follow",
        "standard deviation over seeds, and quantiles over pixels and pictures",
    ),
    "miscalibration-by-size": Compared(
        "a curve, no numbers",
        "the narrowest network, and one scale for all rows",
        "standard error over seeds, each with its own set",
    ),
    "offset-stability": Compared(
        CURVES,
        "one fitted temperature (GS), no calibration, and the exponential map",
        "quartiles over seeds, and how many of them diverged",
    ),
    "conditioning-cost": Compared(
        "formulas: O(p), O(pn) and O(pd) space",
        "the squared error, which has no parameter, and the formulas",
        "quartiles over turns of the clock; bytes are counted, and have none",
    ),
}
