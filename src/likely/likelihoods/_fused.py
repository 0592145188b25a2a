"""Likelihoods of a location and a scale by one fused kernel where there is one, else by their formula."""

import math
from collections.abc import Mapping
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
    """Compute an NLL by its fused kernel where one applies, else by its formula.

    Args:
        kind: name under which the kernels and ``kernels.PLAIN`` know the likelihood.
        prediction: locations.
        target: values to judge, which broadcast with the prediction.
        constant: number to add to every element.
        reduction: ``"mean"``, ``"sum"`` or ``"none"``.
        validate_args: whether to look at tensor values; None: on the CPU only.
        **parameters: scale and shape, numbers or tensors that broadcast, in the order the kernel reads them.

    Returns:
        The NLL, reduced.
    """
    check_reduction(reduction)
    inputs = (prediction, target, *_as_tensors(prediction, parameters))
    fused = kernels.applies(*inputs)
    if fused and reduction != "none" and prediction.device.type == "cpu":
        total = kernels.location_nll(kind, *inputs, constant=constant, reduction=reduction)
        # A parameter out of range makes the sum infinite or NaN: only then is a pass over memory to find it well spent.
        if not math.isfinite(total.item()):
            _check(parameters, validate_args)
        return total
    _check(parameters, validate_args)
    if not fused:
        inputs = prepare(prediction, target, **parameters)
        fused = kernels.applies(*inputs)
    if fused:
        return kernels.location_nll(kind, *inputs, constant=constant, reduction=reduction)
    nll = kernels.PLAIN[kind](*inputs)
    return reduce(nll + constant if constant else nll, reduction)


def _as_tensors(prediction: Any, parameters: Mapping[str, Value]) -> list[Any]:
    """Numbers filled in on the device: copied there, they would make it wait."""
    if not isinstance(prediction, Tensor):  # refused later, by name
        return list(parameters.values())
    dtype = torch.promote_types(prediction.dtype, torch.float32)
    return [v if isinstance(v, Tensor) else prediction.new_full((), v, dtype=dtype) for v in parameters.values()]


def _check(parameters: Mapping[str, Value], validate_args: bool | None) -> None:
    for name, value in parameters.items():
        _CHECKS[name](name, value, validate_args)
