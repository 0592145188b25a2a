"""Each mistake a one-line error that names the argument and the remedy."""

import math

import numpy as np
import pytest
import torch
from torch import distributions as td

from likely import metrics as m
from pairwise import together

nan, inf = math.nan, math.inf
y, p = [0, 1, 1], [0.2, 0.7, 0.9]
three = [[0.2, 0.3, 0.5], [0.1, 0.1, 0.8], [0.3, 0.3, 0.4]]
target = [0.0, 1.0, 2.0]
normal = {"mean": [0.0, 0.0, 0.0], "scale": [1.0, 1.0, 1.0]}
ece = m.expected_calibration_error

MISTAKES = {
    # Probabilities and labels; every metric of classes checks them in the same place.
    "NaN": (lambda: ece(y, [0.2, nan, 0.9]), ValueError, "y_prob holds NaN: drop or impute"),
    "NaN labels": (lambda: ece([0, nan, 1], p), ValueError, "y_true holds NaN"),
    "negative": (lambda: ece(y, [-0.2, 0.7, 0.9]), ValueError, r"y_prob must lie in \[0, 1\], got -0.2 to 0.9: conv"),
    "logits for probabilities": (lambda: m.brier_score(y, [3.0, -1.0, 2.0]), ValueError, "convert logits to prob"),
    "infinite": (lambda: ece(y, [inf, 0.7, 0.9]), ValueError, "y_prob must lie in"),
    "rows that do not sum": (
        lambda: m.classwise_calibration_error(y, [[0.2, 0.8], [0.3, 0.3], [0.5, 0.5]]),
        ValueError,
        "rows of y_prob must sum to one, row 1 sums to 0.6: normalise",
    ),
    "labels out of range": (
        lambda: ece([0, 1, 3], three),
        ValueError,
        "class 0 to 3, but y_prob has classes 0 to 2: number",
    ),
    "negative labels": (lambda: ece([-1, 1, 1], p), ValueError, "class -1 to 1, but y_prob has classes 0 to 1"),
    "lengths differ": (lambda: ece([0, 1], p), ValueError, r"y_true has shape \(2,\), expected \(3,\)"),
    "one-hot labels": (lambda: ece(np.eye(3), three), ValueError, r"y_true has shape \(3, 3\), expected \(3,\)"),
    "empty": (lambda: ece([], []), ValueError, "y_prob is empty: give at least one row"),
    "arguments swapped": (lambda: ece(p, y), ValueError, "class numbers, got fractions: pass labels first"),
    "one column": (lambda: ece(y, [[0.2], [0.7], [0.9]]), ValueError, r"y_prob has shape \(3, 1\).*or \(rows,\)"),
    "too many axes": (lambda: ece(y, np.ones((3, 2, 2)) / 2), ValueError, r"y_prob has shape \(3, 2, 2\)"),
    "labels as strings": (lambda: ece(["a", "b", "b"], p), TypeError, "y_true must hold numbers.*LabelEncoder"),
    # Weights
    "weights all zero": (lambda: ece(y, p, sample_weight=[0, 0, 0]), ValueError, "sample_weight is zero everywhere"),
    "negative weights": (lambda: ece(y, p, sample_weight=[1, -1, 1]), ValueError, "sample_weight must be finite and ≥"),
    "infinite weights": (lambda: ece(y, p, sample_weight=[1, inf, 1]), ValueError, "sample_weight must be finite and"),
    "NaN weights": (lambda: ece(y, p, sample_weight=[1, nan, 1]), ValueError, "sample_weight holds NaN"),
    "weights of another length": (lambda: ece(y, p, sample_weight=[1, 1]), ValueError, r"sample_weight.*\(3,\)"),
    "weights of a distribution": (
        lambda: m.crps(target, **normal, sample_weight=[1, 1]),
        ValueError,
        r"sample_weight has shape \(2,\), expected \(3,\)",
    ),
    # Options
    "no bins": (lambda: ece(y, p, n_bins=0), ValueError, "n_bins must be an integer ≥ 1, got 0"),
    "half a bin": (lambda: ece(y, p, n_bins=2.5), ValueError, "n_bins must be an integer"),
    "unknown strategy": (lambda: ece(y, p, strategy="kmeans"), ValueError, "strategy must be one of uniform, quantile"),
    "unknown norm": (lambda: ece(y, p, norm="max"), ValueError, "norm must be one of l1, l2; got 'max'"),
    "unknown average": (lambda: m.classwise_calibration_error(y, p, average="micro"), ValueError, "average must be"),
    "unknown class": (lambda: ece(y, p, pos_label=2), ValueError, "pos_label must be a class from 0 to 1"),
    "unknown half": (lambda: m.brier_score(y, p, scale_by_half="no"), ValueError, "scale_by_half must be True, False"),
    "unknown reduction": (
        lambda: m.brier_score(y, p, reduction="sum"),
        ValueError,
        "reduction must be one of",
    ),
    "no bandwidth": (lambda: m.smooth_calibration_error(y, p, bandwidth=0), ValueError, "bandwidth must be ≥ 0.0001"),
    "unknown loss": (lambda: m.calibration_refinement(y, p, loss="mse"), ValueError, "loss must be one of nll, brier"),
    "one fold": (lambda: m.calibration_refinement(y, p, cv=1), ValueError, "needs cv ≥ 2 and two rows.*pass cv=None"),
    "one row to cross-fit": (
        lambda: m.calibration_refinement([1], [0.5]),
        ValueError,
        "got cv=5 and 1",
    ),
    "no prediction to split": (lambda: m.calibration_refinement(y), ValueError, "give either y_prob or logits="),
    # Likelihoods
    "nothing predicted": (lambda: m.negative_log_likelihood(y), ValueError, "give exactly one of y_pred"),
    "two predictions": (lambda: m.negative_log_likelihood(y, p, logits=p), ValueError, "give exactly one of y_pred"),
    "NaN logits": (lambda: m.negative_log_likelihood(y, logits=[0.0, nan, 1.0]), ValueError, "logits holds NaN"),
    "infinite logits": (lambda: m.negative_log_likelihood(y, logits=[0.0, inf, 1.0]), ValueError, "below \\+∞"),
    "no class left": (
        lambda: m.negative_log_likelihood([0], logits=[[-inf, -inf]]),
        ValueError,
        "each row must have a finite one",
    ),
    "logits of one column": (lambda: m.negative_log_likelihood(y, logits=[[0.0]] * 3), ValueError, "logits have shape"),
    "outside the support": (
        lambda: m.negative_log_likelihood([0.5], td.Poisson(torch.ones(1))),
        ValueError,
        "y_true lies outside the support of Poisson: choose",
    ),
    "neither yes nor no": (
        lambda: m.crps([0.5], td.Bernoulli(torch.ones(1) / 2)),
        ValueError,
        "y_true lies outside the support of Bernoulli",
    ),
    # Distributions
    "no distribution": (lambda: m.crps(target), ValueError, "give a distribution, or both mean= and scale="),
    "a mean without a scale": (lambda: m.crps(target, mean=target), ValueError, "both mean= and scale="),
    "both forms": (lambda: m.crps(target, td.Normal(0.0, 1.0), **normal), ValueError, "either a distribution or mean="),
    "an array for a distribution": (
        lambda: m.crps(target, target),
        TypeError,
        "must be a torch Dist.*got list",
    ),
    "scale zero": (lambda: m.crps(target, mean=target, scale=0.0), ValueError, "scale must be > 0 and finite, got 0"),
    "scale of another shape": (
        lambda: m.crps(target, mean=target, scale=np.ones((3, 1))),
        ValueError,
        r"scale has shape \(3, 1\), mean \(3,\)",
    ),
    "NaN mean": (lambda: m.crps(target, mean=[0, nan, 0], scale=1.0), ValueError, "mean holds NaN"),
    "NaN target": (lambda: m.crps([0, nan, 0], **normal), ValueError, "y_true holds NaN"),
    "infinite target": (lambda: m.crps([0, inf, 0], **normal), ValueError, "y_true must be an array of finite"),
    "NaN in a distribution": (
        lambda: m.crps([0.0], td.Normal(torch.tensor([nan]), torch.ones(1), validate_args=False)),
        ValueError,
        "Normal has NaN in loc",
    ),
    "a target of another shape": (
        lambda: m.crps([[0.0], [1.0], [2.0]], **normal),
        ValueError,
        r"y_true has shape \(3, 1\), the distribution \(3,\): reshape",
    ),
    "several at once": (
        lambda: m.crps(torch.zeros(3, 2), td.MultivariateNormal(torch.zeros(3, 2), torch.eye(2))),
        TypeError,
        "MultivariateNormal is multivariate",
    ),
    "no cdf": (
        lambda: m.pit_values([0.5], td.FisherSnedecor(torch.ones(1), torch.ones(1))),
        TypeError,
        "FisherSnedecor has no cdf: draw",
    ),
    "levels beyond one": (
        lambda: m.quantile_calibration_error(target, **normal, levels=[0.5, 2.0]),
        ValueError,
        r"levels must be a vector of probabilities in \[0, 1\]",
    ),
    "full coverage": (lambda: m.interval_coverage(target, **normal, coverage=1.0), ValueError, "coverage must lie"),
    "ends swapped": (
        lambda: m.interval_score(target, interval=([1, 1, 1], [0, 2, 2])),
        ValueError,
        "interval must have lower ≤ upper everywhere: swap",
    ),
    "ends of different length": (
        lambda: m.interval_width(interval=([1, 1], [2, 2, 2])),
        ValueError,
        r"interval has a lower end of shape \(2,\), an upper of \(3,\)",
    ),
    "interval and distribution": (
        lambda: m.interval_coverage(target, interval=([1], [2]), **normal),
        ValueError,
        "either interval= or a predictive distribution",
    ),
    "interval of another length": (
        lambda: m.interval_coverage(target, interval=([0, 0], [1, 1])),
        ValueError,
        r"y_true has shape \(3,\), the intervals \(2,\)",
    ),
    # Samples and quantiles
    "samples along the other axis": (
        lambda: m.crps_from_samples(target, np.zeros((7, 3))),
        ValueError,
        r"samples of shape \(7, 3\) need one axis more than y_true \(3,\), the last: move their first",
    ),
    "one sample, fair": (
        lambda: m.crps_from_samples([0.0], [[1.0]], fair=True),
        ValueError,
        "fair=True needs",
    ),
    "samples without an axis": (lambda: m.crps_from_samples(target, target), ValueError, "one axis more than y_true"),
    "quantiles that cross": (
        lambda: m.crps_from_quantiles([0.0], [[1.0, 0.0]], [0.1, 0.9]),
        ValueError,
        "quantiles cross: sort them",
    ),
    "levels that do not ascend": (
        lambda: m.crps_from_quantiles([0.0], [[0.0, 1.0]], [0.9, 0.1]),
        ValueError,
        r"levels must ascend strictly inside \(0, 1\)",
    ),
    "a level missing": (
        lambda: m.crps_from_quantiles([0.0], [[0.0, 1.0]], [0.5]),
        ValueError,
        r"levels has shape \(1,\), but there are 2 quantiles per row",
    ),
}


@together("mistake", MISTAKES)
def test_says_what_to_do(mistake):
    call, kind, message = MISTAKES[mistake]
    with pytest.raises(kind, match=message) as error:
        call()
    assert "\n" not in str(error.value)


def test_rounding_is_forgiven():
    assert ece(y, [0.2, 0.7, 1 + 1e-7]) == pytest.approx(ece(y, [0.2, 0.7, 1.0]))
    assert ece(y, np.float32(three) / np.float32(1.0001)) == pytest.approx(ece(y, three), abs=1e-3)
