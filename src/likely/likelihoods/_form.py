"""From the formula of a density to its functional form: checks, dtypes, constants, reductions and fused kernels."""

import inspect
import math
from collections.abc import Callable, Iterable
from functools import wraps
from typing import Any

import torch
from torch import Tensor

from likely._kernels import PLAIN, applies, location_nll
from likely._validation import (
    check_floating,
    check_not_negative,
    check_positive,
    check_positive_target,
    check_reduction,
    prepare,
    reduce,
)
from likely.likelihoods._fused import Fused

Value = Tensor | Any  # callers pass a number or a tensor; the formula receives a tensor
HALF_LOG_2PI = 0.5 * math.log(2 * math.pi)
Check = Callable[[str, Any, bool | None], None]
Form = Callable[..., Tensor]


def functional_form(
    *,
    constant: float | Callable[[Tensor], Tensor] = 0.0,
    target: Check | None = None,
    log_target: bool = False,
    mean: Check = check_not_negative,
    fused: bool = False,
    double: bool = False,
    **checks: Check,
) -> Callable[[Form], Form]:
    """Decorator that turns the formula of a density into a function ``name_nll(prediction, target, *, parameters)``.

    The formula receives tensors that broadcast, of one dtype that is at least float32, and returns the negative
    log-likelihood of every element without its constant. The decorated function accepts numbers for parameters too, and
    has the options ``reduction``, ``full`` and ``validate_args``. Keywords of the formula whose default is True or
    False are options and passed on unchanged; ``log_input`` tells whether the prediction is the logarithm of a mean.

    Args:
        constant: term that does not depend on a parameter, added under ``full=True``: a number (0 by default), or a
            function of the target.
        target: check of the target's values, ``check(name, values, validate_args)``; None (the default) allows all.
        log_target: whether formula and constant receive the logarithm of the target, which must be positive.
        mean: check of the prediction under ``log_input=False``; by default it must be ≥ 0.
        fused: whether there is a kernel of this name, for a location with a scale and at most one shape.
        double: whether the formula, whose terms cancel, is computed in double precision.
        **checks: checks of parameters by name; a parameter without one must be positive.

    Returns:
        The decorator.

    >>> import torch
    >>> from likely.likelihoods import functional_form
    >>> @functional_form()
    ... def exponential_nll(prediction, target, *, rate):
    ...     return rate * (target - prediction) - rate.log()
    >>> exponential_nll(torch.zeros(2), torch.tensor([1.0, 3.0]), rate=0.5)
    tensor(1.6931)
    """

    def decorate(formula: Form) -> Form:
        first, second, *keywords = (
            p.replace(annotation=Tensor | float) if p.annotation is Value else p  # callers may pass numbers
            for p in inspect.signature(formula).parameters.values()
        )
        if any(p.kind is not p.KEYWORD_ONLY for p in keywords):
            raise TypeError(f"{formula.__name__} must take its parameters by name: (prediction, target, *, …)")
        defaults = {p.name: p.default for p in keywords if p.default is not p.empty}
        options = [name for name, default in defaults.items() if isinstance(default, bool)]
        ranges = {p.name: checks.get(p.name, check_positive) for p in keywords if p.name not in options}
        order = tuple(sorted(ranges, key=lambda name: name != "scale"))  # in which kernels read parameters
        names = {*order, *options}
        check_target = check_positive_target if log_target else target
        kind = formula.__name__.removesuffix("_nll")

        def in_order(prediction: Tensor, target: Tensor, *values: Tensor, **chosen: bool) -> Tensor:
            return formula(prediction, target, **dict(zip(order, values, strict=True)), **chosen)

        def form(
            prediction: Tensor,
            target: Tensor,
            *,
            reduction: str = "mean",
            full: bool = True,
            validate_args: bool | None = None,
            **given: Any,
        ) -> Tensor:
            given = {**defaults, **given}
            if given.keys() != names:
                try:
                    signature.bind(prediction, target, **given)  # raises an error that names what is missing
                except TypeError as error:
                    raise TypeError(f"{formula.__name__}() {error}") from None
            check_reduction(reduction)
            chosen, values = ({name: given[name] for name in some} for some in (options, order))
            inputs: Any = (prediction, target, *_as_tensors(prediction, values.values()))
            added: Any = constant if full else 0.0
            fits_kernel = fused and applies(*inputs)
            if fits_kernel and reduction != "none" and prediction.is_cpu:
                total = location_nll(kind, *inputs, constant=added, reduction=reduction)
                # Values out of range make the sum infinite or NaN: only then is a pass over memory spent to find them.
                if math.isfinite(total.item()):
                    return total
            for name, in_range in ranges.items():
                in_range(name, values[name], validate_args)
            if not chosen.get("log_input", True):
                check_floating("prediction", prediction)
                mean("prediction", prediction, validate_args)
            if check_target:
                check_target("target", target, validate_args)
            if not fits_kernel:
                inputs = prepare(prediction, logarithm(prediction, target) if log_target else target, **values)
            if fits_kernel or (fused and applies(*inputs)):
                return location_nll(kind, *inputs, constant=added, reduction=reduction)
            dtype = inputs[0].dtype
            if double and not inputs[0].is_mps:
                inputs = [part.double() for part in inputs]
            nll = in_order(*inputs, **chosen)
            if added:
                nll = nll + (added(inputs[1]) if callable(added) else added)
            return reduce(nll, reduction).to(dtype)

        general = [p for p in inspect.signature(form).parameters.values() if p.kind is p.KEYWORD_ONLY]
        signature = inspect.Signature([first, second, *keywords, *general])
        named: Any = wraps(formula)(form)
        named.__signature__ = signature
        if fused:
            PLAIN[kind] = in_order
            named.fused = Fused(kind, order, constant)  # type: ignore[arg-type]
        return named

    return decorate


def logarithm(prediction: Tensor, target: Tensor) -> Tensor:
    """The logarithm of the target, in the wider of its own and the prediction's precision."""
    wide = torch.promote_types(prediction.dtype, torch.float32)
    return target.to(torch.promote_types(target.dtype, wide)).log()


def _as_tensors(prediction: Any, values: Iterable[Tensor | float]) -> Iterable[Any]:
    """Numbers as tensors filled on the device; copying them there would make it wait."""
    if not isinstance(prediction, Tensor):  # refused later, by name
        return values
    wide = torch.float32 if prediction.dtype.itemsize < 4 else prediction.dtype
    return [v if isinstance(v, Tensor) else prediction.new_full((), v, dtype=wide) for v in values]
