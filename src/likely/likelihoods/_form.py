"""From the formula of a density to its functional form: checks, dtypes, constants, reductions and fused kernels."""

import inspect
import math
from collections.abc import Callable, Iterable, Mapping
from functools import wraps
from typing import Any, TypedDict, TypeVar

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
Formula = TypeVar("Formula", bound=Callable[..., Tensor])


class How(TypedDict, total=False):
    """Options that every functional form has besides its parameters."""

    reduction: str
    full: bool
    validate_args: bool | None


def functional_form(
    *,
    constant: float | Callable[[Tensor], Tensor] = 0.0,
    target: Check | None = None,
    log_target: bool = False,
    mean: Check = check_not_negative,
    fused: bool = False,
    **checks: Check,
) -> Callable[[Formula], Formula]:
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

    def decorate(formula: Formula) -> Formula:
        rules = _Rules(formula, check_positive_target if log_target else target, log_target, mean, fused, checks)

        @wraps(formula)
        def form(
            prediction: Tensor,
            target: Tensor,
            *,
            reduction: str = "mean",
            full: bool = True,
            validate_args: bool | None = None,
            **given: Any,
        ) -> Tensor:
            return rules.nll(prediction, target, given, constant if full else 0.0, reduction, validate_args)

        if fused:
            PLAIN[rules.kind] = rules.in_order
            form.fused = Fused(rules.kind, rules.order, constant)  # type: ignore[attr-defined, arg-type]
        # The annotations of the general form are the formula's, by functools.wraps.
        general = inspect.signature(form, follow_wrapped=False).parameters
        how = [general[name].replace(annotation=kind) for name, kind in How.__annotations__.items()]
        form.__signature__ = inspect.Signature([*rules.signature.parameters.values(), *how])  # type: ignore[attr-defined]
        return form  # type: ignore[return-value]

    return decorate


class _Rules:
    """How a formula is computed: its parameters and options, what is checked, and by which way."""

    def __init__(
        self,
        formula: Callable[..., Tensor],
        target: Check | None,
        log_target: bool,
        mean: Check,
        fused: bool,
        checks: Mapping[str, Check],
    ) -> None:
        self.formula, self.target, self.log_target, self.mean, self.fused = formula, target, log_target, mean, fused
        first, second, *keywords = (
            p.replace(annotation=Tensor | float) if p.annotation is Value else p  # callers may pass numbers
            for p in inspect.signature(formula).parameters.values()
            if p.kind is not p.VAR_KEYWORD
        )
        if any(p.kind is not p.KEYWORD_ONLY for p in keywords):
            raise TypeError(f"{formula.__name__} must take its parameters by name: (prediction, target, *, …)")
        self.signature = inspect.Signature([first, second, *keywords])
        self.defaults = {p.name: p.default for p in keywords if p.default is not p.empty}
        self.options = [name for name, default in self.defaults.items() if isinstance(default, bool)]
        self.ranges = {p.name: checks.get(p.name, check_positive) for p in keywords if p.name not in self.options}
        self.order = tuple(sorted(self.ranges, key=lambda name: name != "scale"))  # in which kernels read parameters
        self.kind = formula.__name__.removesuffix("_nll")

    def in_order(self, prediction: Tensor, target: Tensor, *values: Tensor, **options: Any) -> Tensor:
        """The NLL of every element without constants, of parameters in the order of kernels."""
        return self.formula(prediction, target, **dict(zip(self.order, values, strict=True)), **options)

    def nll(
        self,
        prediction: Tensor,
        target: Tensor,
        given: dict[str, Any],
        constant: Any,
        reduction: str,
        validate_args: bool | None,
    ) -> Tensor:
        """The NLL by its fused kernel where that applies, else by torch's operations."""
        given = {**self.defaults, **given}
        if given.keys() != {*self.order, *self.options}:
            try:
                self.signature.bind(prediction, target, **given)  # raises an error that names what is missing
            except TypeError as error:
                raise TypeError(f"{self.formula.__name__}() {error}") from None
        check_reduction(reduction)
        options = {name: given[name] for name in self.options}
        values = {name: given[name] for name in self.order}
        inputs: Any = (prediction, target, *_as_tensors(prediction, values.values()))
        fused = self.fused and applies(*inputs)
        if fused and reduction != "none" and prediction.is_cpu:
            total = location_nll(self.kind, *inputs, constant=constant, reduction=reduction)
            # A parameter out of range makes the sum infinite or NaN: only then is a pass over memory spent to find it.
            if math.isfinite(total.item()):
                return total
        for name, in_range in self.ranges.items():
            in_range(name, values[name], validate_args)
        if not options.get("log_input", True):
            check_floating("prediction", prediction)
            self.mean("prediction", prediction, validate_args)
        if self.target:
            self.target("target", target, validate_args)
        if not fused:
            inputs = prepare(prediction, logarithm(prediction, target) if self.log_target else target, **values)
        if fused or (self.fused and applies(*inputs)):
            return location_nll(self.kind, *inputs, constant=constant, reduction=reduction)
        nll = self.in_order(*inputs, **options)
        if constant:
            nll = nll + (constant(inputs[1]) if callable(constant) else constant)
        return reduce(nll, reduction)


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
