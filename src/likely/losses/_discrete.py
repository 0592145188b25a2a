"""Likelihoods of classes and counts."""

from collections.abc import Mapping
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.distributions import Distribution

from likely import functional
from likely._validation import check_floating
from likely.constraints import ShiftedSoftplus
from likely.losses._base import TEMPERATURE, LikelihoodLoss, ParameterLike, Phi, Slot


class SoftmaxLoss(LikelihoodLoss):
    r"""The softmax likelihood: :class:`torch.nn.CrossEntropyLoss` with a temperature that learns.

    Labels are class numbers (``ignore_index`` masks some) or probabilities in the shape of the logits; classes
    are on axis 1. The temperature divides the logits: a hot row counts less.

    >>> import torch, likely
    >>> loss_fn = likely.SoftmaxLoss(temperature=2.0)
    >>> loss_fn(torch.tensor([[2.0, 0.0]]), torch.tensor([0]))
    tensor(0.3133)
    >>> loss_fn.distribution(torch.tensor([[2.0, 0.0]])).probs
    tensor([[0.7311, 0.2689]])
    """

    slots: ClassVar[Mapping[str, Slot]] = {"temperature": TEMPERATURE}

    def __init__(
        self,
        temperature: ParameterLike = None,
        *,
        ignore_index: int = -100,
        label_smoothing: float = 0.0,
        **options: Any,
    ) -> None:
        if not 0 <= label_smoothing <= 1:
            raise ValueError(f"label_smoothing must lie in [0, 1], got {label_smoothing}")
        super().__init__(temperature=temperature, **options)
        self.ignore_index, self.label_smoothing = ignore_index, label_smoothing

    def _outer(self, prediction: Tensor) -> torch.Size:
        axis = min(1, prediction.ndim - 1)
        return prediction.shape[:axis] + prediction.shape[axis + 1 :]

    def _check(self, prediction: Tensor, target: Tensor) -> None:
        check_floating("prediction", prediction)

    def _mask(self, target: Tensor) -> Tensor | None:
        return None if target.is_floating_point() else (target != self.ignore_index).float()

    def _nll(self, prediction: Tensor, target: Tensor, phi: Phi, reduction: str = "none") -> Tensor:
        return functional.softmax_nll(
            prediction,
            target,
            **phi,
            ignore_index=self.ignore_index,
            label_smoothing=self.label_smoothing,
            reduction=reduction,
            validate_args=self.validate_args,
        )

    def _lowest(self, prediction: Tensor, target: Tensor, phi: Phi) -> Tensor:
        """The entropy of the labels themselves, smoothing included."""
        axis = min(1, prediction.ndim - 1)
        classes = prediction.shape[axis]
        if target.is_floating_point():
            labels = target.to(torch.promote_types(prediction.dtype, torch.float32))
        else:
            kept = torch.where(target == self.ignore_index, 0, target).long()
            dtype = torch.promote_types(prediction.dtype, torch.float32)
            labels = nn.functional.one_hot(kept, classes).movedim(-1, axis).to(dtype)
        labels = labels * (1 - self.label_smoothing) + self.label_smoothing / classes
        entropy: Tensor = torch.special.entr(labels).sum(axis)
        return entropy

    def _distribution(self, prediction: Tensor, phi: Phi) -> Distribution:
        axis = min(1, prediction.ndim - 1)
        logits = prediction.movedim(axis, -1)
        return torch.distributions.Categorical(logits=logits / phi["temperature"].unsqueeze(-1))


class BernoulliLoss(LikelihoodLoss):
    r"""The Bernoulli likelihood: :class:`torch.nn.BCEWithLogitsLoss` with a temperature that learns.

    >>> import torch, likely
    >>> likely.BernoulliLoss()(torch.tensor([3.0]), torch.tensor([1.0]))
    tensor(0.0486, grad_fn=<MeanBackward0>)
    """

    slots: ClassVar[Mapping[str, Slot]] = {"temperature": TEMPERATURE}

    def __init__(self, temperature: ParameterLike = None, **options: Any) -> None:
        super().__init__(temperature=temperature, **options)

    def _nll(self, prediction: Tensor, target: Tensor, phi: Phi, reduction: str = "none") -> Tensor:
        return functional.bernoulli_nll(
            prediction, target, **phi, reduction=reduction, validate_args=self.validate_args
        )

    def _lowest(self, prediction: Tensor, target: Tensor, phi: Phi) -> Tensor:
        target = target.to(torch.promote_types(prediction.dtype, torch.float32))
        entropy: Tensor = torch.special.entr(target) + torch.special.entr(1 - target)
        return entropy

    def _distribution(self, prediction: Tensor, phi: Phi) -> Distribution:
        return torch.distributions.Bernoulli(logits=prediction / phi["temperature"])


class PoissonLoss(LikelihoodLoss):
    r"""The Poisson likelihood of a count: :class:`torch.nn.PoissonNLLLoss` with its constant.

    It has nothing to learn; :class:`NegativeBinomialLoss` is the same with a free variance. ``prediction`` is
    the logarithm of the rate, or the rate itself under ``log_input=False``.

    >>> import torch, likely
    >>> likely.PoissonLoss()(torch.tensor([0.0, 1.0]), torch.tensor([1.0, 3.0]))
    tensor(1.2550)
    """

    def __init__(self, *, log_input: bool = True, **options: Any) -> None:
        super().__init__(**options)
        self.log_input = log_input

    def _options(self, reduction: str) -> dict[str, Any]:
        return {**super()._options(reduction), "log_input": self.log_input}

    def _nll(self, prediction: Tensor, target: Tensor, phi: Phi, reduction: str = "none") -> Tensor:
        return functional.poisson_nll(prediction, target, **phi, **self._options(reduction))

    def _lowest(self, prediction: Tensor, target: Tensor, phi: Phi) -> Tensor:
        rate = target.to(torch.promote_types(prediction.dtype, torch.float32))
        return functional.poisson_nll(rate, target, **phi, **{**self._options("none"), "log_input": False})

    def _rate(self, prediction: Tensor) -> Tensor:
        return prediction.exp() if self.log_input else prediction

    def _distribution(self, prediction: Tensor, phi: Phi) -> Distribution:
        return torch.distributions.Poisson(self._rate(prediction))


class NegativeBinomialLoss(PoissonLoss):
    r"""Counts whose variance :math:`\mu + \kappa\mu^2` may exceed their mean; the ``dispersion`` κ learns.

    >>> import torch, likely
    >>> loss_fn = likely.NegativeBinomialLoss()
    >>> loss_fn.distribution(torch.tensor([2.0])).variance
    tensor([61.9872], grad_fn=<DivBackward0>)
    """

    slots: ClassVar[Mapping[str, Slot]] = {"dispersion": Slot(ShiftedSoftplus(0.01), 1.0)}

    def __init__(self, dispersion: ParameterLike = None, **options: Any) -> None:
        super().__init__(dispersion=dispersion, **options)

    def _nll(self, prediction: Tensor, target: Tensor, phi: Phi, reduction: str = "none") -> Tensor:
        return functional.negative_binomial_nll(prediction, target, **phi, **self._options(reduction))

    def _lowest(self, prediction: Tensor, target: Tensor, phi: Phi) -> Tensor:
        mean = target.to(torch.promote_types(prediction.dtype, torch.float32))
        return functional.negative_binomial_nll(mean, target, **phi, **{**self._options("none"), "log_input": False})

    def _distribution(self, prediction: Tensor, phi: Phi) -> Distribution:
        odds = self._rate(prediction) * phi["dispersion"]
        return torch.distributions.NegativeBinomial(phi["dispersion"].reciprocal(), logits=odds.log())
