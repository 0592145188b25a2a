"""Likelihoods of real numbers: a location, a scale, sometimes a shape."""

from collections.abc import Mapping
from typing import Any, ClassVar

import torch
from torch import Tensor
from torch.distributions import Distribution

from likely import distributions, functional
from likely.constraints import Interval, ShiftedSoftplus
from likely.losses._base import SCALE, Features, LikelihoodLoss, ParameterLike, Phi, Slot


class _ScaleLoss(LikelihoodLoss):
    """Likelihoods of a real target with a scale, which β-NLL can temper."""

    def __init__(self, *, beta: float = 0.0, **options: Any) -> None:
        if not 0 <= beta <= 1:
            raise ValueError(
                f"beta must lie in [0, 1], got {beta}: 0 is the NLL, 1 follows the squared error's gradients"
            )
        super().__init__(**options)
        self.beta = float(beta)

    def _elementwise(
        self, prediction: Tensor, target: Tensor, features: Features, index: Tensor | None
    ) -> tuple[Tensor, Tensor | None]:
        self._check(prediction, target)
        phi = self._phi(prediction, features, index)
        nll = self._nll(prediction, target, phi)
        return nll * phi["scale"].detach() ** (2 * self.beta) if self.beta else nll, None


class NormalLoss(_ScaleLoss):
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

    slots: ClassVar[Mapping[str, Slot]] = {"scale": SCALE}

    def __init__(self, scale: ParameterLike = None, **options: Any) -> None:
        super().__init__(scale=scale, **options)

    def _nll(self, prediction: Tensor, target: Tensor, phi: Phi, reduction: str = "none") -> Tensor:
        return functional.normal_nll(prediction, target, **phi, **self._options(reduction))

    def _distribution(self, prediction: Tensor, phi: Phi) -> Distribution:
        return torch.distributions.Normal(prediction, phi["scale"])


class LaplaceLoss(_ScaleLoss):
    r"""The Laplace likelihood: :class:`torch.nn.L1Loss` with a scale that learns.

    :math:`\ell = |r|/b + \log b + \log 2`.

    >>> import torch, likely
    >>> loss_fn = likely.LaplaceLoss()
    >>> loss_fn(torch.zeros(2), torch.tensor([1.0, 3.0]))
    tensor(2.6931, grad_fn=<...>)
    """

    slots: ClassVar[Mapping[str, Slot]] = {"scale": SCALE}

    def __init__(self, scale: ParameterLike = None, **options: Any) -> None:
        super().__init__(scale=scale, **options)

    def _nll(self, prediction: Tensor, target: Tensor, phi: Phi, reduction: str = "none") -> Tensor:
        return functional.laplace_nll(prediction, target, **phi, **self._options(reduction))

    def _distribution(self, prediction: Tensor, phi: Phi) -> Distribution:
        return torch.distributions.Laplace(prediction, phi["scale"])


class StudentTLoss(_ScaleLoss):
    r"""Student's t: a squared error that forgives outliers, by as much as the data asks for.

    Both the degrees of freedom ``df`` (from 4) and the ``scale`` learn.

    >>> import torch, likely
    >>> loss_fn = likely.StudentTLoss(df=1.0)
    >>> loss_fn(torch.zeros(2), torch.tensor([1.0, 30.0]))
    tensor(4.8931, grad_fn=<...>)
    """

    slots: ClassVar[Mapping[str, Slot]] = {"df": Slot(ShiftedSoftplus(0.01), 4.0), "scale": SCALE}

    def __init__(self, df: ParameterLike = None, scale: ParameterLike = None, **options: Any) -> None:
        super().__init__(df=df, scale=scale, **options)

    def _nll(self, prediction: Tensor, target: Tensor, phi: Phi, reduction: str = "none") -> Tensor:
        return functional.student_t_nll(prediction, target, **phi, **self._options(reduction))

    def _distribution(self, prediction: Tensor, phi: Phi) -> Distribution:
        return distributions.StudentT(phi["df"], prediction, phi["scale"])


class HuberLoss(_ScaleLoss):
    r"""Huber's density: :class:`torch.nn.HuberLoss` whose scale learns, so that ``delta`` counts in scales.

    ``delta`` is fixed at 1.345 unless it is given as a parameter too.

    >>> import torch, likely
    >>> loss_fn = likely.HuberLoss()
    >>> loss_fn(torch.zeros(2), torch.tensor([1.0, 10.0]))
    tensor(7.5013, grad_fn=<...>)
    """

    slots: ClassVar[Mapping[str, Slot]] = {"delta": Slot(ShiftedSoftplus(0.01), 1.345), "scale": SCALE}

    def __init__(self, delta: ParameterLike = 1.345, scale: ParameterLike = None, **options: Any) -> None:
        super().__init__(delta=delta, scale=scale, **options)

    def _nll(self, prediction: Tensor, target: Tensor, phi: Phi, reduction: str = "none") -> Tensor:
        return functional.huber_nll(prediction, target, **phi, **self._options(reduction))

    def _distribution(self, prediction: Tensor, phi: Phi) -> Distribution:
        return distributions.Huber(phi["delta"], prediction, phi["scale"])


class RobustLoss(_ScaleLoss):
    r"""Barron's robust likelihood ρ: shape ``alpha`` and ``scale`` learn how much outliers may weigh.

    ``alpha`` moves in (0, 3), as in the paper, and starts at 2, the normal.

    >>> import torch, likely
    >>> loss_fn = likely.RobustLoss(alpha=0.0)   # Cauchy's tails
    >>> loss_fn(torch.zeros(2), torch.tensor([1.0, 30.0]))
    tensor(4.7498, grad_fn=<...>)
    """

    slots: ClassVar[Mapping[str, Slot]] = {
        "alpha": Slot(Interval(0, 3), 2.0, zero_allowed=True),
        "scale": SCALE,
    }

    def __init__(self, alpha: ParameterLike = None, scale: ParameterLike = None, **options: Any) -> None:
        super().__init__(alpha=alpha, scale=scale, **options)

    def _nll(self, prediction: Tensor, target: Tensor, phi: Phi, reduction: str = "none") -> Tensor:
        return functional.robust_nll(prediction, target, **phi, **self._options(reduction))

    def _distribution(self, prediction: Tensor, phi: Phi) -> Distribution:
        return distributions.Robust(phi["alpha"], prediction, phi["scale"])
