"""The logistic likelihood: between the normal and the Laplace, with a scale that learns."""

import math

import numpy as np
import torch
from torch import Tensor

from likely._numerics.special import log_cosh
from likely.likelihoods._distribution import Array, LocationScale, standardised
from likely.likelihoods._form import Value, functional_form
from likely.likelihoods._loss import ScaleLoss
from likely.likelihoods._record import Residuals, register
from likely.parameters._slot import Moment, absolute_error, scale_slot

__all__ = ["Logistic", "LogisticLoss", "logistic_nll"]

_LOG_4 = math.log(4)


@functional_form(constant=_LOG_4)
def logistic_nll(prediction: Tensor, target: Tensor, *, scale: Value) -> Tensor:
    r"""Negative log-likelihood of a logistic distribution: an absolute error that is smooth at zero.

    For :math:`z = r / s` and scale :math:`s > 0`, :math:`\ell = 2 \log\cosh(z/2) + \log s + \log 4`. Its tails are
    those of the Laplace, its middle is that of a normal of variance :math:`2 s^2`.

    Args:
        prediction: where the density is centred, any shape.
        target: real numbers of a shape that broadcasts with the prediction's.
        scale: positive scale: a number, or a tensor that broadcasts to the prediction.
        reduction: ``"mean"`` (the default), ``"sum"`` or ``"none"``.
        full: whether terms that do not depend on any parameter are included; ``True`` by default.
        validate_args: whether tensor values are checked; by default (None) on the CPU only.

    Returns:
        A scalar, or one value per element under ``reduction="none"``.

    Raises:
        ValueError: shapes do not broadcast, a value is out of range, or the reduction is unknown.

    See Also:
        :class:`~likely.LogisticLoss`, the module with parameters that learn.

    >>> import torch
    >>> from likely.functional import logistic_nll
    >>> logistic_nll(torch.zeros(2), torch.tensor([1.0, 30.0]), scale=1.0)
    tensor(15.8133)
    """
    return 2 * log_cosh(0.5 * (target - prediction) / scale) + scale.log()


class Logistic(LocationScale, nll=logistic_nll):
    r"""The logistic distribution, whose CDF is the sigmoid of :math:`(x - \mu) / s`.

    Args:
        loc: location :math:`\mu`, mean and median.
        scale: positive scale :math:`s`.
        validate_args: whether parameters and values are checked; None (the default) follows torch's setting.

    >>> import torch
    >>> from likely.distributions import Logistic
    >>> d = Logistic(loc=1.0, scale=0.5)
    >>> d.cdf(torch.tensor(2.0)), d.icdf(torch.tensor(0.5)), d.stddev
    (tensor(0.8808), tensor(1.), tensor(0.9069))
    """

    def entropy(self) -> Tensor:
        """The differential entropy.

        Returns:
            Entropies in nats, in the batch shape.
        """
        return self.scale.log() + 2

    def _standard_variance(self) -> Tensor:
        return torch.full_like(self.scale, math.pi**2 / 3)

    def _standard_cdf(self, z: Tensor) -> Tensor:
        return torch.sigmoid(z)

    def _standard_icdf(self, p: Tensor) -> Tensor:
        return torch.logit(p)


# The mean of |z| is 2 log 2.
_START = Moment(lambda mean: mean / (2 * math.log(2)), absolute_error)


class LogisticLoss(ScaleLoss, nll=logistic_nll, family=Logistic, scale=scale_slot(_START)):
    r"""The logistic likelihood: a smooth absolute error whose ``scale`` learns.

    :math:`\ell = 2 \log\cosh(r / 2s) + \log s + \log 4`.

    Args:
        scale: positive scale of the errors: a number, which is fixed, or one of :class:`~likely.Fixed`,
            :class:`~likely.Global` (the default), :class:`~likely.Data` and :class:`~likely.Predicted`.
        beta: from 0 (the default, the plain NLL) to 1; multiplies each term by ``scale ** (2 * beta)``, held constant
            (β-NLL), so that elements with a large predicted scale still count in the gradient of the mean.
        reduction: ``"mean"``, ``"sum"`` or ``"none"`` (one value per element).
        full: whether constants that do not depend on any parameter are included. ``True`` (the default) gives minus a
            log density; ``False`` leaves them out, as the losses of ``torch.nn`` do.
        multiplier: positive factor of the loss; the predictive distribution does not depend on it.
        validate_args: whether tensor values are checked; by default (None) on the CPU only, where that is cheap.

    See Also:
        :class:`~likely.LaplaceLoss`, :class:`~likely.HuberLoss`, :func:`~likely.functional.logistic_nll` (the
        function).

    >>> import torch
    >>> from likely.losses import LogisticLoss
    >>> LogisticLoss()(torch.zeros(2), torch.tensor([1.0, 30.0]))
    tensor(4.5160, grad_fn=<...>)
    """


def _loss(z: Array, _: float = 0.0) -> Array:
    size = np.abs(z)
    return size + 2 * np.log1p(np.exp(-size)) - _LOG_4


def _crps(distribution: Logistic, y: Array) -> Array:
    """Taillardat et al. (2016)."""
    z, scale = standardised(distribution, y)
    return scale * (_loss(z) + _LOG_4 - 1)


register(
    LogisticLoss,
    crps=_crps,
    residuals=Residuals(
        loss=_loss,
        weight=lambda z, _: np.tanh(0.5 * np.maximum(np.abs(z), 1e-8)) / np.maximum(np.abs(z), 1e-8),
        deviation=lambda _: math.pi / math.sqrt(3),
    ),
)
