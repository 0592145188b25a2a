"""Notices a likelihood parameter that gets gradients while only the model's optimizer steps.

The most common mistake with learned losses is to leave their parameters out of the optimizer: nothing fails,
they just never learn. An optimizer's step bumps a tensor's version counter, so the model moving while φ stands
still can be seen without looking at a single value.
"""

import warnings

import torch
from torch import Tensor, nn

_PATIENCE = 5  # steps of the model without one of φ, so that alternating optimizers are left in peace
_PATIENCE_WITHOUT_MODEL = 25  # backward passes, where no model can be seen moving
_PATIENCE_WITHOUT_GRADIENT = 100  # passes: an optimizer that has them sets gradients to None before each


class Watch:
    """One per loss; ``look`` is called at the start of every training forward pass."""

    def __init__(self) -> None:
        self.done = False
        self.model: list[Tensor] = []  # one leaf of the model's graph, once φ has a gradient
        self.model_version = 0
        self.start: list[tuple[nn.Parameter, int, Tensor]] = []
        self.steps = self.passes = self.looks = 0
        self.parameters: list[nn.Parameter] = []

    def __getstate__(self) -> dict[str, object]:
        return Watch().__dict__ if not self.done else {**Watch().__dict__, "done": True}

    def look(self, loss: nn.Module, prediction: Tensor) -> None:
        if self.done or not torch.is_grad_enabled():
            return
        if not self.start:
            self._begin(loss, prediction)
            return
        if any(p._version != version for p, version, _ in self.start):
            self._finish()
            return
        self.passes += 1
        if self.model and self.model[0]._version != self.model_version:
            self.model_version = self.model[0]._version
            self.steps += 1
        if self.steps >= _PATIENCE or (not self.model and self.passes >= _PATIENCE_WITHOUT_MODEL):
            moved = any(not torch.equal(p.detach(), value) for p, _, value in self.start)
            self._finish()
            if not moved:
                names = [name for name, p in loss.named_parameters() if p.grad is not None]
                warnings.warn(
                    f"{', '.join(names)} of {type(loss).__name__} receives gradients but does not move: hand the "
                    "optimizer likely.param_groups(model, loss_fn, lr=…) instead of model.parameters()",
                    UserWarning,
                    stacklevel=6,
                )

    def _begin(self, loss: nn.Module, prediction: Tensor) -> None:
        self.parameters = self.parameters or list(loss.parameters())
        self.looks += 1
        if graded := [p for p in self.parameters if p.grad is not None and p.requires_grad]:
            self.start = [(p, p._version, p.detach().clone()) for p in graded]
            self.model = _first_leaf(prediction, {id(p) for p in self.parameters})
            self.model_version = self.model[0]._version if self.model else 0
        elif self.looks > _PATIENCE_WITHOUT_GRADIENT or not any(p.requires_grad for p in self.parameters):
            self._finish()

    def _finish(self) -> None:
        self.done, self.start, self.model, self.parameters = True, [], [], []


def _first_leaf(prediction: Tensor, loss_parameters: set[int]) -> list[Tensor]:
    """A trainable leaf behind ``prediction`` that is not one of the loss's own parameters."""
    if prediction.is_leaf:
        return [prediction] if prediction.requires_grad else []
    seen, queue = set(), [prediction.grad_fn]
    while queue:
        node = queue.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        leaf = getattr(node, "variable", None)
        if leaf is not None and id(leaf) not in loss_parameters:
            return [leaf]
        queue += [parent for parent, _ in node.next_functions]
    return []
