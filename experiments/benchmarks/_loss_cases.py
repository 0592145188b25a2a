"""What the benchmark of losses times: every loss and kind of parameter, beside the same loss written by hand."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

import likely
from experiments.benchmarks import _losses_by_hand as by_hand
from experiments.benchmarks._losses_by_hand import ByHand, Constraint, three_sigmoids

KINDS = ("Global", "Predicted", "Data")
COLUMNS = 10  # targets per row, or classes
WIDTH = 8  # features that a Predicted parameter reads
OURS, HAND, HAND_AND_STEP = "likely", "by hand", "by hand, and the rows' step"


@dataclass(frozen=True)
class LossCase:
    """A loss of ours, and the same by hand.

    Args:
        ours: the loss's class.
        hand: its class by hand.
        starts: by the names of ours, where each parameter starts.
        unconstrained: by the same names, the constraint by hand; exp unless named.
        counterparts: by name, losses of torch that people use in its place, without a parameter.
        others: by name, further classes by hand with the same parameters.
        rounded: by the same names, what gradients may differ by where those by hand are less exact.
        classes: whether targets are class numbers.
        shares: whether targets are 0 or 1.
    """

    ours: Callable[..., nn.Module]
    hand: type[ByHand]
    starts: Mapping[str, float]
    counterparts: Mapping[str, Callable[[Tensor, Tensor], Tensor]]
    unconstrained: Mapping[str, Constraint] = field(default_factory=dict)
    others: Mapping[str, type[ByHand]] = field(default_factory=dict)
    rounded: Mapping[str, float] = field(default_factory=dict)
    classes: bool = False
    shares: bool = False


CASES: Mapping[str, LossCase] = {
    "Normal": LossCase(
        likely.NormalLoss,
        by_hand.NormalByHand,
        {"scale": 0.8},
        {"mse_loss": F.mse_loss},
        others={"GaussianNLLLoss": by_hand.GaussianNLLByHand},
    ),
    "Laplace": LossCase(likely.LaplaceLoss, by_hand.LaplaceByHand, {"scale": 0.8}, {"l1_loss": F.l1_loss}),
    "Student t": LossCase(
        likely.StudentTLoss, by_hand.StudentTByHand, {"df": 4.0, "scale": 0.8}, {"smooth_l1_loss": F.smooth_l1_loss}
    ),
    "Softmax": LossCase(
        likely.SoftmaxLoss,
        by_hand.SoftmaxByHand,
        {"temperature": 1.2},
        {"cross_entropy": F.cross_entropy},
        classes=True,
    ),
    "Bernoulli": LossCase(
        likely.BernoulliLoss,
        by_hand.BernoulliByHand,
        {"temperature": 1.2},
        {"binary_cross_entropy_with_logits": F.binary_cross_entropy_with_logits},
        shares=True,
    ),
    "ρ": LossCase(
        likely.RobustLoss,
        by_hand.RobustByHand,
        {"alpha": 1.3, "scale": 0.8},
        {"mse_loss": F.mse_loss, "smooth_l1_loss": F.smooth_l1_loss},
        {"alpha": three_sigmoids},
        {"ρ as published": by_hand.PublishedRobust},
        {"alpha": 1e-3},  # by hand log Z comes from a table in float32, whose slope has the rounding of two neighbours
    ),
}


@dataclass
class Batch:
    """Inputs of one size, which every way shares."""

    prediction: Tensor
    target: Tensor
    features: Tensor
    index: Tensor
    training_rows: int

    @property
    def leaves(self) -> list[Tensor]:
        """What a step has the gradient of, beside a loss's own parameters."""
        return [self.prediction, self.features]


def batch_of(case: LossCase, size: int, device: str) -> Batch:
    """Random inputs of ``size`` elements in rows of ten, or fewer in one row, out of as many training rows or 1000."""
    rows, columns = max(1, size // COLUMNS), min(COLUMNS, size)
    if rows * columns != size or (case.classes and columns < COLUMNS):
        raise ValueError(f"{size} elements do not make rows of {COLUMNS}")
    how: Any = {"device": device, "generator": None}
    if device == "cuda":  # whose own generator is of no use any more once the capture of a graph has failed
        how["generator"] = torch.Generator(device).manual_seed(int(torch.randint(2**31, ())))
    prediction = torch.randn(rows, columns, **how)
    if case.classes:
        target = torch.randint(0, columns, (rows,), **how)
    else:
        target = torch.randn(rows, columns, **how)
        target = (target > 0).float() if case.shares else target
    features = torch.randn(rows, WIDTH, **how)
    training_rows = max(1000, rows)
    index = torch.randperm(training_rows, **how)[:rows]
    return Batch(prediction.requires_grad_(), target, features.requires_grad_(), index, training_rows)


def ours(case: LossCase, kind: str, rows: int, **row_options: Any) -> nn.Module:
    """Our loss with its parameters of one kind, at the defaults but for where they start."""
    make: dict[str, Callable[..., nn.Module]] = {
        "Global": likely.Global,
        "Predicted": partial(likely.Predicted, WIDTH, normalize=False),
        "Data": partial(likely.Data, rows, **row_options),
    }
    return case.ours(**{name: make[kind](init=start) for name, start in case.starts.items()})


def hand(case: LossCase, kind: str, rows: int, made: type[ByHand] | None = None) -> ByHand:
    """The loss by hand, from the same start."""
    constraints = [case.unconstrained.get(name, torch.exp) for name in case.starts]
    raws = [
        math.log(start) if f is torch.exp else math.log(start / (3 - start))
        for f, start in zip(constraints, case.starts.values(), strict=True)
    ]
    return (made or case.hand)(kind, raws, constraints, width=WIDTH, rows=rows)


def call(module: Callable[..., Tensor], kind: str, batch: Batch) -> Callable[[], Tensor]:
    """The loss of the batch; ours and those by hand take features and index by the same names."""
    x, y = batch.prediction, batch.target
    if kind == "Predicted":
        return lambda: module(x, y, features=batch.features)
    if kind == "Data":
        return lambda: module(x, y, index=batch.index)
    return lambda: module(x, y)
