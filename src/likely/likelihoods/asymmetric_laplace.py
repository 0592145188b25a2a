"""The asymmetric Laplace likelihood: quantile regression whose scale, and level if asked, learn."""

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor
from torch.distributions import Distribution, constraints

from likely._validation import check_positive, prepare, reduce
from likely.constraints import Interval
from likely.likelihoods._distribution import LocationScale
from likely.likelihoods._fused import Value
from likely.likelihoods._loss import SCALE, ParameterLike, Phi, ScaleLoss, Slot
from likely.likelihoods._numeric import Array, standardised
from likely.likelihoods._record import Likelihood, register

__all__ = ["AsymmetricLaplace", "AsymmetricLaplaceLoss", "asymmetric_laplace_nll"]


def asymmetric_laplace_nll(
    prediction: Tensor,
    target: Tensor,
    *,
    scale: Value,
    quantile: Value = 0.5,
    reduction: str = "mean",
    full: bool = True,
    validate_args: bool | None = None,
) -> Tensor:
    r"""The asymmetric Laplace likelihood: the pinball loss of quantile regression, whose scale is free to move.

    For a residual :math:`r`, scale :math:`b > 0` and level :math:`0 < q < 1`,

    .. math:: \ell = \rho_q(r) / b + \log b - \log q - \log(1 - q), \quad \rho_q(r) = \max(q r, (q - 1) r),

    and the best prediction is the :math:`q`-quantile of the target. ``quantile=0.5`` is a Laplace of scale
    :math:`2b`. Nothing here is constant, so ``full`` changes nothing.

    >>> import torch
    >>> from likely.functional import asymmetric_laplace_nll
    >>> asymmetric_laplace_nll(torch.zeros(2), torch.tensor([1.0, -1.0]), scale=1.0, quantile=0.9, reduction="none")
    tensor([3.3079, 2.5079])
    """
    check_positive("scale", scale, validate_args)
    check_positive("quantile", quantile, validate_args)
    check_positive("1 - quantile", 1 - quantile, validate_args)
    prediction, target, scale, quantile = prepare(prediction, target, scale=scale, quantile=quantile)
    z = (target - prediction) / scale
    pinball = torch.where(z < 0, quantile - 1, quantile) * z
    return reduce(pinball + scale.log() - quantile.log() - torch.log1p(-quantile), reduction)


class AsymmetricLaplace(LocationScale):
    r"""The asymmetric Laplace distribution: exponential on both sides of its ``quantile``-quantile ``loc``.

    >>> import torch
    >>> from likely.distributions import AsymmetricLaplace
    >>> d = AsymmetricLaplace(quantile=0.9, loc=2.0, scale=1.0)
    >>> d.cdf(torch.tensor(2.0)), d.icdf(torch.tensor(0.5)), d.mean
    (tensor(0.9000), tensor(-3.8779), tensor(-6.8889))
    """

    nll = staticmethod(asymmetric_laplace_nll)
    quantile: Tensor
    arg_constraints: ClassVar[dict[str, constraints.Constraint]] = {
        "quantile": constraints.unit_interval,
        "loc": constraints.real,
        "scale": constraints.positive,
    }

    def __init__(self, quantile: Any, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        super().__init__(validate_args, quantile=quantile, loc=loc, scale=scale)

    @property
    def mean(self) -> Tensor:
        """The mean: below ``loc`` for high quantiles, above it for low ones."""
        return self.loc + self.scale * (1 / self.quantile - 1 / (1 - self.quantile))

    def _standard_variance(self) -> Tensor:
        return self.quantile.square().reciprocal() + (1 - self.quantile).square().reciprocal()

    def _standard_cdf(self, z: Tensor) -> Tensor:
        q = self.quantile
        below, above = q * torch.exp((1 - q) * z.clamp(max=0)), (1 - q) * torch.exp(-q * z.clamp(min=0))
        return torch.where(z < 0, below, 1 - above)

    def _standard_icdf(self, p: Tensor) -> Tensor:
        q, low = self.quantile, p < self.quantile
        below = torch.log(torch.where(low, p, q) / q) / (1 - q)
        return torch.where(low, below, -torch.log((1 - torch.where(low, q, p)) / (1 - q)) / q)


class AsymmetricLaplaceLoss(ScaleLoss):
    r"""The asymmetric Laplace likelihood: quantile regression (the pinball loss) whose ``scale`` learns.

    ``quantile`` is the level to predict, fixed at the median unless it is given; ``quantile=likely.Global()`` learns
    it with the rest, and with it the skewness of the residuals.

    >>> import torch
    >>> from likely.losses import AsymmetricLaplaceLoss
    >>> AsymmetricLaplaceLoss(quantile=0.9)(torch.zeros(2), torch.tensor([1.0, -1.0]))
    tensor(2.9079, grad_fn=<MeanBackward0>)
    """

    nll = staticmethod(asymmetric_laplace_nll)
    slots: ClassVar[Mapping[str, Slot]] = {"quantile": Slot(Interval(0.001, 0.999), 0.5), "scale": SCALE}

    def __init__(self, quantile: ParameterLike = 0.5, scale: ParameterLike = None, **options: Any) -> None:
        super().__init__(quantile=quantile, scale=scale, **options)

    def _distribution(self, prediction: Tensor, phi: Phi) -> Distribution:
        return AsymmetricLaplace(phi["quantile"], prediction, phi["scale"])


def _crps(distribution: AsymmetricLaplace, y: Array) -> Array:
    z, scale = standardised(distribution, y)
    q = distribution.quantile.numpy()
    size, near, across = np.abs(z), np.where(z < 0, 1 - q, q), np.where(z < 0, q, 1 - q)
    spread = 0.5 * (q**2 / (1 - q) + (1 - q) ** 2 / q)  # the score at z = 0
    return np.asarray(scale * (size + 2 * across * np.expm1(-near * size) / near + spread))


register(Likelihood("asymmetric_laplace", asymmetric_laplace_nll, AsymmetricLaplaceLoss, AsymmetricLaplace, crps=_crps))
