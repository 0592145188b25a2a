"""The negative log-likelihood of class probabilities, logits and distributions."""

import numpy as np
import torch
from torch import Tensor
from torch.distributions import Distribution

from likely import functional
from likely._rows.blocks import row_blocks
from likely.likelihoods._numeric import check_support, through_torch
from likely.metrics._blocks import by_mean
from likely.metrics._input import (
    Array,
    Input,
    as_labels,
    as_logits,
    as_weight,
    average,
    classified,
)
from likely.metrics._predictive import predictive, with_target

__all__ = ["negative_log_likelihood"]


@by_mean()
def negative_log_likelihood(
    y_true: Input,
    y_pred: Distribution | Input | None = None,
    *,
    logits: Input | None = None,
    mean: Input | None = None,
    scale: Input | None = None,
    sample_weight: Input | None = None,
    reduction: str = "mean",
) -> float | Array:
    r"""The mean negative log-likelihood (NLL) in nats, :math:`-\frac1n \sum_i \log p_i(y_i)`, of classes or numbers.

    Every constant is kept, so that values of different likelihoods can be compared. A class of predicted probability 0
    that is observed costs infinity; scikit-learn's ``log_loss`` clips at the precision of the input instead (at most 36
    in float64, 16 in float32). From ``logits`` the value is finite and exact.

    Args:
        y_true: class numbers, shape (n,), or numbers of the distribution's shape.
        y_pred: class probabilities, shape (n, C), or (n,) with the probability of class 1; or a torch distribution.
        logits: logits, shape (n, C), or (n,) with the logit of class 1, in place of ``y_pred``.
        mean: means of normal forecasts, in place of ``y_pred``.
        scale: standard deviations of normal forecasts, of the shape of ``mean`` or one number.
        sample_weight: weight per row, shape (n,); None for equal weights.
        reduction: ``"mean"``, or ``"none"`` for one value per row, as paired comparisons need.

    Returns:
        The mean NLL, lower is better; with ``reduction="none"`` an array of shape (n,), or of the distribution's batch.

    Raises:
        ValueError: not exactly one of ``y_pred``, ``logits`` and ``mean`` is given, shapes do not match, or a target
            lies outside the distribution's support.

    Example:
        >>> import torch
        >>> from likely.metrics import negative_log_likelihood
        >>> round(negative_log_likelihood([1, 0], [0.8, 0.5]), 6)
        0.458145
        >>> negative_log_likelihood([1], logits=[[1000.0, 0.0]])
        1000.0
        >>> round(negative_log_likelihood([0.5, 2.0], torch.distributions.Normal(torch.zeros(2), torch.ones(2))), 6)
        1.981439

    See Also:
        :func:`brier_score`, :func:`crps`, :func:`calibration_refinement`.
    """
    if sum(form is not None for form in (y_pred, logits, mean)) != 1:
        raise ValueError("give exactly one of y_pred (probabilities or a distribution), logits=, or mean= with scale=")
    if logits is not None:
        values = _from_logits(y_true, logits)
        return average(values, as_weight(sample_weight, len(values)), reduction)
    if mean is not None or isinstance(y_pred, Distribution):
        distribution = y_pred if isinstance(y_pred, Distribution) else None
        y, forecast, weight = with_target(y_true, predictive(distribution, mean, scale), sample_weight)
        check_support(forecast, y)
        return average(-through_torch(forecast, "log_prob", y), weight, reduction)
    assert y_pred is not None
    data = classified(y_true, y_pred, sample_weight)
    picked = np.take_along_axis(data.probabilities, data.labels[:, None], 1)[:, 0]
    with np.errstate(divide="ignore"):
        return average(-np.log(picked.astype(np.float64)), data.weight, reduction)


def _from_logits(y_true: Input, logits: Input) -> Array:
    z = as_logits(logits)
    labels = torch.from_numpy(as_labels(y_true, len(z), 2 if z.ndim == 1 else z.shape[1]))
    values = np.empty(len(z))
    for rows in row_blocks(len(z), 1 if z.ndim == 1 else z.shape[1]):
        block: Tensor = torch.from_numpy(z[rows].astype(np.float64))
        nll = functional.bernoulli_nll if z.ndim == 1 else functional.softmax_nll
        values[rows] = nll(block, labels[rows], temperature=1.0, reduction="none").numpy()
    return values
