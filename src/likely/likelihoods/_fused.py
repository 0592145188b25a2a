"""Likelihoods of a location and a scale by one fused kernel where there is one, else by their formula."""

import math
from typing import Any

import torch
from torch import Tensor

from likely import kernels
from likely._validation import check_not_negative, check_positive, check_reduction, prepare, reduce

Value = Tensor | float
HALF_LOG_2PI = 0.5 * math.log(2 * math.pi)
_CHECKS = {"scale": check_positive, "df": check_positive, "alpha": check_not_negative}


def location_nll(
    kind: str,
    prediction: Tensor,
    target: Tensor,
    constant: float,
    reduction: str,
    validate_args: bool | None,
    **parameters: Value,
) -> Tensor:
    """By one kernel where there is one, else by the formula above."""
    check_reduction(reduction)
    given = dict(parameters)

    def check() -> None:
        for name, value in given.items():
            _CHECKS[name](name, value, validate_args)

    if isinstance(prediction, Tensor):
        dtype = torch.promote_types(prediction.dtype, torch.float32)
        numbers = {k: v for k, v in parameters.items() if not isinstance(v, Tensor)}
        # Not by |=, which torch.compile did not know before 2.7.
        parameters = {**parameters, **{k: prediction.new_full((), v, dtype=dtype) for k, v in numbers.items()}}
    inputs: tuple[Any, ...] = (prediction, target, *parameters.values())
    fused = kernels.applies(*inputs)
    if fused and prediction.device.type == "cpu" and reduction != "none":
        total = kernels.location_nll(kind, *inputs, constant=constant, reduction=reduction)
        # A parameter out of range makes the sum infinite or NaN: only then is a pass over memory to find it well spent.
        if not math.isfinite(total.item()):
            check()
        return total
    check()
    if not fused:
        inputs = prepare(prediction, target, **parameters)
        fused = kernels.applies(*inputs)
    if fused:
        return kernels.location_nll(kind, *inputs, constant=constant, reduction=reduction)
    nll = kernels.PLAIN[kind](*inputs)
    return reduce(nll + constant if constant else nll, reduction)
