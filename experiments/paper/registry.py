"""Every table and figure of the paper, in its order and with its printed numbers.

The module of an entry is imported only when it runs, so that listing the entries costs nothing. Modules measure; the
verdict of a full run comes from the rule, and a quick run has none.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from experiments.entries.entry import Context, Entry, Result, module as run_of


def module(name: str) -> Callable[[Context], Result]:
    """The `run` of an entry's module, with the verdict of the rule."""
    return partial(_judged, name)


def _judged(name: str, context: Context) -> Result:
    from experiments.paper._claims import claims_of
    from experiments.paper._rule import verdict

    result = run_of(name)(context)
    entry = name.rpartition(".")[2].replace("_", "-")
    return replace(result, verdict="not judged" if context.quick else verdict(claims_of(entry, result)))


ENTRIES: tuple[Entry, ...] = (
    Entry(
        "loss-likelihood",
        "Figure",
        1,
        "The loss as a likelihood",
        "A free scale or temperature trades certainty for credit: the likelihood is best when the parameter matches "
        "the error, with nothing tuned by hand.",
        module("experiments.paper.loss_likelihood"),
    ),
    Entry(
        "conditioning",
        "Figure",
        2,
        "Three kinds of conditioning",
        "A temperature can be one for all rows (global), one for each training row (data), or computed from the input "
        "(predicted); global and predicted ones also exist at test time, data ones do not.",
        module("experiments.paper.conditioning"),
    ),
    Entry(
        "dimensionality",
        "Figure",
        3,
        "Three dimensionalities of an image loss",
        "An image loss can carry one parameter for an image, one for each channel or one for each pixel and channel, "
        "and each choice is a different likelihood.",
        module("experiments.paper.dimensionality"),
    ),
    Entry(
        "robust-classification",
        "Figure",
        4,
        "Predicted temperature in logistic regression",
        "A predicted temperature rises around outliers, which then pull less on the boundary, and the joint model "
        "classifies better.",
        module("experiments.paper.robust_classification"),
    ),
    Entry(
        "vae",
        "Table",
        1,
        "Robust-loss VAE on CelebA",
        "Predicted shape and scale give the lowest reconstruction error of six parametrisations, at 1.04 to 1.08 times "
        "the time and under 1 MB.",
        module("experiments.paper.vae"),
        timed=True,
    ),
    Entry(
        "robust-regression-deep",
        "Table",
        2,
        "Predicted scale in deep regressors",
        "A predicted scale improves calibration and error on seven of eight tabular sets, and likelihood on five.",
        module("experiments.paper.robust_regression_deep"),
    ),
    Entry(
        "svhn-temperatures",
        "Figure",
        5,
        "Lowest and highest temperatures of SVHN",
        "Images with a high predicted temperature are blurry, badly cropped and hard to classify.",
        module("experiments.paper.svhn_temperatures"),
    ),
    Entry(
        "outlier-detection",
        "Table",
        3,
        "Outlier detection on ODDS, median AUC",
        "A scale learned for each row makes PCA and an autoencoder the two best of fifteen detectors by median AUC.",
        module("experiments.paper.outlier_detection"),
    ),
    Entry(
        "outlier-distribution",
        "Figure",
        6,
        "Outlier detection on ODDS, all sets",
        "Over the whole ODDS benchmark PCA+S and AE+S are competitive with the other detectors.",
        module("experiments.paper.outlier_distribution"),
    ),
    Entry(
        "adaptive-regularization",
        "Figure",
        7,
        "Self-tuning ridge and lasso",
        "Dynamic Ridge and Dynamic Lasso find the strength that best recovers the true weights; Multi-Lasso beats "
        "every single strength.",
        module("experiments.paper.adaptive_regularization"),
    ),
    Entry(
        "classifier-calibration",
        "Table",
        4,
        "Recalibrating classifiers, ECE",
        "Temperatures predicted from logits (LS) or features (LFS) calibrate better than one temperature and than "
        "Platt, isotonic and vector scaling.",
        module("experiments.paper.classifier_calibration"),
    ),
    Entry(
        "regressor-calibration",
        "Table",
        5,
        "Recalibrating regressors, CAL",
        "Predicted scales often calibrate regressors better than isotonic regression and one global scale.",
        module("experiments.paper.regressor_calibration"),
    ),
    Entry(
        "corruption-aupr",
        "Figure",
        8,
        "Finding corrupted CIFAR-10 images",
        "Temperature finds corrupted images; data temperatures train slower than predicted ones, so part of the "
        "uncertainty moves into the model.",
        module("experiments.paper.corruption_aupr"),
    ),
    Entry(
        "robust-models",
        "Figure",
        9,
        "Robust variants in three domains",
        "Likelihood parameters make classification, regression and dimensionality reduction robust alike.",
        module("experiments.paper.robust_models"),
    ),
    Entry(
        "robust-regression-linear",
        "Table",
        6,
        "Predicted scale in linear regressors",
        "A predicted scale improves calibration and error on all eight tabular sets, and likelihood on seven.",
        module("experiments.paper.robust_regression_linear"),
    ),
    Entry(
        "robust-regression",
        "Figure",
        10,
        "Robust linear regression compared",
        "A scale predicted from x and y rivals RANSAC in a fraction of its time; a scale for each row does not.",
        module("experiments.paper.robust_regression"),
        timed=True,
    ),
    Entry(
        "vae-shape-scale",
        "Figure",
        11,
        "Shape and scale of each pixel",
        "Predicted shape and scale vary with the image: mostly 1.8 to 3.0 and 0.20 to 0.43 on CelebA.",
        module("experiments.paper.vae_shape_scale"),
    ),
    Entry(
        "miscalibration-by-size",
        "Figure",
        12,
        "Miscalibration by layer size",
        "The wider a regressor, the more it overfits and the more overconfident it is.",
        module("experiments.paper.miscalibration_by_size"),
    ),
    Entry(
        "offset-stability",
        "Figure",
        13,
        "The offset of the softplus",
        "A slight offset in the map from logits to temperatures greatly improves stability and convergence; without it "
        "the optimisation frequently diverged.",
        module("experiments.paper.offset_stability"),
    ),
    Entry(
        "conditioning-cost",
        "Table",
        7,
        "Space and time of each conditioning",
        "A global parameter costs O(p) space, data parameters O(pn), predicted ones O(pd).",
        module("experiments.paper.conditioning_cost"),
        timed=True,
    ),
)


def find(name: str) -> Entry:
    """The entry of that name.

    >>> find("vae").what
    'Table 1'
    """
    for entry in ENTRIES:
        if entry.name == name:
            return entry
    raise KeyError(name)
