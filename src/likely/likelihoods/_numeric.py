"""The numbers of a torch distribution as NumPy arrays in float64: CDF, quantiles, support, and rules to integrate."""

from contextlib import suppress
from functools import cache
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.optimize import elementwise
from torch import Tensor
from torch.distributions import Distribution, MixtureSameFamily

from likely._rows.blocks import row_blocks

Array = NDArray[Any]
NODES = 24


def through_torch(thing: Any, method: str, x: Array) -> Array:
    """``thing.method(x)`` in the precision and on the device of ``thing``, back as float64."""
    parameter = _tensor_of(thing)
    value = torch.as_tensor(x) if parameter is None else torch.as_tensor(x).to(parameter)
    with torch.no_grad():
        result: Tensor = getattr(thing, method)(value)
    return result.double().numpy(force=True)


def in_double(distribution: Distribution) -> bool:
    """Whether the distribution computes in float64."""
    parameter = _tensor_of(distribution)
    return parameter is None or parameter.dtype == torch.float64


def _tensor_of(thing: Any) -> Tensor | None:
    for value in vars(thing).values():
        parameter = _tensor_of(value) if isinstance(value, Distribution) else value
        if isinstance(parameter, Tensor) and parameter.is_floating_point():
            return parameter
    return None


def cdf(distribution: Distribution, x: Array) -> Array:
    """P(X ≤ x), also for x outside the support."""
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
    level = np.full(distribution.batch_shape, p)
    try:
        return through_torch(distribution, "icdf", level)
    except NotImplementedError:
        return _inverted(distribution, level)


def _inverted(distribution: Distribution, p: Array) -> Array:
    """Quantiles by bisection, for distributions that have a CDF only; of counts over whole numbers."""
    low, high = _bracket(distribution, p)
    whole = is_discrete(distribution)
    for _ in range(1000):
        short, far = cdf(distribution, high) < p, cdf(distribution, low) > p
        if not (short.any() or far.any()):
            break
        width = np.maximum(high - low, 1.0)
        high, low = np.where(short, high + width, high), np.where(far, low - width, low)
    for _ in range(1100):  # enough to walk through every exponent of a float64; a hundred in practice
        middle = np.floor(0.5 * (low + high)) if whole else 0.5 * (low + high)
        if ((middle == low) | (middle == high)).all():
            break
        below = cdf(distribution, middle) < p
        low, high = np.where(below, middle, low), np.where(below, high, middle)
    return high


def _bracket(distribution: Distribution, p: Array) -> tuple[Array, Array]:
    """Numbers between which the quantiles most likely lie: for a mixture, the quantiles of its components."""
    if isinstance(distribution, MixtureSameFamily):
        parts = distribution.component_distribution
        with suppress(NotImplementedError):
            ends = through_torch(parts, "icdf", np.broadcast_to(p[..., None], parts.batch_shape).copy())
            if np.isfinite(ends).all():
                return ends.min(-1) - is_discrete(distribution), ends.max(-1)
    return np.full_like(p, -1.0), np.full_like(p, 1.0)


def bounds(distribution: Distribution) -> tuple[Array, Array]:
    """The ends of the support where it states them."""
    try:
        support = distribution.support
    except NotImplementedError:
        support = None
    low, high = getattr(support, "lower_bound", -np.inf), getattr(support, "upper_bound", np.inf)
    return torch.as_tensor(low).double().numpy(force=True), torch.as_tensor(high).double().numpy(force=True)


def check_support(distribution: Distribution, y: Array) -> None:
    """Raise an error if the target lies outside the support, where the distribution states one."""
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


def standardised(distribution: Distribution, y: Array) -> tuple[Array, Array]:
    """(y - loc) / scale, and the scale."""
    loc, scale = distribution.loc.numpy(), distribution.scale.numpy()  # type: ignore[attr-defined]
    return (y - loc) / scale, scale


def root(function: Any, low: Array, high: Array, *arguments: Array) -> Array:
    """Where an increasing function of x and the arguments crosses zero, elementwise; ``high`` if it does not."""
    found = elementwise.find_root(function, (low, high), args=arguments)
    return np.where(found.success, found.x, high)


def over_distinct(function: Any, *parameters: Array, cells: int) -> Array:
    """A function of parameters in one dimension, computed once per distinct value, in blocks of rows of ``cells``."""
    values, which = np.unique(np.stack(parameters), axis=1, return_inverse=True)
    blocks = row_blocks(values.shape[1], cells)
    return np.concatenate([function(*values[:, block]) for block in blocks])[which.ravel()]


@cache
def gauss_legendre(count: int = NODES) -> tuple[Array, Array, Array]:
    """Gauss–Legendre nodes and weights on [0, 1], and the matrix that integrates from 0 up to each node."""
    nodes, weights = np.polynomial.legendre.leggauss(count)
    degree = np.arange(len(nodes))
    values = np.polynomial.legendre.legvander(nodes, len(nodes))
    below = np.concatenate([-np.ones((len(nodes), 1)), values[:, :-2]], 1)  # P₋₁ = -1: ∫P₀ starts at -1
    integrals = (values[:, 1:] - below) / (2 * degree + 1)
    upto = integrals @ (values[:, :-1] * weights[:, None] * (degree + 0.5)).T
    return (nodes + 1) / 2, weights / 2, upto / 2
