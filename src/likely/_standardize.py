"""Features at mean zero and deviation one, without a second pass over the data."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext

import torch
from torch import Tensor, nn

from likely._kernels import available, is_readable, moments, no_transform_active
from likely._validation import under_torch_func

# Deviations from the mean beyond which a feature says no more: one that was silent in training, as units behind a ReLU
# are, would otherwise move what is predicted from it by any amount.
_REACH = 5.0


class Standardize(nn.Module):
    """Subtracts the running mean and divides by the running deviation, in training as in evaluation, to ±5 at most.

    Batch normalisation would use the batch's own moments in training: noise for small batches, and a different
    network at test time. Here the moments follow the features (momentum .01 after a warm-up that averages
    evenly) and are shared by all processes. A constant feature is centred and left at its scale. A batch that holds
    NaN or infinity, or whose moments overflow, is not taken into them; nor is one under a transform of ``torch.func``,
    whose functions are pure, nor the second pass of gradient checkpointing, which must repeat the first.

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
        count, total = over_processes(x.new_full((1,), len(x)), x.sum(0))
        mean = total / count
        (squares,) = over_processes((x - mean).square().sum(0))
        var = squares / count
        weight = torch.clamp(1 / (self.batches + 1), min=self.momentum)
        shift = mean - self.mean
        # Moments of the mixture of old and new: the spread of the means counts too.
        mixed = (1 - weight) * (self.var + weight * shift.square()) + weight * var
        sound = (mixed.isfinite() & shift.isfinite()).all()  # decided on the device, which is not waited for
        self.var.copy_(torch.where(sound, mixed, self.var))
        self.mean.add_(torch.where(sound, weight * shift, 0.0))
        self.batches.add_(sound)

    def moments(self, x: Tensor) -> Tensor | None:
        """Mean and deviation after this batch, and what :meth:`put_back` needs, by a kernel; None without one."""
        buffers = (self.mean, self.var, self.batches)
        if torch.compiler.is_compiling() or not x.is_cpu or not x.numel() or not all(map(is_readable, (x, *buffers))):
            return None
        if _shared() or not (available(x) and no_transform_active()):
            return None
        learning = self.training and not _recomputing()
        return moments(x.detach(), *buffers, momentum=self.momentum, reach=_REACH, learning=learning)

    @torch.no_grad()
    def put_back(self, moments: Tensor) -> None:
        """Forget the batch of which :meth:`moments` returned these."""
        _, _, _, mean, var, batches = moments
        self.mean.copy_(mean)
        self.var.copy_(var)
        self.batches.copy_(batches[0])

    def forward(self, x: Tensor) -> Tensor:
        """``x`` with every feature at mean zero and deviation one, within reach."""
        statistics = self.moments(x)
        if statistics is None:
            if self.training and x.numel() > 0 and not under_torch_func() and not _recomputing():
                self._update(x.detach())
            constant = self.var.sqrt() <= 4 * torch.finfo(self.var.dtype).eps * self.mean.abs()  # rounding, no more
            mean, deviation = self.mean, torch.where(constant, 1.0, self.var).sqrt()
        else:
            mean, deviation, *_ = statistics
        return ((x - mean) / deviation).clamp(-_REACH, _REACH)


def _shared() -> bool:
    """Whether there are other processes to share moments with."""
    return torch.distributed.is_available() and torch.distributed.is_initialized()


def _recomputing() -> bool:
    """Whether this is inside a backward pass, as the forward pass that gradient checkpointing repeats is."""
    return not torch.compiler.is_compiling() and torch._C._current_graph_task_id() != -1


def over_processes(*sums: Tensor) -> tuple[Tensor, ...]:
    """Vectors of sums, added over all processes."""
    if not _shared():
        return sums
    joined = torch.cat(sums)
    torch.distributed.all_reduce(joined)
    return tuple(joined.split([len(s) for s in sums]))


def unchanged_on_error(modules: Sequence[nn.Module]) -> AbstractContextManager[None]:
    """Gives the modules' buffers, such as running statistics, their old values back if what is inside raises.

    >>> layer = Standardize(1)
    >>> try:
    ...     with unchanged_on_error([layer]):
    ...         layer(torch.ones(4, 1)).reshape(3)
    ... except RuntimeError:
    ...     layer.batches
    tensor(0.)
    """
    # Nothing to keep; nothing moves before the graph is whole; nothing moves at all.
    if not modules or torch.compiler.is_compiling() or under_torch_func():
        return nullcontext()
    return _restoring([module for module in modules if module.training])


@contextmanager
def _restoring(modules: Iterable[nn.Module]) -> Iterator[None]:
    before = [(buffer, buffer.clone()) for module in modules for buffer in module.buffers()]
    try:
        yield
    except BaseException:
        with torch.no_grad():
            for buffer, value in before:
                buffer.copy_(value)
        raise
