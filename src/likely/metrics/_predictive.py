"""Predictive distributions in float64 on the CPU, with a CDF and quantiles for all."""

import copy
import weakref
from typing import Any

import numpy as np
import torch
from torch import Tensor, distributions as td
from torch.distributions import Distribution

from likely._validation import fits
from likely.distributions import Normal
from likely.likelihoods import LIKELIHOODS
from likely.likelihoods._distribution import cdf, is_discrete, through_torch
from likely.metrics._input import Array, Input, as_array, as_weight

# These classes add a CDF or quantiles to torch's and change nothing else.
_FULLER = {
    base: likelihood.distribution
    for likelihood in LIKELIHOODS.values()
    for base in likelihood.distribution.__bases__
    if base is not Distribution and base.__module__.startswith("torch.")
}


def predictive(distribution: Distribution | None, mean: Input | None, scale: Input | None) -> Distribution:
    """Return the distribution, or the normal of ``mean`` and ``scale``, in float64."""
    if distribution is None:
        if mean is None or scale is None:
            raise ValueError("give a distribution, or both mean= and scale= of a normal")
        loc, width = as_array("mean", mean), as_array("scale", scale)
        if not (width > 0).all() or not np.isfinite(width).all():
            raise ValueError(f"scale must be > 0 and finite, got {width.min():.6g} to {width.max():.6g}")
        if width.ndim and width.shape != loc.shape:
            raise ValueError(
                f"scale has shape {width.shape}, mean {loc.shape}: give one scale per mean, or one for all"
            )
        return Normal(torch.from_numpy(loc.astype(np.float64)), torch.from_numpy(width.astype(np.float64)))
    if not isinstance(distribution, Distribution):
        raise TypeError(
            f"distribution must be a torch Distribution, got {type(distribution).__name__}: "
            "pass mean= and scale= for a normal"
        )
    if mean is not None or scale is not None:
        raise ValueError("give either a distribution or mean= and scale=, not both")
    return _in_double(distribution)


def _in_double(thing: Any, copied: dict[int, Any] | None = None) -> Any:
    """Return a copy with every tensor in float64 on the CPU, detached; other packages' objects are left unchanged."""
    if not type(thing).__module__.startswith(("torch.", "likely.")):
        return thing
    copied = {} if copied is None else copied
    if id(thing) in copied:  # a transform and its inverse hold each other
        return copied[id(thing)]
    clone = copied[id(thing)] = copy.copy(thing)
    for name, value in vars(thing).items():
        if isinstance(value, Tensor):
            if bool(value.isnan().any()):
                raise ValueError(f"{type(thing).__name__} has NaN in {name}: check the model's input for NaN")
            clone.__dict__[name] = value.detach().double().cpu() if value.is_floating_point() else value.cpu()
        elif isinstance(value, weakref.ref):
            clone.__dict__[name] = None  # a transform's cached inverse, which is in single precision
        elif isinstance(value, Distribution | td.Transform):
            clone.__dict__[name] = _in_double(value, copied)
        elif isinstance(value, list):
            clone.__dict__[name] = [_in_double(item, copied) for item in value]
    if isinstance(clone, Distribution):
        clone._validate_args = False  # checked here, in one line
        clone.__class__ = _FULLER.get(type(clone), type(clone))
    return clone


def univariate(distribution: Distribution) -> Distribution:
    """Return the distribution of each number, without the grouping of ``Independent``."""
    while isinstance(distribution, td.Independent):
        distribution = distribution.base_dist
    if distribution.event_shape:
        raise TypeError(
            f"{type(distribution).__name__} is multivariate: this metric takes distributions of single numbers"
        )
    return distribution


def with_target(
    y_true: Input, distribution: Distribution, sample_weight: Input | None
) -> tuple[Array, Distribution, Array]:
    """Return the target in float64, checked against the distribution, the distribution, and the weight of each row."""
    y = as_array("y_true", y_true).astype(np.float64)
    if y.ndim == 0 or not np.isfinite(y).all():
        raise ValueError("y_true must be an array of finite numbers, one or several per row")
    shape = distribution.batch_shape + distribution.event_shape
    if not fits(shape, torch.Size(y.shape)):
        raise ValueError(f"y_true has shape {y.shape}, the distribution {tuple(shape)}: reshape one to the other")
    return y, distribution, as_weight(sample_weight, len(y))


def quantile(distribution: Distribution, p: float) -> Array:
    """The smallest x with P(X ≤ x) ≥ p."""
    level = np.full(distribution.batch_shape, p)
    try:
        return through_torch(distribution, "icdf", level)
    except NotImplementedError:
        return _inverted(distribution, level)


def check_coverage(coverage: float) -> None:
    """Raise an error for a share that no interval holds."""
    if not 0 < coverage < 1:
        raise ValueError(f"coverage must lie in (0, 1), got {coverage}")


def central_interval(distribution: Distribution, coverage: float) -> tuple[Array, Array]:
    """The quantiles that leave half of what is not covered on each side."""
    check_coverage(coverage)
    return quantile(distribution, (1 - coverage) / 2), quantile(distribution, (1 + coverage) / 2)


def _inverted(distribution: Distribution, p: Array) -> Array:
    """Quantiles by bisection in sinh⁻¹ x, right to 1e-13, for distributions that have a CDF only."""
    low, high = np.full(p.shape, -700.0), np.full(p.shape, 700.0)
    for _ in range(60):
        middle = 0.5 * (low + high)
        below = cdf(distribution, np.sinh(middle)) < p
        low, high = np.where(below, middle, low), np.where(below, high, middle)
    return np.round(np.sinh(high)) if is_discrete(distribution) else np.sinh(high)
