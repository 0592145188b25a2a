"""A likelihood of the registry and what its parameters depend on, made into a loss for several members at once."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from torch import Tensor, nn
from torch.distributions.transforms import AffineTransform, ComposeTransform

from likely.constraints import ShiftedSoftplus
from likely.likelihoods import LIKELIHOODS
from likely.likelihoods import Likelihood as Record
from likely.losses import LikelihoodLoss
from likely.parameters import Data, Fixed, Global, Parameter, Predicted
from likely.tabular._members import MemberLinear

UNITS = ("scale", "temperature")  # what a row's error is measured in
SPREADS = (*UNITS, "dispersion", "concentration")
KINDS = ("fixed", "global", "data", "predicted")


class SharedData(Data):
    """One φ a training row, the same for all members, which see the same rows at a time."""

    def forward(self, features: Tensor | None = None, index: Tensor | None = None) -> Tensor:
        """Of an index with a row for each member."""
        value = super().forward(features, None if index is None else index[0])
        return value[None] if self.training else value


@dataclass(frozen=True)
class Likelihood:
    """A likelihood, the kind of each of its parameters, and the further axes that some have."""

    record: Record
    kinds: Mapping[str, str]
    axes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)

    @classmethod
    def of(cls, name: str, **kinds: Any) -> Likelihood:
        """Read the arguments of an estimator: what the spread (scale, temperature) and the shape depend on."""
        for argument, kind in kinds.items():
            if kind not in KINDS:
                raise ValueError(f"{argument} must be one of {', '.join(KINDS)}; got {kind!r}")
        spread, shape = (*kinds.values(), None)[:2]
        record = LIKELIHOODS[name]
        return cls(record, {slot: spread if slot in SPREADS else shape for slot in record.loss.slots})

    @property
    def family(self) -> type[LikelihoodLoss]:
        """The loss module."""
        return self.record.loss

    def at(self, y: Tensor) -> Likelihood:
        """The same with parameters in the shape that these targets need."""
        axes = self.record.parameter_axes
        return self if axes is None else replace(self, axes=axes(y.double().cpu().numpy()))

    def expanded(self, name: str, value: Tensor, shape: tuple[int, ...]) -> Tensor:
        """A parameter with one value for each element of ``shape``, its further axes behind."""
        return value.expand(*shape, *self.axes.get(name, ()))

    def having(self, kind: str) -> list[str]:
        """The parameters of a kind."""
        return [name for name, own in self.kinds.items() if own == kind]

    def plain(self) -> Likelihood:
        """What trains a model before its parameters are looked at: the familiar loss.

        A scale or a temperature alone does not move the best prediction, and may stay at one. Tails do.
        """
        kind = "fixed" if len(self.family.slots) == 1 and set(self.family.slots) <= set(SPREADS) else "global"
        return replace(self, kinds={n: k if k in ("data", "fixed") else kind for n, k in self.kinds.items()})

    def constant(self) -> Likelihood:
        """One value for all rows, where it is not fixed."""
        return replace(self, kinds={n: k if k == "fixed" else "global" for n, k in self.kinds.items()})

    def undata(self) -> Likelihood:
        """One value for all rows where each training row had its own: new rows have none."""
        return replace(self, kinds={n: "global" if k == "data" else k for n, k in self.kinds.items()})

    def loss(
        self,
        members: int,
        shape: tuple[int, ...],
        *,
        width: int = 0,
        rows: int = 0,
        isolated: bool = False,
        start: Mapping[str, Tensor] | None = None,
        relative: float | None = None,
        **options: Any,
    ) -> LikelihoodLoss:
        """The loss of predictions (members, rows, targets), or of logits (members, classes, rows).

        ``shape`` is that of one row's parameter, ``width`` the features' that predicted ones read, ``rows`` the
        number of rows that have one of their own. A ``relative`` offset lets scales and temperatures count from
        their start, so that its size sets no floor.
        """
        start = start or {}

        def parameter(name: str, kind: str) -> Parameter:
            own, init = (*shape, *self.axes.get(name, ())), start.get(name)
            options: dict[str, Any] = {"init": init}
            if relative is not None and init is not None and name in UNITS:
                options["constraint"] = ComposeTransform([ShiftedSoftplus(relative), AffineTransform(0.0, init)])
            if kind == "fixed":
                return Fixed(self.family.slots[name].init)
            if kind == "global":
                return Global((members, 1, *own), **options)
            if kind == "data":
                return SharedData(rows, own, fallback="mean", **options)
            head = MemberLinear(members, width, math.prod(own), gain=0.0)
            return Predicted(width, own, net=head, normalize=False, isolated=isolated, **options)

        parameters = {name: parameter(name, kind) for name, kind in self.kinds.items()}
        return self.made(**parameters, **options)

    def made(self, **parameters: Any) -> LikelihoodLoss:
        """The loss with these parameters, one number an element."""
        return self.family(reduction="none", validate_args=False, **parameters)


class Fitted(nn.Module):
    """All that learns: a model and its loss."""

    def __init__(self, model: nn.Module, loss_fn: LikelihoodLoss) -> None:
        super().__init__()
        self.model, self.loss_fn = model, loss_fn
