"""The normal likelihood: squared error whose scale learns."""

import math
from typing import Any, Unpack

import numpy as np
from scipy import special
from torch import Tensor
from torch import distributions as td

from likely.likelihoods._form import HALF_LOG_2PI, How, Value, functional_form
from likely.likelihoods._loss import SCALE, ParameterLike, ScaleLoss
from likely.likelihoods._numeric import Array, standardised
from likely.likelihoods._record import Residuals, register

__all__ = ["NormalLoss", "normal_nll"]


@functional_form(constant=HALF_LOG_2PI, fused=True)
def normal_nll(prediction: Tensor, target: Tensor, *, scale: Value, **how: Unpack[How]) -> Tensor:
    r"""The normal likelihood: squared error whose scale is free to move.

    For a residual :math:`r` and scale :math:`\sigma > 0`,
    :math:`\ell = r^2 / 2\sigma^2 + \log\sigma + \tfrac12 \log 2\pi`. Holding :math:`\sigma = 1` gives back half
    the squared error; at a fixed residual the best scale is :math:`\sigma = |r|`.

    Args:
        prediction: means, any shape.
        target: real numbers of a shape that broadcasts with the prediction's.
        scale: positive scale: a number, or a tensor that broadcasts to the prediction.

    >>> import torch
    >>> from likely.functional import normal_nll
    >>> normal_nll(torch.zeros(2), torch.tensor([1.0, 3.0]), scale=2.0)
    tensor(2.2371)
    >>> normal_nll(torch.zeros(2), torch.tensor([1.0, 3.0]), scale=1.0, full=False)
    tensor(2.5000)
    """
    return 0.5 * ((target - prediction) / scale).square() + scale.log()


class NormalLoss(ScaleLoss, nll=normal_nll, family=td.Normal, scale=SCALE):
    r"""The normal likelihood: :class:`torch.nn.MSELoss` with a scale that learns.

    :math:`\ell = r^2/2\sigma^2 + \log\sigma + \tfrac12\log 2\pi`. A ``beta`` above 0 keeps a predicted scale from
    starving the mean.

    Args:
        scale: positive scale of the errors: a number, which is fixed, or one of :class:`~likely.Fixed`,
            :class:`~likely.Global` (the default), :class:`~likely.Data` and :class:`~likely.Predicted`.
        **options: ``beta`` from 0 (the default) to 1, which multiplies each term by the scale to the power 2β, held
            constant (β-NLL); ``reduction``, ``full``, ``multiplier`` and ``validate_args`` of
            :class:`~likely.LikelihoodLoss`.

    >>> import torch, likely
    >>> loss_fn = likely.NormalLoss(scale=1.0, full=False)   # a number is Fixed
    >>> loss_fn(torch.zeros(2), torch.tensor([1.0, 3.0])), torch.nn.MSELoss()(torch.zeros(2), torch.tensor([1.0, 3.0]))
    (tensor(2.5000), tensor(5.))
    >>> likely.NormalLoss(scale=likely.Predicted(16, (2,))).distribution(torch.zeros(4, 2), features=torch.randn(4, 16))
    Normal(loc: torch.Size([4, 2]), scale: torch.Size([4, 2]))
    """

    def __init__(self, scale: ParameterLike = None, **options: Any) -> None:
        super().__init__(scale=scale, **options)


def _crps(distribution: td.Normal, y: Array) -> Array:
    z, scale = standardised(distribution, y)
    density = np.exp(-0.5 * z**2) / math.sqrt(2 * math.pi)
    return np.asarray(scale * (z * special.erf(z / math.sqrt(2)) + 2 * density - 1 / math.sqrt(math.pi)))


register(
    NormalLoss,
    crps=_crps,
    residuals=Residuals(loss=lambda z, _: 0.5 * z * z, weight=lambda z, _: np.ones_like(z), deviation=lambda _: 1.0),
)
