"""The Laplace likelihood: absolute error whose scale learns."""

import math
from typing import Any, Unpack

import numpy as np
from torch import Tensor
from torch import distributions as td

from likely.likelihoods._form import How, Value, functional_form
from likely.likelihoods._loss import SCALE, ParameterLike, ScaleLoss
from likely.likelihoods._numeric import Array, standardised
from likely.likelihoods._record import Residuals, register

__all__ = ["LaplaceLoss", "laplace_nll"]


@functional_form(constant=math.log(2), fused=True)
def laplace_nll(prediction: Tensor, target: Tensor, *, scale: Value, **how: Unpack[How]) -> Tensor:
    r"""The Laplace likelihood: absolute error whose scale is free to move.

    For a residual :math:`r` and scale :math:`b > 0`, :math:`\ell = |r|/b + \log b + \log 2`. Holding
    :math:`b = 1` gives back the L1 loss; at a fixed residual the best scale is :math:`b = |r|`, so a free
    scale is what prices an outlier.

    Args:
        prediction: medians, any shape.
        target: real numbers of a shape that broadcasts with the prediction's.
        scale: positive scale: a number, or a tensor that broadcasts to the prediction.

    >>> import torch
    >>> from likely.functional import laplace_nll
    >>> laplace_nll(torch.zeros(2), torch.tensor([1.0, 3.0]), scale=1.0, full=False)
    tensor(2.)
    """
    return (target - prediction).abs() / scale + scale.log()


class LaplaceLoss(ScaleLoss, nll=laplace_nll, family=td.Laplace, scale=SCALE):
    r"""The Laplace likelihood: :class:`torch.nn.L1Loss` with a scale that learns.

    :math:`\ell = |r|/b + \log b + \log 2`.

    Args:
        scale: positive scale of the errors: a number, which is fixed, or one of :class:`~likely.Fixed`,
            :class:`~likely.Global` (the default), :class:`~likely.Data` and :class:`~likely.Predicted`.
        **options: ``beta`` from 0 (the default) to 1, which multiplies each term by the scale to the power 2β, held
            constant (β-NLL); ``reduction``, ``full``, ``multiplier`` and ``validate_args`` of
            :class:`~likely.LikelihoodLoss`.

    >>> import torch, likely
    >>> loss_fn = likely.LaplaceLoss()
    >>> loss_fn(torch.zeros(2), torch.tensor([1.0, 3.0]))
    tensor(2.6931, grad_fn=<...>)
    """

    def __init__(self, scale: ParameterLike = None, **options: Any) -> None:
        super().__init__(scale=scale, **options)


def _crps(distribution: td.Laplace, y: Array) -> Array:
    z, scale = standardised(distribution, y)
    return np.asarray(scale * (np.abs(z) + np.expm1(-np.abs(z)) + 0.25))


register(
    LaplaceLoss,
    crps=_crps,
    residuals=Residuals(
        loss=lambda z, _: np.abs(z),
        weight=lambda z, _: 1 / np.maximum(np.abs(z), 1e-4),
        deviation=lambda _: math.sqrt(2),
    ),
)
