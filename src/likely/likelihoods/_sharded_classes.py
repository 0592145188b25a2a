"""The softmax NLL of logits whose classes are spread over processes, as tensor-parallel vocabularies are.

Each process keeps the logits of its own classes. What it takes from the others is three numbers per row: the greatest
logit, the sum of exponentials and the logit of the label. The loss is the same number in every process; gradients of
what is spread (logits, or the output layer's weight) stay where they are, those of what every process has
(temperatures, hidden states) are summed.
"""

from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch import distributed as dist


class Shards(NamedTuple):
    """The part of an axis that this process has."""

    local: Tensor
    group: Any
    first: int  # number of the first class here


def is_spread(tensor: object) -> bool:
    """Whether a tensor is a DTensor; by name, so that nothing distributed is imported for those that are not."""
    return type(tensor).__name__ == "DTensor"


def local_part(tensor: Any) -> Tensor:
    """What this process has of a DTensor."""
    local: Tensor = tensor.to_local()
    return local


def shards_of(name: str, tensor: Any, axis: int) -> Shards | None:
    """This process's part of a DTensor that is spread along ``axis``; None if every process has all of it."""
    spread = [place for place, how in enumerate(tensor.placements) if not how.is_replicate()]
    if not spread:
        return None
    placement = tensor.placements[spread[0]]
    if len(spread) > 1 or not placement.is_shard() or placement.dim % tensor.ndim != axis:
        raise ValueError(
            f"{name} is a DTensor with placements {tensor.placements}: spread it over its class axis, Shard({axis}), "
            "and let data-parallel processes call the loss with their own part, to_local()"
        )
    mesh, (place,) = tensor.device_mesh, spread
    size = -(-tensor.shape[axis] // mesh.size(place))
    first = min(mesh.get_local_rank(place) * size, tensor.shape[axis])
    return Shards(tensor.to_local(), mesh.get_group(place), first)


def copied(tensor: Tensor, group: Any) -> Tensor:
    """A tensor that every process has, where each will use it for its own part: its gradients are summed."""
    same: Tensor = _Copied.apply(tensor, group)
    return same


def spread_nll(
    shards: Shards,
    target: Tensor,
    temperature: Tensor,
    *,
    classes: int,
    axis: int,
    ignore_index: int,
    label_smoothing: float,
) -> Tensor:
    """The NLL of every row, zero where its label is ignored; the same in every process."""
    logits, group, first = shards
    dtype = torch.promote_types(torch.promote_types(logits.dtype, temperature.dtype), torch.float32)
    temperature = copied(temperature.to(dtype).expand(target.shape), group)
    ruled_out = logits.isneginf()
    u = torch.where(ruled_out, 0.0, logits.to(dtype)) / temperature.unsqueeze(axis)
    u = torch.where(ruled_out, -torch.inf, u)
    highest = _greatest(u, axis, group)
    total = _Summed.apply((u - highest.unsqueeze(axis)).exp().sum(axis), group)
    place = target - first
    here = (place >= 0) & (place < u.shape[axis])
    chosen = u.gather(axis, torch.where(here, place, 0).unsqueeze(axis)).squeeze(axis)
    chosen = _Summed.apply(torch.where(here, chosen, 0.0), group)
    if label_smoothing:
        chosen = (1 - label_smoothing) * chosen + label_smoothing / classes * _Summed.apply(u.sum(axis), group)
    return torch.where(target != ignore_index, total.log() + highest - chosen, 0.0)


@torch.no_grad()
def _greatest(u: Tensor, axis: int, group: Any) -> Tensor:
    highest = u.amax(axis)
    dist.all_reduce(highest, dist.ReduceOp.MAX, group)
    return highest


class _Summed(torch.autograd.Function):
    """The sum over processes, of which each has the whole: its gradient goes to every part as it is."""

    @staticmethod
    def forward(ctx: Any, part: Tensor, group: Any) -> Tensor:
        whole = part.clone()
        dist.all_reduce(whole, group=group)
        return whole

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        return grad, None


class _Copied(torch.autograd.Function):
    """The tensor itself, of which every process uses its part: gradients are summed over processes."""

    @staticmethod
    def forward(ctx: Any, whole: Tensor, group: Any) -> Tensor:
        ctx.group = group
        return whole.view_as(whole)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        grad = grad.clone()
        dist.all_reduce(grad, group=ctx.group)
        return grad, None
