"""The asymmetric Laplace likelihood: quantile regression whose scale, and optionally level, learn."""

import numpy as np
import torch
from torch import Tensor
from torch.distributions import constraints

from likely._validation import check_positive
from likely.constraints import Interval
from likely.likelihoods._distribution import Array, LocationScale, standardised
from likely.likelihoods._form import Value, functional_form
from likely.likelihoods._loss import ScaleLoss
from likely.likelihoods._record import register
from likely.parameters._slot import Moment, Slot, absolute_error, scale_slot

__all__ = ["AsymmetricLaplace", "AsymmetricLaplaceLoss", "asymmetric_laplace_nll"]


def _check_level(name: str, value: Value, validate_args: bool | None) -> None:
    check_positive(name, value, validate_args)
    check_positive(f"1 - {name}", 1 - value, validate_args)


@functional_form(quantile=_check_level)
def asymmetric_laplace_nll(prediction: Tensor, target: Tensor, *, scale: Value, quantile: Value = 0.5) -> Tensor:
    r"""Negative log-likelihood of an asymmetric Laplace distribution: the pinball loss with a scale.

    For a residual :math:`r`, scale :math:`b > 0` and level :math:`0 < q < 1`,

    .. math:: \ell = \rho_q(r) / b + \log b - \log q - \log(1 - q), \quad \rho_q(r) = \max(q r, (q - 1) r),

    and the best prediction is the :math:`q`-quantile of the target. ``quantile=0.5`` is a Laplace of scale
    :math:`2b`. No term is constant, so ``full`` has no effect.

    Args:
        prediction: quantiles, any shape.
        target: real numbers of a shape that broadcasts with the prediction's.
        scale: positive scale: a number, or a tensor that broadcasts to the prediction.
        quantile: level of the quantile, between 0 and 1 (0.5 by default): a number, or a tensor that broadcasts to the
            prediction.
        reduction: ``"mean"`` (the default), ``"sum"`` or ``"none"``.
        full: whether terms that do not depend on any parameter are included; ``True`` by default.
        validate_args: whether tensor values are checked; by default (None) on the CPU only.

    Returns:
        A scalar, or one value per element under ``reduction="none"``.

    Raises:
        ValueError: shapes do not broadcast, a value is out of range, or the reduction is unknown.

    See Also:
        :class:`~likely.AsymmetricLaplaceLoss`, the module with parameters that learn.

    >>> import torch
    >>> from likely.functional import asymmetric_laplace_nll
    >>> asymmetric_laplace_nll(torch.zeros(2), torch.tensor([1.0, -1.0]), scale=1.0, quantile=0.9, reduction="none")
    tensor([3.3079, 2.5079])
    """
    z = (target - prediction) / scale
    pinball = torch.where(z < 0, quantile - 1, quantile) * z
    return pinball + scale.log() - quantile.log() - torch.log1p(-quantile)


class AsymmetricLaplace(LocationScale, nll=asymmetric_laplace_nll, quantile=constraints.unit_interval):
    r"""The asymmetric Laplace distribution: exponential on both sides of its ``quantile``-quantile ``loc``.

    Args:
        quantile: probability of a value below ``loc``, between 0 and 1.
        loc: mode, and the quantile at that level.
        scale: positive scale.
        validate_args: whether parameters and values are checked; None (the default) follows torch's setting.

    >>> import torch
    >>> from likely.distributions import AsymmetricLaplace
    >>> d = AsymmetricLaplace(quantile=0.9, loc=2.0, scale=1.0)
    >>> d.cdf(torch.tensor(2.0)), d.icdf(torch.tensor(0.5)), d.mean
    (tensor(0.9000), tensor(-3.8779), tensor(-6.8889))
    """

    quantile: Tensor

    @property
    def mean(self) -> Tensor:
        """The mean, which is below ``loc`` for high quantiles and above it for low ones."""
        return self.loc + self.scale * (1 / self.quantile - 1 / (1 - self.quantile))

    def _standard_variance(self) -> Tensor:
        return self.quantile.square().reciprocal() + (1 - self.quantile).square().reciprocal()

    def _standard_cdf(self, z: Tensor) -> Tensor:
        q = self.quantile
        below, beyond = q * torch.exp((1 - q) * z.clamp(max=0)), torch.expm1(-q * z.clamp(min=0))
        return torch.where(z < 0, below, q - (1 - q) * beyond)

    def _standard_icdf(self, p: Tensor) -> Tensor:
        q, low = self.quantile, p < self.quantile
        below = torch.log(torch.where(low, p, q) / q) / (1 - q)
        p = torch.where(low, q, p)
        return torch.where(low, below, torch.log1p((p - q) / (1 - p)) / q)


class AsymmetricLaplaceLoss(
    ScaleLoss,
    nll=asymmetric_laplace_nll,
    family=AsymmetricLaplace,
    quantile=Slot(Interval(0.001, 0.999), 0.5, default=0.5),
    scale=scale_slot(Moment(lambda mean: mean / 2, absolute_error)),  # at the median
):
    r"""The asymmetric Laplace likelihood: quantile regression (the pinball loss) whose ``scale`` learns.

    ``quantile=likely.Global()`` learns the level too, and with it the skewness of the residuals.

    Args:
        quantile: level to predict, 0.5 by default: a number, which is fixed, or one of :class:`~likely.Fixed`,
            :class:`~likely.Global`, :class:`~likely.Data` and :class:`~likely.Predicted`.
        scale: positive scale of the errors: a number, which is fixed, or one of :class:`~likely.Fixed`,
            :class:`~likely.Global` (the default), :class:`~likely.Data` and :class:`~likely.Predicted`.
        beta: from 0 (the default, the plain NLL) to 1; multiplies each term by ``scale ** (2 * beta)``, held constant
            (β-NLL), so that elements with a large predicted scale still count in the gradient of the mean.
        reduction: ``"mean"``, ``"sum"`` or ``"none"`` (one value per element).
        full: has no effect, because this likelihood has no constant term; accepted as in all losses.
        multiplier: positive factor of the loss; the predictive distribution does not depend on it.
        validate_args: whether tensor values are checked; by default (None) on the CPU only, where that is cheap.

    See Also:
        :class:`~likely.LaplaceLoss`, :class:`~likely.SkewStudentTLoss`,
        :func:`~likely.functional.asymmetric_laplace_nll` (the function).

    >>> import torch
    >>> from likely.losses import AsymmetricLaplaceLoss
    >>> AsymmetricLaplaceLoss(quantile=0.9)(torch.zeros(2), torch.tensor([1.0, -1.0]))
    tensor(2.7148, grad_fn=<...>)
    """


def _crps(distribution: AsymmetricLaplace, y: Array) -> Array:
    z, scale = standardised(distribution, y)
    q = distribution.quantile.numpy()
    size, near, across = np.abs(z), np.where(z < 0, 1 - q, q), np.where(z < 0, q, 1 - q)
    spread = 0.5 * (q**2 / (1 - q) + (1 - q) ** 2 / q)  # the score at z = 0
    return scale * (size + 2 * across * np.expm1(-near * size) / near + spread)


register(AsymmetricLaplaceLoss, crps=_crps)
