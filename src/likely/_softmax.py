"""The softmax likelihood, of logits or of the linear layer that makes them; re-exported by likely.functional."""

import torch
from torch import Tensor
from torch.nn import functional as F

from likely import kernels
from likely._validation import (
    check_floating,
    check_positive,
    check_real,
    check_reduction,
    check_shares,
    fits,
    may_look,
    promote,
    reduce,
)

# With fewer classes than this a row is too short for a program of its own, and torch's cross-entropy is as good.
_FEWEST_CLASSES = 256
_RULED_OUT = -1e30  # stands for -∞: any finite number keeps 0 · ∞ out of the moments


def softmax_nll(
    logits: Tensor,
    target: Tensor,
    *,
    temperature: Tensor | float,
    ignore_index: int = -100,
    label_smoothing: float = 0.0,
    reduction: str = "mean",
    overwrite: bool = False,
    validate_args: bool | None = None,
) -> Tensor:
    r"""The softmax likelihood: cross-entropy whose temperature is free to move.

    For logits :math:`z`, class :math:`y` and temperature :math:`T > 0`, which *divides*,
    :math:`\ell = -z_y / T + \log \sum_c e^{z_c / T}`; :math:`T = 1` is the cross-entropy. Classes are on axis 1,
    as in :func:`torch.nn.functional.cross_entropy`; ``target`` holds class numbers or, in the shape of the
    logits, probabilities. ``temperature`` broadcasts to the logits' shape without the class axis. A logit of
    -∞ rules its class out and leaves the temperature's gradient finite. Class numbers out of range, and probabilities
    that are negative or do not sum to one, are refused on the CPU. On a GPU values are looked at under
    ``validate_args=True`` only: there a class number out of range makes the loss NaN or stops the program by an
    assertion on the device, and probabilities are used as they are.

    ``overwrite=True`` lets a kernel put the gradient where the logits were, which saves their memory once more; what
    the logits held is then gone, and the backward pass goes through the loss once only.

    >>> import torch
    >>> from likely.functional import softmax_nll
    >>> logits, target = torch.tensor([[2.0, 0.0], [0.0, 2.0]]), torch.tensor([0, 0])
    >>> softmax_nll(logits, target, temperature=torch.tensor([1.0, 4.0]), reduction="none")
    tensor([0.1269, 0.9741])
    """
    check_floating("logits", logits)
    check_positive("temperature", temperature, validate_args)
    check_reduction(reduction)
    if logits.ndim == 0:
        raise ValueError("logits must have a class axis: shape (classes,) or (batch, classes, …)")
    axis = min(1, logits.ndim - 1)
    outer = logits.shape[:axis] + logits.shape[axis + 1 :]
    _check_labels(logits, target, axis, ignore_index, validate_args)
    if not isinstance(temperature, Tensor):
        dtype = torch.promote_types(logits.dtype, torch.float32)
        temperature = logits.new_full((), temperature, dtype=dtype)
    if not fits(temperature.shape, outer):
        raise ValueError(
            f"temperature {tuple(temperature.shape)} does not broadcast to {tuple(outer)}, one value per row"
        )
    if _has_kernel(logits, target, temperature):
        return kernels.softmax_nll(
            logits,
            target.long(),
            temperature.reshape(()) if temperature.numel() == 1 else temperature.expand(outer),
            ignore_index=ignore_index,
            smoothing=label_smoothing,
            reduction=reduction,
            overwrite=overwrite,
        )
    nll = _plain(logits, target, temperature, ignore_index=ignore_index, label_smoothing=label_smoothing)
    if reduction == "mean" and not target.is_floating_point() and target.numel():
        return nll.sum() / (target != ignore_index).sum().clamp(min=1)
    return reduce(nll, reduction)


def _plain(logits: Tensor, target: Tensor, temperature: Tensor, *, ignore_index: int, label_smoothing: float) -> Tensor:
    """The NLL of every row, differentiable any number of times."""
    logits, temperature = promote(logits, temperature=temperature)
    axis = min(1, logits.ndim - 1)
    ruled_out = logits.isneginf()
    outer = logits.shape[:axis] + logits.shape[axis + 1 :]
    cooled = torch.where(ruled_out, 0.0, logits) / temperature.expand(outer).unsqueeze(axis)
    cooled = torch.where(ruled_out, -torch.inf, cooled)
    target = target.to(logits.dtype) if target.is_floating_point() else target.long()
    return F.cross_entropy(cooled, target, reduction="none", ignore_index=ignore_index, label_smoothing=label_smoothing)


kernels.PLAIN["softmax"] = _plain


def _has_kernel(logits: Tensor, target: Tensor, temperature: Tensor) -> bool:
    if not logits.is_cuda or logits.ndim != 2 or logits.shape[1] < _FEWEST_CLASSES or target.is_floating_point():
        return False
    return kernels.applies(logits, temperature) and type(target) is Tensor


def linear_softmax_nll(
    hidden: Tensor,
    weight: Tensor,
    target: Tensor,
    temperature: Tensor | float = 1.0,
    *,
    bias: Tensor | None = None,
    ignore_index: int = -100,
    label_smoothing: float = 0.0,
    reduction: str = "mean",
    chunk: int = 1024,
    validate_args: bool | None = None,
) -> Tensor:
    r"""The softmax likelihood of a linear layer over a large vocabulary, whose logits never exist all at once.

    ``softmax_nll(hidden @ weight.T + bias, target, temperature=temperature)``, with ``hidden`` (…, width), ``weight``
    (classes, width), ``target`` (…) and a temperature that broadcasts to it, such as one a token. The rows are taken
    in chunks of ``chunk``, each of which leaves nothing but its part of the gradients, in the dtypes of the
    inputs: one backward pass can go through the result, and gradients of gradients cannot. Under ``torch.func`` and in
    forward-mode differentiation the logits are computed as they are.

    >>> import torch, likely
    >>> hidden, weight, target = torch.randn(2, 5, 8), torch.randn(1000, 8), torch.randint(0, 1000, (2, 5))
    >>> temperature = torch.full((2, 5), 1.5)
    >>> loss = likely.linear_softmax_nll(hidden, weight, target, temperature)
    >>> logits = (hidden @ weight.T).flatten(0, 1)
    >>> torch.allclose(loss, likely.functional.softmax_nll(logits, target.flatten(), temperature=1.5))
    True
    """
    check_floating("hidden", hidden)
    check_positive("temperature", temperature, validate_args)
    if reduction not in ("mean", "sum"):
        raise ValueError(f"reduction must be mean or sum, got {reduction!r}: a loss per row is softmax_nll's")
    if weight.ndim != 2 or weight.shape[1] != hidden.shape[-1]:
        raise ValueError(
            f"weight has shape {tuple(weight.shape)}, expected (classes, {hidden.shape[-1]}), as nn.Linear's"
        )
    if target.shape != hidden.shape[:-1] or target.is_floating_point():
        raise ValueError(
            f"target must hold class numbers in shape {tuple(hidden.shape[:-1])}, hidden's without its last axis; "
            f"got {target.dtype} in shape {tuple(target.shape)}"
        )
    _check_range(target, len(weight), ignore_index, validate_args)
    if not isinstance(temperature, Tensor):
        temperature = hidden.new_full((), temperature, dtype=torch.promote_types(hidden.dtype, torch.float32))
    if not fits(temperature.shape, target.shape):
        raise ValueError(
            f"temperature {tuple(temperature.shape)} does not broadcast to {tuple(target.shape)}, one value per token"
        )
    if torch.is_autocast_enabled(hidden.device.type):
        dtype = torch.get_autocast_dtype(hidden.device.type)
        hidden, weight, bias = hidden.to(dtype), weight.to(dtype), bias if bias is None else bias.to(dtype)
    if not target.numel() or (not torch.compiler.is_compiling() and kernels.transformed()):
        return softmax_nll(
            F.linear(hidden, weight, bias).reshape(-1, len(weight)),
            target.reshape(-1),
            temperature=temperature.expand(target.shape).reshape(-1),
            ignore_index=ignore_index,
            label_smoothing=label_smoothing,
            reduction=reduction,
            validate_args=False,
        )
    one = temperature.numel() == 1
    return kernels.linear_softmax_nll(
        hidden.flatten(0, -2) if hidden.ndim > 1 else hidden.unsqueeze(0),
        weight,
        bias,
        target.reshape(-1).long(),
        temperature.reshape(()) if one else temperature.expand(target.shape).reshape(-1),
        ignore_index=ignore_index,
        smoothing=label_smoothing,
        reduction=reduction,
        chunk=chunk,
    )


def _check_labels(logits: Tensor, target: Tensor, axis: int, ignore_index: int, validate_args: bool | None) -> None:
    check_real("target", target)
    outer = logits.shape[:axis] + logits.shape[axis + 1 :]
    if target.is_floating_point():
        if target.shape != logits.shape:
            raise ValueError(
                f"target of probabilities has shape {tuple(target.shape)}, the logits {tuple(logits.shape)}: "
                "give one probability per class, or class numbers as an integer tensor"
            )
        _check_probabilities(target, axis, validate_args)
    elif target.shape != outer:
        raise ValueError(
            f"target of class numbers has shape {tuple(target.shape)}, expected {tuple(outer)}: "
            f"the logits {tuple(logits.shape)} without their class axis {axis}"
        )
    else:
        _check_range(target, logits.shape[axis], ignore_index, validate_args)


def _check_probabilities(target: Tensor, axis: int, validate_args: bool | None) -> None:
    """From 0 to 1 and, to the rounding of a half-precision softmax, of sum 1."""
    check_shares("target", target, validate_args)
    if target.numel() and may_look(target, validate_args):
        low, high = (end.item() for end in target.detach().sum(axis, dtype=torch.float32).aminmax())
        if not (low > 0.98 and high < 1.02):
            raise ValueError(
                f"target of probabilities sums to {low:.6g} … {high:.6g} over the classes of a row, expected 1: divide "
                "it by its sum, or give weights per row as sample_weight"
            )


def _check_range(target: Tensor, classes: int, ignore_index: int, validate_args: bool | None) -> None:
    if may_look(target, validate_args):
        kept = target[target != ignore_index]
        if kept.numel() and (int(kept.min()) < 0 or int(kept.max()) >= classes):
            raise ValueError(
                f"target holds class {int(kept.min())} to {int(kept.max())}, but the logits have classes 0 to "
                f"{classes - 1}: mask labels with ignore_index={ignore_index}"
            )


def tempered(logits: Tensor, labels: Tensor, inverse: Tensor | float) -> tuple[Tensor, Tensor, Tensor]:
    """The softmax NLL of each row at inverse temperature τ, its slope in τ and its curvature.

    The slope is E z - z_y and the curvature Var z under the tempered softmax: the Fisher information itself, since
    neither depends on the label. A row whose own class is ruled out (-∞) has an infinite NLL at every temperature:
    it tells nothing, and all three are zero.
    """
    tau = inverse[:, None] if isinstance(inverse, Tensor) else inverse
    shifted = (logits - logits.amax(1, keepdim=True)).clamp_(min=_RULED_OUT)
    powers = (shifted * tau).exp_()
    total = powers.sum(1)
    chosen = shifted.gather(1, labels[:, None])[:, 0]
    first = powers.mul_(shifted).sum(1) / total
    second = powers.mul_(shifted).sum(1) / total
    scale = inverse if isinstance(inverse, Tensor) else float(inverse)
    possible = (chosen > _RULED_OUT).to(first)
    chosen = chosen * possible
    curvature = (second - first.square()).clamp(min=0)
    return (total.log() - scale * chosen) * possible, (first - chosen) * possible, curvature * possible


def softmax_slopes(logits: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    """Return the softmax NLL of each row, of shape (rows,), and its slopes in the logits, of shape (rows, classes)."""
    log_p = torch.log_softmax(logits, 1)
    slopes = log_p.exp()
    slopes.scatter_add_(1, labels[:, None], -torch.ones_like(slopes[:, :1]))
    return -log_p.gather(1, labels[:, None])[:, 0], slopes
