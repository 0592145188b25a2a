"""A measured figure and the bar it is held against: what every benchmark comes down to."""

from __future__ import annotations

import math
import operator
from dataclasses import dataclass
from typing import Literal

Sign = Literal["<", "≤", ">", "≥"]
_HOLDS = {"<": operator.lt, "≤": operator.le, ">": operator.gt, "≥": operator.ge}


@dataclass(frozen=True)
class Bar:
    """``value`` should be on the side of ``bar`` that ``sign`` says; ``met`` is None where that cannot be told.

    A value that could not be measured is NaN; a run too small to judge by has no bar. ``spread`` is half the distance
    of the quartiles of a median's repeats, or the standard error of a mean; ``case``, of several, the one meant.

    >>> faster = Bar("faster than by hand", 4.6171, "≥", 5, unit="×", spread=0.323)
    >>> faster.met, faster.measured, faster.set_at
    (False, '4.62 ± 0.32×', '≥ 5×')
    """

    name: str
    value: float
    sign: Sign
    bar: float | None
    unit: str = ""
    spread: float | None = None
    case: str = ""

    def __post_init__(self) -> None:
        for name in ("bar", "spread"):  # of too few repeats statistics are NaN
            if getattr(self, name) is not None and math.isnan(getattr(self, name)):
                object.__setattr__(self, name, None)

    @property
    def met(self) -> bool | None:
        """Whether the value is on the right side; None where that cannot be told."""
        if self.bar is None or math.isnan(self.value):
            return None
        return bool(_HOLDS[self.sign](self.value, self.bar))

    @property
    def lower_is_better(self) -> bool:
        """Whether the sign asks for a low value."""
        return self.sign in ("<", "≤")

    @property
    def measured(self) -> str:
        """The value with its spread, for people."""
        if math.isnan(self.value):
            return "not measured"
        if not self.spread:
            return printed(self.value) + self.unit
        places = max(0, 1 - math.floor(math.log10(self.spread)))  # of two digits of the spread
        return f"{self.value:z,.{places}f} ± {self.spread:,.{places}f}{self.unit}".replace("-", "−")

    @property
    def set_at(self) -> str:
        """The bar, for people."""
        return "–" if self.bar is None else f"{self.sign} {printed(self.bar)}{self.unit}"


def printed(value: float, digits: int = 4) -> str:
    """So many digits, or all before the point.

    >>> [printed(v) for v in (28600.4, -0.01234567, 2e-13)]
    ['28,600', '−0.01235', '2e−13']
    """
    return (f"{value:,.0f}" if 1000 <= abs(value) < 1e9 else f"{value:.{digits}g}").replace("-", "−")
