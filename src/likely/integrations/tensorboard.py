"""Likelihood parameters in TensorBoard, or in any logger with two of its methods."""

from __future__ import annotations

from typing import Any, Protocol

import torch
from torch import Tensor, nn

from likely.integrations._phi import learned
from likely.parameters import Data, Global, Parameter, Predicted

__all__ = ["Writer", "log_parameters"]

_MOST = 2**20  # largest number of values of a Data parameter in a histogram


class Writer(Protocol):
    """The two methods that :func:`log_parameters` calls; ``torch.utils.tensorboard.SummaryWriter`` has both.

    >>> from likely.integrations.tensorboard import Writer
    >>> class Print:
    ...     def add_scalar(self, tag, value, step):
    ...         print(tag, value, step)
    ...     def add_histogram(self, tag, values, step):
    ...         print(tag, values.shape, step)
    >>> writer: Writer = Print()
    """

    def __init__(self) -> None: ...  # shown instead of Protocol's (*args, **kwargs)

    def add_scalar(self, tag: str, value: float, step: int, /) -> Any:
        """Record a number.

        Args:
            tag: name of the number.
            value: the number.
            step: step that it belongs to.

        Returns:
            Anything; it is ignored.
        """

    def add_histogram(self, tag: str, values: Tensor, step: int, /) -> Any:
        """Record a histogram of numbers.

        Args:
            tag: name of the histogram.
            values: tensor of shape (numbers,).
            step: step that they belong to.

        Returns:
            Anything; it is ignored.
        """


def log_parameters(
    writer: Writer, loss_fn: nn.Module, step: int, *, features: Tensor | None = None, prefix: str = "likelihood"
) -> None:
    """Write the likelihood parameters of a loss, or of any module that contains one, to TensorBoard.

    A Global parameter of one value is written as a scalar, one of several values as a histogram. A Data parameter is a
    histogram of its rows (of about a million of them, where there are more), a Predicted parameter one of its values at
    ``features``. Tags are ``likelihood/scale`` and so on.

    See also :class:`likely.integrations.monitor.LikelihoodMonitor`, which warns of collapse too.

    Args:
        writer: a ``torch.utils.tensorboard.SummaryWriter``, or any object with the methods of :class:`Writer`.
        loss_fn: a likelihood loss, or any module that contains one.
        step: number of the training step.
        features: features at which Predicted parameters are evaluated, of shape (rows, features); None leaves them
            out.
        prefix: what tags start with.

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
    # In training mode these features would enter its running moments.
    modes = {part: part.training for part in parameter.modules()}
    parameter.eval()
    try:
        value: Tensor = parameter(features=features)
    finally:
        for part, training in modes.items():
            part.training = training
    return value
