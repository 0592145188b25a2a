"""The Laplace likelihood: absolute error whose scale learns."""

import math

import numpy as np
import torch
from torch import Tensor, distributions as td

from likely.likelihoods._distribution import Array, Standardised, standardised
from likely.likelihoods._form import Value, functional_form
from likely.likelihoods._loss import ScaleLoss
from likely.likelihoods._record import Residuals, register
from likely.parameters._slot import mean_absolute, scale_slot

__all__ = ["Laplace", "LaplaceLoss", "laplace_nll"]


@functional_form(constant=math.log(2), fused=True)
def laplace_nll(prediction: Tensor, target: Tensor, *, scale: Value) -> Tensor:
    r"""Negative log-likelihood of a Laplace distribution: the absolute error with a scale.

    For a residual :math:`r` and scale :math:`b > 0`, :math:`\ell = |r|/b + \log b + \log 2`. With
    :math:`b = 1` it is the L1 loss plus a constant; for a given residual the best scale is :math:`b = |r|`.

    Args:
        prediction: medians, any shape.
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
        :class:`~likely.LaplaceLoss`, the module with parameters that learn.

    >>> import torch
    >>> from likely.functional import laplace_nll
    >>> laplace_nll(torch.zeros(2), torch.tensor([1.0, 3.0]), scale=1.0, full=False)
    tensor(2.)
    """
    return (target - prediction).abs() / scale + scale.log()


class Laplace(Standardised, td.Laplace, nll=laplace_nll):
    """The Laplace distribution of torch with exact lower tails and quantiles.

    Args:
        loc: median.
        scale: positive scale.
        validate_args: whether parameters and values are checked; None (the default) follows torch's setting.

    >>> import torch
    >>> from likely.distributions import Laplace
    >>> d = Laplace(torch.tensor(0.0), torch.tensor(1.0))
    >>> d.icdf(torch.tensor(1e-12)), torch.distributions.Laplace(0.0, 1.0).icdf(torch.tensor(1e-12))
    (tensor(-26.9379), tensor(-inf))
    """

    _tail, _tail_quantile = (staticmethod(lambda z: 0.5 * z.exp()), staticmethod(lambda p: torch.log(2 * p)))


class LaplaceLoss(ScaleLoss, nll=laplace_nll, family=Laplace, scale=scale_slot(mean_absolute)):
    r"""The Laplace likelihood: :class:`torch.nn.L1Loss` with a scale that learns.

    :math:`\ell = |r|/b + \log b + \log 2`.

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
        :class:`~likely.NormalLoss`, :class:`~likely.AsymmetricLaplaceLoss`, :func:`~likely.functional.laplace_nll` (the
        function).

    >>> import torch, likely
    >>> loss_fn = likely.LaplaceLoss()
    >>> loss_fn(torch.zeros(2), torch.tensor([1.0, 3.0]))
    tensor(2.3863, grad_fn=<...>)
    """


def _crps(distribution: Laplace, y: Array) -> Array:
    z, scale = standardised(distribution, y)
    return scale * (np.abs(z) + np.expm1(-np.abs(z)) + 0.25)


register(
    LaplaceLoss,
    crps=_crps,
    residuals=Residuals(
        loss=lambda z, _: np.abs(z),
        weight=lambda z, _: 1 / np.maximum(np.abs(z), 1e-4),
        deviation=lambda _: math.sqrt(2),
    ),
)
