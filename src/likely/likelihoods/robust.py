"""Barron's robust likelihood: from the Cauchy over the normal to lighter tails, by one shape that learns."""

import math
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.distributions import constraints

from likely._numerics.partition import log_partition
from likely._numerics.rho import rho
from likely._rows.blocks import row_blocks
from likely._validation import check_floating, check_not_negative, check_positive, promote
from likely.constraints import Interval
from likely.likelihoods._distribution import (
    NODES,
    Array,
    LocationScale,
    by_scipy,
    gauss_legendre,
    over_distinct,
    root,
    standardised,
)
from likely.likelihoods._form import Value, functional_form
from likely.likelihoods._loss import ScaleLoss
from likely.likelihoods._record import Residuals, register
from likely.parameters._slot import Slot, half_power_of_rho1, scale_slot

# Panels from 0 to a residual, and over the whole half line.
_PANELS_TO_RESIDUAL, _PANELS_OF_HALF_LINE = 4, 16
_DEPTH = 80.0  # nats by which the density falls over the part of a tail that counts
_DEEPEST, _FARTHEST = 760.0, 170.0  # nats to where a tail is zero in float64, and the largest exponent of z

__all__ = ["Robust", "RobustLoss", "robust_log_partition", "robust_nll", "robust_rho"]


@functional_form(fused=True, alpha=check_not_negative)
def robust_nll(prediction: Tensor, target: Tensor, *, alpha: Value, scale: Value) -> Tensor:
    r"""Negative log-likelihood of Barron's robust density, whose shape ``alpha`` controls the tails.

    :math:`\ell = \rho(r, \alpha, \sigma) + \log\sigma + \log Z(\alpha)`. :math:`\alpha = 0` is a
    Cauchy, 2 the normal, larger values have lighter tails. Without the partition function :math:`Z` the best α would
    always be the smallest; for :math:`\alpha < 0` it diverges. No term is constant, so ``full`` has no effect.

    Args:
        prediction: where the density is centred, any shape.
        target: real numbers of a shape that broadcasts with the prediction's.
        alpha: shape ≥ 0: a number, or a tensor that broadcasts to the prediction.
        scale: positive scale: a number, or a tensor that broadcasts to the prediction.
        reduction: ``"mean"`` (the default), ``"sum"`` or ``"none"``.
        full: whether terms that do not depend on any parameter are included; ``True`` by default.
        validate_args: whether tensor values are checked; by default (None) on the CPU only.

    Returns:
        A scalar, or one value per element under ``reduction="none"``.

    Raises:
        ValueError: shapes do not broadcast, a value is out of range, or the reduction is unknown.

    See Also:
        :class:`~likely.RobustLoss`, the module with parameters that learn.

    >>> import torch
    >>> from likely.functional import robust_nll
    >>> x, y = torch.zeros(2), torch.tensor([1.0, 30.0])
    >>> robust_nll(x, y, alpha=2.0, scale=1.0), robust_nll(x, y, alpha=0.0, scale=1.0)
    (tensor(226.1689), tensor(4.7498))
    """
    return rho((target - prediction) / scale, alpha) + scale.log() + log_partition(alpha)


def robust_rho(residual: Tensor, *, alpha: Tensor | float, scale: Tensor | float = 1.0) -> Tensor:
    r"""Barron's general robust loss ρ, without its partition function, for every real α and ±∞.

    .. math:: \rho(r, \alpha, \sigma) = \frac{|\alpha-2|}\alpha
              \left(\left(\frac{(r/\sigma)^2}{|\alpha-2|} + 1\right)^{\alpha/2} - 1\right)

    with its limits: :math:`\log(1 + z^2/2)` at 0, :math:`z^2/2` at 2, :math:`\pm(e^{\pm z^2/2} - 1)` at ±∞.

    Args:
        residual: real numbers, any shape.
        alpha: shape, any real number or ±∞: a number, or a tensor that broadcasts with the residual.
        scale: positive scale, 1 by default: a number, or a tensor that broadcasts with the residual.

    Returns:
        One value per element, in the broadcast shape.

    >>> import torch
    >>> from likely.functional import robust_rho
    >>> robust_rho(torch.tensor(3.0), alpha=torch.tensor([-torch.inf, -2.0, 0.0, 1.0, 2.0]))
    tensor([0.9889, 1.3846, 1.7047, 2.1623, 4.5000])
    """
    check_floating("residual", residual)
    check_positive("scale", scale)
    residual, alpha, scale = promote(residual, alpha=alpha, scale=scale)
    return rho(residual / scale, alpha)


def robust_log_partition(alpha: Tensor | float) -> Tensor:
    r"""Logarithm of the robust likelihood's partition function :math:`Z(\alpha) = \int e^{-\rho(x, \alpha, 1)}\,dx`.

    Exact to rounding on :math:`[0, \infty]`, with its gradient; +∞ below zero, where the integral diverges.

    Args:
        alpha: shape, a number or a tensor of any shape.

    Returns:
        A tensor of the shape of ``alpha``.

    >>> import torch
    >>> from likely.functional import robust_log_partition
    >>> robust_log_partition(torch.tensor([0.0, 2.0, torch.inf])).exp()
    tensor([4.4429, 2.5066, 2.0244])
    """
    (alpha,) = promote(torch.as_tensor(alpha, dtype=None if isinstance(alpha, Tensor) else torch.get_default_dtype()))
    return log_partition(alpha)


class Robust(LocationScale, nll=robust_nll, alpha=constraints.nonnegative):
    r"""Barron's robust distribution, :math:`p(x) = e^{-\rho(x - \mu, \alpha, \sigma)} / \sigma Z(\alpha)`.

    :math:`\alpha = 0` is a Cauchy of scale :math:`\sqrt2\sigma`, 2 the normal; larger α have lighter tails. The CDF is
    a Gauss–Legendre sum over the tail, right to ten digits of it; the quantile is its inverse. Samples are drawn by
    rejection, with implicit gradients.

    Args:
        alpha: shape ≥ 0, a number or a tensor.
        loc: location, the centre.
        scale: positive scale :math:`\sigma`.
        validate_args: whether parameters and values are checked; None (the default) follows torch's setting.

    >>> import torch
    >>> from likely.distributions import Robust
    >>> d = Robust(alpha=torch.tensor([0.0, 1.0, 2.0]), loc=0.0, scale=1.0)
    >>> d.cdf(torch.tensor(1.0))
    tensor([0.6959, 0.7657, 0.8413])
    >>> d.icdf(torch.tensor(0.975))
    tensor([17.9693,  3.3867,  1.9600])
    >>> d.variance
    tensor([   inf, 2.6995, 1.0000])
    """

    alpha: Tensor

    @property
    def mean(self) -> Tensor:
        """The location; undefined at α = 0, as for the Cauchy."""
        return torch.where(self.alpha == 0, torch.nan, self.loc)

    def entropy(self) -> Tensor:
        """The differential entropy.

        Returns:
            Entropies in nats, in the batch shape.
        """
        return self.scale.log() + log_partition(self.alpha) + self._expect(rho)

    def _standard_variance(self) -> Tensor:
        zero = self.alpha == 0
        safe = self.expand(self.batch_shape)
        safe.alpha = torch.where(zero, 2.0, self.alpha)
        # z² e^-ρ peaks where e^αv = 3/2 in v = sinh⁻¹ z, far out when α is small.
        beyond = 2 * math.log(1.5) / safe.alpha.detach().clamp(min=1e-3)
        return torch.where(zero, torch.inf, safe._expect(lambda z, _: z.square(), beyond))

    def _expect(self, f: Any, beyond: Tensor | float = 0.0) -> Tensor:
        """E f(z, α) of an even function that is not negative; the logarithm of a large one is added to a small one."""
        alpha = self.alpha[..., None, None]
        end = torch.asinh(_reach(self.alpha.detach(), _DEPTH)) + beyond
        z, log_density, weights = _on_panels(self.alpha, end, _PANELS_OF_HALF_LINE)
        return 2 * (torch.exp(log_density + f(z, alpha).log()) * weights).sum((-2, -1))

    def _tail(self, z: Tensor) -> Tensor:
        z, alpha = torch.broadcast_tensors(z, self.alpha)
        return _lower_tail(z.double(), alpha.double()).to(z)

    def _tail_quantile(self, p: Tensor) -> Tensor:
        z = by_scipy(_lower_quantile, p, self.alpha)
        inside = z.isfinite()
        return torch.where(inside, self._implicit(torch.where(inside, z, 0.0), torch.where(inside, p, 0.5)), z)

    def _standard_rsample(self, shape: torch.Size) -> Tensor:
        with torch.no_grad():
            z = _rejection_sample(self.alpha.expand(shape))
        return self._implicit(z)


def _reach(alpha: Tensor, depth: Tensor | float, most: float = 40.0) -> Tensor:
    """The z at which ρ(z, α) reaches ``depth``: beyond it lies less than e^-depth of the density's height."""
    b = (alpha - 2).abs().clamp(min=torch.finfo(alpha.dtype).eps)
    exponent = torch.where(alpha > 1e-6, torch.log1p(depth * alpha / b) / alpha.clamp(min=1e-6), depth / b)
    return (b * torch.expm1(2 * exponent.clamp(max=most))).sqrt()


def _log_density(v: Tensor, alpha: Tensor) -> tuple[Tensor, Tensor]:
    """Points z = sinh v, and the logarithm of the density of v there."""
    z, log_cosh = torch.sinh(v), v + torch.log1p(torch.exp(-2 * v)) - math.log(2)
    return z, log_cosh - rho(z, alpha) - log_partition(alpha)


def _on_panels(alpha: Tensor, end: Tensor, panels: int) -> tuple[Tensor, Tensor, Tensor]:
    """Points z = sinh v on panels over v ≤ end, the logarithm of the density of v there, and the points' weights."""
    nodes, weights, _ = (torch.as_tensor(values).to(alpha) for values in gauss_legendre())
    places = (torch.arange(panels).to(alpha)[:, None] + nodes) / panels
    z, log_density = _log_density(end[..., None, None] * places, alpha[..., None, None])
    return z, log_density, end[..., None, None] / panels * weights


def _lower_tail(z: Tensor, alpha: Tensor) -> Tensor:
    """P(X < z) for z ≤ 0, by a sum over √v, where the points are dense beside z."""
    reach = _reach(alpha.detach(), _DEEPEST, _FARTHEST - _DEPTH / 2)
    start = torch.minimum(-z, reach)
    end = torch.asinh(_reach(alpha.detach(), rho(start, alpha).detach() + _DEPTH, _FARTHEST))
    start = torch.asinh(start)[..., None]
    nodes, weights, _ = (torch.as_tensor(values).to(z) for values in gauss_legendre(48))
    beyond = end[..., None] - start
    density = _log_density(start + beyond * nodes.square(), alpha[..., None])[1].exp()
    return torch.where(z.isinf(), 0.0, (2 * beyond * nodes * weights * density).sum(-1))


def _lower_quantile(p: Array, alpha: Array) -> Array:
    """The z ≤ 0 with p below it, for p from 0 to ½: -∞ at 0, NaN beyond."""

    def gap(v: Array, p: Array, alpha: Array) -> Array:
        return p - _lower_tail(torch.as_tensor(-np.sinh(v)), torch.as_tensor(alpha)).numpy()

    end = torch.asinh(_reach(torch.as_tensor(alpha), _DEEPEST, _FARTHEST)).numpy()
    size = np.sinh(root(gap, np.zeros_like(end), end, p, alpha))
    return -np.sign(0.5 - p) * np.where(p > 0, size, np.where(p == 0, np.inf, np.nan))


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


class RobustLoss(
    ScaleLoss,
    nll=robust_nll,
    family=Robust,
    alpha=Slot(Interval(0, 3), 1.0, zero_allowed=True),
    scale=scale_slot(half_power_of_rho1),
):
    r"""Barron's robust likelihood: the shape ``alpha`` and the ``scale`` learn how much outliers count.

    A learned ``alpha`` stays in (0, 3), as in the paper, and starts at 1, between Cauchy's tails and the normal's; the
    scale starts from the first training batch.

    Args:
        alpha: shape from 0 (Cauchy's tails) over 2 (normal) to 3: a number, which is fixed, or one of
            :class:`~likely.Fixed`, :class:`~likely.Global` (the default), :class:`~likely.Data` and
            :class:`~likely.Predicted`.
        scale: positive scale of the errors: a number, which is fixed, or one of :class:`~likely.Fixed`,
            :class:`~likely.Global` (the default), :class:`~likely.Data` and :class:`~likely.Predicted`.
        beta: from 0 (the default, the plain NLL) to 1; multiplies each term by ``scale ** (2 * beta)``, held constant
            (β-NLL), so that elements with a large predicted scale still count in the gradient of the mean.
        reduction: ``"mean"``, ``"sum"`` or ``"none"`` (one value per element).
        full: has no effect, because this likelihood has no constant term; accepted as in all losses.
        multiplier: positive factor of the loss; the predictive distribution does not depend on it.
        validate_args: whether tensor values are checked; by default (None) on the CPU only, where that is cheap.

    See Also:
        :class:`~likely.StudentTLoss`, :class:`~likely.HuberLoss`, :func:`~likely.functional.robust_nll` (the function).

    >>> import torch, likely
    >>> loss_fn = likely.RobustLoss(alpha=0.0)   # Cauchy's tails
    >>> loss_fn(torch.zeros(2), torch.tensor([1.0, 30.0]))
    tensor(4.6580, grad_fn=<...>)
    """


def _crps(distribution: Robust, y: Array) -> Array:
    """By Gauss–Legendre sums in sinh⁻¹ z, right to 1e-12."""
    z, scale = standardised(distribution, y)
    alpha = np.broadcast_to(distribution.alpha.numpy(), z.shape).flatten()
    crps = over_distinct(_crps_constant, alpha, cells=_PANELS_OF_HALF_LINE * NODES)
    size = torch.from_numpy(np.abs(z).ravel())
    for block in row_blocks(len(size), _PANELS_TO_RESIDUAL * NODES):
        shape = torch.from_numpy(alpha[block])
        end = torch.minimum(torch.asinh(size[block]), _end(shape))
        x, log_density, weights = _on_panels(shape, end, _PANELS_TO_RESIDUAL)
        mass = log_density.exp() * weights
        crps[block] += 2 * (size[block] * mass.sum((1, 2)) - (mass * x).sum((1, 2))).numpy()
    return scale * crps.reshape(z.shape)


def _crps_constant(alpha: Array) -> Array:
    """2∫(1 - F)²: the tails at the nodes are sums over the panels to their right."""
    shape = torch.from_numpy(alpha)
    end, upto = _end(shape), torch.as_tensor(gauss_legendre()[2])
    x, log_density, weights = _on_panels(shape, end, _PANELS_OF_HALF_LINE)
    density = log_density.exp()
    from_here = (density * weights).sum(-1).flip(1).cumsum(1).flip(1)
    tail = from_here[..., None] - end[:, None, None] / _PANELS_OF_HALF_LINE * (density @ upto.T)
    return 2 * (tail**2 * torch.cosh(torch.asinh(x)) * weights).sum((1, 2)).numpy()


def _end(alpha: Tensor) -> Tensor:
    """Where the density has fallen by e⁻⁸⁰, or x by e⁴⁰: what lies beyond is lost in rounding."""
    return torch.asinh(_reach(alpha.clamp(max=1e8), _DEPTH))


def _weight(z: Array, alpha: float) -> Array:
    width = max(2 - alpha, 1e-8)
    return (z * z / width + 1) ** (-width / 2)


register(
    RobustLoss,
    crps=_crps,
    residuals=Residuals(
        loss=lambda z, alpha: robust_rho(torch.from_numpy(z), alpha=alpha).numpy(),
        weight=_weight,
        deviation=lambda alpha: math.sqrt(Robust(torch.tensor(alpha), 0.0, 1.0).variance.item()),
        shape="alpha",
        start=1.0,
        shapes=tuple(np.linspace(0, 2, 21)),
        largest=2.0,
    ),
)
