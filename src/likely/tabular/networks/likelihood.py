"""A likelihood of the registry with what its parameters depend on, as a loss of several members at once."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from torch import Tensor, nn

from likely.constraints import Interval
from likely.likelihoods import LIKELIHOODS, Likelihood as Record
from likely.losses import LikelihoodLoss
from likely.parameters import Data, Fixed, Global, Parameter, Predicted
from likely.tabular.networks.modules import MemberLinear

Phi = dict[str, Tensor]  # parameters of a likelihood, by name
UNITS = ("scale", "temperature")  # parameters that a row's error is divided by
SPREADS = (*UNITS, "dispersion", "concentration")
KINDS = ("fixed", "global", "data", "predicted")


class SharedData(Data):
    """One φ per training row, shared by all members, whose batches have the same rows."""

    def forward(self, features: Tensor | None = None, index: Tensor | None = None) -> Tensor:
        """Return φ at an index of shape (members, rows), whose rows are equal."""
        value = super().forward(features, None if index is None else index[0])
        return value[None] if self.training else value


@dataclass(frozen=True)
class NetworkLikelihood:
    """A likelihood, what its parameters depend on, and the additional axes of some."""

    record: Record
    kind: str  # of KINDS
    axes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)

    @classmethod
    def of(cls, name: str, argument: str, kind: str) -> NetworkLikelihood:
        """Make one from an estimator's argument, which says what all parameters depend on."""
        if kind not in KINDS:
            raise ValueError(f"{argument} must be one of {', '.join(KINDS)}; got {kind!r}")
        record = LIKELIHOODS[name]
        return cls(record, kind if record.loss.slots else "fixed")

    @property
    def family(self) -> type[LikelihoodLoss]:
        """The loss module."""
        return self.record.loss

    def at(self, y: Tensor) -> NetworkLikelihood:
        """Return the same with parameters of the shape that these targets need."""
        axes = self.record.parameter_axes
        return self if axes is None else replace(self, axes=axes(y.double().cpu().numpy()))

    def expanded(self, name: str, value: Tensor, shape: tuple[int, ...]) -> Tensor:
        """Expand a parameter to one value per element of ``shape``, followed by its additional axes."""
        return value.expand(*shape, *self.axes.get(name, ()))

    def plain(self) -> NetworkLikelihood:
        """Return the loss for training the mean, before the likelihood's parameters are fitted.

        A scale or a temperature alone does not change the best prediction and is fixed at one; the parameters of a
        likelihood with several do change it, and are learned as constants.
        """
        if self.kind in ("data", "fixed"):
            return self
        only_spread = len(self.family.slots) == 1 and set(self.family.slots) <= set(SPREADS)
        return replace(self, kind="fixed" if only_spread else "global")

    def constant(self) -> NetworkLikelihood:
        """Return the same with one value for all rows of each parameter, unless they are fixed."""
        return self if self.kind == "fixed" else replace(self, kind="global")

    def loss(
        self,
        members: int,
        shape: tuple[int, ...],
        *,
        width: int = 0,
        rows: int = 0,
        start: Mapping[str, Tensor] | None = None,
    ) -> LikelihoodLoss:
        """Return the loss of predictions (members, rows, targets), or of logits (members, classes, rows)."""
        start = start or {}

        def parameter(name: str) -> Parameter:
            slot, full_shape = self.family.slots[name], (*shape, *self.axes.get(name, ()))
            init = start.get(name)
            if isinstance(slot.constraint, Interval) and isinstance(init, Tensor):  # fitted to an end of its range
                low, high = slot.constraint.low, slot.constraint.high
                init = init.clamp(low + 1e-3 * (high - low), high - 1e-3 * (high - low))
            if self.kind == "fixed":
                return Fixed(slot.init)
            if self.kind == "global":
                return Global((members, 1, *full_shape), init=init)
            if self.kind == "data":
                return SharedData(rows, full_shape, fallback="mean", init=init)
            head = MemberLinear(members, width, math.prod(full_shape), gain=0.0)
            return Predicted(width, full_shape, net=head, normalize=False, init=init)

        return self.with_parameters(**{name: parameter(name) for name in self.family.slots})

    def with_parameters(self, **parameters: Any) -> LikelihoodLoss:
        """Return the unreduced loss with these parameters."""
        return self.family(reduction="none", validate_args=False, **parameters)


class NetworkWithLoss(nn.Module):
    """A model and its loss, as one module."""

    def __init__(self, model: nn.Module, loss_fn: LikelihoodLoss) -> None:
        super().__init__()
        self.model, self.loss_fn = model, loss_fn
