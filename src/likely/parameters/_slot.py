"""The parameters that a likelihood has: constraints, values to start from or fit, and places in a batch."""

import copy
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.distributions.transforms import Transform

from likely._standardize import over_processes
from likely._validation import check_finite, check_not_negative, check_positive, fits, may_look
from likely.constraints import Exp
from likely.parameters import Fixed, Global, Parameter

_PRIOR_ROWS = 2.0  # rows that the mean over all targets, channels or pixels counts for in the estimate of one of them


class Moment(NamedTuple):
    """An initial value: a function of a ratio of two sums over the elements of a batch.

    >>> import torch
    >>> root_mean_square.estimate(torch.zeros(4, 2), torch.tensor([[3.0, 300.0]] * 4), None, (2,))
    tensor([  6.4633, 139.2477])
    """

    value: Callable[[Tensor], Tensor]
    numerator: Callable[[Tensor, Tensor], Tensor]
    denominator: Callable[[Tensor, Tensor], Tensor] = lambda mean, target: torch.ones_like(mean)

    def estimate(self, mean: Tensor, target: Tensor, weight: Tensor | None, shape: tuple[int, ...]) -> Tensor:
        """Return one positive value per element of a parameter, or NaN if the batch gives none.

        With few rows, the values of a parameter with several elements are pulled towards their geometric mean.
        """
        counted = torch.ones_like(mean) if weight is None else weight.to(mean.dtype).expand_as(mean)
        terms = (self.numerator(mean, target), self.denominator(mean, target), torch.ones_like(mean))
        within = (1,) * (mean.ndim - len(shape)) + shape
        # Rows of weight zero take no part, whatever they hold.
        sums = [torch.where(counted > 0, term * counted, 0.0).sum_to_size(within).flatten() for term in terms]
        above, below, count = over_processes(*sums)
        logs = self.value(above / below).log()
        known = logs.isfinite()
        common = torch.where(known, logs, 0.0).sum() / known.sum()
        own_share = count / (count + _PRIOR_ROWS)
        return torch.where(known, common + own_share * (logs - common), common).exp().reshape(shape)


# What follows holds its numbers in its code: a number that a function closes over, and that differs between two losses
# of a process, is an input of the graph of the second to torch.compile, which CUDA kernels of torch 2.11 cannot read.


def absolute_error(mean: Tensor, target: Tensor) -> Tensor:
    """The term of a mean absolute error."""
    return (target - mean).abs()


def root_error(mean: Tensor, target: Tensor) -> Tensor:
    """The term of a mean root of errors, which outliers hardly change."""
    return (target - mean).abs().sqrt()


root_mean_square = Moment(torch.sqrt, lambda mean, target: (target - mean).square())
mean_absolute = Moment(lambda mean: mean, absolute_error)
# The mean of √|z| is .822 where z is normal, .899 where it has Student's t distribution with 4 degrees of freedom, and
# .999 where it has Barron's with α = 1.
half_power = Moment(lambda mean: (mean / 0.8221789586624254).square(), root_error)
half_power_of_rho1 = Moment(lambda mean: (mean / 0.9987123581126054).square(), root_error)
half_power_of_t4 = Moment(lambda mean: (mean / 0.8986051760516939).square(), root_error)


def may_start(prediction: Tensor) -> bool:
    """Whether parameters may be set here: not without gradients or values, under ``torch.func``, in a trace or export.

    While a CUDA graph is captured, in which no value can be read, it raises an error.
    """
    if torch.compiler.is_compiling():
        return torch.is_grad_enabled() and torch.compiler.is_dynamo_compiling()  # else it is exported
    if not may_look(prediction, True) or not torch.is_grad_enabled():
        return False
    if prediction.is_cuda and torch.cuda.is_current_stream_capturing():
        raise RuntimeError(
            "the loss starts its parameters from the first batch, which a CUDA graph cannot: before the capture, run a "
            "step or call loss_fn.start(prediction, target)"
        )
    return True


def fit_shared(loss: Any, batches: Iterable[Any]) -> None:
    """Set the Global parameters where the mean NLL of all batches is lowest; each batch is a pair or a mapping."""
    shared = [name for name in loss.slots if isinstance(getattr(loss, name), Global)]
    rows = _joined(batches)
    if not shared:
        return
    twin = copy.deepcopy(loss).double().eval().requires_grad_(False)
    twin.reduction, twin.multiplier, twin.validate_args = "mean", 1.0, False
    twin.start(rows["prediction"], rows["target"], sample_weight=rows.get("sample_weight"))
    raw = [getattr(twin, name).raw.requires_grad_() for name in shared]
    optimizer = torch.optim.LBFGS(
        raw, max_iter=500, tolerance_grad=1e-10, tolerance_change=1e-14, line_search_fn="strong_wolfe"
    )

    def closure() -> Tensor:
        optimizer.zero_grad()
        value: Tensor = twin(**rows)
        value.backward()
        return value

    optimizer.step(closure)
    for name, values in zip(shared, raw, strict=True):
        getattr(loss, name).begin_at(values)


def _joined(batches: Iterable[Any]) -> dict[str, Tensor]:
    """All batches as one, in double precision."""
    named = [
        batch if isinstance(batch, Mapping) else dict(zip(("prediction", "target"), batch, strict=True))
        for batch in batches
    ]
    if not named:
        raise ValueError("calibrate needs batches of (prediction, target), such as ((model(x), y) for x, y in loader)")
    joined = {name: torch.cat([batch[name].detach() for batch in named]) for name in named[0]}
    return {name: value.double() if value.is_floating_point() else value for name, value in joined.items()}


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


def aligned(shape: Sequence[int], parameter: Parameter, outer: torch.Size) -> tuple[int, ...] | None:
    """The shape of a parameter's values with axes added, so that they broadcast to the predictions of their row.

    None if they do not; the values of one row are not taken for those of all.
    """
    batch = shape[: len(shape) - len(parameter.shape)]
    gap = len(outer) - len(shape)
    shape = (*batch, *(1,) * gap, *parameter.shape) if batch and gap > 0 else tuple(shape)
    return shape if fits(shape, outer) and (len(batch) != 1 or batch == outer[:1]) else None
