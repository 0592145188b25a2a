"""The audit of a torch model on a loader of rows it was not trained on."""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Sized
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from likely.auditing._audit import Audit, Progress
from likely.auditing._outputs import audit_logits, audit_predictions


def audit_model(
    model: nn.Module,
    loader: Iterable[Any] | None,
    task: str,
    images: Any,
    classes: Sequence[str] | None,
    seed: int,
    progress: Progress,
) -> Audit:
    """Run the model once, keep the input of its last linear layer, and judge its outputs."""
    if loader is None or isinstance(loader, str):
        raise ValueError("give the loader of (input, target) batches that the model is to be judged on")
    outputs, targets, features = run(model, loader, progress)
    whole = not targets.is_floating_point()
    if task == "auto":
        task = "classification" if whole and outputs.ndim == 2 and outputs.shape[1] > 1 else "regression"
    read = None if features is None else features.numpy()
    if task == "classification":
        return audit_logits(
            outputs.numpy(), targets.numpy(), read, images, classes, seed, progress, name=type(model).__name__
        )
    if outputs.numel() != len(targets) or targets.numel() != len(targets):
        raise ValueError(
            f"a regressor must give one number a row, got {tuple(outputs.shape)} for targets {tuple(targets.shape)}"
        )
    mean, y = (own.reshape(-1).double().numpy() for own in (outputs, targets))
    if not (np.isfinite(mean).all() and np.isfinite(y).all()):
        raise ValueError("predictions or targets hold NaN or infinities: clean them first")
    return audit_predictions(mean, y, read, images, seed, progress)


def run(model: nn.Module, loader: Iterable[Any], progress: Progress) -> tuple[Tensor, Tensor, Tensor | None]:
    """Outputs, targets and last features of all batches, on the CPU; the model is left as it was.

    >>> model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))
    >>> outputs, targets, features = run(model, [(torch.zeros(5, 4), torch.zeros(5))], lambda *_: None)
    >>> outputs.shape, features.shape
    (torch.Size([5, 3]), torch.Size([5, 8]))
    """
    kept: list[Tensor] = []
    last = next((module for module in reversed(list(model.modules())) if isinstance(module, nn.Linear)), None)
    hook = last.register_forward_pre_hook(lambda _, given: kept.append(given[0].detach())) if last else None
    training, device = model.training, next((p.device for p in model.parameters()), torch.device("cpu"))
    outputs: list[Tensor] = []
    targets: list[Tensor] = []
    features: list[Tensor] = []
    batches = len(loader) if isinstance(loader, Sized) else 0
    try:
        model.eval()
        with torch.no_grad():
            for done, batch in enumerate(loader, start=1):
                if not isinstance(batch, list | tuple) or len(batch) < 2:
                    raise ValueError("the loader must give (input, target) batches")
                outputs.append(model(batch[0].to(device)).cpu())
                targets.append(torch.as_tensor(batch[1]).cpu())
                features.extend(own.cpu() for own in kept)
                kept.clear()
                progress("running the model", done / batches if batches else 0.0)
    finally:
        model.train(training)
        if hook:
            hook.remove()
    if not outputs:
        raise ValueError("the loader is empty")
    rows = sum(len(own) for own in outputs)
    # A layer that is called more than once a batch, or on parts of a row, has no one input a row.
    usable = all(own.ndim == 2 for own in features) and sum(len(own) for own in features) == rows
    return torch.cat(outputs), torch.cat(targets), torch.cat(features) if usable and features else None
