r"""Transforms from the real numbers to the values that a likelihood parameter may take.

Each is a :class:`torch.distributions.transforms.Transform`: ``constraint(raw)`` is the value in the likelihood,
``constraint.inv(value)`` the raw number that is stored and optimised.
"""

import math

import torch
from torch import Tensor
from torch.distributions import constraints as domains
from torch.distributions.transforms import Transform

__all__ = ["Exp", "Interval", "ShiftedSoftplus"]


class _Bijection(Transform):
    bijective = True
    sign = 1
    domain = domains.real

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and repr(self) == repr(other)

    def __hash__(self) -> int:
        return hash(repr(self))


class ShiftedSoftplus(_Bijection):
    r"""The softplus, shifted above zero by ``offset`` and scaled so that :math:`f(0) = 1`.

    .. math:: f(x) = \frac{\log(1 + e^x) + s}{\log 2 + s}

    It grows linearly, so that a large scale keeps its gradient, and stays above
    ``floor`` :math:`= s / (\log 2 + s)`, which bounds the loss: .224 at :math:`s = .2`, .0142 at :math:`s = .01`. (The
    paper states :math:`s` as the lower bound.)

    Args:
        offset: finite number :math:`s \ge 0`, 0.01 by default; the paper has 0.01 for scales and 0.2 for temperatures.

    Attributes:
        floor: lower bound of the values.

    Raises:
        ValueError: ``offset`` is negative or not finite.

    See Also:
        :class:`Exp`, :class:`Interval`.

    >>> import torch
    >>> from likely.constraints import ShiftedSoftplus
    >>> f = ShiftedSoftplus(0.2)
    >>> f(torch.tensor([-100.0, 0.0, 100.0]))
    tensor([  0.2239,   1.0000, 112.1876])
    >>> f(f.inv(torch.tensor(3.0)))
    tensor(3.)
    """

    def __init__(self, offset: float = 0.01) -> None:
        super().__init__()
        if not (math.isfinite(offset) and offset >= 0):
            raise ValueError(f"offset must be a finite number ≥ 0, got {offset}")
        self.offset = float(offset)
        self.floor = self.offset / (math.log(2) + self.offset)

    @property
    def codomain(self) -> domains.Constraint:  # type: ignore[override]
        """The set of values, which are above ``floor``."""
        return domains.greater_than(self.floor)

    def _call(self, x: Tensor) -> Tensor:
        # By default torch switches to a line at 20, with an error of 2e-9; at 40 it is exact in double precision.
        return (torch.nn.functional.softplus(x, threshold=40.0) + self.offset) / (math.log(2) + self.offset)

    def _inverse(self, y: Tensor) -> Tensor:
        soft = y * (math.log(2) + self.offset) - self.offset
        return soft + torch.log(-torch.expm1(-soft))

    def slope(self, x: Tensor) -> Tensor:
        """The derivative f'(x).

        Args:
            x: raw numbers, any shape.

        Returns:
            Positive numbers, in the shape of ``x``.
        """
        return torch.sigmoid(x) / (math.log(2) + self.offset)

    def __repr__(self) -> str:
        return f"ShiftedSoftplus({self.offset:g})"


class Exp(_Bijection):
    """The exponential function, for positive values: a step of the raw number is a relative step of the value.

    So a step means the same whether the value is a probability or a price. Values are from 1e-18, which keeps a loss
    finite where residuals are exactly zero and the scale falls at every step, to e⁸⁰, about 5e34.

    See Also:
        :class:`ShiftedSoftplus`, which the paper uses.

    >>> import torch
    >>> from likely.constraints import Exp
    >>> Exp()(torch.tensor([-1e3, 0.0, 1e3]))
    tensor([1.0000e-18, 1.0000e+00, 5.5406e+34])
    """

    codomain = domains.positive
    floor, highest = 1e-18, 80.0

    def __init__(self) -> None:
        super().__init__()

    def _call(self, x: Tensor) -> Tensor:
        # The gradient passes the upper end, so that the raw value returns from beyond it.
        return (x - (x.detach() - self.highest).clamp(min=0)).exp() + self.floor

    def _inverse(self, y: Tensor) -> Tensor:
        return y.log()

    def __repr__(self) -> str:
        return "Exp()"


class Interval(_Bijection):
    r"""The sigmoid, stretched over the open interval ``(low, high)``.

    Beyond ±17 the sigmoid rounds to 0 or 1 in float32, and the value is ``low`` or ``high``.

    Args:
        low: finite lower end.
        high: finite upper end, above ``low``.

    Raises:
        ValueError: the ends are not finite, or not in order.

    >>> import torch
    >>> from likely.constraints import Interval
    >>> Interval(0, 3)(torch.tensor([-1e3, 0.0, 1e3]))
    tensor([0.0000, 1.5000, 3.0000])
    """

    def __init__(self, low: float, high: float) -> None:
        super().__init__()
        if not (math.isfinite(low) and math.isfinite(high) and low < high):
            raise ValueError(f"Interval needs finite low < high, got ({low}, {high})")
        self.low, self.high = float(low), float(high)

    @property
    def codomain(self) -> domains.Constraint:  # type: ignore[override]
        """The set of values, which are from ``low`` to ``high``."""
        return domains.interval(self.low, self.high)

    def _call(self, x: Tensor) -> Tensor:
        stretched = (self.high - self.low) * torch.sigmoid(x)
        return self.low + stretched if self.low else stretched

    def _inverse(self, y: Tensor) -> Tensor:
        return torch.log(y - self.low) - torch.log(self.high - y)

    def __repr__(self) -> str:
        return f"Interval({self.low:g}, {self.high:g})"
