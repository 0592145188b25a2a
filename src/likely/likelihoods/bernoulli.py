"""The Bernoulli likelihood of a logit: binary cross-entropy whose temperature learns."""

from typing import Any

import numpy as np
import torch
from scipy import special
from torch import Tensor, distributions as td
from torch.distributions import Distribution, constraints

from likely._validation import check_floating, check_positive, check_real, check_shares, fits, prepare, reduce
from likely.likelihoods._distribution import Array, check_support
from likely.likelihoods._fused import Fused
from likely.likelihoods._loss import LikelihoodLoss, Phi
from likely.likelihoods._record import register
from likely.likelihoods._row_weights import as_weight
from likely.parameters._slot import TEMPERATURE, ParameterLike

__all__ = ["Bernoulli", "BernoulliLoss", "bernoulli_nll"]


def bernoulli_nll(
    logits: Tensor,
    target: Tensor,
    *,
    temperature: Tensor | float,
    weight: Tensor | None = None,
    pos_weight: Tensor | None = None,
    reduction: str = "mean",
    validate_args: bool | None = None,
) -> Tensor:
    r"""Negative log-likelihood of binary labels: the cross-entropy of logits divided by a temperature.

    :math:`\ell = \log(1 + e^{z/T}) - y z / T`, for labels :math:`y` from 0 to 1. Others are refused on the CPU; on a
    GPU values are checked under ``validate_args=True`` only.

    Args:
        logits: any shape; with several labels per row, (batch, labels).
        target: labels from 0 to 1, of the logits' shape.
        temperature: a number, or a tensor that broadcasts to the logits.
        weight: factors of the elements' losses, which broadcast to the logits; None by default. A mean divides by the
            number of elements, as in torch.
        pos_weight: factors of the terms of positive labels, which broadcast to the logits, such as one number per
            label; None by default. Like ``weight``, it is not part of the likelihood.
        reduction: ``"mean"``, ``"sum"`` or ``"none"``.
        validate_args: whether tensor values are checked; by default on the CPU only.

    Returns:
        A scalar, or one value per element under ``reduction="none"``.

    See Also:
        :class:`~likely.BernoulliLoss`, the module with parameters that learn.

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
    nll = torch.logaddexp(z, torch.zeros_like(z)) - target * z
    if pos_weight is not None:
        _check_weight("pos_weight", pos_weight, nll)
        nll = nll + (pos_weight.to(z.dtype) - 1) * target * torch.logaddexp(-z, torch.zeros_like(z))
    if weight is not None:
        _check_weight("weight", weight, nll)
        nll = nll * weight.to(z.dtype)
    return reduce(nll, reduction)


def _check_weight(name: str, weight: Tensor, nll: Tensor) -> None:
    check_real(name, weight)
    if not fits(weight.shape, nll.shape):
        raise ValueError(
            f"{name} has shape {tuple(weight.shape)} and does not broadcast to the logits' {tuple(nll.shape)}: "
            "give one value per label, the last axis; or weights of rows as sample_weight"
        )


class Bernoulli(td.Bernoulli):
    """The Bernoulli distribution of torch with ``cdf``, ``icdf`` and an entropy that is exact for any logit.

    Args:
        probs: probability of 1; give this or ``logits``.
        logits: log odds of 1.
        validate_args: whether parameters and values are checked; None (the default) follows torch's setting.

    >>> import torch
    >>> from likely.distributions import Bernoulli
    >>> d = Bernoulli(torch.tensor(0.3))
    >>> d.cdf(torch.tensor([0.0, 1.0])), d.icdf(torch.tensor([0.5, 0.9]))
    (tensor([0.7000, 1.0000]), tensor([0., 1.]))
    """

    def entropy(self) -> Tensor:
        """The entropy, exact for any logit.

        Returns:
            Entropies in nats, in the batch shape.
        """
        size = self.logits.abs()
        return torch.nn.functional.softplus(-size) + size * torch.sigmoid(-size)

    def cdf(self, value: Tensor) -> Tensor:
        """P(X ≤ value).

        Args:
            value: real numbers, of a shape that broadcasts with the batch.

        Returns:
            Probabilities, in the broadcast shape.
        """
        return torch.where(value < 0, 0.0, torch.where(value < 1, torch.sigmoid(-self.logits), 1.0))

    def icdf(self, value: Tensor) -> Tensor:
        """The quantile: 0 up to the probability of 0, then 1.

        Args:
            value: probabilities from 0 to 1, of a shape that broadcasts with the batch.

        Returns:
            Zeros and ones, in the broadcast shape.
        """
        return (value > torch.sigmoid(-self.logits)).to(self.logits.dtype)


bernoulli_nll.fused = Fused("bernoulli", ("temperature",))  # type: ignore[attr-defined]

_MIN_LOGITS = 32  # logits, which have either sign, are not all from 0 to 1 by chance


class BernoulliLoss(LikelihoodLoss, nll=bernoulli_nll, family=Bernoulli, temperature=TEMPERATURE):
    r"""The Bernoulli likelihood: :class:`torch.nn.BCEWithLogitsLoss` with a temperature that learns.

    Args:
        temperature: positive number that divides the logits: a number, which is fixed, or one of
            :class:`~likely.Fixed`, :class:`~likely.Global` (the default), :class:`~likely.Data` and
            :class:`~likely.Predicted`.
        weight: factors of the elements' losses, which broadcast to the prediction; None by default. Stored as a buffer.
            It is not part of the likelihood, and a mean divides by the number of elements, as in torch.
        pos_weight: factors of the terms of positive labels, such as one number per label; None by default. Stored as a
            buffer.
        logits: whether predictions are logits (the default). With ``False`` they are probabilities, as in
            :class:`torch.nn.BCELoss`, and the temperature divides their logits, which are kept within ±100.
        reduction: ``"mean"``, ``"sum"`` or ``"none"`` (one value per element).
        full: has no effect, because this likelihood has no constant term; accepted as in all losses.
        multiplier: positive factor of the loss; the predictive distribution does not depend on it.
        validate_args: whether tensor values are checked; by default (None) on the CPU only, where that is cheap.

    See Also:
        :class:`~likely.SoftmaxLoss`, :class:`~likely.BetaLoss`, :func:`~likely.functional.bernoulli_nll` (the
        function).

    >>> import torch, likely
    >>> likely.BernoulliLoss()(torch.tensor([3.0]), torch.tensor([1.0]))
    tensor(0.0486, grad_fn=<...>)
    """

    weight: Tensor | None
    pos_weight: Tensor | None

    def __init__(
        self,
        *values: ParameterLike,
        weight: Tensor | None = None,
        pos_weight: Tensor | None = None,
        logits: bool = True,
        **options: Any,
    ) -> None:
        super().__init__(*values, **options)
        self.logits = logits
        self.register_buffer("weight", as_weight("weight", weight))
        self.register_buffer("pos_weight", as_weight("pos_weight", pos_weight))

    def mistake(self, prediction: Tensor) -> str | None:
        """What looks wrong with the first batch, though it can be computed.

        Args:
            prediction: output of the model.

        Returns:
            A sentence that says what to do, or None.
        """
        low, high = (float(end) for end in prediction.aminmax())
        if self.logits and prediction.numel() >= _MIN_LOGITS and 0 <= low < high <= 1:
            return "predictions look like probabilities, all from 0 to 1: give logits, or logits=False"
        return super().mistake(prediction)

    def _can_fuse(self, prediction: Tensor, target: Tensor) -> bool:
        weighted = self._buffers["weight"] is not None or self._buffers["pos_weight"] is not None
        return self.logits and not weighted and super()._can_fuse(prediction, target)

    def _options(self, reduction: str) -> dict[str, Any]:
        weights = {"weight": self.weight, "pos_weight": self.pos_weight}
        return {**weights, "reduction": reduction, "validate_args": self.validate_args}

    def _nll(self, prediction: Tensor, target: Tensor, phi: Phi, reduction: str = "none") -> Tensor:
        if not self.logits:
            check_shares("prediction", prediction, self.validate_args)
            prediction = _logit(prediction)
        return super()._nll(prediction, target, phi, reduction)

    def distribution_of(self, prediction: Tensor, phi: Phi) -> Distribution:
        """The predictive distribution at given values of the parameters.

        Args:
            prediction: output of a model.
            phi: every parameter of the likelihood by name, as a tensor that broadcasts to the prediction.

        Returns:
            A :class:`torch.distributions.Distribution` with the prediction's shape as its batch.
        """
        prediction = prediction if self.logits else _logit(prediction)
        return Bernoulli(logits=prediction / phi["temperature"])


def _logit(p: Tensor) -> Tensor:
    """Log p - log(1 - p), each at least -100 as in torch's BCELoss; the gradient is finite at 0 and 1."""
    p = p.to(torch.promote_types(p.dtype, torch.float32))

    def logarithm(share: Tensor) -> Tensor:
        inside = share > 0
        return torch.where(inside, torch.where(inside, share, 1.0).log().clamp(min=-100), -100.0)

    return logarithm(p) - logarithm(1 - p)


def _crps(distribution: Bernoulli, y: Array) -> Array:
    check_support(distribution, y)
    return (distribution.probs.numpy() - y) ** 2


def _start(y: Array, weight: Array) -> Array:
    return special.logit(np.average(y, axis=0, weights=weight).clip(1e-3, 1 - 1e-3))


register(BernoulliLoss, support=constraints.unit_interval, crps=_crps, start=_start)
