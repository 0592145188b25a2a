"""The continuous ranked probability score, from a distribution, from samples, from quantiles."""

from collections.abc import Callable

import numpy as np
from torch.distributions import Distribution

from likely.likelihoods import LIKELIHOODS
from likely.likelihoods._numeric import cdf, gauss_legendre, in_double, quantile, through_torch
from likely.metrics._blocks import by_mean
from likely.metrics._input import Array, Input, as_array, as_weight, average
from likely.metrics._predictive import predictive, univariate, with_target

__all__ = ["crps", "crps_from_quantiles", "crps_from_samples"]

_PANELS = 32  # of a CDF that may have kinks
_FORMS = {likelihood.distribution: likelihood.crps for likelihood in LIKELIHOODS.values() if likelihood.crps}


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
    r"""The continuous ranked probability score: the absolute error of a whole distribution, in the units of y.

    .. math:: \mathrm{CRPS}(F, y) = \int (F(x) - [y \le x])^2\,dx = E|X - y| - \tfrac12 E|X - X'|

    A proper score. For a distribution of one point it is :math:`|x - y|`; unlike the NLL it forgives an outlier
    linearly. Every likelihood of this package has a formula of its own: for Bernoulli it is the Brier score, for
    Categorical and Ordinal the ranked probability score (classes in their order); Robust, NegativeBinomial and VonMises
    are sums over fixed nodes, right to 1e-12. Heavy tails are no obstacle: it is finite for the Cauchy, and for
    Student's t down to half a degree of freedom. Any other distribution is asked for a ``crps(value)`` of its own, and
    otherwise its ``cdf`` is integrated, to 1e-9 where it is smooth and about 1e-6 where it has kinks.

    ``mean`` and ``scale`` stand for a normal; ``reduction="none"`` returns a value a row.

    >>> import torch
    >>> from likely.metrics import crps
    >>> round(crps([0.0, 1.0], torch.distributions.Normal(torch.zeros(2), torch.ones(2))), 6)
    0.418068
    >>> crps([0.0, 1.0], mean=[0, 0], scale=[1, 1], reduction="none").round(6)
    array([0.233695, 0.602441])
    """
    y, found, weight = with_target(y_true, univariate(predictive(distribution, mean, scale)), sample_weight)
    return average(_values(found, y), weight, reduction)


def _values(distribution: Distribution, y: Array) -> Array:
    """The CRPS of each target: by formula, by the distribution's own ``crps`` if it has one, or by quadrature."""
    form = _FORMS.get(type(distribution))  # not a subclass: it may have changed what the formula rests on
    if form is not None:
        with np.errstate(over="ignore", under="ignore"):
            return form(distribution, y)
    own = getattr(distribution, "crps", None)
    return through_torch(distribution, "crps", y) if callable(own) else _by_quadrature(distribution, y)


def _by_quadrature(distribution: Distribution, y: Array) -> Array:
    """The same three terms about the median of any continuous CDF, by Gauss–Legendre sums in sinh⁻¹."""
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
    axis: int = -1,
    fair: bool = False,
    sample_weight: Input | None = None,
    reduction: str = "mean",
) -> float | Array:
    r"""The CRPS of samples: of their empirical distribution, or (``fair``) an unbiased estimate of their source's.

    .. math:: \frac1m \sum_j |x_j - y| - \frac{1}{2m^2} \sum_{j,k} |x_j - x_k|

    ``fair=True`` divides the second sum by :math:`2m(m-1)`: its expectation is the CRPS of the distribution the
    samples were drawn from, whatever their number, while the plain form is larger by
    :math:`E|X - X'| / 2m`. Samples lie along ``axis``: the last by default, 0 for ``distribution.sample((m,))``.
    Sorting makes it O(m log m).

    >>> from likely.metrics import crps_from_samples
    >>> round(crps_from_samples([0.0], [[-1.0, 0.0, 2.0]]), 12)
    0.333333333333
    >>> crps_from_samples([0.0], [[-1.0, 0.0, 2.0]], fair=True)
    0.0
    """
    y, x = _with_axis(y_true, "samples", samples, axis)
    count = x.shape[-1]
    if fair and count < 2:
        raise ValueError("fair=True needs at least two samples a row: draw more, or pass fair=False")
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
    axis: int = -1,
    sample_weight: Input | None = None,
    reduction: str = "mean",
) -> float | Array:
    r"""The CRPS of a few predicted quantiles: twice the pinball loss, summed over the levels.

    .. math:: 2 \sum_j w_j\, ([y \le q_j] - p_j)(q_j - y) \;\approx\; 2 \int_0^1 ([y \le q_p] - p)(q_p - y)\,dp

    where :math:`w_j` is the length of level :math:`p_j`'s cell: up to halfway to its neighbours, and to 0 and 1 at
    the ends. For levels :math:`(j - \tfrac12)/m` it is the CRPS of the m quantiles taken as samples; it approaches
    that of the distribution as they grow dense. Levels ascend, and lie along ``axis`` of ``quantiles``.

    >>> from likely.metrics import crps_from_quantiles, crps_from_samples
    >>> round(crps_from_quantiles([0.0], [[-1.0, 0.0, 2.0]], [1 / 6, 1 / 2, 5 / 6]), 12)
    0.333333333333
    """
    y, q = _with_axis(y_true, "quantiles", quantiles, axis)
    p = as_array("levels", levels).astype(np.float64)
    if p.shape != q.shape[-1:]:
        raise ValueError(
            f"levels has shape {p.shape}, but there are {q.shape[-1]} quantiles a row: give one level each"
        )
    if not (p[0] > 0 and p[-1] < 1 and (np.diff(p) > 0).all()):
        raise ValueError("levels must ascend strictly inside (0, 1): sort them, with their quantiles")
    if (np.diff(q, axis=-1) < 0).any():
        raise ValueError("quantiles cross: sort them along their axis")
    cells = np.diff(np.concatenate([[0.0], 0.5 * (p[1:] + p[:-1]), [1.0]]))
    gap = q - y[..., None]
    pinball = ((gap >= 0) - p) * gap
    return average(2 * pinball @ cells, as_weight(sample_weight, len(y)), reduction)


def _with_axis(y_true: Input, name: str, values: Input, axis: int) -> tuple[Array, Array]:
    y = as_array("y_true", y_true).astype(np.float64)
    x = as_array(name, values).astype(np.float64)
    if y.ndim == 0 or x.ndim != y.ndim + 1 or not -x.ndim <= axis < x.ndim:
        raise ValueError(f"{name} has shape {x.shape} and y_true {y.shape}: give {name} one axis more than y_true")
    moved = np.moveaxis(x, axis, -1)
    if moved.shape[:-1] != y.shape:
        hint = "pass axis=0" if x.shape[1:] == y.shape else "one set for each target"
        raise ValueError(f"{name} has shape {x.shape} and y_true {y.shape}, which does not fit axis={axis}: {hint}")
    return y, moved
