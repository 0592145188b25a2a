"""The softmax likelihood of classes: cross-entropy whose temperature learns."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, distributions as td
from torch.distributions import Distribution, constraints
from torch.nn import functional as F

from likely import _kernels as kernels
from likely._validation import (
    check_floating,
    check_positive,
    check_real,
    check_reduction,
    check_shares,
    fits,
    may_look,
    promote,
)
from likely.likelihoods._distribution import ranked_score
from likely.likelihoods._fused import Fused
from likely.likelihoods._loss import LikelihoodLoss, Phi
from likely.likelihoods._record import register
from likely.likelihoods._row_weights import along, as_weight, weighted
from likely.parameters._slot import TEMPERATURE, ParameterLike

# With fewer classes than this a row is too short for a program of its own, and torch's cross-entropy is as good.
_MIN_KERNEL_CLASSES = 256
_RULED_OUT = -1e30  # stands for -∞: any finite number keeps 0 · ∞ out of the moments

__all__ = ["SoftmaxLoss", "softmax_nll"]


def softmax_nll(
    logits: Tensor,
    target: Tensor,
    *,
    temperature: Tensor | float,
    weight: Tensor | None = None,
    ignore_index: int = -100,
    label_smoothing: float = 0.0,
    reduction: str = "mean",
    validate_args: bool | None = None,
) -> Tensor:
    r"""Negative log-likelihood of classes: the cross-entropy of logits divided by a temperature.

    For logits :math:`z`, class :math:`y` and temperature :math:`T > 0`,
    :math:`\ell = -z_y / T + \log \sum_c e^{z_c / T}`; :math:`T = 1` is the cross-entropy. A logit of
    -∞ gives its class probability zero and keeps the temperature's gradient finite. Class numbers out of range, and
    probabilities that are negative or do not sum to one, are refused on the CPU. On a GPU values are checked under
    ``validate_args=True`` only; without it a class number out of range makes the loss NaN or stops the program by an
    assertion on the device.

    Args:
        logits: shape (classes,), (batch, classes) or (batch, classes, …), as in
            :func:`torch.nn.functional.cross_entropy`.
        target: class numbers in the shape of the logits without the class axis, or probabilities in their shape.
        temperature: positive number, or a tensor that broadcasts to the logits' shape without the class axis.
        weight: one weight per class, shape (classes,); None by default. It is not part of the likelihood: a row of
            class y counts ``weight[y]`` times, and a mean divides by the sum of the rows' weights. As in torch, the
            weights of probabilities and of smoothed labels multiply the terms of the classes, and a mean over
            probabilities divides by the number of rows.
        ignore_index: class number of rows that are left out. If all are, the mean is 0 (torch: NaN).
        label_smoothing: share of the label, from 0 to 1, that is spread evenly over all classes.
        reduction: ``"mean"``, ``"sum"`` or ``"none"``.
        validate_args: whether tensor values are checked; by default on the CPU only.

    Returns:
        A scalar; one value per row, in the logits' shape without the class axis, under ``reduction="none"``.

    See Also:
        :class:`~likely.SoftmaxLoss`, the module with parameters that learn.

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
    _, outer = _axes(logits)
    _check_labels(logits, target, ignore_index, validate_args)
    if weight is not None:
        _check_weight(weight, logits)
    temperature = per_row(temperature, logits, outer)
    if weight is None and _has_kernel(logits, target, temperature):
        return kernels.softmax_nll(
            logits,
            target.long(),
            temperature.reshape(()) if temperature.numel() == 1 else temperature.expand(outer),
            ignore_index=ignore_index,
            smoothing=label_smoothing,
            reduction=reduction,
        )
    nll = _plain(logits, target, temperature, ignore_index, label_smoothing, weight)
    return weighted(nll, _counted(target, weight, ignore_index), None, reduction)


def per_row(temperature: Tensor | float, logits: Tensor, rows: torch.Size) -> Tensor:
    """The temperature as a tensor that broadcasts to one value per row."""
    if not isinstance(temperature, Tensor):
        temperature = logits.new_full((), temperature, dtype=torch.promote_types(logits.dtype, torch.float32))
    if not fits(temperature.shape, rows):
        raise ValueError(
            f"temperature {tuple(temperature.shape)} does not broadcast to {tuple(rows)}: give one number, or "
            "one value per token or row"
        )
    return temperature


def _counted(target: Tensor, weight: Tensor | None, ignore_index: int) -> Tensor | None:
    """The weights of rows in the denominator of a mean: those of their classes, zero where the label is ignored."""
    if target.is_floating_point() or not target.numel():
        return None
    counted = target != ignore_index
    return counted if weight is None else torch.where(counted, weight[torch.where(counted, target, 0).long()], 0.0)


def _plain(
    logits: Tensor,
    target: Tensor,
    temperature: Tensor,
    ignore_index: int,
    label_smoothing: float,
    weight: Tensor | None = None,
) -> Tensor:
    """The NLL of every row, differentiable any number of times."""
    shared = target.is_floating_point()
    logits, temperature, *rest = promote(logits, temperature=temperature, **({"target": target} if shared else {}))
    target = rest[0] if shared else target.long()
    axis, outer = _axes(logits)
    counted = target != ignore_index
    label = None if shared else torch.where(counted, target, 0).unsqueeze(axis)
    ruled_out, temperature = logits.isneginf(), temperature.expand(outer)
    cooled = torch.where(ruled_out, 0.0, logits)
    if not torch.compiler.is_compiling():
        # Relative to the largest logit, nothing overflows, nor does its gradient in the temperature; and a row whose
        # own class is ruled out tells nothing about its temperature.
        lowest = torch.finfo(logits.dtype).min * temperature.detach().clamp(max=1).square().unsqueeze(axis)
        cooled = torch.maximum(
            cooled - torch.where(ruled_out, lowest, logits.detach()).amax(axis, keepdim=True), lowest
        )
        if label is not None:
            temperature = torch.where(ruled_out.gather(axis, label).squeeze(axis), temperature.detach(), temperature)
    cooled = torch.where(ruled_out, -torch.inf, cooled / temperature.unsqueeze(axis))
    weight = None if weight is None else weight.to(cooled.dtype)
    if not torch.compiler.is_compiling():
        how: Any = {"ignore_index": ignore_index, "label_smoothing": label_smoothing, "reduction": "none"}
        return F.cross_entropy(cooled, target, weight, **how)
    # The same by hand: of torch's rows its ONNX exporter makes a scalar (torch 2.13).
    log_p = cooled.log_softmax(axis)
    if weight is not None:
        log_p = log_p * weight.reshape(-1, *(1,) * (log_p.ndim - axis - 1))
    each = label_smoothing / log_p.shape[axis]
    if label is None:
        return -(log_p * (target * (1 - label_smoothing) + each)).sum(axis)
    nll = -log_p.gather(axis, label).squeeze(axis)
    if label_smoothing:
        nll = (1 - label_smoothing) * nll - each * log_p.sum(axis)
    return torch.where(counted, nll, 0.0)


kernels.PLAIN["softmax"] = _plain


def _has_kernel(logits: Tensor, target: Tensor, temperature: Tensor) -> bool:
    if not logits.is_cuda or logits.ndim != 2 or logits.shape[1] < _MIN_KERNEL_CLASSES or target.is_floating_point():
        return False
    return kernels.applies(logits, temperature) and type(target) is Tensor


def _axes(logits: Tensor) -> tuple[int, torch.Size]:
    """The axis of the classes, and the shape without it."""
    axis = min(1, logits.ndim - 1)
    return axis, logits.shape[:axis] + logits.shape[axis + 1 :]


def _check_labels(logits: Tensor, target: Tensor, ignore_index: int, validate_args: bool | None) -> None:
    check_real("target", target)
    axis, outer = _axes(logits)
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
        check_range(target, logits.shape[axis], ignore_index, validate_args)


def _check_weight(weight: Tensor, logits: Tensor) -> None:
    check_real("weight", weight)
    classes = logits.shape[_axes(logits)[0]]
    if weight.shape != (classes,):
        raise ValueError(
            f"weight has shape {tuple(weight.shape)}, but the logits have {classes} classes: "
            "give one weight per class, or weights of rows as sample_weight"
        )


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


def check_range(target: Tensor, classes: int, ignore_index: int, validate_args: bool | None) -> None:
    if may_look(target, validate_args):
        labels = target[target != ignore_index]
        if labels.numel() and (int(labels.min()) < 0 or int(labels.max()) >= classes):
            raise ValueError(
                f"target holds class {int(labels.min())} to {int(labels.max())}, but the logits have classes 0 to "
                f"{classes - 1}: count classes from 0, and mask labels with ignore_index={ignore_index}"
            )


def tempered(logits: Tensor, labels: Tensor, inverse: Tensor | float) -> tuple[Tensor, Tensor, Tensor]:
    """The softmax NLL of each row at inverse temperature τ, its slope in τ and its curvature.

    The slope is E z - z_y and the curvature Var z under the tempered softmax: the Fisher information itself, since
    neither depends on the label. A row whose own class is ruled out (-∞) has an infinite NLL at every temperature:
    it tells nothing, and all three are zero.
    """
    tau = inverse[:, None] if isinstance(inverse, Tensor) else inverse  # per row, or for all
    shifted = (logits - logits.amax(1, keepdim=True)).clamp_(min=_RULED_OUT)
    powers = (shifted * tau).exp_()
    total = powers.sum(1)
    chosen = shifted.gather(1, labels[:, None])[:, 0]
    first = powers.mul_(shifted).sum(1) / total
    second = powers.mul_(shifted).sum(1) / total
    possible = (chosen > _RULED_OUT).to(first)
    chosen = chosen * possible
    curvature = (second - first.square()).clamp(min=0)
    return (total.log() - inverse * chosen) * possible, (first - chosen) * possible, curvature * possible


def softmax_slopes(logits: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    """Return the softmax NLL of each row, of shape (rows,), and its slopes in the logits, of shape (rows, classes)."""
    log_p = torch.log_softmax(logits, 1)
    slopes = log_p.exp()
    slopes.scatter_add_(1, labels[:, None], -torch.ones_like(slopes[:, :1]))
    return -log_p.gather(1, labels[:, None])[:, 0], slopes


softmax_nll.fused = Fused("softmax", ("temperature",), labels=True)  # type: ignore[attr-defined]


class SoftmaxLoss(LikelihoodLoss, nll=softmax_nll, family=td.Categorical, temperature=TEMPERATURE):
    r"""The softmax likelihood: :class:`torch.nn.CrossEntropyLoss` with a temperature that learns.

    Labels are class numbers or probabilities in the shape of the logits; classes are on axis 1. The temperature
    divides the logits: rows with a high temperature count less.

    Args:
        temperature: positive number that divides the logits: a number, which is fixed, or one of
            :class:`~likely.Fixed`, :class:`~likely.Global` (the default), :class:`~likely.Data` and
            :class:`~likely.Predicted`.
        weight: one weight per class, shape (classes,), stored as a buffer; None by default. It is not part of the
            likelihood: a row of class y counts ``weight[y]`` times, in the temperature's gradient too, and a mean
            divides by the sum of the rows' weights. Fused kernels are not used with it.
        ignore_index: class number of rows that are left out, -100 by default.
        label_smoothing: share of the label, from 0 to 1, that is spread evenly over all classes.
        reduction: ``"mean"``, ``"sum"`` or ``"none"`` (one value per element).
        full: has no effect, because this likelihood has no constant term; accepted as in all losses.
        multiplier: positive factor of the loss; the predictive distribution does not depend on it.
        validate_args: whether tensor values are checked; by default (None) on the CPU only, where that is cheap.

    See Also:
        :class:`~likely.BernoulliLoss`, :class:`~likely.OrdinalLoss`, :class:`~likely.TokenTemperature`,
        :func:`~likely.functional.softmax_nll` (the function).

    >>> import torch, likely
    >>> loss_fn = likely.SoftmaxLoss(temperature=2.0)
    >>> loss_fn(torch.tensor([[2.0, 0.0]]), torch.tensor([0]))
    tensor(0.3133)
    >>> loss_fn.distribution(torch.tensor([[2.0, 0.0]])).probs
    tensor([[0.7311, 0.2689]])
    """

    def __init__(
        self,
        *values: ParameterLike,
        weight: Tensor | None = None,
        ignore_index: int = -100,
        label_smoothing: float = 0.0,
        **options: Any,
    ) -> None:
        if not 0 <= label_smoothing <= 1:
            raise ValueError(f"label_smoothing must lie in [0, 1], got {label_smoothing}")
        super().__init__(*values, **options)
        self.ignore_index, self.label_smoothing = ignore_index, label_smoothing
        self.register_buffer("weight", as_weight("weight", weight))

    weight: Tensor | None

    def _outer(self, prediction: Tensor) -> torch.Size:
        return _axes(prediction)[1]

    def _check(self, prediction: Tensor, target: Tensor) -> None:
        check_floating("prediction", prediction)

    def _counted(self, target: Tensor) -> Tensor | None:
        return _counted(target, self.weight, self.ignore_index)

    def mistake(self, prediction: Tensor) -> str | None:
        """What looks wrong with the first batch, though it can be computed.

        Args:
            prediction: output of the model.

        Returns:
            A sentence that says what to do, or None.
        """
        axis = _axes(prediction)[0]
        if prediction.ndim and prediction.shape[axis] > 1 and float(prediction.min()) >= 0:
            sums = prediction.sum(axis)
            if float((sums - 1).abs().max()) < 1e-3:
                return (
                    "predictions look like probabilities, which sum to 1 in each row: give logits, or their logarithms"
                )
        return super().mistake(prediction)

    def _replaced(self, values: Tensor, kept: Tensor) -> Tensor:
        if not values.is_floating_point():
            return super()._replaced(values, kept)
        kept = kept.unsqueeze(1) if kept.ndim > 1 else kept
        return torch.where(along(kept, values.ndim), values, 1 / values.shape[_axes(values)[0]])

    def _can_fuse(self, prediction: Tensor, target: Tensor) -> bool:
        if self._buffers["weight"] is not None or not super()._can_fuse(prediction, target):
            return False
        most = _MIN_KERNEL_CLASSES if prediction.is_cuda else kernels.MAX_CLASSES
        return prediction.ndim == 2 and prediction.shape[1] <= most and not target.dtype.is_floating_point

    def _job(
        self, prediction: Tensor, target: Tensor, layouts: Sequence[kernels.Layout], plain: Callable[..., Tensor]
    ) -> kernels.Job | None:
        if target.shape != self._outer(prediction):
            return None
        mean = self.reduction == "mean"
        return kernels.Softmax(layouts[0], self.ignore_index, self.label_smoothing, mean, self.multiplier, plain)

    def _options(self, reduction: str) -> dict[str, Any]:
        labels = {"ignore_index": self.ignore_index, "label_smoothing": self.label_smoothing, "weight": self.weight}
        return {**labels, "reduction": reduction, "validate_args": self.validate_args}

    def distribution_of(self, prediction: Tensor, phi: Phi) -> Distribution:
        """The predictive distribution at given values of the parameters.

        Args:
            prediction: output of a model.
            phi: every parameter of the likelihood by name, as a tensor that broadcasts to the prediction.

        Returns:
            A :class:`torch.distributions.Distribution` with the prediction's shape as its batch.
        """
        logits = prediction.movedim(_axes(prediction)[0], -1)
        # Relative to the largest, so that log probabilities keep their digits beside large logits.
        relative = logits - logits.detach().amax(-1, keepdim=True)
        return td.Categorical(logits=relative / phi["temperature"].unsqueeze(-1))


register(
    SoftmaxLoss,
    support=constraints.nonnegative_integer,
    crps=lambda forecast, y: ranked_score(forecast, forecast.probs.numpy().cumsum(-1)[..., :-1], y),
)
