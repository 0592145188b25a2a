"""Parameter groups for an optimizer, gradient clipping, and a module whose forward pass returns the loss."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

from likely._validation import check_positive
from likely.parameters import Global, Predicted
from likely.row_store import RowStore

__all__ = ["Supervised", "clip_gradients", "param_groups"]

# Chosen by the benchmark `start`.
_SCALE_RATE_FACTOR = 10.0  # times the model's rate …
_MAX_SCALE_RATE = 0.02  # … up to this one, unless the model's is higher


def param_groups(
    model: nn.Module | Iterable[Tensor],
    loss_fn: nn.Module,
    lr: float,
    *,
    multiplier: float | None = None,
    weight_decay: float = 0.0,
    **kwargs: Any,
) -> list[dict[str, Any]]:
    """Parameter groups for a torch optimizer: ``lr`` for the model, and suitable rates for the likelihood.

    A scale that all rows share learns ten times as fast as the model, up to a rate of 0.02, so that it keeps up with
    its errors; so do all shared parameters of a likelihood that has a scale, a concentration or a dispersion.
    Temperatures and the common level of :class:`~likely.Predicted` values learn at the model's rate. The weights of d
    features learn at 6 / d of that rate if d > 6, because all features change a value together.

    Args:
        model: module, or parameters, to be trained.
        loss_fn: loss module, such as :class:`~likely.NormalLoss`. If it has no parameters for an optimizer (all are
            fixed, or belong to :class:`~likely.Data`, which updates itself), it adds no group.
        lr: learning rate of the model.
        multiplier: learning rate of all parameters of the likelihood relative to ``lr``; by default (None) the rates
            above. The paper has 0.1.
        weight_decay: weight decay of the model, 0 by default; the likelihood's parameters have none, which would pull
            scales and temperatures towards 1.
        **kwargs: further options of the optimizer, for all groups.

    Returns:
        Dictionaries named ``"model"`` and ``"likelihood"``, of the latter one per rate, for any optimizer of
        :mod:`torch.optim`.

    Raises:
        TypeError: ``loss_fn`` is not a module.
        ValueError: ``lr`` or ``multiplier`` is not positive.

    See Also:
        :func:`~likely.clip_gradients`.

    >>> import torch, likely
    >>> model, loss_fn = torch.nn.Linear(3, 1), likely.NormalLoss()
    >>> groups = likely.param_groups(model, loss_fn, lr=0.001)
    >>> [(group["name"], len(group["params"]), group["lr"]) for group in groups]
    [('model', 2, 0.001), ('likelihood', 1, 0.01)]
    >>> optimizer = torch.optim.AdamW(groups)
    """
    check_positive("lr", lr)
    if not isinstance(loss_fn, nn.Module):
        raise TypeError(f"loss_fn must be a loss module such as likely.NormalLoss(), got {type(loss_fn).__name__}")
    rates = {id(p): lr * (multiplier or 1.0) for p in loss_fn.parameters() if p.requires_grad}
    if multiplier is not None:
        check_positive("multiplier", multiplier)
    for parameter in loss_fn.modules() if multiplier is None else ():
        if isinstance(parameter, Predicted):
            rates |= {id(p): lr * parameter.rate for p in parameter.slow_parameters() if id(p) in rates}
        if isinstance(parameter, Global) and parameter.follows_errors and id(parameter.raw) in rates:
            rates[id(parameter.raw)] = max(lr, min(_SCALE_RATE_FACTOR * lr, _MAX_SCALE_RATE))
    parameters = model.parameters() if isinstance(model, nn.Module) else model
    model_parameters = [p for p in parameters if p.requires_grad and id(p) not in rates]
    groups = [{"name": "model", "params": model_parameters, "lr": lr, "weight_decay": weight_decay, **kwargs}]
    for rate in dict.fromkeys(rates.values()):
        params = [p for p in loss_fn.parameters() if rates.get(id(p)) == rate]
        options = {"lr": rate, "weight_decay": 0.0, **kwargs}
        groups.append({"name": "likelihood", "params": params, **options})
    return [group for group in groups if group["params"]]


def clip_gradients(optimizer: torch.optim.Optimizer, loss_fn: nn.Module, max_norm: float = 1.0) -> RemovableHandle:
    """Clip the gradient of the likelihood's parameters before every step of an optimizer.

    Gradients that a closure computes inside ``optimizer.step``, as in Lightning, are not clipped: clip in the closure,
    or use :class:`likely.integrations.lightning.LikelihoodModule`.

    Args:
        optimizer: optimizer that has the likelihood's parameters.
        loss_fn: loss module.
        max_norm: largest norm of the gradient; 1 by default, as in the paper.

    Returns:
        A handle; its method ``remove()`` ends the clipping.

    Raises:
        ValueError: ``max_norm`` is not positive.

    See Also:
        :func:`~likely.param_groups`.

    >>> import torch, likely
    >>> loss_fn = likely.NormalLoss(likely.Global(init=1.0))
    >>> optimizer = torch.optim.SGD(likely.param_groups([], loss_fn, lr=1.0))
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
    """The outputs of the submodule of that name in the calls during the block."""
    caught: list[Any] = []
    handle = model.get_submodule(name).register_forward_hook(lambda module, args, output: caught.append(output))
    try:
        yield caught
    finally:
        handle.remove()


class Supervised(nn.Module):
    """A model and its loss as one module whose forward pass returns the loss.

    Wrap this, not the model, in DDP, FSDP or a Trainer: parameters used outside the wrapped forward pass are
    neither synchronised nor sharded.

    Args:
        model: module that returns the prediction, or ``(prediction, features)``.
        loss_fn: loss module, such as :class:`~likely.NormalLoss`.
        features: source of the features for Predicted parameters: the name of a submodule, whose output is used;
            ``"input"``, the input itself; a function of the input; or None (the default), the second output of the
            model, if it has one.

    Raises:
        ValueError: the model has no submodule of that name.

    See Also:
        :class:`~likely.Predicted`, :func:`~likely.param_groups`.

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
        # Row stores synchronise themselves across processes; DDP would copy all of rank 0's rows at every step.
        self._ddp_params_and_buffers_to_ignore = [
            f"{name}.{buffer}"
            for name, module in self.named_modules()
            if isinstance(module, RowStore)
            for buffer, _ in module.named_buffers()
        ]

    def predict(self, *inputs: Any) -> tuple[Any, Any]:
        """The model's prediction, and the features for Predicted parameters.

        Args:
            *inputs: arguments of the model.

        Returns:
            The prediction, and the features or None.
        """
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
        """Compute the loss of a batch.

        Args:
            inputs: argument of the model.
            target: argument of the loss.
            index: row numbers in the training set, shape (batch,), for Data parameters; None by default.
            sample_weight: weights ≥ 0, one per row; None by default.

        Returns:
            The loss, reduced as ``loss_fn`` reduces it.

        Raises:
            ValueError: the loss has a Predicted parameter, and there are no features.
        """
        prediction, features = self.predict(inputs)
        if features is None and any(isinstance(m, Predicted) for m in self.loss_fn.modules()):
            raise ValueError(
                "the loss has a Predicted parameter: let the model return (prediction, features), or name a submodule "
                "or 'input' in Supervised(…, features=…)"
            )
        return self.loss_fn(prediction, target, features=features, index=index, sample_weight=sample_weight)
