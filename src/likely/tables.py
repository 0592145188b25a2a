r"""Where Data parameters live: a table with a row for every training example, and its row-wise optimizer.

The table is a buffer, not a parameter. A dense gradient would cost as much as the table is large, and a dense
optimizer would move rows that were not seen. Instead the rows of a batch are gathered as a leaf of the graph,
and as soon as ``backward`` has filled the leaf's gradient the rows, and only they, take a step.
"""

import torch
from torch import Tensor, nn

from likely._validation import check_positive

__all__ = ["Table"]

OPTIMIZERS = ("rmsprop", "adagrad", "sgd")


class Table(nn.Module):
    r"""``n`` rows of unconstrained values that step by themselves during ``backward``.

    ``optimizer`` is one of ``"rmsprop"`` (the paper's), ``"adagrad"`` and ``"sgd"``; the first two keep one
    running mean square a row. An index that occurs twice in a batch has its gradients summed first. The
    gradient of a row is clipped to the norm ``clip``, and ``weight_decay`` pulls the rows seen towards zero. A
    row whose gradient is not finite does not move.

    >>> import torch
    >>> from likely.tables import Table
    >>> table = Table(torch.zeros(4), optimizer="sgd", lr=1.0, clip=None)
    >>> rows = table(torch.tensor([1, 3, 3]))
    >>> (rows * torch.tensor([1.0, 2.0, 3.0])).sum().backward()
    >>> table.rows
    tensor([ 0., -1.,  0., -5.])
    """

    rows: Tensor
    mean_square: Tensor

    def __init__(
        self,
        rows: Tensor,
        *,
        optimizer: str = "rmsprop",
        lr: float = 0.1,
        decay: float = 0.9,
        eps: float = 1e-8,
        clip: float | None = 1.0,
        weight_decay: float = 0.0,
    ) -> None:
        super().__init__()
        if optimizer not in OPTIMIZERS:
            raise ValueError(f"optimizer must be one of {', '.join(OPTIMIZERS)}; got {optimizer!r}")
        if not 0 <= decay < 1:
            raise ValueError(f"decay must lie in [0, 1), got {decay}")
        check_positive("lr", lr)
        if clip is not None:
            check_positive("clip", clip)
        self.optimizer, self.lr, self.decay, self.eps = optimizer, lr, decay, eps
        self.clip, self.weight_decay = clip, weight_decay
        self.register_buffer("rows", rows.clone())
        self.register_buffer("mean_square", rows.new_zeros(0 if optimizer == "sgd" else len(rows)))

    def forward(self, index: Tensor) -> Tensor:
        """The rows of ``index``, which step when a loss made from them is differentiated by ``backward``."""
        leaf = self.rows.index_select(0, index)
        if torch.is_grad_enabled():
            leaf.requires_grad_().register_post_accumulate_grad_hook(lambda rows: self.step(index, rows.grad))
        return leaf

    @torch.no_grad()
    def step(self, index: Tensor, grad: Tensor) -> None:
        """Move the rows of ``index`` against ``grad``; all others stay as they are, to the bit."""
        if torch.distributed.is_available() and torch.distributed.is_initialized():
            index, grad = _gather(index, grad)
        if not len(index):
            return
        index, grad, used = _sum_duplicates(index, grad)
        flat = grad.reshape(len(grad), -1)
        moves = used[:, None] & flat.isfinite().all(1, keepdim=True)
        flat = torch.where(moves, flat, 0.0)
        if self.clip is not None:
            flat = flat * (self.clip / flat.norm(dim=1, keepdim=True)).clamp(max=1).nan_to_num(1.0)
        pull = self.weight_decay * self.rows.index_select(0, index).view_as(flat) * moves
        if self.optimizer != "sgd":
            flat = flat / (self._accumulate(index, flat.square().mean(1)).sqrt()[:, None] + self.eps)
        # Slots left over by the duplicates carry zeros: adding them is how they stay without effect.
        self.rows.index_add_(0, index, (-self.lr * (flat + pull)).view_as(grad).to(self.rows.dtype))

    def _accumulate(self, index: Tensor, square: Tensor) -> Tensor:
        old = self.mean_square.index_select(0, index)
        if self.optimizer == "adagrad":
            new = old + square
        else:
            # The first gradient a row sees starts its mean, so that the first step has the length lr.
            new = torch.where(old == 0, square, self.decay * old + (1 - self.decay) * square)
        change = torch.where(square == 0, 0.0, new - old)
        self.mean_square.index_add_(0, index, change)
        return torch.where(square == 0, 1.0, new)

    def extra_repr(self) -> str:
        """Shape and optimizer, for ``repr``."""
        return f"{tuple(self.rows.shape)}, optimizer={self.optimizer!r}, lr={self.lr:g}"


def _sum_duplicates(index: Tensor, grad: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """One slot a distinct index, at the front; the slots left over are marked as not used.

    Sorting instead of ``unique`` keeps the shapes fixed, so that a GPU need not report back.
    """
    ordered, order = index.sort(stable=True)
    slot = torch.cat([ordered.new_zeros(1), (ordered[1:] != ordered[:-1]).cumsum(0)])
    summed = torch.zeros_like(grad).index_add_(0, slot, grad.index_select(0, order))
    used = torch.arange(len(slot), device=slot.device) <= slot[-1]
    return ordered[:1].expand_as(ordered).scatter(0, slot, ordered), summed, used


def _gather(index: Tensor, grad: Tensor) -> tuple[Tensor, Tensor]:
    """Every process's rows, so that replicas stay equal; the mean over processes, as DDP takes it."""
    from torch import distributed as dist

    world = dist.get_world_size()
    counts = [torch.zeros(1, dtype=torch.long, device=index.device) for _ in range(world)]
    dist.all_gather(counts, torch.tensor([len(index)], device=index.device))
    longest = max(int(c) for c in counts)
    padded_index, padded_grad = index.new_zeros(longest), grad.new_zeros(longest, *grad.shape[1:])
    padded_index[: len(index)], padded_grad[: len(index)] = index, grad
    all_index = [torch.empty_like(padded_index) for _ in range(world)]
    all_grad = [torch.empty_like(padded_grad) for _ in range(world)]
    dist.all_gather(all_index, padded_index)
    dist.all_gather(all_grad, padded_grad)
    kept = [int(c) for c in counts]
    return (
        torch.cat([i[:k] for i, k in zip(all_index, kept, strict=True)]),
        torch.cat([g[:k] for g, k in zip(all_grad, kept, strict=True)]) / world,
    )
