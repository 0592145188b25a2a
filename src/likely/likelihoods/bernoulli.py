"""The Bernoulli likelihood of a logit: binary cross-entropy whose temperature learns."""

from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch import distributions as td
from torch.distributions import Distribution, constraints

from likely._validation import check_floating, check_positive, check_shares, prepare, reduce
from likely.likelihoods._loss import TEMPERATURE, LikelihoodLoss, ParameterLike, Phi
from likely.likelihoods._numeric import Array, check_support
from likely.likelihoods._record import register

__all__ = ["Bernoulli", "BernoulliLoss", "bernoulli_nll"]


def bernoulli_nll(
    logits: Tensor,
    target: Tensor,
    *,
    temperature: Tensor | float,
    reduction: str = "mean",
    validate_args: bool | None = None,
) -> Tensor:
    r"""The Bernoulli likelihood of a logit: binary cross-entropy whose temperature is free to move.

    :math:`\ell = \log(1 + e^{z/T}) - y z / T`, for labels :math:`y` from 0 to 1. Others are refused on the CPU; on a
    GPU, where values are looked at under ``validate_args=True`` only, the formula is applied to them as it stands.

    >>> import torch
    >>> from likely.functional import bernoulli_nll
    >>> bernoulli_nll(torch.tensor([3.0, 3.0]), torch.tensor([1.0, 0.0]), temperature=2.0)
    tensor(0.9514)
    """
    check_floating("logits", logits)
    check_positive("temperature", temperature, validate_args)
    check_shares("target", target, validate_args)
    logits, target, temperature = prepare(logits, target, temperature=temperature)
    z = logits / temperature
    return reduce(torch.logaddexp(z, torch.zeros_like(z)) - target * z, reduction)


class Bernoulli(td.Bernoulli):
    """torch's Bernoulli with the ``cdf`` and ``icdf`` it lacks.

    >>> import torch
    >>> from likely.distributions import Bernoulli
    >>> d = Bernoulli(torch.tensor(0.3))
    >>> d.cdf(torch.tensor([0.0, 1.0])), d.icdf(torch.tensor([0.5, 0.9]))
    (tensor([0.7000, 1.0000]), tensor([0., 1.]))
    """

    def cdf(self, value: Tensor) -> Tensor:
        """P(X ≤ value)."""
        return torch.where(value < 0, 0.0, torch.where(value < 1, torch.sigmoid(-self.logits), 1.0))

    def icdf(self, value: Tensor) -> Tensor:
        """0 up to the probability of 0, then 1."""
        return (value > torch.sigmoid(-self.logits)).to(self.logits.dtype)


class BernoulliLoss(LikelihoodLoss, nll=bernoulli_nll, family=Bernoulli, temperature=TEMPERATURE):
    r"""The Bernoulli likelihood: :class:`torch.nn.BCEWithLogitsLoss` with a temperature that learns.

    >>> import torch, likely
    >>> likely.BernoulliLoss()(torch.tensor([3.0]), torch.tensor([1.0]))
    tensor(0.0486, grad_fn=<MeanBackward0>)
    """

    def __init__(self, temperature: ParameterLike = None, **options: Any) -> None:
        super().__init__(temperature=temperature, **options)

    def _options(self, reduction: str) -> dict[str, Any]:
        return {"reduction": reduction, "validate_args": self.validate_args}

    def _lowest(self, prediction: Tensor, target: Tensor, phi: Phi) -> Tensor:
        target = target.to(torch.promote_types(prediction.dtype, torch.float32))
        return torch.special.entr(target) + torch.special.entr(1 - target)

    def _distribution(self, prediction: Tensor, phi: Phi) -> Distribution:
        return Bernoulli(logits=prediction / phi["temperature"])


def _crps(distribution: Bernoulli, y: Array) -> Array:
    check_support(distribution, y)
    return np.asarray((distribution.probs.numpy() - y) ** 2)


def _start(y: Array, weight: Array) -> Array:
    share = np.average(y, axis=0, weights=weight).clip(1e-3, 1 - 1e-3)
    return np.asarray(np.log(share / (1 - share)))


register(BernoulliLoss, support=constraints.unit_interval, crps=_crps, start=_start)
