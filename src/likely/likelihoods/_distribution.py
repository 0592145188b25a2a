"""Base classes of distributions, functions by SciPy, and the numbers of any torch distribution as NumPy arrays."""

import inspect
from collections.abc import Callable
from functools import cache
from typing import Any, ClassVar

import numpy as np
import torch
from scipy.optimize import elementwise
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.distributions import Distribution, constraints
from torch.distributions.utils import broadcast_all

from likely._rows.blocks import row_blocks
from likely._typing import Values

EACH: dict[str, Any] = {"reduction": "none", "validate_args": False}
Function = Callable[..., Any]


class Exact(Distribution):
    """A distribution whose density is that of a functional form, which keeps its digits.

    Subclasses of torch's name torch's class first, by which metrics find them, and therefore ``log_prob`` again.
    """

    def log_prob(self, value: Tensor) -> Tensor:
        """The logarithm of the density, or of the probability of a class or count.

        Args:
            value: values of a shape that broadcasts with the batch.

        Returns:
            Log densities, in the broadcast shape.
        """
        if self._validate_args:
            self._validate_sample(value)
        return -self._nll(value)

    def _density(self, value: Tensor) -> Tensor:
        return torch.exp(-self._nll(value))

    _nll: Callable[[Tensor], Tensor]


class OfForm(Exact):
    """The distribution of a functional form ``nll`` about ``loc``; subclasses name it, and constraints of the rest."""

    nll: ClassVar[Callable[..., Tensor]]
    arg_constraints: ClassVar[dict[str, constraints.Constraint]] = {"loc": constraints.real}
    loc: Tensor

    def __init_subclass__(cls, *, nll: Callable[..., Tensor] | None = None, **rest: constraints.Constraint) -> None:
        super().__init_subclass__()
        cls.arg_constraints = {**rest, **cls.arg_constraints}
        if nll is not None:
            cls.nll = staticmethod(nll)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        """The same distribution with parameters expanded to a larger batch.

        Args:
            batch_shape: the new batch shape, to which the old one broadcasts.
            _instance: for internal use by torch.

        Returns:
            A new distribution of the same class.
        """
        new = self._get_checked_instance(type(self), _instance)
        shape = torch.Size(batch_shape)
        for name, constraint in self.arg_constraints.items():
            value = getattr(self, name)
            setattr(new, name, value.expand(shape + value.shape[value.ndim - constraint.event_dim :]))
        Distribution.__init__(new, shape, validate_args=False)
        new._validate_args = self._validate_args
        return new

    def _nll(self, value: Tensor) -> Tensor:
        parameters = {name: getattr(self, name) for name in self.arg_constraints if name != "loc"}
        return type(self).nll(self.loc, value, **parameters, **EACH)


class Standardised(OfForm):
    """A density of (x - loc) / scale, with its CDF and quantiles by those of its standard form.

    Symmetric ones give ``_tail``, the CDF up to zero, and ``_tail_quantile``, its inverse: no digits cancel there.
    """

    arg_constraints: ClassVar[dict[str, constraints.Constraint]] = {
        "loc": constraints.real,
        "scale": constraints.positive,
    }
    support = constraints.real
    scale: Tensor
    _tail: Callable[[Tensor], Tensor]
    _tail_quantile: Callable[[Tensor], Tensor]

    def cdf(self, value: Tensor) -> Tensor:
        """P(X ≤ value), differentiable in the value and all parameters.

        Args:
            value: real numbers of a shape that broadcasts with the batch.

        Returns:
            Probabilities, in the broadcast shape.
        """
        if self._validate_args:
            self._validate_sample(value)
        return self._standard_cdf((value - self.loc) / self.scale)

    def icdf(self, value: Tensor) -> Tensor:
        """The quantile of a probability, differentiable in it and all parameters.

        Args:
            value: probabilities from 0 to 1, of a shape that broadcasts with the batch.

        Returns:
            Quantiles, in the broadcast shape.
        """
        return self.loc + self.scale * self._standard_icdf(value)

    def _standard_cdf(self, z: Tensor) -> Tensor:
        tail = self._tail(torch.where(z < 0, z, -z))
        return torch.where(z < 0, tail, 1 - tail)

    def _standard_icdf(self, p: Tensor) -> Tensor:
        low = p < 0.5
        z = self._tail_quantile(torch.where(low, p, 1 - p))
        return torch.where(low, z, -z)


class LocationScale(Standardised):
    """A density of (x - loc) / scale, with or without shape parameters; subclasses give its standard form."""

    has_rsample = True
    _standard_variance: Callable[[], Tensor]
    __signature__: ClassVar[inspect.Signature]

    def __init_subclass__(cls, **rest: Any) -> None:
        super().__init_subclass__(**rest)
        kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
        names = [inspect.Parameter(name, kind, annotation=Any) for name in cls.arg_constraints]
        last = inspect.Parameter("validate_args", kind, default=None, annotation=bool | None)
        cls.__signature__ = inspect.Signature([*names, last])

    def __init__(self, *values: Any, **named: Any) -> None:
        given = self.__signature__.bind(*values, **named).arguments
        validate_args = given.pop("validate_args", None)
        for name, value in zip(given, broadcast_all(*given.values()), strict=True):
            setattr(self, name, value)
        super().__init__(self.loc.shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        """The location, where the density is symmetric."""
        return self.loc

    @property
    def mode(self) -> Tensor:
        """The location."""
        return self.loc

    @property
    def variance(self) -> Tensor:
        """The variance; infinite where the tails are too heavy for one."""
        return self.scale.square() * self._standard_variance()

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        """Draw a sample that is differentiable in all parameters.

        Args:
            sample_shape: shape of independent draws, () by default.

        Returns:
            Real numbers, in the shape ``sample_shape + batch_shape``.
        """
        shape = self._extended_shape(sample_shape)
        return self.loc + self.scale * self._standard_rsample(shape)

    def _implicit(self, z: Tensor, p: Tensor | float = 0.0) -> Tensor:
        """``z`` with the gradients of the quantile function of p: dz = (dp - ∂F/∂φ dφ) / density."""
        shapes = {name: getattr(self, name) for name in self.arg_constraints if name not in ("loc", "scale")}
        learned = any(torch.is_tensor(own) and own.requires_grad for own in (p, *shapes.values()))
        if not (learned and torch.is_grad_enabled()):  # a CDF may take a quadrature per value
            return z
        gap = p - self._standard_cdf(z)
        density = torch.exp(-type(self).nll(torch.zeros_like(z), z, scale=1.0, **shapes, **EACH))
        return z + (gap - gap.detach()) / density.detach()

    def _standard_rsample(self, shape: torch.Size) -> Tensor:
        tiny = torch.finfo(self.loc.dtype).tiny
        return self._standard_icdf(torch.rand(shape, dtype=self.loc.dtype, device=self.loc.device).clamp(min=tiny))


def by_scipy(function: Function, *tensors: Tensor) -> Tensor:
    """A function of NumPy arrays of tensors that broadcast: in float64, back in their dtype and place."""
    values = function(*(tensor.detach().double().cpu().numpy() for tensor in tensors))
    return torch.as_tensor(values).to(tensors[0] + tensors[-1])


def cdf_by_scipy(function: Function, slopes: dict[int, Function], *arguments: Tensor) -> Tensor:
    """A CDF of x and positive parameters by SciPy, differentiable in all of them.

    ``slopes`` has the derivatives with a formula, by the place of their argument, as functions of x in float64.
    """
    arguments = torch.broadcast_tensors(*arguments)

    def slope(place: int, _: Tensor) -> Tensor:
        return slopes[place](arguments[0].double()) if place in slopes else _difference(function, place, arguments)

    return _Sloped.apply(function, slope, *arguments)


def count_cdf(function: Function, slopes: dict[int, Function], value: Tensor, *parameters: Tensor) -> Tensor:
    """The CDF of counts by SciPy, differentiable in its parameters: zero below zero, and level between counts."""
    count = value.detach().floor().clamp(min=0)
    return torch.where(value < 0, 0.0, cdf_by_scipy(function, slopes, count, *parameters))


def icdf_by_scipy(function: Function, cdf: Function, density: Function, *arguments: Tensor) -> Tensor:
    """Quantiles of p and positive parameters by SciPy, differentiable in all of them by the slopes of the CDF."""
    arguments = torch.broadcast_tensors(*arguments)

    def slope(place: int, x: Tensor) -> Tensor:
        return (-_difference(cdf, place, (x, *arguments[1:])) if place else 1) / density(x)

    return _Sloped.apply(function, slope, *arguments)


def _difference(function: Function, place: int, arguments: tuple[Tensor, ...]) -> Tensor:
    """The slope in a positive parameter, which counts on its own scale if small, on that of its root if large."""
    moved = [argument.double() for argument in arguments]
    centre = moved[place].clamp(min=torch.finfo(torch.float64).tiny)
    step = 1e-4 * centre / (1 + centre).sqrt()
    moved[place] = torch.stack([centre + step, centre - step])
    above, below = by_scipy(function, *moved)
    return (above - below) / (2 * step)


class _Sloped(torch.autograd.Function):
    """A function by SciPy with its slopes, ``slope(place, value)`` in float64."""

    @staticmethod
    def forward(ctx: Any, function: Function, slope: Function, *arguments: Tensor) -> Tensor:
        value = by_scipy(function, *arguments)
        ctx.slope = slope
        ctx.save_for_backward(value)
        return value

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        value = ctx.saved_tensors[0].double()
        # At the ends of the support a slope is infinite, or zero over zero: times zero, NaN.
        return tuple(
            grad * ctx.slope(place, value).to(grad).nan_to_num() if needed else None
            for place, needed in enumerate(ctx.needs_input_grad, -2)
        )


Array = Values
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


def _support(distribution: Distribution) -> Any:
    try:
        return distribution.support
    except NotImplementedError:
        return None


def bounds(distribution: Distribution) -> tuple[Array, Array]:
    """The ends of the support where it states them."""
    support = _support(distribution)
    low, high = getattr(support, "lower_bound", -np.inf), getattr(support, "upper_bound", np.inf)
    return torch.as_tensor(low).double().numpy(force=True), torch.as_tensor(high).double().numpy(force=True)


def check_support(distribution: Distribution, y: Array) -> None:
    """Raise an error if the target lies outside the support, where the distribution states one."""
    support = _support(distribution)
    if support is not None and not through_torch(support, "check", y).all():
        kind = type(distribution).__name__
        raise ValueError(f"y_true lies outside the support of {kind}: choose a distribution that covers it")


def ranked_score(distribution: Distribution, reached: Array, y: Array) -> Array:
    """The ranked probability score of class numbers, given P(X ≤ k) of every class but the last."""
    check_support(distribution, y)
    return np.square(reached - (np.arange(reached.shape[-1]) >= y[..., None])).sum(-1)


def is_discrete(distribution: Distribution) -> bool:
    """Whether the support is countable."""
    try:
        return bool(getattr(_support(distribution), "is_discrete", False))
    except NotImplementedError:  # of a support that depends on the parameters
        return False


def standardised(distribution: Distribution, y: Array) -> tuple[Array, Array]:
    """(y - loc) / scale, and the scale."""
    loc, scale = distribution.loc.numpy(), distribution.scale.numpy()  # type: ignore[attr-defined]
    return (y - loc) / scale, scale


def root(function: Any, low: Any, high: Any, *arguments: Array) -> Array:
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
    values = np.polynomial.legendre.legvander(nodes, count)
    upto = values @ np.polynomial.legendre.legint(np.linalg.inv(values[:, :-1]), lbnd=-1)
    return (nodes + 1) / 2, weights / 2, upto / 2
