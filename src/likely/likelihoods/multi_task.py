"""The sum of several losses, each with a learned scale."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from likely._standardize import unchanged_on_error
from likely._validation import may_look
from likely.likelihoods._loss import LikelihoodLoss
from likely.parameters import Predicted
from likely.parameters._slot import as_parameter, may_start, root_mean_square, scale_slot

__all__ = ["MultiTaskLoss"]


class MultiTaskLoss(nn.Module):
    r"""The sum of the losses of several tasks, each weighted by a learned scale (Kendall, Gal & Cipolla 2018).

    A likelihood loss has its own scale or temperature. Any other loss :math:`L` is treated as a squared error and
    enters as :math:`L / 2\sigma^2 + \log\sigma` with a :class:`~likely.Global` σ.

    Args:
        losses: mapping from names of tasks to loss modules, at least one.

    Raises:
        ValueError: ``losses`` is empty.

    >>> import torch, likely
    >>> loss_fn = likely.MultiTaskLoss({"depth": likely.LaplaceLoss(), "class": likely.SoftmaxLoss()})
    >>> predictions = {"depth": torch.zeros(4), "class": torch.zeros(4, 3)}
    >>> targets = {"depth": torch.ones(4), "class": torch.tensor([0, 1, 2, 0])}
    >>> loss_fn(predictions, targets)
    tensor(2.7918, grad_fn=<AddBackward0>)
    >>> {name: round(term.item(), 3) for name, term in loss_fn.terms(predictions, targets).items()}
    {'depth': 1.693, 'class': 1.099}
    """

    def __init__(self, losses: Mapping[str, nn.Module]) -> None:
        super().__init__()
        if not losses:
            raise ValueError("losses must name at least one task, e.g. {'depth': likely.LaplaceLoss()}")
        self.losses = nn.ModuleDict(
            {k: v if isinstance(v, LikelihoodLoss) else _Weighted(v) for k, v in losses.items()}
        )

    def forward(self, prediction: Mapping[str, Tensor], target: Mapping[str, Tensor], **extras: Any) -> Tensor:
        """Compute the sum of the losses of all tasks.

        Args:
            prediction: mapping from names of tasks to predictions.
            target: mapping from names of tasks to targets.
            **extras: ``features``, ``index`` and ``sample_weight`` of the losses: one value for all tasks, or a mapping
                from names of tasks to values.

        Returns:
            A scalar.

        Raises:
            ValueError: a task has no prediction or no target, a name is no task, or a loss that is no likelihood is
                negative.
            TypeError: a loss that is no likelihood is given weights of rows.
        """
        terms = list(self.terms(prediction, target, **extras).values())
        return sum(terms[1:], start=terms[0])

    def terms(self, prediction: Mapping[str, Tensor], target: Mapping[str, Tensor], **extras: Any) -> dict[str, Tensor]:
        """Compute the loss of every task, for logging.

        Args:
            prediction: mapping from names of tasks to predictions.
            target: mapping from names of tasks to targets.
            **extras: as in :meth:`forward`.

        Returns:
            One scalar per task, by name; :meth:`forward` returns their sum.
        """
        for argument, tasks in (("prediction", prediction), ("target", target)):
            if missing := [name for name in self.losses if name not in tasks]:
                raise ValueError(f"{argument} lacks the task {', '.join(missing)}; it has {', '.join(tasks)}")

        for argument, value in extras.items():
            if isinstance(value, Mapping) and (unknown := sorted({*value} - {*self.losses})):
                raise ValueError(f"{argument} names {', '.join(unknown)}; the tasks are {', '.join(self.losses)}")

        def extra(name: str) -> dict[str, Any]:
            picked = {k: v.get(name) if isinstance(v, Mapping) else v for k, v in extras.items()}
            return {k: v for k, v in picked.items() if v is not None}

        # If one task refuses its batch, the statistics of all are restored.
        with unchanged_on_error([module for module in self.modules() if isinstance(module, Predicted)]):
            return {name: loss(prediction[name], target[name], **extra(name)) for name, loss in self.losses.items()}

    def calibrate(self, batches: Iterable[tuple[Mapping[str, Tensor], Mapping[str, Tensor]]]) -> None:
        """Set what all rows share, in every task, exactly at its maximum likelihood, given the predictions.

        Args:
            batches: pairs ``(prediction, target)`` of mappings from names of tasks to tensors.
        """
        seen = list(batches)
        for name, loss in dict[str, Any](self.losses.items()).items():
            loss.calibrate([(prediction[name], target[name]) for prediction, target in seen])


class _Weighted(nn.Module):
    def __init__(self, loss: nn.Module) -> None:
        super().__init__()
        self.loss = loss
        self.scale = as_parameter("scale", None, scale_slot(root_mean_square))

    def forward(
        self, prediction: Tensor, target: Tensor, *, features: Any = None, index: Any = None, sample_weight: Any = None
    ) -> Tensor:
        kind = type(self.loss).__name__
        if sample_weight is not None:
            raise TypeError(
                f"{kind} takes no sample_weight: pass likely.from_torch({kind}()), or weigh other tasks only"
            )
        loss = self.loss(prediction, target)
        if may_look(loss, None) and bool((loss < 0).any()):  # of which there is no best scale
            raise ValueError(
                f"{kind} is negative, so that its scale would fall to zero: pass likely.from_torch({kind}())"
            )
        if self.training and self.scale.waiting and may_start(loss):
            self.scale.begin(loss.detach().mean().sqrt())
        scale = self.scale()
        return loss / (2 * scale.square()) + scale.log()

    @torch.no_grad()
    def calibrate(self, batches: Sequence[tuple[Tensor, Tensor]]) -> None:
        total = torch.stack(
            [self.loss(prediction, target).mean() * len(target) for prediction, target in batches]
        ).sum()
        self.scale.begin((total / sum(len(target) for _, target in batches)).sqrt())
