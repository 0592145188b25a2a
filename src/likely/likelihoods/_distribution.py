"""Base classes of distributions with a location and a scale, and distribution functions by SciPy."""

from abc import abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.distributions import Distribution, constraints
from torch.distributions.utils import broadcast_all

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

    @abstractmethod
    def _nll(self, value: Tensor) -> Tensor: ...


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
