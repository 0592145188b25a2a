"""One table in several processes: equal copies, or one part per process."""

from collections.abc import Callable

import torch
from torch import Tensor, distributed as dist


def processes() -> int:
    """Return the number of processes that train together."""
    return dist.get_world_size() if dist.is_available() and dist.is_initialized() else 1


def gathered(index: Tensor, grad: Tensor) -> tuple[Tensor, Tensor]:
    """Return indices and gradients of all processes, so that copies stay equal; gradients are averaged as in DDP."""
    world = processes()
    counts = [torch.zeros(1, dtype=torch.long, device=index.device) for _ in range(world)]
    dist.all_gather(counts, torch.tensor([len(index)], device=index.device))
    lengths = [int(c) for c in counts]

    def collected(local: Tensor) -> Tensor:
        padded = local.new_zeros(max(lengths), *local.shape[1:])
        padded[: len(local)] = local
        parts = [torch.empty_like(padded) for _ in range(world)]
        dist.all_gather(parts, padded)
        return torch.cat([part[:k] for part, k in zip(parts, lengths, strict=True)])

    return collected(index), collected(grad) / world


class Shard:
    """The rows that this process stores, and the exchange of rows and gradients with the others."""

    def __init__(self, n: int) -> None:
        self.world, self.rank = processes(), dist.get_rank()
        self.size = -(-n // self.world)
        self.first = min(self.rank * self.size, n)
        self.rows = slice(self.first, min(self.first + self.size, n))

    def ask(self, index: Tensor, read: Callable[[Tensor], Tensor]) -> Tensor:
        """Return the rows of ``index``, each from the process that stores it."""
        route = _Route(index // self.size, self.world)
        rows = route.from_owners(read(route.to_owners(index) - self.first))
        return torch.empty_like(rows).index_copy_(0, route.order, rows)

    def give(self, index: Tensor, grad: Tensor) -> tuple[Tensor, Tensor]:
        """Return the gradients of all processes for the rows stored here, divided by the number of processes."""
        route = _Route(index // self.size, self.world)
        return route.to_owners(index) - self.first, route.to_owners(grad) / self.world


class _Route:
    """Exchange with the owner of each row: sorted by owner, then in the order of the batch."""

    def __init__(self, owner: Tensor, world: int) -> None:
        self.order = owner.argsort(stable=True)
        sent = torch.bincount(owner, minlength=world)
        received = torch.empty_like(sent)
        dist.all_to_all_single(received, sent)
        self.sent, self.received = sent.tolist(), received.tolist()

    def to_owners(self, values: Tensor) -> Tensor:
        return _exchanged(values.index_select(0, self.order), self.received, self.sent)

    def from_owners(self, values: Tensor) -> Tensor:
        return _exchanged(values.contiguous(), self.sent, self.received)


def _exchanged(values: Tensor, received: list[int], sent: list[int]) -> Tensor:
    """Send consecutive parts of ``values``, one to each process; return what comes from each."""
    result = values.new_empty(sum(received), *values.shape[1:])
    dist.all_to_all_single(result, values, received, sent)
    return result
