"""What the paper says of each table and figure, in its own words; its mathematics is written out."""

from __future__ import annotations

QUOTES: dict[str, str] = {
    "loss-likelihood": (
        "Optimizing likelihood parameters adapts the loss without manual hyperparameter tuning to balance accuracy and "
        "certainty."
    ),
    "conditioning": (
        "Global and predicted parameters can be used during training and testing, but data parameters are only "
        "assigned "
        "to each training point and are undefined for testing."
    ),
    "dimensionality": (
        "For example, image regressors can use a single likelihood parameter for each image |φ| = 1, RGB image channel "
        "|φ| = C, or even every pixel |φ| = W × H × C […]. These choices correspond to different likelihood "
        "distribution "
        "classes."
    ),
    "robust-classification": (
        "Regressing softmax temperature reduces the influence of outliers (blue, bottom-left), by locally raising "
        "temperature. The jointly optimized model achieves a more accurate classification."
    ),
    "vae": "Predicted likelihood parameters yield more accurate reconstruction models.",
    "robust-regression-deep": (
        "By mitigating the harmful effect of outliers, regressing variance can often improve generalization ability in "
        "terms of MSE, accuracy, and NLL on an unseen test set. Furthermore, […] this also reduces the miscalibration "
        "(CAL) of regressors."
    ),
    "svhn-temperatures": ("High temperature entries are blurry, cropped poorly, and generally difficult to classify."),
    "outlier-detection": (
        "In Table 3 we quantitatively demonstrate the quality of these simple likelihood parameter approaches across "
        "22 "
        "datasets from the Outlier Detection Datasets (ODDS)."
    ),
    "outlier-distribution": ("Our approaches, PCA+S and AE+S, are competitive with other Outlier Detection systems."),
    "adaptive-regularization": (
        "Dynamic Ridge (D-Ridge) and D-LASSO regression find the regularization strength that best estimates the true "
        "parameters. M-LASSO outperforms any single global regularization strength and does not shrink informative "
        "weights."
    ),
    "classifier-calibration": (
        "Our predicted likelihood parameter methods: Linear Scaling (LS) and Linear Feature Scaling (LFS) outperform "
        "other approaches."
    ),
    "regressor-calibration": "Predicted likelihood parameters often outperform other methods.",
    "corruption-aupr": (
        "Data temperatures (DT) train slower than model temperatures (MT), hence some uncertainty is modelled by f_θ."
    ),
    "robust-models": (
        "In each, adding likelihood parameters yield robust variants of the original approach independent of the model "
        "architecture or task."
    ),
    "robust-regression-linear": (
        "In Table 6 we show that adding a learned normal scale regressor to linear regression can improve calibration "
        "and generalization."
    ),
    "robust-regression": (
        "Data Parameter Least Squares DPLS does not yield the appropriate inductive bias in this particular large X "
        "deviant dataset. The XY conditioned Model Parameters, MPLS-XY, induce a helpful bias that rivals the "
        "performance of RANSAC at a fraction of the fitting time."
    ),
    "vae-shape-scale": (
        "Across the whole validation set, the predicted shape is generally in the range [1.8, 3.0] and the predicted "
        "scale is generally in the range [0.20, 0.43]."
    ),
    "miscalibration-by-size": (
        "As layer size grows the network has the capacity to over-fit the training data and hence under-estimate's its "
        "own errors."
    ),
    "offset-stability": (
        "Having a slight offset in the function that transforms logits to temperatures or Gaussian scales greatly "
        "improves stability and convergence time. Without this offset, the optimization frequently diverged."
    ),
    "conditioning-cost": (
        "Space and time requirements of likelihood parameter types by the number of parameters p, training set size n, "
        "feature dimension d, and the computation time for forward f, gradient g, and storage s."
    ),
}
