"""The fused path of a loss: one kernel, without checks that a batch of the same form has passed before."""

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

from torch import Tensor

from likely import _kernels as kernels
from likely._kernels import Head, Job, has_hooks, is_readable, layout_of
from likely.parameters import Data, Fixed, Global, Parameter, Predicted
from likely.parameters._slot import aligned

Loss = Any  # a likelihood loss, whose class imports this file
Raw = dict[str, Tensor | Head]

_KINDS = (Global, Predicted, Data, Fixed)


class Fused(NamedTuple):
    """The kernel of a functional form: its name, the order in which it reads parameters, and the form's constant.

    ``labels`` tells whether targets are class numbers.
    """

    kind: str
    order: tuple[str, ...]
    constant: float = 0.0
    labels: bool = False


class FusedPath:
    """One per loss: the form of the last batch on this path, and the kernel's arguments for it.

    It is empty in a copy or a pickle of the loss.
    """

    def __init__(self) -> None:
        self.last: tuple[Any, Job | None] = (None, None)

    def __reduce__(self) -> tuple[type["FusedPath"], tuple[()]]:
        return FusedPath, ()

    def run(
        self,
        loss: Loss,
        prediction: Tensor,
        target: Tensor,
        features: Tensor | Mapping[str, Tensor] | None,
        index: Tensor | None,
    ) -> Tensor | None:
        """The loss, or None if the functional form must be taken, to another kernel or to an error that explains.

        The statistics of the features are restored then.
        """
        raw: Raw = {}
        value = None
        try:
            if _read(loss, features, index, raw):
                value = self._by_kernel(loss, prediction, target, raw)
        finally:
            if value is None:
                for name, values in reversed(raw.items()):  # one parameter may occur twice
                    if isinstance(values, Head):
                        loss._modules[name].forget(values)
        return value

    def _by_kernel(self, loss: Loss, prediction: Tensor, target: Tensor, raw: Raw) -> Tensor | None:
        parameters = raw.values()
        for values in parameters:
            if not isinstance(values, Head) and not (is_readable(values) and same_device(values, prediction)):
                return None
        form = (
            prediction.shape,
            target.shape,
            loss.multiplier,
            *loss._options(loss.reduction).values(),
            *[p.shape for p in parameters],
            *[id(loss._modules[name].constraint) for name in raw],
        )
        known, job = self.last
        if form != known:
            job = _new_job(loss, prediction, target, raw)
            self.last = form, job
        if job is None:
            return None
        value = kernels.fused_loss(job, prediction, target, *parameters)
        # One that is not finite is discarded: the functional form explains the cause. A GPU is not waited for.
        return value if value.is_cuda or math.isfinite(value.item()) else None


def _read(loss: Loss, features: Tensor | Mapping[str, Tensor] | None, index: Tensor | None, into: Raw) -> bool:
    """Read the parameters before their constraints, in the kernel's order; False where one of them cannot be."""
    parameters: dict[str, Any] = {name: loss._modules[name] for name in loss._fused.order}
    if not all(map(_open, parameters.values())):
        return False
    if isinstance(features, Mapping) and not features.keys() <= parameters.keys():
        return False
    for name, parameter in parameters.items():
        inputs = features.get(name) if isinstance(features, Mapping) else features
        head = parameter.head(inputs) if isinstance(parameter, Predicted) else None
        if head is None and isinstance(parameter, Predicted) and parameter.training and any(parameter.named_buffers()):
            return False  # its network updates statistics, which the functional form would do a second time
        into[name] = parameter.unconstrained(inputs, index) if head is None else head
    return True


def same_device(first: Tensor, second: Tensor) -> bool:
    """Whether both are on one device; reading ``device`` takes longer than ``is_cpu``."""
    return (first.is_cpu and second.is_cpu) or first.device == second.device


def _open(parameter: Any) -> bool:
    """Whether it is a known kind with raw values, and has no hooks."""
    if type(parameter) not in _KINDS or has_hooks(parameter):
        return False
    return type(parameter) is not Data or (parameter.training and parameter.table.shard is None)


def _new_job(loss: Loss, prediction: Tensor, target: Tensor, raw: Raw) -> Job | None:
    loss._check(prediction, target)
    outer = loss._outer(prediction)
    layouts, steps = [], []
    for name, value in raw.items():
        parameter: Parameter = getattr(loss, name)
        constraint = None if isinstance(parameter, Fixed) else parameter.constraint
        shape = aligned(value.shape, parameter, outer)
        layout = None if shape is None else layout_of(shape, outer, constraint)
        if shape is None or layout is None:
            return None
        layouts.append(layout)
        steps.append((name, constraint, shape))
    nll, options, multiplier = type(loss).nll, loss._options(loss.reduction), loss.multiplier

    def plain(prediction: Tensor, target: Tensor, *values: Tensor) -> Tensor:
        """The same loss of the same tensors, an operation at a time."""
        phi = {
            name: (constraint(value) if constraint else value).reshape(shape)
            for (name, constraint, shape), value in zip(steps, values, strict=True)
        }
        return nll(prediction, target, **phi, **options) * multiplier

    return loss._job(prediction, target, layouts, plain)
