"""The CRPS of any distribution: its own formula where the registry has one, else by quadrature of its CDF."""

from collections.abc import Callable

import numpy as np
from torch.distributions import Distribution

from likely.likelihoods import LIKELIHOODS
from likely.likelihoods._numeric import Array, cdf, gauss_legendre, in_double, quantile, through_torch

_PANELS = 32  # of a CDF that may have kinks
_FORMS = {likelihood.distribution: likelihood.crps for likelihood in LIKELIHOODS.values() if likelihood.crps}


def crps_values(distribution: Distribution, y: Array) -> Array:
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
