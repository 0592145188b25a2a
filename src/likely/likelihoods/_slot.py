"""The parameters that a likelihood has: their constraints, initial values, and places in a batch."""

import math
from collections.abc import Sequence
from typing import NamedTuple

from torch import Tensor, nn
from torch.distributions.transforms import Transform

from likely._validation import check_finite, check_not_negative, check_positive
from likely.constraints import Exp
from likely.likelihoods._start import Moment
from likely.parameters import Fixed, Global, Parameter

ParameterLike = Parameter | float | Tensor | None


class Slot(NamedTuple):
    """The constraint and the default initial value of a likelihood's parameter.

    A fixed number must be positive, or may be zero under ``zero_allowed``; where the constraint allows negative values,
    it is any finite number.

    Args:
        constraint: transform from the real numbers to the values that the parameter may take.
        init: initial value.
        zero_allowed: whether a fixed value may be zero, False by default.
        start: estimate of the initial value from the first training batch; by default (None) it is ``init``.
        default: fixed value of the parameter where none is given; by default (None) it is learned, as ``Global``.

    >>> import likely
    >>> from likely.losses import Slot
    >>> Slot(likely.constraints.Exp(), init=2.0)
    Slot(constraint=Exp(), init=2.0, zero_allowed=False, start=None, default=None)
    """

    constraint: Transform
    init: float
    zero_allowed: bool = False
    start: Moment | None = None
    default: float | None = None


def scale_slot(start: Moment) -> Slot:
    """A scale that starts from the residuals of the first training batch."""
    return Slot(Exp(), 1.0, start=start)


TEMPERATURE = Slot(Exp(), 1.0)


def as_parameter(name: str, value: ParameterLike, slot: Slot) -> Parameter:
    """The parameter of a slot: a number is fixed, None is Global; constraint and initial value are filled in."""
    if isinstance(value, Parameter):
        parameter = value
    elif value is None:
        parameter = Global()
    elif isinstance(value, nn.Parameter):
        raise TypeError(
            f"{name} is an nn.Parameter: use likely.Global(init=…), which keeps it positive while it learns"
        )
    elif isinstance(value, int | float | Tensor):
        parameter = Fixed(value)
    else:
        raise TypeError(f"{name} must be a number or one of likely.Fixed, Global, Data, Predicted; got {value!r}")
    if isinstance(parameter, Fixed) and not slot.constraint.codomain.event_dim:  # vectors are checked by their loss
        signed = getattr(slot.constraint.codomain, "lower_bound", -math.inf) < 0
        check = check_finite if signed else check_not_negative if slot.zero_allowed else check_positive
        check(name, parameter.value, True)
    parameter.settle(name, slot.constraint, slot.init, from_data=slot.start is not None)
    return parameter


def aligned(shape: Sequence[int], parameter: Parameter, outer: Sequence[int]) -> tuple[int, ...]:
    """The shape of a parameter's values with axes added, so that they broadcast to the predictions of their row."""
    batch = shape[: len(shape) - len(parameter.shape)]
    gap = len(outer) - len(shape)
    return (*batch, *(1,) * gap, *parameter.shape) if batch and gap > 0 else tuple(shape)
