"""The maximum likelihood of a loss's shared parameters, given predictions."""

import copy
from collections.abc import Iterable, Mapping
from typing import Any

import torch
from torch import Tensor

from likely.parameters import Global

Loss = Any  # a likelihood loss, whose class imports this file
_NEEDS = "calibrate needs batches of (prediction, target), such as ((model(x), y) for x, y in loader)"


def fit_shared(loss: Loss, batches: Iterable[Any]) -> None:
    """Set the Global parameters where the mean NLL of all batches is lowest; each batch is a pair or a mapping."""
    shared = [name for name in loss.slots if isinstance(getattr(loss, name), Global)]
    rows = _joined(batches)
    if not shared:
        return
    twin = copy.deepcopy(loss).double().eval().requires_grad_(False)
    twin.reduction, twin.multiplier, twin.validate_args = "mean", 1.0, False
    given = {name: value for name, value in rows.items() if name in ("prediction", "target", "sample_weight")}
    twin.start(**given)
    raw = [getattr(twin, name).raw.requires_grad_() for name in shared]
    optimizer = torch.optim.LBFGS(
        raw, max_iter=500, tolerance_grad=1e-10, tolerance_change=1e-14, line_search_fn="strong_wolfe"
    )

    def closure() -> Tensor:
        optimizer.zero_grad()
        value: Tensor = twin(**rows)
        value.backward()
        return value

    optimizer.step(closure)
    for name, values in zip(shared, raw, strict=True):
        getattr(loss, name).begin_at(values)


def _joined(batches: Iterable[Any]) -> dict[str, Tensor]:
    """All batches as one, in double precision."""
    parts: dict[str, list[Tensor]] = {}
    for batch in batches:
        if not isinstance(batch, Mapping) and len(batch) != 2:
            raise ValueError(_NEEDS)
        named = batch if isinstance(batch, Mapping) else dict(zip(("prediction", "target"), batch, strict=True))
        for name, value in named.items():
            parts.setdefault(name, []).append(value.detach())
    if "prediction" not in parts or "target" not in parts:
        raise ValueError(_NEEDS)
    joined = {name: torch.cat(values) for name, values in parts.items()}
    return {name: value.double() if value.is_floating_point() else value for name, value in joined.items()}
