"""How a row moves: the one place where the row-wise optimizers are written, whatever holds the rows."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from likely._validation import check_not_negative, check_positive
from likely.kernels import applies
from likely.row_store import _rule_native
from likely.row_store._memory import Pair

Array = Any  # of torch or of NumPy: the formulas are the same
_FEW = 2**14  # numbers
_IN_A_KERNEL = 2**13  # places in a batch, at most: each looks at all others
OPTIMIZERS = ("rmsprop", "adagrad", "sgd")


@dataclass
class Rule:
    """A step of RMSProp, Adagrad or SGD with clipping and weight decay, on rows that are at hand."""

    optimizer: str
    lr: float
    decay: float
    eps: float
    clip: float | None
    weight_decay: float

    def __post_init__(self) -> None:
        if self.optimizer not in OPTIMIZERS:
            raise ValueError(f"optimizer must be one of {', '.join(OPTIMIZERS)}; got {self.optimizer!r}")
        if not 0 <= self.decay < 1:
            raise ValueError(f"decay must lie in [0, 1), got {self.decay}")
        for name in ("lr", "eps", "clip"):
            if (value := getattr(self, name)) is not None:
                check_positive(name, value)
        check_not_negative("weight_decay", self.weight_decay)

    @property
    def number(self) -> int:
        """What kernels know the optimizer by."""
        return OPTIMIZERS.index(self.optimizer)

    @property
    def has_state(self) -> bool:
        """Whether a row carries a running mean square."""
        return self.optimizer != "sgd"

    def __call__(self, rows: Array, mean_square: Array, grad: Array) -> tuple[Array, Array]:
        """The rows after a step, and their mean squares; a row whose gradient is not finite stays, to the bit."""
        xp: Any = torch if isinstance(rows, Tensor) else np
        flat, old = grad.reshape(len(grad), -1), rows.reshape(len(rows), -1)
        wide = flat.shape[1] > 1  # scalars are most frequent: no sums for them
        moves = xp.isfinite(flat).all(1)[:, None] if wide else xp.isfinite(flat)
        flat = xp.where(moves, flat, 0.0)
        if self.clip is not None:
            length = xp.sqrt(xp.square(flat).sum(1))[:, None] if wide else xp.abs(flat)
            flat = xp.where(length > self.clip, flat / (length / self.clip), flat)
        change = flat
        if self.has_state:
            square = xp.square(flat).mean(1) if wide else xp.square(flat)[:, 0]
            mean_square = xp.where(square == 0, mean_square, self._accumulated(xp, mean_square, square))
            change = flat / (xp.sqrt(mean_square)[:, None] + self.eps)
        if self.weight_decay:
            change = change + self.weight_decay * old * moves
        return (old - self.lr * change).reshape(rows.shape), mean_square

    def _accumulated(self, xp: Any, old: Array, square: Array) -> Array:
        if self.optimizer == "adagrad":
            return old + square
        # The first gradient a row sees starts its mean, so that the first step has the length lr.
        return xp.where(old == 0, square, old + (1 - self.decay) * (square - old))

    def move(self, index: Tensor, home: Pair, grad: Tensor) -> bool:
        """Move the rows of ``index`` in the tensors they live in, if a kernel can."""
        kernel = _kernel(index, grad) if home.rows.dtype == grad.dtype and home.rows.is_contiguous() else None
        if kernel:
            kernel(self, index, grad, home, home)
        return kernel is not None

    def step(self, index: Tensor, old: Pair, grad: Tensor) -> Pair:
        """What the rows of ``index`` become. Of few numbers on the CPU NumPy makes it in a third of torch's time."""
        rows, mean_square = old.rows.to(grad.dtype), old.mean_square.to(grad.dtype)
        if kernel := _kernel(index, grad):
            gathered = Pair(rows.contiguous(), mean_square)
            new = Pair(*map(torch.empty_like, gathered))
            kernel(self, index, grad, gathered, new)
            return new
        if grad.device.type != "cpu" or grad.numel() > _FEW:
            return Pair(*self(rows, mean_square, summed(index, grad)))
        with np.errstate(all="ignore"):
            found = self(rows.numpy(), mean_square.numpy(), _summed_by_numpy(index.numpy(), grad.numpy()))
        return Pair(*map(torch.from_numpy, found))


def _kernel(index: Tensor, grad: Tensor) -> Callable[[Rule, Tensor, Tensor, Pair, Pair], None] | None:
    """A step in one go, where there is one."""
    if grad.dtype != torch.float32 or not applies(grad):
        return None
    if not grad.is_cuda:
        return _rule_native.step if _rule_native.library() else None
    if len(index) > _IN_A_KERNEL:
        return None
    from likely.row_store import _rule_triton

    return _rule_triton.step


def summed(index: Tensor, grad: Tensor) -> Tensor:
    """The gradients with those of a repeated index added up, in each of its places.

    A row that is in the batch twice is then written twice, with the same value. Sorting instead of ``unique``
    keeps the shapes fixed, so that a GPU need not report back.
    """
    ordered, order = index.sort(stable=True)
    group = torch.cat([ordered.new_zeros(1), (ordered[1:] != ordered[:-1]).cumsum(0)])
    place = torch.empty_like(order).scatter_(0, order, group)
    return torch.zeros_like(grad).index_add_(0, place, grad).index_select(0, place)


def _summed_by_numpy(index: NDArray[Any], grad: NDArray[Any]) -> NDArray[Any]:
    ordered = np.sort(index)
    if (ordered[1:] != ordered[:-1]).all():
        return grad
    found, place = np.unique(index, return_inverse=True)
    total = np.zeros((len(found), *grad.shape[1:]), grad.dtype)
    np.add.at(total, place, grad)
    return total[place]
