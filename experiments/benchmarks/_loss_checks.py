"""That a loss by hand is the same as ours, in its value and in the gradients of all that learns."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from experiments.benchmarks._loss_cases import LossCase, batch_of, call, hand, ours
from experiments.benchmarks._losses_by_hand import ByHand

CLOSE = 1e-5  # what values and gradients may differ by, in units of the largest
CHECKED = 1000  # elements on which gradients are compared


def check_same(case: LossCase, kind: str, size: int, device: str) -> None:
    """Compare ours and the loss by hand: the value and the gradients of all that learns.

    Raises:
        AssertionError: If they differ by more than 1e-5.
    """
    batch = batch_of(case, min(size, CHECKED), device)
    rows = batch.training_rows
    # A step of size -1 × gradient is the gradient; scaled up, because rounding of the rows would hide it.
    lr = float(batch.prediction.numel())
    own = ours(case, kind, rows, optimizer="sgd", lr=lr, clip=None).to(device)
    other = hand(case, kind, rows).to(device)
    before = _rows(own)
    losses = [call(module, kind, batch)() for module in (own, other)]
    assert_close(losses[0].detach(), losses[1].detach(), "the loss")
    gradients = []
    for loss in losses:
        for leaf in batch.leaves:
            leaf.grad = None
        loss.backward()
        gradients.append(_gradient(batch.prediction))
    assert_close(gradients[0], gradients[1], "the gradient of the prediction")
    mine, theirs = _our_gradients(own, case, kind, before, lr), _hand_gradients(other, case, kind)
    # A gradient may be the sum of terms that cancel: what is left has their rounding.
    size_of_terms = 0.1 / (len(batch.index) if kind == "Data" else 1)
    for name in case.starts:
        tolerance = case.rounded.get(name, CLOSE)
        assert_close(mine[name], theirs[name], f"the gradient of {name}", tolerance, size_of_terms)


def assert_close(
    mine: Tensor, theirs: Tensor, what: str, tolerance: float = CLOSE, size_of_terms: float = 1e-30
) -> None:
    """Raise AssertionError unless two tensors are equal to the tolerance, in units of the largest value or term."""
    largest = float(theirs.abs().max())
    apart = float((mine - theirs.reshape(mine.shape)).abs().max())
    if not apart <= tolerance * max(largest, size_of_terms):
        raise AssertionError(f"{what} differs from that by hand by {apart:.2e} of {largest:.2e}")


def _gradient(leaf: Tensor) -> Tensor:
    assert leaf.grad is not None
    return leaf.grad


def _rows(module: nn.Module) -> dict[str, Tensor]:
    return {name: rows.clone() for name, rows in module.named_buffers() if name.endswith("table.rows")}


def _our_gradients(
    module: nn.Module, case: LossCase, kind: str, before: Mapping[str, Tensor], lr: float
) -> dict[str, Tensor]:
    found = {}
    for name in case.starts:
        parameter = getattr(module, name)
        if kind == "Global":
            found[name] = parameter.raw.grad
        elif kind == "Data":
            found[name] = (before[f"{name}.table.rows"] - parameter.table.rows) / lr
        else:
            found[name] = torch.cat([parameter.net[0].weight.grad[0], parameter.net[0].bias.grad])
    return found


def _hand_gradients(module: ByHand, case: LossCase, kind: str) -> dict[str, Tensor]:
    found = {}
    for i, name in enumerate(case.starts):
        if kind == "Predicted":
            found[name] = torch.cat([_gradient(module.linear.weight)[i], _gradient(module.linear.bias)[i, None]])
        else:
            found[name] = _gradient(module.raws[i])
    return found
