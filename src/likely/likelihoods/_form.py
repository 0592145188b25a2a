"""From the formula of a density to its functional form: checks, dtypes, constants, reductions and fused kernels."""

import inspect
import math
import re
import textwrap
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from typing import Any, TypedDict, TypeVar

import torch
from torch import Tensor

from likely import kernels
from likely._validation import (
    check_floating,
    check_not_negative,
    check_positive,
    check_positive_target,
    check_reduction,
    prepare,
    reduce,
)
from likely.likelihoods._short import Fused

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

    If the formula's docstring has a section ``Args``, the three options are added to it (in place of an entry
    ``**how``), and what is returned and raised.

    >>> import torch
    >>> from likely.likelihoods import functional_form
    >>> @functional_form()
    ... def exponential_nll(prediction, target, *, rate):
    ...     return rate * (target - prediction) - rate.log()
    >>> exponential_nll(torch.zeros(2), torch.tensor([1.0, 3.0]), rate=0.5)
    tensor(1.6931)
    """

    def decorate(formula: Formula) -> Formula:
        options, starts, names = _keywords(formula)
        ranges = {name: checks.get(name, check_positive) for name in names}

        def check(parameters: Mapping[str, Tensor | float], validate_args: bool | None) -> None:
            for name, in_range in ranges.items():
                in_range(name, parameters[name], validate_args)

        kernel = _kernel(formula, names, check) if fused else None

        @wraps(formula)
        def form(
            prediction: Tensor,
            target: Tensor,
            *,
            reduction: str = "mean",
            full: bool = True,
            validate_args: bool | None = None,
            **parameters: Any,
        ) -> Tensor:
            chosen = {name: parameters.pop(name, default) for name, default in options.items()} if options else options
            for name, value in starts.items():
                parameters.setdefault(name, value)
            if parameters.keys() != ranges.keys():
                try:
                    signature.bind(prediction, target, **parameters)  # raises an error that names what is missing
                except TypeError as error:
                    raise TypeError(f"{formula.__name__}() {error}") from None
            if kernel:
                return kernel(prediction, target, parameters, constant if full else 0.0, reduction, validate_args)
            check(parameters, validate_args)
            if not chosen.get("log_input", True):
                check_floating("prediction", prediction)
                mean("prediction", prediction, validate_args)
            if within:
                within("target", target, validate_args)
            if log_target:
                target = logarithm(prediction, target)
            prediction, target, *values = prepare(prediction, target, **parameters)
            nll = formula(prediction, target, **dict(zip(parameters, values, strict=True)), **chosen)
            if full and constant:
                nll = nll + (constant(target) if callable(constant) else constant)
            return reduce(nll, reduction)

        if kernel:
            form.fused = Fused(formula.__name__.removesuffix("_nll"), kernel_order(names), constant)  # type: ignore[attr-defined, arg-type]
        form.__signature__ = signature = _signature(formula, form)  # type: ignore[attr-defined]
        form.__doc__ = _documented(formula.__doc__)
        return form  # type: ignore[return-value]

    within = check_positive_target if log_target else target
    return decorate


_OPTIONS = """
    reduction: ``"mean"`` (the default), ``"sum"`` or ``"none"``.
    full: whether terms that do not depend on any parameter are included; ``True`` by default.
    validate_args: whether tensor values are checked; by default (None) on the CPU only."""
_RETURNS = """
Returns:
    A scalar, or one value per element under ``reduction="none"``."""
_RAISES = """
Raises:
    ValueError: shapes do not broadcast, a value is out of range, or the reduction is unknown."""


def _documented(text: str | None) -> str | None:
    """Complete a docstring that has a section ``Args``: what all forms share is written here, once."""
    start = re.search(r"^( *)Args:$", text or "", re.MULTILINE)
    if text is None or start is None:
        return text
    options, returns, raises = (textwrap.indent(part, start[1]) for part in (_OPTIONS, _RETURNS, _RAISES))
    sections = text.rstrip().split("\n\n")
    args = next(place for place, section in enumerate(sections) if section.lstrip("\n").startswith(start[0]))
    sections[args] = re.sub(r"\n *\*\*how: .*", "", sections[args]) + options
    if f"\n{start[1]}Returns:\n" in text:
        args += 1
    else:
        sections[args] += "\n" + returns
    sections[args] += "\n" + raises
    return "\n\n".join(sections) + f"\n{start[1]}"


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


def kernel_order(names: Sequence[str]) -> tuple[str, ...]:
    """Parameters in the order in which kernels read them."""
    return tuple(sorted(names, key=lambda name: name != "scale"))


def _kernel(formula: Callable[..., Tensor], names: Sequence[str], check: Callable[..., None]) -> Callable[..., Tensor]:
    """The likelihood of a location and a scale by its fused kernel where that applies, else by its formula."""
    kind = formula.__name__.removesuffix("_nll")
    order = kernel_order(names)

    def plain(prediction: Tensor, target: Tensor, *values: Tensor) -> Tensor:
        return formula(prediction, target, **dict(zip(order, values, strict=True)))

    def by_kernel(
        prediction: Tensor,
        target: Tensor,
        parameters: Mapping[str, Tensor | float],
        constant: float,
        reduction: str,
        validate_args: bool | None,
    ) -> Tensor:
        check_reduction(reduction)
        values = [parameters[name] for name in order]
        inputs = (prediction, target, *_as_tensors(prediction, values))
        fused = kernels.applies(*inputs)
        if fused and reduction != "none" and prediction.device.type == "cpu":
            total = kernels.location_nll(kind, *inputs, constant=constant, reduction=reduction)
            # A parameter out of range makes the sum infinite or NaN: only then is a pass over memory spent to find it.
            if not math.isfinite(total.item()):
                check(parameters, validate_args)
            return total
        check(parameters, validate_args)
        if not fused:
            inputs = prepare(prediction, target, **dict(zip(order, values, strict=True)))
            fused = kernels.applies(*inputs)
        if fused:
            return kernels.location_nll(kind, *inputs, constant=constant, reduction=reduction)
        nll = plain(*inputs)
        return reduce(nll + constant if constant else nll, reduction)

    kernels.PLAIN[kind] = plain
    return by_kernel


def _as_tensors(prediction: Any, values: Sequence[Tensor | float]) -> Sequence[Any]:
    """Numbers as tensors filled on the device; copying them there would make it wait."""
    if not isinstance(prediction, Tensor):  # refused later, by name
        return values
    wide = torch.float32 if prediction.dtype.itemsize < 4 else prediction.dtype
    return [v if isinstance(v, Tensor) else prediction.new_full((), v, dtype=wide) for v in values]
