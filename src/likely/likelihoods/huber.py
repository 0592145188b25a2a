"""Huber's likelihood: normal in the middle, Laplace beyond, with a scale that learns."""

import math
from typing import Any

import numpy as np
import torch
from scipy import special
from torch import Tensor
from torch.distributions import constraints

from likely._numerics.special import normal_cdf
from likely.constraints import Exp
from likely.likelihoods._distribution import Array, LocationScale, standardised
from likely.likelihoods._form import Value, functional_form
from likely.likelihoods._loss import ScaleLoss
from likely.likelihoods._record import register
from likely.parameters import Fixed
from likely.parameters._slot import Slot, half_power, scale_slot

_SQRT_PI, _SQRT_2PI = math.sqrt(math.pi), math.sqrt(2 * math.pi)

__all__ = ["Huber", "HuberLoss", "huber_log_partition", "huber_nll"]


@functional_form()
def huber_nll(
    prediction: Tensor,
    target: Tensor,
    *,
    scale: Value,
    delta: Value = 1.345,
    partition: bool = True,
) -> Tensor:
    r"""Negative log-likelihood of Huber's density: normal within ``delta`` scales, Laplace beyond.

    :math:`\ell = H_\delta(r/\sigma) + \log\sigma + \log Z(\delta)` with :math:`H_\delta(z) = z^2/2` up to :math:`|z| =
    \delta` and :math:`\delta(|z| - \delta/2)` after. At the default ``delta`` it has 95% of the normal's efficiency.
    ``partition`` controls :math:`\log Z`, which is constant only if ``delta`` is; ``full`` does not.

    Args:
        prediction: where the density is centred, any shape.
        target: real numbers of a shape that broadcasts with the prediction's.
        scale: positive scale: a number, or a tensor that broadcasts to the prediction.
        delta: where the density changes from normal to Laplace, in units of the scale: a number, or a tensor that
            broadcasts to the prediction; 1.345 by default.
        partition: whether :math:`\log Z(\delta)` is included; ``True`` by default.
        reduction: ``"mean"`` (the default), ``"sum"`` or ``"none"``.
        full: whether terms that do not depend on any parameter are included; ``True`` by default.
        validate_args: whether tensor values are checked; by default (None) on the CPU only.

    Returns:
        A scalar, or one value per element under ``reduction="none"``.

    Raises:
        ValueError: shapes do not broadcast, a value is out of range, or the reduction is unknown.

    See Also:
        :class:`~likely.HuberLoss`, the module with parameters that learn.

    >>> import torch
    >>> from likely.functional import huber_nll
    >>> huber_nll(torch.zeros(2), torch.tensor([1.0, 10.0]), scale=1.0)
    tensor(7.5013)
    """
    size = ((target - prediction) / scale).abs()
    inner = torch.minimum(size, delta)
    nll = inner * (size - 0.5 * inner) + scale.log()
    return nll + huber_log_partition(delta) if partition else nll


def huber_log_partition(delta: Tensor) -> Tensor:
    r"""Logarithm of the normalising constant Z(δ) of Huber's density.

    :math:`Z = \sqrt{2\pi}\,\mathrm{erf}(\delta/\sqrt2) + \tfrac2\delta e^{-\delta^2/2}`, from Laplace to normal.

    Args:
        delta: where the density changes from normal to Laplace, in units of the scale; any shape.

    Returns:
        A tensor of the shape of ``delta``.

    >>> import torch
    >>> from likely.functional import huber_log_partition
    >>> huber_log_partition(torch.tensor([0.01, 100.0]))
    tensor([5.2984, 0.9189])
    """
    centre = math.sqrt(2 * math.pi) * torch.erf(delta / math.sqrt(2))
    return torch.log(centre + 2 / delta * torch.exp(-0.5 * delta.square()))


class Huber(LocationScale, nll=huber_nll, delta=constraints.positive):
    r"""Huber's least favourable distribution: normal within ``delta`` scales, exponential tails beyond.

    Args:
        delta: where the density changes from normal to exponential, in units of the scale.
        loc: location, the centre.
        scale: positive scale.
        validate_args: whether parameters and values are checked; None (the default) follows torch's setting.

    >>> import torch
    >>> from likely.distributions import Huber
    >>> d = Huber(delta=1.345, loc=0.0, scale=1.0)
    >>> d.icdf(torch.tensor([0.5, 0.975, 0.999]))
    tensor([0.0000, 2.4672, 4.8604])
    """

    delta: Tensor

    def _masses(self) -> tuple[Tensor, Tensor]:
        """How much more mass one side has than a normal, in units of the normal's, and the share of one tail."""
        edge = torch.exp(-0.5 * self.delta.square()) / (_SQRT_2PI * self.delta)
        excess = edge - normal_cdf(-self.delta)
        return excess, edge / (1 + 2 * excess)

    def _standard_variance(self) -> Tensor:
        excess, tail = self._masses()
        centre = torch.erf(self.delta / math.sqrt(2)) / (1 + 2 * excess)
        return centre + tail * (4 + 4 / self.delta.square())

    def _tail(self, z: Tensor) -> Tensor:
        excess, tail = self._masses()
        centre = (excess + normal_cdf(torch.maximum(z, -self.delta))) / (1 + 2 * excess)
        beyond = tail * torch.exp(self.delta * (z + self.delta).clamp(max=0))
        return torch.where(z < -self.delta, beyond, centre)

    def _tail_quantile(self, p: Tensor) -> Tensor:
        excess, tail = self._masses()
        inside = p >= tail
        centre = torch.special.ndtri(torch.where(inside, p - excess * (1 - 2 * p), 0.5))
        outside = -self.delta - torch.log(tail / torch.where(inside, tail, p)) / self.delta
        return torch.where(inside, centre, outside)


class HuberLoss(
    ScaleLoss, nll=huber_nll, family=Huber, delta=Slot(Exp(), 1.345, default=1.345), scale=scale_slot(half_power)
):
    r"""Huber's likelihood: :class:`torch.nn.HuberLoss` with a scale that learns, the unit of ``delta``.

    Args:
        delta: where the density changes from normal to Laplace, in units of the scale: a number, which is fixed (1.345
            by default), or a parameter such as :class:`~likely.Global`.
        scale: positive scale of the errors: a number, which is fixed, or one of :class:`~likely.Fixed`,
            :class:`~likely.Global` (the default), :class:`~likely.Data` and :class:`~likely.Predicted`.
        beta: from 0 (the default, the plain NLL) to 1; multiplies each term by ``scale ** (2 * beta)``, held constant
            (β-NLL), so that elements with a large predicted scale still count in the gradient of the mean.
        reduction: ``"mean"``, ``"sum"`` or ``"none"`` (one value per element).
        full: whether :math:`\log Z(\delta)` is included although ``delta`` is fixed, so that the loss is minus a log
            density; ``False`` leaves it out, as :class:`torch.nn.HuberLoss` does.
        multiplier: positive factor of the loss; the predictive distribution does not depend on it.
        validate_args: whether tensor values are checked; by default (None) on the CPU only, where that is cheap.

    See Also:
        :class:`~likely.RobustLoss`, :class:`~likely.LogisticLoss`, :func:`~likely.functional.huber_nll` (the function).

    >>> import torch, likely
    >>> loss_fn = likely.HuberLoss()
    >>> loss_fn(torch.zeros(2), torch.tensor([1.0, 10.0]))
    tensor(3.4395, grad_fn=<...>)
    """

    def _options(self, reduction: str) -> dict[str, Any]:
        return {**super()._options(reduction), "partition": self.full or not isinstance(self.delta, Fixed)}


def _crps(distribution: Huber, y: Array) -> Array:
    z, scale = standardised(distribution, y)
    size = np.abs(z)
    central = Huber(distribution.delta.clamp(max=38.0), 0.0, 1.0)  # beyond, the tails weigh less than rounding
    d, (excess, tail) = central.delta.numpy(), (part.numpy() for part in central._masses())
    partition = _SQRT_2PI * (1 + 2 * excess)
    inside, beyond = np.minimum(size, d), np.maximum(size - d, 0)
    mass = 2 * central.cdf(torch.from_numpy(size)).numpy() - 1
    outer = tail * (d + 1 / d - (size + 1 / d) * np.exp(-d * beyond))
    moment = -np.expm1(-0.5 * inside**2) / partition + np.where(size <= d, 0.0, outer)
    return scale * (size * mass - 2 * moment + _crps_constant(d, partition, tail))


def _crps_constant(d: Array, partition: Array, tail: Array) -> Array:
    """2∫(1 - F)², the centre by the integrals of Φ and Φ²."""
    share = _SQRT_2PI / partition
    phi, density = special.ndtr(d), np.exp(-0.5 * d**2) / _SQRT_2PI
    first = d * phi + density - 1 / _SQRT_2PI  # ∫₀ᵈ Φ
    second = d * phi**2 + 2 * phi * density - 1 / _SQRT_2PI - (special.ndtr(math.sqrt(2) * d) - 0.5) / _SQRT_PI
    half = first - 0.5 * d  # ∫₀ᵈ (Φ - ½)
    square = second - first + 0.25 * d
    return 2 * (0.25 * d - share * half + share**2 * square + tail**2 / (2 * d))


register(HuberLoss, crps=_crps)
