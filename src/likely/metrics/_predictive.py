"""Predictive distributions as the metrics see them: in float64 on the CPU, with a CDF and quantiles for all."""

import copy
from typing import Any

import numpy as np
import torch
from scipy import special
from torch import Tensor
from torch import distributions as td
from torch.distributions import Distribution

from likely._validation import fits
from likely.distributions import StudentT
from likely.metrics._input import Array, Input, as_array, as_weight


def predictive(distribution: Distribution | None, mean: Input | None, scale: Input | None) -> Distribution:
    """The distribution given, or the normal of ``mean`` and ``scale``; in float64."""
    if distribution is None:
        if mean is None or scale is None:
            raise ValueError("give a distribution, or both mean= and scale= of a normal")
        loc, width = as_array("mean", mean), as_array("scale", scale)
        if not (width > 0).all() or not np.isfinite(width).all():
            raise ValueError(f"scale must be > 0 and finite, got {width.min():.6g} to {width.max():.6g}")
        if width.ndim and width.shape != loc.shape:
            raise ValueError(f"scale has shape {width.shape}, mean {loc.shape}: give one scale a mean, or one for all")
        return td.Normal(torch.from_numpy(loc.astype(np.float64)), torch.from_numpy(width.astype(np.float64)))
    if not isinstance(distribution, Distribution):
        raise TypeError(
            f"distribution must be a torch Distribution, got {type(distribution).__name__}: "
            "pass mean= and scale= for a normal"
        )
    if mean is not None or scale is not None:
        raise ValueError("give either a distribution or mean= and scale=, not both")
    converted: Distribution = _in_double(distribution)
    return converted


def _in_double(thing: Any) -> Any:
    """A copy with every tensor in float64 on the CPU, detached; what others wrote is left as it is."""
    if not type(thing).__module__.startswith(("torch.", "likely.")):
        return thing
    clone = copy.copy(thing)
    for name, value in vars(thing).items():
        if isinstance(value, Tensor):
            if bool(value.isnan().any()):
                raise ValueError(f"{type(thing).__name__} has NaN in {name}: look for NaN in the model's input")
            clone.__dict__[name] = value.detach().double().cpu() if value.is_floating_point() else value.cpu()
        elif isinstance(value, Distribution | td.Transform):
            clone.__dict__[name] = _in_double(value)
        elif isinstance(value, list):
            clone.__dict__[name] = [_in_double(item) for item in value]
    if isinstance(clone, Distribution):
        clone._validate_args = False  # checked here, in one line
    if type(clone) is td.StudentT:
        return StudentT(clone.df, clone.loc, clone.scale, validate_args=False)  # torch's has no cdf
    return clone


def univariate(distribution: Distribution) -> Distribution:
    """The distribution of each number; ``Independent`` only groups them."""
    while isinstance(distribution, td.Independent):
        distribution = distribution.base_dist
    if distribution.event_shape:
        raise TypeError(f"{type(distribution).__name__} is multivariate: this metric judges one number at a time")
    return distribution


def with_target(
    y_true: Input, distribution: Distribution, sample_weight: Input | None
) -> tuple[Array, Distribution, Array]:
    """The target in float64, checked against the distribution, and the weight of its rows."""
    y = as_array("y_true", y_true).astype(np.float64)
    if y.ndim == 0 or not np.isfinite(y).all():
        raise ValueError("y_true must be an array of finite numbers: one a row, or several")
    shape = distribution.batch_shape + distribution.event_shape
    if not fits(shape, torch.Size(y.shape)):
        raise ValueError(f"y_true has shape {y.shape}, the distribution {tuple(shape)}: reshape one to the other")
    return y, distribution, as_weight(sample_weight, len(y))


def through_torch(thing: Any, method: str, x: Array) -> Array:
    """``thing.method(x)`` in the thing's own precision and place, back as float64."""
    found = _tensor_of(thing)
    value = torch.as_tensor(x) if found is None else torch.as_tensor(x).to(found)
    with torch.no_grad():
        result: Tensor = getattr(thing, method)(value)
    return result.double().numpy(force=True)


def in_double(distribution: Distribution) -> bool:
    """Whether the distribution computes in float64."""
    found = _tensor_of(distribution)
    return found is None or found.dtype == torch.float64


def _tensor_of(thing: Any) -> Tensor | None:
    for value in vars(thing).values():
        found = _tensor_of(value) if isinstance(value, Distribution) else value
        if isinstance(found, Tensor) and found.is_floating_point():
            return found
    return None


def cdf(distribution: Distribution, x: Array) -> Array:
    """P(X ≤ x), also for x outside the support."""
    # Exact types: a subclass may have a CDF of its own.
    if type(distribution) is td.Poisson:
        return np.where(x < 0, 0.0, special.pdtr(np.floor(x.clip(min=0)), distribution.rate.numpy()))
    if type(distribution) is td.NegativeBinomial:
        more = torch.sigmoid(distribution.logits).numpy()
        inside = special.betaincc(np.floor(x.clip(min=0)) + 1, distribution.total_count.numpy(), more)
        return np.where(x < 0, 0.0, inside)
    kind = type(distribution).__name__
    low, high = bounds(distribution)
    try:
        inside = through_torch(distribution, "cdf", x.clip(low, high))
    except NotImplementedError:
        raise TypeError(f"{kind} has no cdf: draw samples and use crps_from_samples, or give it a cdf") from None
    if np.isnan(inside).any():
        raise ValueError(f"the cdf of {kind} is NaN at some values: let it be 0 and 1 beyond its support")
    return np.where(x < low, 0.0, np.where(x > high, 1.0, inside))


def quantile(distribution: Distribution, p: float) -> Array:
    """The smallest x with P(X ≤ x) ≥ p."""
    if type(distribution) in (td.Poisson, td.NegativeBinomial):
        return _count_quantile(distribution, p)
    level = np.full(distribution.batch_shape, p)
    try:
        return through_torch(distribution, "icdf", level)
    except NotImplementedError:
        return _inverted(distribution, level)


def _count_quantile(distribution: Any, p: float) -> Array:
    from scipy import stats

    if type(distribution) is td.Poisson:
        return np.asarray(stats.poisson.ppf(p, distribution.rate.numpy()))
    no_more = torch.sigmoid(-distribution.logits).numpy()
    return np.asarray(stats.nbinom.ppf(p, distribution.total_count.numpy(), no_more))


def _inverted(distribution: Distribution, p: Array) -> Array:
    """Quantiles by bisection, for distributions that know their CDF only."""
    low, high = np.full_like(p, -1.0), np.full_like(p, 1.0)
    for _ in range(1000):
        short, far = cdf(distribution, high) < p, cdf(distribution, low) > p
        if not (short.any() or far.any()):
            break
        high, low = np.where(short, 2 * high, high), np.where(far, 2 * low, low)
    for _ in range(1100):  # enough to walk through every exponent of a float64; a hundred in practice
        middle = 0.5 * (low + high)
        if ((middle == low) | (middle == high)).all():
            break
        below = cdf(distribution, middle) < p
        low, high = np.where(below, middle, low), np.where(below, high, middle)
    return high


def bounds(distribution: Distribution) -> tuple[Array, Array]:
    """The ends of the support where it states them."""
    try:
        support = distribution.support
    except NotImplementedError:
        support = None
    low, high = getattr(support, "lower_bound", -np.inf), getattr(support, "upper_bound", np.inf)
    return torch.as_tensor(low).double().numpy(force=True), torch.as_tensor(high).double().numpy(force=True)


def check_support(distribution: Distribution, y: Array) -> None:
    """Whether the target can be what the distribution is about, as far as it says."""
    try:
        supported = bool(through_torch(distribution.support, "check", y).all())
    except NotImplementedError:
        return
    if not supported:
        kind = type(distribution).__name__
        raise ValueError(f"y_true lies outside the support of {kind}: choose a distribution that covers it")


def is_discrete(distribution: Distribution) -> bool:
    """Whether the support is countable."""
    try:
        return bool(distribution.support.is_discrete)  # type: ignore[union-attr]
    except (NotImplementedError, AttributeError):
        return False
