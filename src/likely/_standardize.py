"""Features at mean zero and deviation one, without a second pass over the data."""

import torch
from torch import Tensor, nn


class Standardize(nn.Module):
    """Subtracts the running mean and divides by the running deviation, in training as in evaluation.

    Batch normalisation would use the batch's own moments in training: noise for small batches, and a different
    network at test time. Here the moments follow the features (momentum .01 after a warm-up that averages
    evenly) and are shared by all processes. A constant feature is centred and left at its scale.

    >>> import torch
    >>> from likely._standardize import Standardize
    >>> Standardize(1)(torch.tensor([[1.0], [3.0]]))
    tensor([[-1.],
            [ 1.]])
    """

    mean: Tensor
    var: Tensor
    batches: Tensor

    def __init__(self, features: int, momentum: float = 0.01) -> None:
        super().__init__()
        self.momentum = momentum
        self.register_buffer("mean", torch.zeros(features))
        self.register_buffer("var", torch.ones(features))
        self.register_buffer("batches", torch.zeros(()))

    @torch.no_grad()
    def _update(self, x: Tensor) -> None:
        x = x.reshape(-1, x.shape[-1]).to(self.mean.dtype)
        count, total = _over_processes(x.new_full((1,), len(x)), x.sum(0))
        mean = total / count
        (squares,) = _over_processes((x - mean).square().sum(0))
        var = squares / count
        weight = torch.clamp(1 / (self.batches + 1), min=self.momentum)
        shift = mean - self.mean
        # Moments of the mixture of old and new: the spread of the means counts too.
        self.var.copy_((1 - weight) * (self.var + weight * shift.square()) + weight * var)
        self.mean.add_(weight * shift)
        self.batches.add_(1)

    def forward(self, x: Tensor) -> Tensor:
        """``x`` with every feature at mean zero and deviation one."""
        if self.training and x.numel():
            self._update(x.detach())
        constant = self.var.sqrt() <= 4 * torch.finfo(self.var.dtype).eps * self.mean.abs()  # rounding, no more
        return (x - self.mean) / torch.where(constant, 1.0, self.var).sqrt()


def _over_processes(*sums: Tensor) -> tuple[Tensor, ...]:
    if not (torch.distributed.is_available() and torch.distributed.is_initialized()):
        return sums
    joined = torch.cat(sums)
    torch.distributed.all_reduce(joined)
    return tuple(joined.split([len(s) for s in sums]))
