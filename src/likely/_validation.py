"""What can go wrong with an argument, said in one line that names it and the remedy.

Shapes, dtypes and Python numbers are always checked. Tensor values are looked at on the CPU only, or anywhere
under ``validate_args=True``: elsewhere the look would make the device wait. Under ``torch.func``, ``torch.compile``
and tracing a tensor stands for many, and no value is looked at.
"""

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor

REDUCTIONS = ("mean", "sum", "none")


def may_look(tensor: Tensor, validate_args: bool | None) -> bool:
    """Whether the values of ``tensor`` may be inspected here."""
    if torch.compiler.is_compiling() or tensor.is_meta:
        return False
    if torch._C._are_functorch_transforms_active() or torch._C._get_tracing_state():
        return False
    return tensor.device.type == "cpu" if validate_args is None else validate_args


def under_torch_func() -> bool:
    """Whether a transform of ``torch.func`` is at work, in which a tensor may stand for a whole batch of them."""
    return not torch.compiler.is_compiling() and torch._C._are_functorch_transforms_active()


def unscriptable(module: object) -> TypeError:
    """What ``torch.jit.script`` is answered, by the hook it calls before it compiles a module."""
    return TypeError(
        f"torch.jit.script cannot compile {type(module).__name__}: trace it (torch.jit.trace), export it "
        "(torch.export) or compile it (torch.compile)"
    )


def check_reduction(reduction: str) -> None:
    if reduction not in REDUCTIONS:
        raise ValueError(f"reduction must be one of {', '.join(REDUCTIONS)}; got {reduction!r}")


def check_floating(name: str, tensor: Tensor) -> None:
    check_real(name, tensor)
    if not tensor.is_floating_point():
        raise TypeError(f"{name} must be floating point, got {tensor.dtype}: call {name}.float()")


def check_real(name: str, tensor: Tensor) -> None:
    if not isinstance(tensor, Tensor):
        raise TypeError(f"{name} must be a tensor, got {type(tensor).__name__}: wrap it in torch.as_tensor")
    if tensor.is_complex():
        raise TypeError(
            f"{name} must be real, got {tensor.dtype}: give real and imaginary parts, torch.view_as_real({name})"
        )


def check_same_shape(prediction: Tensor, target: Tensor) -> None:
    if prediction.shape != target.shape:
        raise ValueError(
            f"prediction has shape {tuple(prediction.shape)} and target {tuple(target.shape)}: "
            "reshape one to the other, because broadcasting would pair the wrong rows"
        )


def broadcast(**tensors: Tensor) -> tuple[Tensor, ...]:
    try:
        return tuple(torch.broadcast_tensors(*tensors.values()))
    except RuntimeError:
        shapes = ", ".join(f"{name} {tuple(t.shape)}" for name, t in tensors.items())
        raise ValueError(f"these shapes do not broadcast: {shapes}") from None


def fits(shape: tuple[int, ...], into: torch.Size) -> bool:
    """Whether ``shape`` broadcasts to ``into`` without enlarging it."""
    extra = len(into) - len(shape)
    return extra >= 0 and all(a in (1, b) for a, b in zip(shape, into[extra:], strict=True))


def _check_within(
    name: str, value: Tensor, validate_args: bool | None = None, *, low: float, high: float, rule: str
) -> None:
    check_real(name, value)
    if value.dtype == torch.bool or not value.numel() or not may_look(value, validate_args):
        return
    lowest, highest = (end.item() for end in value.detach().aminmax())
    if not low <= lowest <= highest <= high:
        if lowest != lowest:
            raise ValueError(f"{name} holds NaN: leave those rows out")
        raise ValueError(f"{name} must {rule}; got {lowest:.6g} to {highest:.6g}")


# Counts may be other than whole numbers, as torch's Poisson loss leaves it; shares are labels or probabilities.
check_weights = check_counts = partial(_check_within, low=0.0, high=math.inf, rule="be ≥ 0 everywhere")
check_positive_target = partial(_check_within, low=math.ulp(0.0), high=math.inf, rule="be > 0 everywhere")
check_shares = partial(_check_within, low=-1e-6, high=1 + 1e-6, rule="lie in [0, 1]")  # up to rounding


def _check_above(
    name: str,
    value: float | Tensor,
    validate_args: bool | None = None,
    *,
    rule: str,
    holds: Callable[[float | Tensor], bool | Tensor],
) -> None:
    if not isinstance(value, Tensor):
        if not holds(value):
            raise ValueError(f"{name} must be {rule}, got {value}")
    elif value.is_complex():
        check_real(name, value)
    elif value.numel() and may_look(value, validate_args) and not bool(holds(value.detach().min())):
        _refuse_nan(name, value)
        lowest = value.min().item()
        remedy = (
            ": if these are logarithms of variances, pass (log_variance / 2).exp()"
            if name == "scale" and lowest < 0
            else ""
        )
        raise ValueError(f"{name} must be {rule} everywhere, got {lowest:.6g}{remedy}")


def _refuse_nan(name: str, value: Tensor) -> None:
    if bool(value.isnan().any()):
        raise ValueError(
            f"{name} holds NaN: lower its learning rate, clip its gradients (likely.clip_gradients) "
            "or look for NaN in the input"
        )


check_positive = partial(_check_above, rule="> 0", holds=lambda x: x > 0)
check_not_negative = partial(_check_above, rule="≥ 0", holds=lambda x: x >= 0)


def check_finite(name: str, value: float | Tensor, validate_args: bool | None = None) -> None:
    """Whether a parameter of either sign is a number at all."""
    if not isinstance(value, Tensor):
        if not math.isfinite(value):
            raise ValueError(f"{name} must be finite, got {value}")
    elif value.is_complex():
        check_real(name, value)
    elif value.numel() and may_look(value, validate_args) and not bool(value.detach().isfinite().all()):
        _refuse_nan(name, value)
        raise ValueError(f"{name} must be finite everywhere, got {value.min().item():.6g} to {value.max().item():.6g}")


def check_index(index: Tensor | None, rows: int, validate_args: bool | None = None) -> Tensor:
    if index is None:
        raise ValueError(
            "a Data parameter needs index=, the row numbers of this batch: wrap the dataset in likely.IndexedDataset"
        )
    if not isinstance(index, Tensor) or index.is_floating_point() or index.is_complex() or index.dtype == torch.bool:
        kind = index.dtype if isinstance(index, Tensor) else type(index).__name__
        raise TypeError(f"index must be an integer tensor, got {kind}: call index.long()")
    if index.ndim != 1:
        raise ValueError(f"index must have one dimension, the batch, got shape {tuple(index.shape)}")
    if index.numel() and may_look(index, validate_args):
        low, high = (int(end) for end in index.aminmax())
        if low < 0 or high >= rows:
            raise IndexError(
                f"index runs from {low} to {high}, but Data holds rows 0 to {rows - 1}: Data(n) too small?"
            )
    return index.long()


def prepare(prediction: Tensor, target: Tensor, **parameters: float | Tensor) -> tuple[Tensor, ...]:
    """Bring every argument to one floating dtype, at least float32, after checking that they fit."""
    check_floating("prediction", prediction)
    check_real("target", target)
    if target.dtype == torch.float64 and prediction.dtype != torch.float64:  # the wider of both, as in torch's losses
        prediction = prediction.double()
    head, *tail = promote(prediction, **parameters)
    target = target.to(head.dtype)
    if target.shape != head.shape or any(value.ndim and value.shape != head.shape for value in tail):
        broadcast(prediction=head, target=target, **dict(zip(parameters, tail, strict=True)))
    return head, target, *tail


def promote(first: Tensor, **parameters: float | Tensor) -> tuple[Tensor, ...]:
    dtype = torch.promote_types(first.dtype, torch.float32)
    for value in parameters.values():
        if isinstance(value, Tensor):
            dtype = torch.promote_types(dtype, value.dtype)
    # A number is filled in on the device: copied there, it would make the device wait.
    return tuple(
        value.to(first.device, dtype) if isinstance(value, Tensor) else first.new_full((), value, dtype=dtype)
        for value in (first, *parameters.values())
    )


def reduce(nll: Tensor, reduction: str) -> Tensor:
    check_reduction(reduction)
    return nll if reduction == "none" else nll.sum() if reduction == "sum" else nll.mean()


def refuse_dates(y: Any) -> None:
    """Raise an error for targets that are times, which would be counted in nanoseconds or the like."""
    if getattr(getattr(y, "dtype", None), "kind", None) in ("m", "M"):
        raise ValueError("y holds dates or durations: give numbers, such as days")
