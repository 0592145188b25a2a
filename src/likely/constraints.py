r"""Maps from the real line onto the values a likelihood parameter may take.

Each is a :class:`torch.distributions.transforms.Transform`: ``constraint(raw)`` gives the value the likelihood
sees, ``constraint.inv(value)`` the raw number that is stored and optimised.
"""

import math

import torch
from torch import Tensor
from torch.distributions import constraints as domains
from torch.distributions.transforms import ExpTransform, Transform

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
    r"""The softplus, lifted off zero by ``offset`` and scaled so that :math:`f(0) = 1`.

    .. math:: f(x) = \frac{\log(1 + e^x) + s}{\log 2 + s}

    It grows linearly, so a large scale keeps its gradient, and it never falls below
    ``floor`` :math:`= s / (\log 2 + s)`, so a small one cannot make the loss explode. (The paper says it
    decays to :math:`s`; it decays to that floor: .224 at :math:`s = .2`, .0142 at :math:`s = .01`.)

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
        """The values it reaches: above ``floor``."""
        return domains.greater_than(self.floor)

    def _call(self, x: Tensor) -> Tensor:
        # It turns linear at 20 by default, where that is still wrong by 2e-9; at 40 it is right in double precision.
        return (torch.nn.functional.softplus(x, threshold=40.0) + self.offset) / (math.log(2) + self.offset)

    def _inverse(self, y: Tensor) -> Tensor:
        soft = y * (math.log(2) + self.offset) - self.offset
        return soft + torch.log(-torch.expm1(-soft))

    def slope(self, x: Tensor) -> Tensor:
        """f'(x)."""
        return torch.sigmoid(x) / (math.log(2) + self.offset)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """log f'(x)."""
        return torch.nn.functional.logsigmoid(x) - math.log(math.log(2) + self.offset)

    def __repr__(self) -> str:
        return f"ShiftedSoftplus({self.offset:g})"


class Exp(ExpTransform):
    """The exponential: the field's usual choice for a scale, and the one that runs away (see the docs).

    >>> import torch
    >>> from likely.constraints import Exp
    >>> Exp()(torch.tensor(0.0))
    tensor(1.)
    """

    def __repr__(self) -> str:
        return "Exp()"


class Interval(_Bijection):
    r"""The sigmoid, stretched over the open interval ``(low, high)``.

    Beyond ±17 in float32 the sigmoid rounds to its ends; the value then *is* ``low`` or ``high``.

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
        """The values it reaches: from ``low`` to ``high``."""
        return domains.interval(self.low, self.high)

    def _call(self, x: Tensor) -> Tensor:
        stretched = (self.high - self.low) * torch.sigmoid(x)
        return self.low + stretched if self.low else stretched

    def _inverse(self, y: Tensor) -> Tensor:
        return torch.log(y - self.low) - torch.log(self.high - y)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """log f'(x)."""
        log_sigmoid = torch.nn.functional.logsigmoid
        return math.log(self.high - self.low) + log_sigmoid(x) + log_sigmoid(-x)

    def __repr__(self) -> str:
        return f"Interval({self.low:g}, {self.high:g})"
