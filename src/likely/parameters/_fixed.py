"""A value that does not learn."""

from typing import Any

import torch
from torch import Tensor

from likely._validation import check_real
from likely.parameters._parameter import Parameter, Start


class Fixed(Parameter):
    """A value that does not learn: ``NormalLoss(scale=Fixed(1))`` is half the squared error.

    Args:
        value: number (1 by default), sequence of numbers or tensor, such as one value per target, channel or pixel. It
            is stored in double precision beside the buffer ``value``, which has the module's dtype, so that losses of
            float64 data, and the module after ``.double()``, use the exact number.

    See Also:
        :class:`~likely.Global`, which learns.

    >>> import torch, likely
    >>> likely.NormalLoss(scale=likely.Fixed(2.0)).scale.value
    tensor(2.)
    >>> likely.Fixed(0.1).double().value
    tensor(0.1000, dtype=torch.float64)
    """

    value: Tensor

    def __init__(self, value: Start = 1.0) -> None:
        if isinstance(value, Tensor):
            check_real("value", value)
        wide = torch.as_tensor(value, dtype=torch.float64).detach().clone()
        super().__init__(tuple(wide.shape))
        self.register_buffer("value", wide.to(torch.get_default_dtype()))
        self._wide = wide
        self.ready = True

    def forward(
        self, features: Tensor | None = None, index: Tensor | None = None, *, dtype: torch.dtype | None = None
    ) -> Tensor:
        """The value.

        Args:
            features: ignored.
            index: ignored.
            dtype: floating-point type of the result, if it is more precise than the buffer; None by default.

        Returns:
            A tensor of shape ``shape``.
        """
        if dtype is None or dtype == self.value.dtype or dtype.itemsize < self.value.dtype.itemsize:
            return self.value
        return self._in(dtype, self.value)

    def unconstrained(self, features: Tensor | None, index: Tensor | None) -> Tensor:
        """The value, which has no constraint.

        Args:
            features: ignored.
            index: ignored.

        Returns:
            A tensor of shape ``shape``.
        """
        return self.value

    def _in(self, dtype: torch.dtype, value: Tensor) -> Tensor:
        """``value`` in ``dtype``, with all digits unless the buffer was overwritten with another number."""
        if value.is_meta:
            return value.to(dtype)
        wide = self._wide.to(value.device)
        return torch.where(wide.to(value.dtype) == value, wide, value.to(wide.dtype)).to(dtype)

    def _apply(self, fn: Any, recurse: bool = True) -> "Fixed":
        before = self.value
        super()._apply(fn, recurse)
        if self.value.dtype != before.dtype and not before.is_meta:
            self.value.copy_(self._in(self.value.dtype, before))
        if not self.value.is_meta and self.value.device.type != "mps":  # which has no float64
            self._wide = self._wide.to(self.value.device)
        return self

    def extra_repr(self) -> str:
        """Show the value, or its shape, in ``repr``.

        Returns:
            The value, or ``shape=…`` if there are several.
        """
        return f"{self.value.item():g}" if self.value.numel() == 1 else f"shape={self.shape}"
