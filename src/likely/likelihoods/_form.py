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

Value = Tensor | Any  # a number or a tensor for whoever calls; the formula is given a tensor
HALF_LOG_2PI = 0.5 * math.log(2 * math.pi)
Check = Callable[[str, Any, bool | None], None]
Formula = TypeVar("Formula", bound=Callable[..., Tensor])


class How(TypedDict, total=False):
    """What every functional form takes besides its parameters; see :mod:`likely.functional`."""

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
    """Make a functional form of the formula of a density, ``name_nll(prediction, target, *, parameters)``.

    The formula is given tensors that broadcast, of one dtype that is at least float32, and returns the negative
    log-likelihood of every element without its constant. The functional form takes numbers for parameters too, and
    ``reduction``, ``full`` and ``validate_args``. Keywords of the formula that are True or False by default are options
    and handed on as they are; ``log_input`` tells whether the prediction is the logarithm of a mean.

    A docstring of the formula that lists its arguments under ``Args:`` gets those three, and ``Returns:``, added.

    Args:
        constant: number, or function of the target, that no parameter moves; ``full=True`` adds it.
        target: check of the target's values, such as ``check_counts``.
        log_target: whether formula and constant are given the logarithm of the target, which must be positive.
        mean: check of the prediction under ``log_input=False``.
        fused: whether :mod:`likely.kernels` has a kernel of this name, for a location with a scale and maybe a shape.
        **checks: checks of parameters by name; a parameter that is not named must be positive.
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
            **given: Any,
        ) -> Tensor:
            chosen = {name: given.pop(name, default) for name, default in options.items()} if options else options
            for name, value in starts.items():
                given.setdefault(name, value)
            if given.keys() != ranges.keys():
                try:
                    signature.bind(prediction, target, **given)  # says what is missing, or too much
                except TypeError as error:
                    raise TypeError(f"{formula.__name__}() {error}") from None
            if kernel:
                return kernel(prediction, target, given, constant if full else 0.0, reduction, validate_args)
            check(given, validate_args)
            if not chosen.get("log_input", True):
                check_floating("prediction", prediction)
                mean("prediction", prediction, validate_args)
            if within:
                within("target", target, validate_args)
            if log_target:
                target = logarithm(prediction, target)
            prediction, target, *values = prepare(prediction, target, **given)
            nll = formula(prediction, target, **dict(zip(given, values, strict=True)), **chosen)
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


_SHARED = """
    reduction: ``"mean"``, ``"sum"`` or ``"none"``.
    full: whether constants that no parameter moves are included.
    validate_args: whether tensor values are checked; by default on the CPU only.

Returns:
    A scalar, or one value per element under ``reduction="none"``."""


def _documented(text: str | None) -> str | None:
    """A docstring whose ``Args`` are complete: what every form takes is written down here, once."""
    start = re.search(r"^( *)Args:$", text or "", re.MULTILINE)
    if text is None or start is None:
        return text
    end = text.find("\n\n", start.end())
    end = len(text.rstrip()) if end < 0 else end
    return text[:end] + textwrap.indent(_SHARED, start.group(1)) + text[end:]


def logarithm(prediction: Tensor, target: Tensor) -> Tensor:
    """The logarithm of the target, in the wider of its own and the prediction's precision."""
    wide = torch.promote_types(prediction.dtype, torch.float32)
    return target.to(torch.promote_types(target.dtype, wide)).log()


def _keywords(formula: Callable[..., Tensor]) -> tuple[dict[str, bool], dict[str, float], list[str]]:
    """Options of a formula, the values that parameters have if nobody says, and the names of all parameters."""
    _, _, *keywords = (p for p in inspect.signature(formula).parameters.values() if p.kind is not p.VAR_KEYWORD)
    if any(p.kind is not p.KEYWORD_ONLY for p in keywords):
        raise TypeError(f"{formula.__name__} must take its parameters by name: (prediction, target, *, …)")
    options = {p.name: p.default for p in keywords if isinstance(p.default, bool)}
    names = [p.name for p in keywords if p.name not in options]
    return options, {p.name: p.default for p in keywords if p.name in names and p.default is not p.empty}, names


def _signature(formula: Callable[..., Tensor], form: Callable[..., Tensor]) -> inspect.Signature:
    """The formula's own arguments, numbers allowed, and then what every form takes."""
    plain, general = inspect.signature(formula), inspect.signature(form, follow_wrapped=False)
    own = [p for p in plain.parameters.values() if p.kind is not p.VAR_KEYWORD]
    own = [p.replace(annotation=Tensor | float) if p.annotation is Value else p for p in own]
    # The general one's annotations are the formula's, by functools.wraps.
    how = [general.parameters[name].replace(annotation=kind) for name, kind in How.__annotations__.items()]
    return plain.replace(parameters=[*own, *how])


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
            # A parameter out of range makes the sum infinite or NaN: only then is a pass over memory to find it well
            # spent.
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
    """Numbers filled in on the device: copied there, they would make it wait."""
    if not isinstance(prediction, Tensor):  # refused later, by name
        return values
    wide = torch.float32 if prediction.dtype.itemsize < 4 else prediction.dtype
    return [v if isinstance(v, Tensor) else prediction.new_full((), v, dtype=wide) for v in values]
