"""The rule by which the paper is judged: claims with a side, intervals of stored numbers, and the verdict of both."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import beta, t

from experiments.entries.entry import Verdict

RULE = (
    "Each claim of the paper is one checkable sentence: a number, and the side of a bar on which the paper puts it. "
    "The number comes from the paper's method, run to the letter, with a 95% interval: over data sets if an entry "
    "averages over several, otherwise over seeds. Numbers that involve no chance are exact; a number that was measured "
    "once has no interval. A claim holds if its interval lies on the paper's side of the bar, does not hold if it lies "
    "on the other side, and is open if it contains the bar. The main claim of an entry is the first that the paper "
    "makes about it. An entry holds if all its claims hold, does not hold if its main claim does not, is open if no "
    "claim holds, and holds in part otherwise."
)
LEVEL = 0.975  # of each end of an interval
Side = Literal["above", "below"]


@dataclass(frozen=True)
class Interval:
    """A number with the ends of its 95% interval; both ends are infinite where it was measured once."""

    value: float
    low: float
    high: float

    def __sub__(self, other: Interval) -> Interval:
        """The difference of two numbers whose errors are independent."""
        value = self.value - other.value
        down = math.hypot(self.value - self.low, other.high - other.value)
        up = math.hypot(self.high - self.value, other.value - other.low)
        return Interval(value, value - down, value + up)

    def text(self, digits: int) -> str:
        """For people.

        >>> Interval(0.2, 0.1, 0.3).text(1), Interval(3, 3, 3).text(0), Interval(3, -math.inf, math.inf).text(0)
        ('0.2 (0.1 to 0.3)', '3', '3 (one run: open)')
        """
        if math.isinf(self.high):
            return f"{number(self.value, digits)} (one run: open)"
        if self.low == self.high:
            return number(self.value, digits)
        return f"{number(self.value, digits)} ({number(self.low, digits)} to {number(self.high, digits)})"


def exact(value: float) -> Interval:
    """A number that involves no chance."""
    return Interval(value, value, value)


def once(value: float) -> Interval:
    """A number that was measured once."""
    return Interval(value, -math.inf, math.inf)


def around(value: float, error: float, count: int) -> Interval:
    """A mean of ``count`` values, and its standard error."""
    width = float(t.ppf(LEVEL, count - 1)) * error
    return Interval(value, value - width, value + width)


def printed(text: str, count: int, *, deviation: bool = False) -> Interval:
    """A mean and its error, stored as text; half of the last digit is added for what rounding hides.

    >>> printed("−0.08 ± 0.02", 5, deviation=True).text(2), printed("+0.20 ± 0.10", 25).text(2)
    ('−0.08 (−0.11 to −0.05)', '0.20 (−0.01 to 0.41)')
    """
    value, error = (re.sub(r"[^\d.-]", "", part.replace("−", "-")) for part in text.split(" ± "))
    half = 0.5 * 10.0 ** -len(value.partition(".")[2])
    about = around(float(value), float(error) / (math.sqrt(count) if deviation else 1), count)
    return Interval(about.value, about.low - half, about.high + half)


def mean(values: ArrayLike) -> Interval:
    """The mean of what sets or seeds have."""
    array = np.asarray(values, dtype=float)
    return around(float(array.mean()), float(array.std(ddof=1)) / math.sqrt(len(array)), len(array))


def ratio(ours: ArrayLike, theirs: ArrayLike) -> Interval:
    """The geometric mean over sets or seeds of ours ÷ theirs.

    >>> ratio([1.0, 2.0, 4.0], [2.0, 4.0, 8.0]).text(2)
    '0.50'
    """
    logs = mean(np.log(np.asarray(ours, dtype=float) / np.asarray(theirs, dtype=float)))
    return Interval(math.exp(logs.value), math.exp(logs.low), math.exp(logs.high))


def average(intervals: Sequence[Interval]) -> Interval:
    """The mean of numbers whose errors are independent."""
    value = float(np.mean([one.value for one in intervals]))
    down, up = (math.hypot(*widths) / len(intervals) for widths in zip(
        *((one.value - one.low, one.high - one.value) for one in intervals), strict=True))  # fmt: skip
    return Interval(value, value - down, value + up)


def median(value: float, quartiles: float, count: int) -> Interval:
    """A median of ``count`` values whose quartiles are so far apart, as normal errors have it."""
    return around(value, 0.929 * quartiles / math.sqrt(count), count)


def share(part: int, count: int) -> Interval:
    """A share, by Clopper and Pearson.

    >>> share(8, 8).text(2)
    '1.00 (0.63 to 1.00)'
    """
    low = float(beta.ppf(1 - LEVEL, part, count - part + 1)) if part else 0.0
    high = float(beta.ppf(LEVEL, part + 1, count - part)) if part < count else 1.0
    return Interval(part / count, low, high)


@dataclass(frozen=True)
class Claim:
    """One checkable sentence of the paper.

    Args:
        measure: what is measured, as the subject of a sentence.
        interval: what the run to the letter measured.
        side: where the paper puts it.
        bar: above or below what.
        name: what the bar is, if that is not plain.
        digits: decimals for people.
    """

    measure: str
    interval: Interval
    side: Side
    bar: float
    name: str = ""
    digits: int = 3

    @property
    def found(self) -> Side | None:
        """The side on which the interval lies, or None where it contains the bar."""
        if self.interval.low > self.bar:
            return "above"
        return "below" if self.interval.high < self.bar else None

    @property
    def state(self) -> Literal["holds", "does not hold", "open"]:
        """By the rule."""
        return "open" if self.found is None else "holds" if self.found == self.side else "does not hold"

    @property
    def sentence(self) -> str:
        """What was measured and on which side it lies, in words that come from the numbers.

        >>> Claim("the AUC", Interval(0.22, 0.21, 0.23), "above", 0.5, "chance", 2).sentence
        'the AUC is 0.22 (0.21 to 0.23), below 0.5 (chance), where the paper says above'
        """
        bar = f"{self.bar:g}".replace("-", "−") + (f" ({self.name})" if self.name else "")
        told = f"{self.measure} is {self.interval.text(self.digits)}"
        if math.isinf(self.interval.high):
            return f"{told}; the paper says {self.side} {bar}"
        if self.found is None:
            return f"{told}, not clearly above or below {bar}; the paper says {self.side}"
        ending = "as the paper says" if self.found == self.side else f"where the paper says {self.side}"
        return f"{told}, {self.found} {bar}, {ending}"


def verdict(claims: Sequence[Claim]) -> Verdict:
    """The verdict of an entry, whose first claim is the main one."""
    states = [claim.state for claim in claims]
    if states[0] == "does not hold":
        return "does not hold"
    if "holds" not in states:
        return "open"
    return "holds" if set(states) == {"holds"} else "holds in part"


def told(claims: Sequence[Claim]) -> str:
    """Why the verdict is what it is: the main claim, and how many of the others hold."""
    first = claims[0].sentence
    sentence = f"{first[0].upper()}{first[1:]}"
    states: list[str] = [claim.state for claim in claims[1:]]
    words = {"holds": ("holds", "hold"), "does not hold": ("does not", "do not"), "open": ("is open", "are open")}
    counted = [f"{count} {words[state][count > 1]}" for state in words if (count := states.count(state))]
    return f"{sentence}." + (f" Further claims: {', '.join(counted)}." if counted else "")


def number(value: float, digits: int) -> str:
    """With a minus that is as wide as a plus."""
    return f"{value:z,.{digits}f}".replace("-", "−")
