r"""The likelihoods that torch lacks, as :class:`torch.distributions.Distribution`: Robust, Huber, a fuller StudentT."""

import math
from functools import cache
from typing import Any, ClassVar

import numpy as np
import torch
from scipy import special
from torch import Tensor
from torch.distributions import Distribution, constraints
from torch.distributions.utils import broadcast_all

from likely import functional
from likely._partition import log_partition
from likely._rho import rho

__all__ = ["Huber", "Robust", "StudentT"]

_SQRT_2PI = math.sqrt(2 * math.pi)


class _LocationScale(Distribution):
    """A symmetric density of (x - loc) / scale with one shape parameter; subclasses give its standard form."""

    support = constraints.real
    has_rsample = True
    shape_name: ClassVar[str]
    loc: Tensor
    scale: Tensor

    def __init__(self, shape: Any, loc: Any, scale: Any, validate_args: bool | None) -> None:
        shape, self.loc, self.scale = broadcast_all(shape, loc, scale)
        setattr(self, self.shape_name, shape)
        super().__init__(self.loc.shape, validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        """The same distribution over a larger batch."""
        new = self._get_checked_instance(type(self), _instance)
        shape = torch.Size(batch_shape)
        for name in (self.shape_name, "loc", "scale"):
            setattr(new, name, getattr(self, name).expand(shape))
        Distribution.__init__(new, shape, validate_args=False)
        new._validate_args = self._validate_args
        return new

    @property
    def _shape(self) -> Tensor:
        shape: Tensor = getattr(self, self.shape_name)
        return shape

    @property
    def mean(self) -> Tensor:
        """The location, by symmetry."""
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
        """P(X ≤ value), differentiable in the value and all parameters."""
        if self._validate_args:
            self._validate_sample(value)
        return self._standard_cdf((value - self.loc) / self.scale)

    def icdf(self, value: Tensor) -> Tensor:
        """The quantile of a probability, differentiable in it and all parameters."""
        return self.loc + self.scale * self._standard_icdf(value)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        """A sample with gradients to all parameters."""
        shape = self._extended_shape(sample_shape)
        return self.loc + self.scale * self._standard_rsample(shape)

    def _standard_variance(self) -> Tensor:
        raise TypeError("use Robust or Huber")

    def _standard_cdf(self, z: Tensor) -> Tensor:
        raise TypeError("use Robust or Huber")

    def _standard_icdf(self, p: Tensor) -> Tensor:
        raise TypeError("use Robust or Huber")

    def _standard_rsample(self, shape: torch.Size) -> Tensor:
        raise TypeError("use Robust or Huber")


class Robust(_LocationScale):
    r"""Barron's robust distribution, :math:`p(x) = e^{-\rho(x - \mu, \alpha, \sigma)} / \sigma Z(\alpha)`.

    :math:`\alpha = 0` is a Cauchy of scale :math:`\sqrt2\sigma`, 2 the normal, larger α lighter tails. The CDF is
    a Gauss–Legendre sum in :math:`\sinh^{-1} z` (in float64 right to 1e-14 up to 1e4 scales out, to 1e-8 beyond), the
    quantile its inverse by safeguarded Newton steps, samples come by rejection and carry implicit gradients.

    >>> import torch
    >>> from likely.distributions import Robust
    >>> d = Robust(alpha=torch.tensor([0.0, 1.0, 2.0]), loc=0.0, scale=1.0)
    >>> d.cdf(torch.tensor(1.0))
    tensor([0.6959, 0.7657, 0.8413])
    >>> d.icdf(torch.tensor(0.975))
    tensor([17.9693,  3.3868,  1.9600])
    >>> d.variance
    tensor([   inf, 2.6995, 1.0000])
    """

    shape_name = "alpha"
    alpha: Tensor
    arg_constraints: ClassVar[dict[str, constraints.Constraint]] = {
        "alpha": constraints.nonnegative,
        "loc": constraints.real,
        "scale": constraints.positive,
    }

    def __init__(self, alpha: Any, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        super().__init__(alpha, loc, scale, validate_args)

    @property
    def mean(self) -> Tensor:
        """The location; undefined at α = 0, as for the Cauchy."""
        return torch.where(self.alpha == 0, torch.nan, self.loc)

    def log_prob(self, value: Tensor) -> Tensor:
        """The log density."""
        if self._validate_args:
            self._validate_sample(value)
        return -functional.robust_nll(
            self.loc, value, alpha=self.alpha, scale=self.scale, reduction="none", validate_args=False
        )

    def entropy(self) -> Tensor:
        """The differential entropy."""
        return self.scale.log() + log_partition(self.alpha) + self._expect(rho)

    def _standard_variance(self) -> Tensor:
        zero = self.alpha == 0
        safe = self.expand(self.batch_shape)
        safe.alpha = torch.where(zero, 2.0, self.alpha)
        # z² e^-ρ peaks where e^αv = 3/2 in v = sinh⁻¹ z, far out when α is small.
        beyond = 2 * math.log(1.5) / safe.alpha.detach().clamp(min=1e-3)
        return torch.where(zero, torch.inf, safe._expect(lambda z, _: z.square(), beyond))

    def _expect(self, f: Any, beyond: Tensor | float = 0.0) -> Tensor:
        """E f(z, α) by the trapezoid rule in sinh⁻¹ z, which converges exponentially for even integrands."""
        alpha = self.alpha.unsqueeze(-1)
        with torch.no_grad():
            end = (torch.asinh(_reach(self.alpha, 80.0)) + beyond).unsqueeze(-1)
            steps = torch.linspace(0, 1, 401, dtype=alpha.dtype, device=alpha.device)
            v = end * steps
            log_jacobian = v + torch.log1p(torch.exp(-2 * v)) - math.log(2)
            z = torch.sinh(v)
            weight = torch.where(steps == 0, 0.5, 1.0) * 2 * end / 400
        log_terms = log_jacobian - rho(z, alpha) - log_partition(alpha)
        return (weight * torch.exp(log_terms + f(z, alpha).log())).sum(-1)

    def _standard_cdf(self, z: Tensor) -> Tensor:
        z, alpha = torch.broadcast_tensors(z, self.alpha)
        return 0.5 + torch.sign(z) * _half_mass(z.abs(), alpha)

    def _standard_icdf(self, p: Tensor) -> Tensor:
        p, alpha = torch.broadcast_tensors(p, self.alpha)
        with torch.no_grad():
            z = torch.sign(p - 0.5) * _half_quantile((p - 0.5).abs(), alpha)
            z = torch.where((p == 0) | (p == 1), torch.sign(p - 0.5) * torch.inf, z)
            z = torch.where((p < 0) | (p > 1), torch.nan, z)
        inside = z.isfinite()
        return self._implicit(torch.where(inside, z, 0.0), alpha, torch.where(inside, p, 0.5)) + torch.where(
            inside, 0.0, z
        )

    def _standard_rsample(self, shape: torch.Size) -> Tensor:
        alpha = self.alpha.expand(shape)
        with torch.no_grad():
            z = _rejection_sample(alpha)
        return self._implicit(z, alpha) if alpha.requires_grad else z

    def _implicit(self, z: Tensor, alpha: Tensor, p: Tensor | None = None) -> Tensor:
        """``z`` with the gradients of the quantile function: dz = (dp - ∂F/∂α dα) / density."""
        if not (alpha.requires_grad or (p is not None and p.requires_grad)):
            return z
        mass = 0.5 + torch.sign(z) * _half_mass(z.abs(), alpha)
        gap = (0.0 if p is None else p - p.detach()) - (mass - mass.detach())
        with torch.no_grad():
            density = torch.exp(-rho(z, alpha) - log_partition(alpha))
        return z + gap / density


class Huber(_LocationScale):
    r"""Huber's least favourable distribution: normal within ``delta`` scales, exponential tails beyond.

    >>> import torch
    >>> from likely.distributions import Huber
    >>> d = Huber(delta=1.345, loc=0.0, scale=1.0)
    >>> d.icdf(torch.tensor([0.5, 0.975, 0.999]))
    tensor([0.0000, 2.4672, 4.8604])
    """

    shape_name = "delta"
    delta: Tensor
    arg_constraints: ClassVar[dict[str, constraints.Constraint]] = {
        "delta": constraints.positive,
        "loc": constraints.real,
        "scale": constraints.positive,
    }

    def __init__(self, delta: Any, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        super().__init__(delta, loc, scale, validate_args)

    def log_prob(self, value: Tensor) -> Tensor:
        """The log density."""
        if self._validate_args:
            self._validate_sample(value)
        return -functional.huber_nll(
            self.loc, value, delta=self.delta, scale=self.scale, reduction="none", validate_args=False
        )

    def _masses(self) -> tuple[Tensor, Tensor]:
        """Z, and the share of one tail."""
        partition = functional.huber_log_partition(self.delta).exp()
        return partition, torch.exp(-0.5 * self.delta.square()) / (self.delta * partition)

    def _standard_variance(self) -> Tensor:
        partition, tail = self._masses()
        centre = _SQRT_2PI * torch.erf(self.delta / math.sqrt(2)) / partition
        return centre + tail * (4 + 4 / self.delta.square())

    def _standard_cdf(self, z: Tensor) -> Tensor:
        partition, tail = self._masses()
        inner = torch.maximum(torch.minimum(z, self.delta), -self.delta)
        centre = 0.5 + 0.5 * _SQRT_2PI * torch.erf(inner / math.sqrt(2)) / partition
        beyond = tail * torch.exp(-self.delta * (z.abs() - self.delta).clamp(min=0))
        outside = torch.where(z < 0, beyond, 1 - beyond)
        return torch.where(z.abs() <= self.delta, centre, outside)

    def _standard_icdf(self, p: Tensor) -> Tensor:
        partition, tail = self._masses()
        near = torch.minimum(p, 1 - p)
        inside = near >= tail
        centre = torch.special.ndtri(0.5 + torch.where(inside, p - 0.5, 0.0) * partition / _SQRT_2PI)
        outside = self.delta + torch.log(tail / torch.where(inside, tail, near)) / self.delta
        return torch.where(inside, centre, torch.sign(p - 0.5) * outside)

    def _standard_rsample(self, shape: torch.Size) -> Tensor:
        tiny = torch.finfo(self.loc.dtype).tiny
        return self._standard_icdf(torch.rand(shape, dtype=self.loc.dtype, device=self.loc.device).clamp(min=tiny))


class StudentT(torch.distributions.StudentT):
    """torch's Student t with the ``cdf`` and ``icdf`` it lacks (scipy's, with gradients in all but ``df``).

    >>> import torch
    >>> from likely.distributions import StudentT
    >>> d = StudentT(torch.tensor(3.0))
    >>> d.cdf(torch.tensor(1.0)), d.icdf(torch.tensor(0.975))
    (tensor(0.8045), tensor(3.1824))
    """

    def cdf(self, value: Tensor) -> Tensor:
        """P(X ≤ value)."""
        z, df = torch.broadcast_tensors((value - self.loc) / self.scale, self.df)
        result: Tensor = _StudentCdf.apply(z, df)
        return result

    def icdf(self, value: Tensor) -> Tensor:
        """The quantile of a probability."""
        p, df = torch.broadcast_tensors(value, self.df)
        result: Tensor = self.loc + self.scale * _StudentQuantile.apply(p, df)
        return result


def _by_scipy(function: Any, x: Tensor, df: Tensor) -> Tensor:
    result = function(df.detach().double().cpu().numpy(), x.detach().double().cpu().numpy())
    return torch.as_tensor(result).to(x)


def _student_density(z: Tensor, df: Tensor) -> Tensor:
    nll = functional.student_t_nll(torch.zeros_like(z), z, df=df, scale=1.0, reduction="none", validate_args=False)
    return torch.exp(-nll)


class _StudentCdf(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, z: Tensor, df: Tensor) -> Tensor:
        ctx.save_for_backward(z, df)
        return _by_scipy(special.stdtr, z, df)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        z, df = ctx.saved_tensors
        return grad * _student_density(z, df), None


class _StudentQuantile(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, p: Tensor, df: Tensor) -> Tensor:
        z = _by_scipy(special.stdtrit, p, df)
        ctx.save_for_backward(z, df)
        return z

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        z, df = ctx.saved_tensors
        return grad / _student_density(z, df), None


def _reach(alpha: Tensor, depth: float = 38.0) -> Tensor:
    """The z at which ρ(z, α) reaches ``depth``: beyond it lies less than e^-depth of the density's height."""
    b = (alpha - 2).abs().clamp(min=torch.finfo(alpha.dtype).eps)
    exponent = torch.where(alpha > 1e-6, torch.log1p(depth * alpha / b) / alpha.clamp(min=1e-6), depth / b)
    return (b * torch.expm1(2 * exponent.clamp(max=40.0))).sqrt()


@cache
def _legendre(dtype: torch.dtype, device: torch.device) -> tuple[Tensor, Tensor]:
    nodes, weights = np.polynomial.legendre.leggauss(48)
    return (
        torch.as_tensor((nodes + 1) / 2, dtype=dtype, device=device),
        torch.as_tensor(weights / 2, dtype=dtype, device=device),
    )


def _half_mass(z: Tensor, alpha: Tensor) -> Tensor:
    """The probability between 0 and z ≥ 0."""
    nodes, weights = _legendre(z.dtype, z.device)
    v = torch.asinh(torch.minimum(z, _reach(alpha.detach()))).unsqueeze(-1)
    inner = v * nodes
    alpha = alpha.unsqueeze(-1)
    density = torch.exp(-rho(torch.sinh(inner), alpha) - log_partition(alpha))
    return (v * weights * density * torch.cosh(inner)).sum(-1)


def _half_quantile(mass: Tensor, alpha: Tensor) -> Tensor:
    """The z ≥ 0 with ``mass`` between 0 and it, by Newton steps in sinh⁻¹ z inside a shrinking bracket."""
    low, high = torch.zeros_like(mass), torch.asinh(_reach(alpha))
    v = torch.minimum(2 * mass, high)
    for _ in range(60):
        z = torch.sinh(v)
        gap = _half_mass(z, alpha) - mass
        low, high = torch.where(gap < 0, v, low), torch.where(gap > 0, v, high)
        slope = torch.exp(-rho(z, alpha) - log_partition(alpha)) * torch.cosh(v)
        step = v - gap / slope
        new = torch.where((step > low) & (step < high), step, 0.5 * (low + high))
        done = (new - v).abs() <= 4 * torch.finfo(v.dtype).eps * (1 + v.abs())
        v = torch.where(gap == 0, v, new)
        if bool((done | (gap == 0)).all()):
            break
    return torch.sinh(v)


def _rejection_sample(alpha: Tensor) -> Tensor:
    """Proposals from the Cauchy that α = 0 is, or from the normal above α = 2: ρ grows with α, so both cover."""
    alpha = alpha.contiguous()
    sample = torch.empty_like(alpha)
    waiting = torch.arange(alpha.numel(), device=alpha.device)
    while len(waiting):
        a = alpha.view(-1)[waiting]
        normal = a >= 2
        cauchy = math.sqrt(2) * torch.tan(math.pi * (torch.rand_like(a) - 0.5))
        z = torch.where(normal, torch.randn_like(a), cauchy)
        advantage = rho(z, torch.where(normal, 2.0, 0.0).to(a)) - rho(z, a)
        accepted = torch.rand_like(a).log() < advantage
        sample.view(-1)[waiting[accepted]] = z[accepted]
        waiting = waiting[~accepted]
    return sample
