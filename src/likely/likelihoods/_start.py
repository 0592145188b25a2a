"""Initial values of a likelihood's parameters, estimated from a batch of predictions and targets."""

import math
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from likely._standardize import over_processes
from likely._validation import may_look

_PRIOR_ROWS = 2.0  # rows that the mean over all targets, channels or pixels counts for in the estimate of one of them


def _ones(mean: Tensor, target: Tensor) -> Tensor:
    return torch.ones_like(mean)


class Moment(NamedTuple):
    """An initial value: a function of a ratio of two sums over the elements of a batch.

    >>> import torch
    >>> root_mean_square.estimate(torch.zeros(4, 2), torch.tensor([[3.0, 300.0]] * 4), None, (2,))
    tensor([  6.4633, 139.2477])
    """

    value: Callable[[Tensor], Tensor]
    numerator: Callable[[Tensor, Tensor], Tensor]
    denominator: Callable[[Tensor, Tensor], Tensor] = _ones

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


def power_mean(power: float, unit: float) -> Moment:
    """The scale at which |z| ** power has the mean ``unit``; the lower the power, the less outliers count."""
    return Moment(lambda mean: (mean / unit) ** (1 / power), lambda mean, target: (target - mean).abs().pow(power))


root_mean_square = power_mean(2.0, 1.0)


def half_power(df: float = math.inf) -> Moment:
    """The scale from the mean root of |z|, which outliers hardly change, where z has Student's t distribution."""
    if df == math.inf:
        return power_mean(0.5, 0.8221789586624254)
    log_moment = 0.25 * math.log(df) + math.lgamma(0.75) + math.lgamma((df - 0.5) / 2)
    return power_mean(0.5, math.exp(log_moment - 0.5 * math.log(math.pi) - math.lgamma(df / 2)))


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
