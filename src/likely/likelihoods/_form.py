"""From the formula of a density to its functional form: checks, dtypes, constants, reductions and fused kernels."""

import inspect
import math
from collections.abc import Callable, Mapping, Sequence
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
        rules = _Rules(formula, check_positive_target if log_target else target, log_target, mean, checks)

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
            parameters, options = rules.named(prediction, target, given)
            how: Any = (constant if full else 0.0, reduction, validate_args)
            if fused:
                return rules.by_kernel(prediction, target, parameters, *how)
            return rules.by_formula(prediction, target, parameters, options, *how)

        if fused:
            PLAIN[rules.kind] = rules.in_order
            form.fused = Fused(rules.kind, rules.order, constant)  # type: ignore[attr-defined, arg-type]
        form.__signature__ = rules.signature = _signature(formula, form)  # type: ignore[attr-defined]
        return form  # type: ignore[return-value]

    return decorate


class _Rules:
    """How a formula is computed: its parameters and options, what is checked, and by which way."""

    signature: inspect.Signature

    def __init__(
        self,
        formula: Callable[..., Tensor],
        target: Check | None,
        log_target: bool,
        mean: Check,
        checks: Mapping[str, Check],
    ) -> None:
        self.formula, self.target, self.log_target, self.mean = formula, target, log_target, mean
        self.options, self.starts, names = _keywords(formula)
        self.ranges = {name: checks.get(name, check_positive) for name in names}
        self.order = tuple(sorted(names, key=lambda name: name != "scale"))  # in which kernels read parameters
        self.kind = formula.__name__.removesuffix("_nll")

    def named(self, prediction: Tensor, target: Tensor, given: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
        """Parameters and options by name, with defaults."""
        options = {name: given.pop(name, default) for name, default in self.options.items()}
        for name, value in self.starts.items():
            given.setdefault(name, value)
        if given.keys() != self.ranges.keys():
            try:
                self.signature.bind(prediction, target, **given)  # raises an error that names what is missing
            except TypeError as error:
                raise TypeError(f"{self.formula.__name__}() {error}") from None
        return given, options

    def check(self, parameters: Mapping[str, Any], validate_args: bool | None) -> None:
        """Raise an error if a parameter is out of range."""
        for name, in_range in self.ranges.items():
            in_range(name, parameters[name], validate_args)

    def in_order(self, prediction: Tensor, target: Tensor, *values: Tensor) -> Tensor:
        """The NLL of every element without constants, of parameters in the order of kernels."""
        return self.formula(prediction, target, **dict(zip(self.order, values, strict=True)))

    def by_formula(
        self,
        prediction: Tensor,
        target: Tensor,
        parameters: Mapping[str, Any],
        options: Mapping[str, Any],
        constant: float | Callable[[Tensor], Tensor],
        reduction: str,
        validate_args: bool | None,
    ) -> Tensor:
        """The NLL by torch's operations."""
        self.check(parameters, validate_args)
        if not options.get("log_input", True):
            check_floating("prediction", prediction)
            self.mean("prediction", prediction, validate_args)
        if self.target:
            self.target("target", target, validate_args)
        if self.log_target:
            target = logarithm(prediction, target)
        prediction, target, *values = prepare(prediction, target, **parameters)
        nll = self.formula(prediction, target, **dict(zip(parameters, values, strict=True)), **options)
        return reduce(_with_constant(nll, constant, target), reduction)

    def by_kernel(
        self,
        prediction: Tensor,
        target: Tensor,
        parameters: Mapping[str, Any],
        constant: float,
        reduction: str,
        validate_args: bool | None,
    ) -> Tensor:
        """The NLL by its fused kernel where that applies, else by torch's operations."""
        check_reduction(reduction)
        inputs = (prediction, target, *_as_tensors(prediction, [parameters[name] for name in self.order]))
        fused = applies(*inputs)
        if fused and reduction != "none" and prediction.is_cpu:
            total = location_nll(self.kind, *inputs, constant=constant, reduction=reduction)
            # A parameter out of range makes the sum infinite or NaN: only then is a pass over memory spent to find it.
            if not math.isfinite(total.item()):
                self.check(parameters, validate_args)
            return total
        self.check(parameters, validate_args)
        if not fused:
            inputs = prepare(prediction, target, **{name: parameters[name] for name in self.order})
            fused = applies(*inputs)
        if fused:
            return location_nll(self.kind, *inputs, constant=constant, reduction=reduction)
        return reduce(_with_constant(self.in_order(*inputs), constant, target), reduction)


def _with_constant(nll: Tensor, constant: float | Callable[[Tensor], Tensor], target: Tensor) -> Tensor:
    if not constant:
        return nll
    return nll + (constant(target) if callable(constant) else constant)


def logarithm(prediction: Tensor, target: Tensor) -> Tensor:
    """The logarithm of the target, in the wider of its own and the prediction's precision."""
    wide = torch.promote_types(prediction.dtype, torch.float32)
    return target.to(torch.promote_types(target.dtype, wide)).log()


def _keywords(formula: Callable[..., Tensor]) -> tuple[dict[str, bool], dict[str, float], list[str]]:
    """Options of a formula, default values of parameters, and the names of all parameters."""
    _, _, *keywords = (p for p in inspect.signature(formula).parameters.values() if p.kind is not p.VAR_KEYWORD)
    if any(p.kind is not p.KEYWORD_ONLY for p in keywords):
        raise TypeError(f"{formula.__name__} must take its parameters by name: (prediction, target, *, …)")
    options = {p.name: p.default for p in keywords if isinstance(p.default, bool)}
    names = [p.name for p in keywords if p.name not in options]
    return options, {p.name: p.default for p in keywords if p.name in names and p.default is not p.empty}, names


def _signature(formula: Callable[..., Tensor], form: Callable[..., Tensor]) -> inspect.Signature:
    """The arguments of the formula, numbers allowed, followed by the options of every form."""
    plain, general = inspect.signature(formula), inspect.signature(form, follow_wrapped=False)
    parameters = [p for p in plain.parameters.values() if p.kind is not p.VAR_KEYWORD]
    parameters = [p.replace(annotation=Tensor | float) if p.annotation is Value else p for p in parameters]
    # The general one's annotations are the formula's, by functools.wraps.
    how = [general.parameters[name].replace(annotation=kind) for name, kind in How.__annotations__.items()]
    return plain.replace(parameters=[*parameters, *how])


def _as_tensors(prediction: Any, values: Sequence[Tensor | float]) -> Sequence[Any]:
    """Numbers as tensors filled on the device; copying them there would make it wait."""
    if not isinstance(prediction, Tensor):  # refused later, by name
        return values
    wide = torch.float32 if prediction.dtype.itemsize < 4 else prediction.dtype
    return [v if isinstance(v, Tensor) else prediction.new_full((), v, dtype=wide) for v in values]
