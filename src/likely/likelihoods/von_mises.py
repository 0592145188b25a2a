"""The von Mises likelihood of an angle: a normal on the circle, whose concentration learns."""

import math
from typing import Any

import numpy as np
import torch
from scipy import special
from torch import Tensor, distributions as td

from likely._numerics.special import polynomial
from likely.constraints import Exp
from likely.likelihoods._distribution import (
    EACH,
    Array,
    Exact,
    cdf_by_scipy,
    gauss_legendre,
    icdf_by_scipy,
    over_distinct,
    root,
)
from likely.likelihoods._form import Value, functional_form
from likely.likelihoods._loss import LikelihoodLoss
from likely.likelihoods._record import register
from likely.parameters._slot import Moment, Slot

__all__ = ["VonMises", "VonMisesLoss", "von_mises_nll"]

_SERIES_FROM = 30.0  # from here on 18 terms of the series of I₀ in 1/κ are exact to rounding
_SERIES = [math.prod((2 * j - 1) ** 2 / (8 * j) for j in range(1, k + 1)) for k in range(1, 19)]
_NODES, _WEIGHTS, _ = gauss_legendre(48)


@functional_form(constant=math.log(2 * math.pi))
def von_mises_nll(prediction: Tensor, target: Tensor, *, concentration: Value) -> Tensor:
    r"""Negative log-likelihood of an angle in radians under a von Mises distribution.

    :math:`\ell = \kappa (1 - \cos(y - x)) + \log(2\pi e^{-\kappa} I_0(\kappa))` for a ``concentration``
    :math:`\kappa > 0`. Adding full turns to either angle changes nothing. For large :math:`\kappa` it is close to a
    normal of scale :math:`1 / \sqrt\kappa`; for small :math:`\kappa` all directions are equally likely.

    Args:
        prediction: angles in radians, any shape.
        target: angles in radians, of a shape that broadcasts with the prediction's.
        concentration: positive concentration: a number, or a tensor that broadcasts to the prediction.
        reduction: ``"mean"`` (the default), ``"sum"`` or ``"none"``.
        full: whether terms that do not depend on any parameter are included; ``True`` by default.
        validate_args: whether tensor values are checked; by default (None) on the CPU only.

    Returns:
        A scalar, or one value per element under ``reduction="none"``.

    Raises:
        ValueError: shapes do not broadcast, a value is out of range, or the reduction is unknown.

    See Also:
        :class:`~likely.VonMisesLoss`, the module with parameters that learn.

    >>> import torch
    >>> from likely.functional import von_mises_nll
    >>> von_mises_nll(torch.tensor([0.0, 3.1]), torch.tensor([0.1, -3.1]), concentration=4.0)
    tensor(0.2798)
    """
    return 2 * concentration * torch.sin(0.5 * (target - prediction)).square() + _log_scaled_bessel(concentration)


def _log_scaled_bessel(x: Tensor) -> Tensor:
    """log(e⁻ˣ I₀(x)), whose derivatives are as exact as itself: by its series where torch's would cancel."""
    large = x > _SERIES_FROM
    inverse = torch.where(large, x, _SERIES_FROM).reciprocal()
    series = polynomial(_SERIES, inverse) * inverse
    far = torch.log1p(series) + 0.5 * (inverse.log() - math.log(2 * math.pi))
    return torch.where(large, far, torch.special.i0e(torch.where(large, 1.0, x)).log())


class VonMises(Exact, td.VonMises):
    """The von Mises distribution of torch with ``cdf`` and ``icdf``, and samples centred at its location.

    Angles are numbers in (loc - π, loc + π]: quantiles and samples lie there, and the CDF rises from 0 to 1. It is a
    sum over 48 fixed nodes with a relative error of 1e-12, larger in the far tails at high concentrations.


    Args:
        loc: most likely angle in radians.
        concentration: positive concentration, about one over the variance.
        validate_args: whether parameters and values are checked; None (the default) follows torch's setting.

    >>> import torch
    >>> from likely.distributions import VonMises
    >>> d = VonMises(torch.tensor(0.0), torch.tensor(4.0))
    >>> d.cdf(torch.tensor(1.0)), d.icdf(torch.tensor(0.975))
    (tensor(0.9668), tensor(1.0765))
    """

    def _nll(self, value: Tensor) -> Tensor:
        return von_mises_nll(self.loc, value, concentration=self.concentration, **EACH)

    def cdf(self, value: Tensor) -> Tensor:
        """P(X ≤ value) of the angle in (loc - π, loc + π].

        Args:
            value: angles in radians, of a shape that broadcasts with the batch.

        Returns:
            Probabilities, in the broadcast shape.
        """
        angle = value - self.loc
        return cdf_by_scipy(_cdf, {0: self._standard_density}, angle, self.concentration)

    def icdf(self, value: Tensor) -> Tensor:
        """The angle in [loc - π, loc + π] that is not exceeded with this probability.

        Args:
            value: probabilities from 0 to 1, of a shape that broadcasts with the batch.

        Returns:
            Angles in radians, in the broadcast shape.
        """
        return self.loc + icdf_by_scipy(_quantile, _cdf, self._standard_density, value, self.concentration)

    def sample(self, sample_shape: Any = ()) -> Tensor:
        """Draw angles in (loc - π, loc + π], without gradients.

        Args:
            sample_shape: shape of independent draws, () by default.

        Returns:
            Angles in radians, in the shape ``sample_shape + batch_shape``.
        """
        with torch.no_grad():
            angle = super().sample(torch.Size(sample_shape))
            return self.loc + torch.remainder(angle - self.loc + math.pi, 2 * math.pi) - math.pi

    def _standard_density(self, angle: Tensor) -> Tensor:
        return torch.where(angle.abs() <= math.pi, self._density(self.loc + angle), 0.0)


def _beyond(angle: Array, concentration: Array, power: int) -> Array:
    """∫ (t - angle)ᵖ f(t) dt from an angle ≥ 0 up to where the density has fallen by e⁻⁴⁰, or π: Gauss–Legendre."""
    start = np.sin(0.5 * angle)
    with np.errstate(over="ignore"):
        end = 2 * np.arcsin(np.minimum(np.hypot(start, np.sqrt(20 / concentration)), 1.0))
    step = np.maximum(end - angle, 0.0)[..., None] * _NODES
    # cos(angle) - cos(t), the product of two sines, does not cancel.
    fall = 2 * np.sin(0.5 * step) * np.sin(angle[..., None] + 0.5 * step)
    total = (np.exp(-concentration[..., None] * fall) * step**power) @ _WEIGHTS * np.maximum(end - angle, 0.0)
    height = np.exp(-2 * concentration * start**2) / (2 * math.pi * special.i0e(concentration))
    return total * height


def _cdf(angle: Array, concentration: Array) -> Array:
    tail = _beyond(np.minimum(np.abs(angle), math.pi), concentration, 0)
    return np.where(angle < 0, tail, 1 - tail)


def _quantile(p: Array, concentration: Array) -> Array:
    """Where the tail has fallen far enough."""
    tail = np.minimum(p, 1 - p)

    def missing(angle: Array, tail: Array, concentration: Array) -> Array:
        return tail - _beyond(angle, concentration, 0)

    angle = root(missing, 0.0, math.pi, tail, concentration)
    return np.where(tail > 0, angle, math.pi) * np.sign(p - 0.5)


# From the mean resultant length (Banerjee et al. 2005).
_CONCENTRATION = Moment(
    lambda length: length * (2 - length.square()) / (1 - length.square()),
    lambda mean, target: torch.cos(target - mean).clamp(min=0.01),
)


class VonMisesLoss(
    LikelihoodLoss, nll=von_mises_nll, family=VonMises, concentration=Slot(Exp(), 1.0, start=_CONCENTRATION)
):
    r"""The von Mises likelihood of an angle in radians; the ``concentration`` κ, about one over the variance, learns.

    Angles in degrees, such as directions of the wind, have to be converted by :func:`torch.deg2rad`: nothing tells them
    from radians of many turns.

    Args:
        concentration: positive concentration κ, which starts from the first training batch; the larger, the narrower:
            a number, which is fixed, or one of :class:`~likely.Fixed`, :class:`~likely.Global` (the default),
            :class:`~likely.Data` and :class:`~likely.Predicted`.
        reduction: ``"mean"``, ``"sum"`` or ``"none"`` (one value per element).
        full: whether constants that do not depend on any parameter are included. ``True`` (the default) gives minus a
            log density; ``False`` leaves them out, as the losses of ``torch.nn`` do.
        multiplier: positive factor of the loss; the predictive distribution does not depend on it.
        validate_args: whether tensor values are checked; by default (None) on the CPU only, where that is cheap.

    See Also:
        :class:`~likely.NormalLoss`, :func:`~likely.functional.von_mises_nll` (the function).

    >>> import torch
    >>> from likely.losses import VonMisesLoss
    >>> VonMisesLoss()(torch.tensor([0.0, 3.1]), torch.tensor([0.1, -3.1]))
    tensor(-0.9666, grad_fn=<...>)
    """


def _crps(distribution: VonMises, y: Array) -> Array:
    """The linear score of the angle in (loc - π, loc + π], into which y is turned."""
    loc, concentration = np.broadcast_arrays(distribution.loc.numpy(), distribution.concentration.numpy())
    turned = np.abs(y - loc - 2 * math.pi * np.round((y - loc) / (2 * math.pi)))
    angle, concentration = np.broadcast_arrays(turned, concentration)
    distance = angle + 2 * _beyond(angle, concentration, 1)
    half = over_distinct(_half_difference, concentration.ravel(), cells=48 * 48)
    return distance - half.reshape(angle.shape)


def _half_difference(concentration: Array) -> Array:
    """½E|X - X'| = 2∫ Q(1 - Q) of the tail Q from 0 on."""
    end = 2 * np.arcsin(np.minimum(np.sqrt(20 / concentration), 1.0))
    angle = end[:, None] * _NODES
    tail = _beyond(angle, np.broadcast_to(concentration[:, None], angle.shape), 0)
    return 2 * end * ((tail * (1 - tail)) @ _WEIGHTS)


def _start(y: Array, weight: Array) -> Array:
    """The mean direction."""
    sine, cosine = (np.average(part, axis=0, weights=weight) for part in (np.sin(y), np.cos(y)))
    return np.arctan2(sine, cosine)


register(VonMisesLoss, crps=_crps, start=_start)
