"""Handing likelihood parameters to an optimizer, and a module whose forward pass is the loss."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

from likely._validation import check_positive
from likely.parameters import Predicted
from likely.row_store import RowStore

__all__ = ["Supervised", "clip_gradients", "param_groups"]


def param_groups(
    model: nn.Module | Iterable[Tensor],
    loss_fn: nn.Module,
    lr: float,
    *,
    multiplier: float = 0.1,
    weight_decay: float = 0.0,
    likelihood_weight_decay: float = 0.0,
    **options: Any,
) -> list[dict[str, Any]]:
    """Two groups for any torch optimizer: the model's parameters at ``lr``, the likelihood's at ``multiplier × lr``.

    The paper's multiplier is .1. ``weight_decay`` is the model's; the likelihood's own pulls its parameters
    towards 1 and is off. Further ``options`` go to both groups. A loss with nothing to hand over (all fixed, or
    rows of :class:`likely.Data`, which step by themselves) adds no group.

    >>> import torch, likely
    >>> model, loss_fn = torch.nn.Linear(3, 1), likely.NormalLoss()
    >>> groups = likely.param_groups(model, loss_fn, lr=0.01)
    >>> [(group["name"], len(group["params"]), group["lr"]) for group in groups]
    [('model', 2, 0.01), ('likelihood', 1, 0.001)]
    >>> optimizer = torch.optim.AdamW(groups)
    """
    check_positive("lr", lr)
    check_positive("multiplier", multiplier)
    if not isinstance(loss_fn, nn.Module):
        raise TypeError(f"loss_fn must be a loss module such as likely.NormalLoss(), got {type(loss_fn).__name__}")
    likelihood = [p for p in loss_fn.parameters() if p.requires_grad]
    own = {id(p) for p in likelihood}
    given = model.parameters() if isinstance(model, nn.Module) else model
    theirs = [p for p in given if p.requires_grad and id(p) not in own]
    groups = [
        {"name": "model", "params": theirs, "lr": lr, "weight_decay": weight_decay, **options},
        {
            "name": "likelihood",
            "params": likelihood,
            "lr": lr * multiplier,
            "weight_decay": likelihood_weight_decay,
            **options,
        },
    ]
    return [group for group in groups if group["params"]]


def clip_gradients(optimizer: torch.optim.Optimizer, loss_fn: nn.Module, max_norm: float = 1.0) -> RemovableHandle:
    """Clip the likelihood's gradient to the norm ``max_norm`` before every step of ``optimizer``.

    The paper clips at 1. The returned handle's ``remove()`` ends it. What a closure handed to ``optimizer.step``
    differentiates, as Lightning does, is too late for it: clip there, or use
    :class:`likely.integrations.lightning.LikelihoodModule`.

    >>> import torch, likely
    >>> loss_fn = likely.NormalLoss()
    >>> optimizer = torch.optim.SGD(likely.param_groups([], loss_fn, lr=1.0, multiplier=1.0))
    >>> handle = likely.clip_gradients(optimizer, loss_fn)
    >>> loss_fn(torch.zeros(1), torch.tensor([100.0])).backward()
    >>> optimizer.step()
    >>> loss_fn.scale.raw
    Parameter containing:
    tensor(1., requires_grad=True)
    """
    check_positive("max_norm", max_norm)
    parameters = [p for p in loss_fn.parameters() if p.requires_grad]

    def clip(*_: Any) -> None:
        nn.utils.clip_grad_norm_(parameters, max_norm)

    return optimizer.register_step_pre_hook(clip)


@contextmanager
def outputs_of(model: nn.Module, name: str) -> Iterator[list[Any]]:
    """What the submodule of that name returns while the block runs, call by call."""
    caught: list[Any] = []
    handle = model.get_submodule(name).register_forward_hook(lambda module, args, output: caught.append(output))
    try:
        yield caught
    finally:
        handle.remove()


class Supervised(nn.Module):
    """A model and its loss as one module whose forward pass returns the loss.

    Wrap this, not the model, in DDP, FSDP or a Trainer: parameters used outside the wrapped forward pass are
    neither synchronised nor sharded. Predicted parameters find their features in what the model returns, if it
    returns ``(prediction, features)``; or in the output of the submodule that ``features`` names; or, with
    ``features="input"``, in the input itself; or in what a function ``features`` makes of the input.

    >>> import torch, likely
    >>> model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 1))
    >>> step = likely.Supervised(model, likely.NormalLoss(scale=likely.Predicted(8)), features="1")
    >>> step(torch.randn(5, 4), torch.randn(5, 1)).shape
    torch.Size([])
    """

    def __init__(self, model: nn.Module, loss_fn: nn.Module, features: str | Callable[..., Any] | None = None) -> None:
        super().__init__()
        self.model, self.loss_fn, self.features = model, loss_fn, features
        if isinstance(features, str) and features != "input" and features not in dict(model.named_modules()):
            names = ", ".join(name for name, _ in model.named_modules() if name)
            raise ValueError(f"the model has no submodule {features!r}; it has {names}")
        # Tables keep themselves equal across processes; DDP would copy all of rank 0's rows at every step.
        self._ddp_params_and_buffers_to_ignore = [
            f"{name}.{buffer}"
            for name, module in self.named_modules()
            if isinstance(module, RowStore)
            for buffer, _ in module.named_buffers()
        ]

    def predict(self, *inputs: Any) -> tuple[Any, Any]:
        """The model's prediction, and the features that Predicted parameters read."""
        if callable(self.features):
            return self.model(*inputs), self.features(*inputs)
        if self.features in (None, "input"):
            output = self.model(*inputs)
            if self.features == "input":
                return output, inputs[0]
            return output if isinstance(output, tuple) and len(output) == 2 else (output, None)
        with outputs_of(self.model, str(self.features)) as caught:
            output = self.model(*inputs)
        return output, caught[-1]

    def forward(
        self, inputs: Any, target: Any, *, index: Tensor | None = None, sample_weight: Tensor | None = None
    ) -> Tensor:
        """The loss of a batch."""
        prediction, features = self.predict(inputs)
        if features is None and any(isinstance(m, Predicted) for m in self.loss_fn.modules()):
            raise ValueError(
                "the loss has a Predicted parameter: let the model return (prediction, features), or name a submodule "
                "or 'input' in Supervised(…, features=…)"
            )
        return self.loss_fn(prediction, target, features=features, index=index, sample_weight=sample_weight)
