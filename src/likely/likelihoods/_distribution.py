"""Base classes of distributions with a location and a scale, and distribution functions by SciPy."""

from abc import abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.distributions import Distribution, constraints
from torch.distributions.utils import broadcast_all

Slope = Callable[[Tensor], Tensor]


class OfForm(Distribution):
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

    def log_prob(self, value: Tensor) -> Tensor:
        """The logarithm of the density, or of the probability of a class.

        Args:
            value: values of a shape that broadcasts with the batch.

        Returns:
            Log densities, in the broadcast shape.
        """
        if self._validate_args:
            self._validate_sample(value)
        parameters = {name: getattr(self, name) for name in self.arg_constraints if name != "loc"}
        return -type(self).nll(self.loc, value, **parameters, reduction="none", validate_args=False)


class LocationScale(OfForm):
    """A density of (x - loc) / scale, with or without shape parameters; subclasses give its standard form."""

    arg_constraints: ClassVar[dict[str, constraints.Constraint]] = {
        "loc": constraints.real,
        "scale": constraints.positive,
    }
    support = constraints.real
    has_rsample = True
    scale: Tensor

    def __init__(self, validate_args: bool | None, **parameters: Any) -> None:
        for name, value in zip(parameters, broadcast_all(*parameters.values()), strict=True):
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

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        """Draw a sample that is differentiable in all parameters.

        Args:
            sample_shape: shape of independent draws, () by default.

        Returns:
            Real numbers, in the shape ``sample_shape + batch_shape``.
        """
        shape = self._extended_shape(sample_shape)
        return self.loc + self.scale * self._standard_rsample(shape)

    @abstractmethod
    def _standard_variance(self) -> Tensor: ...

    @abstractmethod
    def _standard_cdf(self, z: Tensor) -> Tensor: ...

    @abstractmethod
    def _standard_icdf(self, p: Tensor) -> Tensor: ...

    def _standard_rsample(self, shape: torch.Size) -> Tensor:
        tiny = torch.finfo(self.loc.dtype).tiny
        return self._standard_icdf(torch.rand(shape, dtype=self.loc.dtype, device=self.loc.device).clamp(min=tiny))


def by_scipy(function: Callable[..., Any], *tensors: Tensor) -> Tensor:
    """A function of NumPy arrays of tensors that broadcast: in float64, back in the first one's dtype and place."""
    values = function(*(tensor.detach().double().cpu().numpy() for tensor in tensors))
    return torch.as_tensor(values).to(tensors[0])


def cdf_by_scipy(function: Callable[..., Any], slopes: dict[int, Slope], *arguments: Tensor) -> Tensor:
    """A CDF of x and positive parameters by SciPy, differentiable in all of them.

    ``slopes`` has the derivatives with a formula, by the place of their argument, as functions of x in float64.
    """
    arguments = torch.broadcast_tensors(*arguments)  # type: ignore[assignment]

    def slope(place: int) -> Tensor:
        known = slopes.get(place)
        return known(arguments[0].double()) if known else _difference(function, place, *arguments)

    return _differentiable(by_scipy(function, *arguments), arguments, slope)


def icdf_by_scipy(
    function: Callable[..., Any], cdf: Callable[..., Any], density: Slope, p: Tensor, *parameters: Tensor
) -> Tensor:
    """Quantiles of p and positive parameters by SciPy, differentiable in all of them by the slopes of the CDF."""
    p, *parameters = torch.broadcast_tensors(p, *parameters)  # type: ignore[assignment]
    x = by_scipy(function, p, *parameters)

    def slope(place: int) -> Tensor:
        rise = -_difference(cdf, place, x, *parameters) if place else torch.ones_like(x)
        return rise / density(x.double())

    return _differentiable(x, (p, *parameters), slope)


def _difference(function: Callable[..., Any], place: int, *arguments: Tensor) -> Tensor:
    """The slope in a positive parameter, by differences of sixth order.

    A parameter counts on the scale of itself where it is small, and of its root where it is large, as a concentration.
    """
    parameter = arguments[place].detach().double().clamp(min=torch.finfo(torch.float64).tiny)
    step = 2e-3 * parameter / (1 + parameter).sqrt()

    def at(steps: int) -> Tensor:
        moved = [argument.double() for argument in arguments]
        moved[place] = parameter + steps * step
        return by_scipy(function, *moved)

    return sum(weight * (at(k) - at(-k)) for k, weight in ((1, 45), (2, -9), (3, 1))) / (60 * step)


def _differentiable(value: Tensor, arguments: tuple[Tensor, ...], slope: Callable[[int], Tensor]) -> Tensor:
    """The value, with the slope in each of its arguments that requires a gradient."""
    places = [place for place, argument in enumerate(arguments) if argument.requires_grad]
    if not (torch.is_grad_enabled() and places):
        return value
    with torch.no_grad():  # where density and difference vanish, or are infinite, no NaN may reach the gradient
        slopes = [slope(place).to(value).nan_to_num() for place in places]
    return _Sloped.apply(value, slopes, *(arguments[place] for place in places))


class _Sloped(torch.autograd.Function):
    """A value that is already computed, with its slopes in its arguments."""

    @staticmethod
    def forward(ctx: Any, value: Tensor, slopes: list[Tensor], *arguments: Tensor) -> Tensor:
        ctx.save_for_backward(*slopes)
        return value.view_as(value)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        return None, None, *(grad * slope for slope in ctx.saved_tensors)
