"""Likelihood parameters in TensorBoard, or in anything with its two methods."""

from __future__ import annotations

from typing import Any, Protocol

import torch
from torch import Tensor, nn

from likely.integrations._phi import learned
from likely.parameters import Data, Global, Parameter, Predicted

__all__ = ["Writer", "log_parameters"]

_MOST = 2**20  # numbers of a table that a histogram is made of


class Writer(Protocol):
    """What is asked of a writer; ``torch.utils.tensorboard.SummaryWriter`` has it.

    >>> from likely.integrations.tensorboard import Writer
    >>> class Print:
    ...     def add_scalar(self, tag, value, step):
    ...         print(tag, value, step)
    ...     def add_histogram(self, tag, values, step):
    ...         print(tag, values.shape, step)
    >>> writer: Writer = Print()
    """

    def add_scalar(self, tag: str, value: float, step: int, /) -> Any:
        """Take a number in."""

    def add_histogram(self, tag: str, values: Tensor, step: int, /) -> Any:
        """Take many numbers in."""


def log_parameters(
    writer: Writer, loss_fn: nn.Module, step: int, *, features: Tensor | None = None, prefix: str = "likelihood"
) -> None:
    """Write every likelihood parameter of a loss, or of any module that has some, at a step.

    A Global of one value is a scalar, one of several values a histogram. A Data parameter is a histogram of its rows
    (of a regular million of them, where there are more), a Predicted one of its values at ``features``; without
    features it is left out. Tags are ``likelihood/scale`` and the like.

    >>> import torch, likely
    >>> from likely.integrations.tensorboard import log_parameters
    >>> class Print:
    ...     def add_scalar(self, tag, value, step):
    ...         print(step, tag, value)
    ...     def add_histogram(self, tag, values, step):
    ...         print(step, tag, tuple(values.shape))
    >>> log_parameters(Print(), likely.NormalLoss(), step=3)
    3 likelihood/scale 1.0
    >>> log_parameters(Print(), likely.SoftmaxLoss(temperature=likely.Data(5)), step=4)
    4 likelihood/temperature (5,)
    """
    for name, parameter in learned(loss_fn):
        value = _value(parameter, features)
        if value is None:
            continue
        tag = f"{prefix}/{name}"
        if isinstance(parameter, Global) and value.numel() == 1:
            writer.add_scalar(tag, float(value), step)
        else:
            writer.add_histogram(tag, value.flatten(), step)


@torch.no_grad()
def _value(parameter: Parameter, features: Tensor | None) -> Tensor | None:
    if isinstance(parameter, Data):
        return _some_rows(parameter)
    if isinstance(parameter, Predicted):
        return None if features is None else _predicted(parameter, features)
    return parameter.value  # type: ignore[return-value]


def _some_rows(parameter: Data) -> Tensor:
    stride = -(-parameter.n * max(1, parameter.start.numel()) // _MOST)
    rows = torch.cat([chunk.rows[::stride].float() for chunk in parameter.table.chunks()])
    return parameter.constraint(rows)  # type: ignore[misc]


def _predicted(parameter: Predicted, features: Tensor) -> Tensor:
    # In training mode it would take these features into its running moments.
    modes = {part: part.training for part in parameter.modules()}
    parameter.eval()
    try:
        value: Tensor = parameter(features=features)
    finally:
        for part, training in modes.items():
            part.training = training
    return value
