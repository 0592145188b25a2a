"""The log-normal likelihood of a positive target: a normal of its logarithm, whose scale learns."""

import math
from typing import Any

import numpy as np
import torch
from scipy import special
from torch import Tensor
from torch import distributions as td
from torch.distributions import constraints

from likely._validation import check_positive_target, reduce
from likely.likelihoods._form import logarithm
from likely.likelihoods._loss import SCALE, ParameterLike, Phi, ScaleLoss
from likely.likelihoods._numeric import Array
from likely.likelihoods._record import register
from likely.likelihoods.normal import normal_nll

__all__ = ["LogNormal", "LogNormalLoss", "log_normal_nll"]


def log_normal_nll(
    prediction: Tensor,
    target: Tensor,
    *,
    scale: Tensor | float,
    reduction: str = "mean",
    full: bool = True,
    validate_args: bool | None = None,
) -> Tensor:
    r"""The log-normal likelihood of a positive target: squared error of its logarithm, whose scale is free to move.

    ``prediction`` is the mean of :math:`\log y`, so :math:`e^{prediction}` is the median of :math:`y`, and for
    :math:`r = \log y - prediction`, :math:`\ell = r^2 / 2\sigma^2 + \log\sigma + \log y + \tfrac12 \log 2\pi`.
    Targets ≤ 0 are refused on the CPU; on a GPU, where values are looked at under ``validate_args=True`` only, they
    give NaN or infinity.

    Args:
        prediction: means of the target's logarithm, any shape.
        target: positive numbers of a shape that broadcasts with the prediction's.
        scale: positive standard deviation of the target's logarithm: a number, or a tensor that broadcasts to the
            prediction.
        reduction: ``"mean"``, ``"sum"`` or ``"none"``.
        full: whether constants that no parameter moves, :math:`\log y` among them, are included.
        validate_args: whether tensor values are checked; by default on the CPU only.

    Returns:
        A scalar, or one value per element under ``reduction="none"``.

    >>> import torch
    >>> from likely.functional import log_normal_nll
    >>> log_normal_nll(torch.zeros(2), torch.tensor([1.0, 10.0]), scale=2.0)
    tensor(3.0947)
    """
    check_positive_target("target", target, validate_args)
    log_y = logarithm(prediction, target)
    nll = normal_nll(prediction, log_y, scale=scale, reduction="none", full=full, validate_args=validate_args)
    return reduce(nll + log_y.to(nll.dtype) if full else nll, reduction)


class LogNormal(td.LogNormal):
    """torch's log-normal with a ``cdf`` that is zero up to zero, and digits kept in the lower tail.

    >>> import torch
    >>> from likely.distributions import LogNormal
    >>> d = LogNormal(torch.tensor(0.0), torch.tensor(1.0))
    >>> d.cdf(torch.tensor([-1.0, 1.0])), d.icdf(torch.tensor(0.975))
    (tensor([0.0000, 0.5000]), tensor(7.0991))
    """

    def cdf(self, value: Tensor) -> Tensor:
        """P(X ≤ value), differentiable in the value and all parameters."""
        inside = value > 0
        z = (torch.where(inside, value, 1.0).log() - self.loc) / self.scale
        return torch.where(inside, 0.5 * torch.erfc(-z / math.sqrt(2)), 0.0)

    def icdf(self, value: Tensor) -> Tensor:
        """The quantile of a probability, differentiable in it and all parameters."""
        return torch.exp(self.loc + self.scale * torch.special.ndtri(value))

    @property
    def variance(self) -> Tensor:
        """The variance, exact for small scales too."""
        squared = self.scale.square()
        return torch.expm1(squared) * torch.exp(2 * self.loc + squared)


class LogNormalLoss(ScaleLoss, nll=log_normal_nll, family=LogNormal, scale=SCALE):
    r"""The log-normal likelihood of a positive target: :class:`NormalLoss` of its logarithm, in units of the target.

    ``prediction`` is the mean of :math:`\log y` and the ``scale`` that of :math:`\log y`, which learns: errors count
    as ratios. With its term :math:`\log y` the loss can be compared with that of other likelihoods of :math:`y`.

    Args:
        scale: positive standard deviation of the target's logarithm: a number, which is fixed, or one of
            :class:`~likely.Fixed`, :class:`~likely.Global` (the default), :class:`~likely.Data` and
            :class:`~likely.Predicted`.
        **options: ``beta`` from 0 (the default) to 1, which multiplies each term by the scale to the power 2β, held
            constant (β-NLL); ``reduction``, ``full``, ``multiplier`` and ``validate_args`` of
            :class:`~likely.LikelihoodLoss`.

    >>> import torch
    >>> from likely.losses import LogNormalLoss
    >>> LogNormalLoss(scale=2.0)(torch.zeros(2), torch.tensor([1.0, 10.0]))
    tensor(3.0947)
    """

    def __init__(self, scale: ParameterLike = None, **options: Any) -> None:
        super().__init__(scale=scale, **options)

    def _lowest(self, prediction: Tensor, target: Tensor, phi: Phi) -> Tensor:
        return self._nll(logarithm(prediction, target), target, phi)


def _crps(distribution: LogNormal, y: Array) -> Array:
    """Baran & Lerch (2015); tails as logarithms, so that no large scale overflows before the score does."""
    loc, scale = distribution.loc.numpy(), distribution.scale.numpy()
    z = (np.log(np.where(y > 0, y, 1.0)) - loc) / scale
    z = np.where(y > 0, z, -np.inf)
    log_mean = loc + 0.5 * scale**2
    below = np.exp(log_mean + special.log_ndtr(z - scale)) - np.exp(log_mean + special.log_ndtr(-scale / math.sqrt(2)))
    return np.asarray(y * (2 * special.ndtr(z) - 1) - 2 * below)


def _start(y: Array, weight: Array) -> Array:
    return np.asarray(np.average(np.log(y), axis=0, weights=weight))


register(LogNormalLoss, support=constraints.positive, crps=_crps, start=_start)
