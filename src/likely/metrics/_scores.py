"""Proper scores: the negative log-likelihood, and the continuous ranked probability score of any form of forecast."""

from collections.abc import Callable

import numpy as np
import torch
from torch.distributions import Distribution

from likely import functional
from likely._rows.blocks import row_blocks
from likely.likelihoods import LIKELIHOODS
from likely.likelihoods._distribution import cdf, check_support, gauss_legendre, in_double, through_torch
from likely.metrics._blocks import by_mean
from likely.metrics._input import (
    Array,
    Input,
    as_array,
    as_labels,
    as_logits,
    as_weight,
    average,
    classified,
)
from likely.metrics._predictive import predictive, quantile, univariate, with_target

__all__ = ["crps", "crps_from_quantiles", "crps_from_samples", "negative_log_likelihood"]

_PANELS = 32  # of a CDF that may have kinks
_FORMS = {likelihood.distribution: likelihood.crps for likelihood in LIKELIHOODS.values() if likelihood.crps}


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
        block = torch.from_numpy(z[rows].astype(np.float64))
        nll = functional.bernoulli_nll if z.ndim == 1 else functional.softmax_nll
        values[rows] = nll(block, labels[rows], temperature=1.0, reduction="none").numpy()
    return values


@by_mean()
def crps(
    y_true: Input,
    distribution: Distribution | None = None,
    *,
    mean: Input | None = None,
    scale: Input | None = None,
    sample_weight: Input | None = None,
    reduction: str = "mean",
) -> float | Array:
    r"""The continuous ranked probability score (CRPS): the absolute error of a whole distribution, in the units of y.

    .. math:: \mathrm{CRPS}(F, y) = \int (F(x) - [y \le x])^2\,dx = E|X - y| - \tfrac12 E|X - X'|

    It is a proper score. For a distribution of one point it is :math:`|x - y|`; unlike the NLL it grows only linearly
    with an outlier. Every likelihood of this package has a closed form or a sum over fixed nodes that is exact to
    1e-12: for Bernoulli it is the Brier score, for Categorical and Ordinal the ranked probability score (classes in
    their order). It is finite for heavy tails: for the Cauchy, and for Student's t down to half a degree of freedom.
    For any other distribution its method ``crps(value)`` is used if it has one; otherwise its ``cdf`` is integrated, to
    1e-9 where it is smooth and about 1e-6 where it has kinks.

    Args:
        y_true: targets, shape (n,) or (n, k).
        distribution: torch distribution of that batch shape; None where ``mean`` and ``scale`` are given.
        mean: means of normal forecasts, shape (n,) or (n, k).
        scale: standard deviations of normal forecasts, of the shape of ``mean`` or one number.
        sample_weight: weight per row, shape (n,); None for equal weights.
        reduction: ``"mean"``, or ``"none"`` for one value per target.

    Returns:
        The mean score, lower is better; with ``reduction="none"`` an array of the shape of ``y_true``.

    Raises:
        ValueError: there is neither a distribution nor a mean and a scale, or shapes do not match.

    Example:
        >>> import torch
        >>> from likely.metrics import crps
        >>> round(crps([0.0, 1.0], torch.distributions.Normal(torch.zeros(2), torch.ones(2))), 6)
        0.418068
        >>> crps([0.0, 1.0], mean=[0, 0], scale=[1, 1], reduction="none").round(6)
        array([0.233695, 0.602441])

    See Also:
        :func:`crps_from_samples`, :func:`crps_from_quantiles`, :func:`negative_log_likelihood`.
    """
    y, forecast, weight = with_target(y_true, univariate(predictive(distribution, mean, scale)), sample_weight)
    return average(_values(forecast, y), weight, reduction)


def _values(distribution: Distribution, y: Array) -> Array:
    """Return the CRPS of each target: by formula, by the distribution's ``crps`` method, or by quadrature."""
    form = _FORMS.get(type(distribution))  # not a subclass: its density may be another
    if form is not None:
        with np.errstate(over="ignore", under="ignore"):
            return form(distribution, y)
    has_crps = callable(getattr(distribution, "crps", None))
    return through_torch(distribution, "crps", y) if has_crps else _by_quadrature(distribution, y)


def _by_quadrature(distribution: Distribution, y: Array) -> Array:
    """Integrate any continuous CDF in three parts about its median, by Gauss–Legendre sums in sinh⁻¹."""
    middle = quantile(distribution, 0.5)
    width = quantile(distribution, 0.75) - quantile(distribution, 0.25)
    width = np.where(width > 0, width, 1.0)
    nodes, weights, _ = gauss_legendre()

    def integral(f: Callable[[Array], Array], end: Array) -> Array:
        """∫ f over distances from the median up to ``end``."""
        stop = np.arcsinh(np.minimum(end / width, 1e17))
        total = np.zeros(y.shape)
        for panel in range(_PANELS):
            for node, weight in zip(nodes, weights, strict=True):
                v = stop * (panel + node) / _PANELS
                total += weight * np.cosh(v) * f(width * np.sinh(v))
        return np.asarray(total * width * stop / _PANELS)

    tail = 1e-12 if in_double(distribution) else 1e-6
    right = integral(lambda x: (1 - cdf(distribution, middle + x)) ** 2, quantile(distribution, 1 - tail) - middle)
    left = integral(lambda x: cdf(distribution, middle - x) ** 2, middle - quantile(distribution, tail))
    side = np.sign(y - middle)
    inner = integral(lambda x: side * (2 * cdf(distribution, middle + side * x) - 1), np.abs(y - middle))
    return np.asarray(inner + left + right)


@by_mean()
def crps_from_samples(
    y_true: Input,
    samples: Input,
    *,
    fair: bool = False,
    sample_weight: Input | None = None,
    reduction: str = "mean",
) -> float | Array:
    r"""The CRPS of samples from the forecast, biased as their empirical distribution is, or unbiased.

    .. math:: \frac1m \sum_j |x_j - y| - \frac{1}{2m^2} \sum_{j,k} |x_j - x_k|

    Sorting makes it O(m log m).

    Args:
        y_true: targets, shape (n,) or (n, k).
        samples: m samples per target, shape (n, m) or (n, k, m). Those of torch,
            ``distribution.sample((m,))``, have m first: move it with ``.movedim(0, -1)``.
        fair: whether to divide the second sum by :math:`2m(m-1)`. The expectation is then the CRPS of the distribution
            that the samples were drawn from, whatever their number; the plain form is larger by :math:`E|X - X'| / 2m`.
        sample_weight: weight per row, shape (n,); None for equal weights.
        reduction: ``"mean"``, or ``"none"`` for one value per target.

    Returns:
        The mean score, lower is better; with ``reduction="none"`` an array of the shape of ``y_true``.

    Example:
        >>> from likely.metrics import crps_from_samples
        >>> round(crps_from_samples([0.0], [[-1.0, 0.0, 2.0]]), 12)
        0.333333333333
        >>> crps_from_samples([0.0], [[-1.0, 0.0, 2.0]], fair=True)
        0.0

    See Also:
        :func:`crps`, :func:`crps_from_quantiles`.
    """
    y, x = _per_target(y_true, "samples", samples)
    count = x.shape[-1]
    if fair and count < 2:
        raise ValueError("fair=True needs at least two samples per row: draw more, or pass fair=False")
    x = np.sort(x, axis=-1)
    rank = 2 * np.arange(1, count + 1) - count - 1
    spread = (x * rank).sum(-1) / (count * (count - 1 if fair else count))
    return average(np.abs(x - y[..., None]).mean(-1) - spread, as_weight(sample_weight, len(y)), reduction)


@by_mean()
def crps_from_quantiles(
    y_true: Input,
    quantiles: Input,
    levels: Input,
    *,
    sample_weight: Input | None = None,
    reduction: str = "mean",
) -> float | Array:
    r"""The CRPS of predicted quantiles: twice the pinball loss, summed over the levels.

    .. math:: 2 \sum_j w_j\, ([y \le q_j] - p_j)(q_j - y) \;\approx\; 2 \int_0^1 ([y \le q_p] - p)(q_p - y)\,dp

    where :math:`w_j` is the length of level :math:`p_j`'s cell, which ends halfway to its neighbours, or at 0 and 1.
    For levels :math:`(j - \tfrac12)/m` it equals the CRPS of the m quantiles taken as samples; with denser levels it
    approaches that of the distribution.

    Args:
        y_true: targets, shape (n,) or (n, k).
        quantiles: m predicted quantiles per target, ascending, shape (n, m) or (n, k, m).
        levels: their probabilities, ascending in (0, 1), shape (m,).
        sample_weight: weight per row, shape (n,); None for equal weights.
        reduction: ``"mean"``, or ``"none"`` for one value per target.

    Returns:
        The mean score, lower is better; with ``reduction="none"`` an array of the shape of ``y_true``.

    Raises:
        ValueError: levels do not ascend in (0, 1), quantiles cross, or shapes do not match.

    Example:
        >>> from likely.metrics import crps_from_quantiles, crps_from_samples
        >>> round(crps_from_quantiles([0.0], [[-1.0, 0.0, 2.0]], [1 / 6, 1 / 2, 5 / 6]), 12)
        0.333333333333

    See Also:
        :func:`crps`, :func:`crps_from_samples`.
    """
    y, q = _per_target(y_true, "quantiles", quantiles)
    p = as_array("levels", levels).astype(np.float64)
    if p.shape != q.shape[-1:]:
        raise ValueError(
            f"levels has shape {p.shape}, but there are {q.shape[-1]} quantiles per row: give one level per quantile"
        )
    if not (p[0] > 0 and p[-1] < 1 and (np.diff(p) > 0).all()):
        raise ValueError("levels must ascend strictly inside (0, 1): sort them, with their quantiles")
    if (np.diff(q, axis=-1) < 0).any():
        raise ValueError("quantiles cross: sort them along their axis")
    cells = np.diff(np.concatenate([[0.0], 0.5 * (p[1:] + p[:-1]), [1.0]]))
    gap = q - y[..., None]
    pinball = ((gap >= 0) - p) * gap
    return average(2 * pinball @ cells, as_weight(sample_weight, len(y)), reduction)


def _per_target(y_true: Input, name: str, values: Input) -> tuple[Array, Array]:
    y, x = (as_array(what, array).astype(np.float64) for what, array in (("y_true", y_true), (name, values)))
    if y.ndim == 0 or x.shape[:-1] != y.shape:
        hint = "move their first axis to the end, by movedim(0, -1)" if x.shape[1:] == y.shape else "one set per target"
        raise ValueError(f"{name} of shape {x.shape} need one axis more than y_true {y.shape}, the last: {hint}")
    return y, x
