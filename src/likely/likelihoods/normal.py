"""The normal likelihood: squared error whose scale learns."""

import math
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from scipy import special
from torch import Tensor
from torch import distributions as td
from torch.distributions import Distribution

from likely import kernels
from likely.likelihoods._fused import HALF_LOG_2PI, Value, location_nll
from likely.likelihoods._loss import SCALE, ParameterLike, Phi, ScaleLoss, Slot
from likely.likelihoods._numeric import Array, standardised
from likely.likelihoods._record import Likelihood, Residuals, register

__all__ = ["NormalLoss", "normal_nll"]


def normal_nll(
    prediction: Tensor,
    target: Tensor,
    *,
    scale: Value,
    reduction: str = "mean",
    full: bool = True,
    validate_args: bool | None = None,
) -> Tensor:
    r"""The normal likelihood: squared error whose scale is free to move.

    For a residual :math:`r` and scale :math:`\sigma > 0`,
    :math:`\ell = r^2 / 2\sigma^2 + \log\sigma + \tfrac12 \log 2\pi`. Holding :math:`\sigma = 1` gives back half
    the squared error; at a fixed residual the best scale is :math:`\sigma = |r|`.

    >>> import torch
    >>> from likely.functional import normal_nll
    >>> normal_nll(torch.zeros(2), torch.tensor([1.0, 3.0]), scale=2.0)
    tensor(2.2371)
    >>> normal_nll(torch.zeros(2), torch.tensor([1.0, 3.0]), scale=1.0, full=False)
    tensor(2.5000)
    """
    constant = HALF_LOG_2PI if full else 0.0
    return location_nll("normal", prediction, target, constant, reduction, validate_args, scale=scale)


def _normal(prediction: Tensor, target: Tensor, scale: Tensor) -> Tensor:
    return 0.5 * ((target - prediction) / scale).square() + scale.log()


kernels.PLAIN["normal"] = _normal


class NormalLoss(ScaleLoss):
    r"""The normal likelihood: :class:`torch.nn.MSELoss` with a scale that learns.

    :math:`\ell = r^2/2\sigma^2 + \log\sigma + \tfrac12\log 2\pi`. ``beta`` multiplies each term by
    :math:`\sigma^{2\beta}`, held constant (β-NLL), which keeps a predicted scale from starving the mean.

    >>> import torch, likely
    >>> loss_fn = likely.NormalLoss(scale=1.0, full=False)   # a number is Fixed
    >>> loss_fn(torch.zeros(2), torch.tensor([1.0, 3.0])), torch.nn.MSELoss()(torch.zeros(2), torch.tensor([1.0, 3.0]))
    (tensor(2.5000), tensor(5.))
    >>> likely.NormalLoss(scale=likely.Predicted(16, (2,))).distribution(torch.zeros(4, 2), features=torch.randn(4, 16))
    Normal(loc: torch.Size([4, 2]), scale: torch.Size([4, 2]))
    """

    nll = staticmethod(normal_nll)
    slots: ClassVar[Mapping[str, Slot]] = {"scale": SCALE}

    def __init__(self, scale: ParameterLike = None, **options: Any) -> None:
        super().__init__(scale=scale, **options)

    def _distribution(self, prediction: Tensor, phi: Phi) -> Distribution:
        return td.Normal(prediction, phi["scale"])


def _crps(distribution: td.Normal, y: Array) -> Array:
    z, scale = standardised(distribution, y)
    density = np.exp(-0.5 * z**2) / math.sqrt(2 * math.pi)
    return np.asarray(scale * (z * special.erf(z / math.sqrt(2)) + 2 * density - 1 / math.sqrt(math.pi)))


register(
    Likelihood(
        "normal",
        normal_nll,
        NormalLoss,
        td.Normal,
        crps=_crps,
        residuals=Residuals(
            loss=lambda z, _: 0.5 * z * z, weight=lambda z, _: np.ones_like(z), deviation=lambda _: 1.0
        ),
    )
)
