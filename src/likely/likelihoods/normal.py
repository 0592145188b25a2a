"""The normal likelihood: squared error whose scale learns."""

import math

import numpy as np
import torch
from scipy import special
from torch import Tensor, distributions as td

from likely._numerics.special import normal_cdf
from likely.likelihoods._distribution import Array, Standardised, standardised
from likely.likelihoods._form import HALF_LOG_2PI, Value, functional_form
from likely.likelihoods._loss import ScaleLoss
from likely.likelihoods._record import Residuals, register
from likely.parameters._slot import root_mean_square, scale_slot

__all__ = ["Normal", "NormalLoss", "normal_nll"]


@functional_form(constant=HALF_LOG_2PI, fused=True)
def normal_nll(prediction: Tensor, target: Tensor, *, scale: Value) -> Tensor:
    r"""Negative log-likelihood of a normal distribution: the squared error with a scale.

    For a residual :math:`r` and scale :math:`\sigma > 0`,
    :math:`\ell = r^2 / 2\sigma^2 + \log\sigma + \tfrac12 \log 2\pi`. With :math:`\sigma = 1` it is half the squared
    error plus a constant; for a given residual the best scale is :math:`\sigma = |r|`.

    Args:
        prediction: means, any shape.
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
        :class:`~likely.NormalLoss`, the module with parameters that learn.

    >>> import torch
    >>> from likely.functional import normal_nll
    >>> normal_nll(torch.zeros(2), torch.tensor([1.0, 3.0]), scale=2.0)
    tensor(2.2371)
    >>> normal_nll(torch.zeros(2), torch.tensor([1.0, 3.0]), scale=1.0, full=False)
    tensor(2.5000)
    """
    return 0.5 * ((target - prediction) / scale).square() + scale.log()


class Normal(Standardised, td.Normal, nll=normal_nll):
    """The normal distribution of torch with a log density that is exact for any scale, and exact lower tails.

    Args:
        loc: mean.
        scale: positive standard deviation.
        validate_args: whether parameters and values are checked; None (the default) follows torch's setting.

    >>> import torch
    >>> from likely.distributions import Normal
    >>> d = Normal(torch.tensor(0.0), torch.tensor(1.0))
    >>> d.cdf(torch.tensor(-8.0)), torch.distributions.Normal(0.0, 1.0).cdf(torch.tensor(-8.0))
    (tensor(6.2210e-16), tensor(0.))
    """

    _tail, _tail_quantile = staticmethod(normal_cdf), staticmethod(torch.special.ndtri)


class NormalLoss(ScaleLoss, nll=normal_nll, family=Normal, scale=scale_slot(root_mean_square)):
    r"""The normal likelihood: :class:`torch.nn.MSELoss` with a scale that learns.

    :math:`\ell = r^2/2\sigma^2 + \log\sigma + \tfrac12\log 2\pi`.

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
        :class:`~likely.LaplaceLoss`, :class:`~likely.StudentTLoss`, :func:`~likely.functional.normal_nll` (the
        function).

    >>> import torch, likely
    >>> loss_fn = likely.NormalLoss(scale=1.0, full=False)   # a number is Fixed
    >>> loss_fn(torch.zeros(2), torch.tensor([1.0, 3.0])), torch.nn.MSELoss()(torch.zeros(2), torch.tensor([1.0, 3.0]))
    (tensor(2.5000), tensor(5.))
    >>> likely.NormalLoss(scale=likely.Predicted(16, (2,))).distribution(torch.zeros(4, 2), features=torch.randn(4, 16))
    Normal(loc: torch.Size([4, 2]), scale: torch.Size([4, 2]))
    """


def _crps(distribution: Normal, y: Array) -> Array:
    z, scale = standardised(distribution, y)
    density = np.exp(-0.5 * z**2) / math.sqrt(2 * math.pi)
    return scale * (z * special.erf(z / math.sqrt(2)) + 2 * density - 1 / math.sqrt(math.pi))


register(
    NormalLoss,
    crps=_crps,
    residuals=Residuals(loss=lambda z, _: 0.5 * z * z, weight=lambda z, _: np.ones_like(z), deviation=lambda _: 1.0),
)
