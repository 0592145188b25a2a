"""Likelihood parameters in your own training loop: their values every few steps, and a warning on collapse."""

from __future__ import annotations

from collections.abc import Callable

from torch import nn

from likely._validation import check_positive
from likely.integrations._phi import Caught

__all__ = ["LikelihoodMonitor"]


class LikelihoodMonitor:
    """Reports every likelihood parameter of a loss every few steps, and warns once when one collapses.

    A single value is reported under its name, ``likelihood/scale``; several as ``likelihood/scale/mean``, ``/min`` and
    ``/max``, for a Data or Predicted parameter over the last training batch. A parameter has collapsed if a value is
    not finite, or if in every row it is at the floor of its constraint or is a temperature above 100. Values are read
    at reports only; on a GPU a report waits for the device. It also warns once of a shared parameter that is still far
    from its optimum, given the predictions, after 2,000 steps. Losses check both by themselves too, once in a hundred
    steps and on the CPU only.

    For Lightning use :class:`likely.integrations.lightning.LikelihoodMonitor`.

    Args:
        loss_fn: a likelihood loss, or any module that contains one.
        every_n_steps: number of calls of :meth:`step` between reports.
        log: function that is called with the numbers (a dict) and the step number, such as ``wandb.log``; None calls
            none.

    Attributes:
        steps: number of calls of :meth:`step` so far.

    >>> import torch, likely
    >>> from likely.integrations.monitor import LikelihoodMonitor
    >>> loss_fn = likely.NormalLoss()
    >>> optimizer = torch.optim.SGD(loss_fn.parameters(), lr=0.1)
    >>> log = lambda numbers, step: print(step, list(numbers))
    >>> with LikelihoodMonitor(loss_fn, every_n_steps=2, log=log) as monitor:
    ...     for _ in range(4):
    ...         optimizer.zero_grad()
    ...         loss_fn(torch.zeros(8), torch.randn(8)).backward()
    ...         optimizer.step()
    ...         numbers = monitor.step()
    2 ['likelihood/scale']
    4 ['likelihood/scale']
    """

    def __init__(
        self,
        loss_fn: nn.Module,
        *,
        every_n_steps: int = 50,
        log: Callable[[dict[str, float], int], object] | None = None,
    ) -> None:
        if not isinstance(loss_fn, nn.Module):
            raise TypeError(f"loss_fn must be a loss module such as likely.NormalLoss(), got {type(loss_fn).__name__}")
        check_positive("every_n_steps", every_n_steps)
        self.every_n_steps, self.log, self.steps = every_n_steps, log, 0
        self._caught = Caught(loss_fn)
        if not self._caught.parameters:
            self._caught.remove()
            raise ValueError(
                f"{type(loss_fn).__name__} has no likelihood parameter that learns: give it a likely.Global, Data or "
                "Predicted"
            )

    def step(self) -> dict[str, float] | None:
        """Count a step, and report if it is time; call it after the optimizer's step.

        Returns:
            The numbers by name at every ``every_n_steps``-th call, else None.
        """
        self.steps += 1
        if self.steps % self.every_n_steps:
            return None
        return self.report()

    def report(self) -> dict[str, float]:
        """Read the parameters now, log them, and warn of those that collapse.

        Returns:
            The numbers by name.
        """
        numbers = self._caught.report()
        if self.log is not None:
            self.log(numbers, self.steps)
        return numbers

    def close(self) -> None:
        """Remove the hooks that record values of Data and Predicted parameters."""
        self._caught.remove()

    def __enter__(self) -> LikelihoodMonitor:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()
