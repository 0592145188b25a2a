"""What would bring a target back to where it is expected: another unit, the other sign, a swap with a column."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np

from likely.auditing.columns.limits import Possible
from likely.auditing.columns.scale import Squash
from likely.auditing.results.finding import number
from likely.auditing.target.counterfactuals import Swap

# Factors by which targets are off, and how common each is. Not inches, feet and pounds: a factor of two or three fits
# many a target that is off for any reason.
_FACTORS = {10.0: 1.0, 100.0: 0.5, 1000.0: 0.5, 1e6: 0.1}
_SIGN, _SWAP = 0.5, 0.5
SWAPPED = "looks swapped with"
_REACH = 3.0  # scales: a changed target must be nearer to its prediction
_SHIFT = 3.0  # scales: a change must move the target further


class Hint(NamedTuple):
    """A change that explains a target, in words: for the headline, for the list of reasons, and for a group of rows."""

    headline: str
    value: str
    group: str


class _Fit(NamedTuple):
    cost: float
    hint: Hint


def find_hint(
    y: float,
    mean: float,
    scale: float,
    df: float,
    squash: Squash,
    columns: Iterable[Swap] = (),
    factor: float = 1.0,
    possible: Possible | None = None,
) -> Hint | None:
    """Return the likeliest change that makes a target fit its prediction.

    >>> squash = Squash(100.0, 20.0)
    >>> find_hint(1020.0, float(squash(np.array(99.0))), 0.1, 4.0, squash).headline
    '÷10 would fit'
    >>> find_hint(-99.0, float(squash(np.array(99.0))), 0.1, 4.0, squash).headline
    'sign: 99 would fit'
    """

    def cost(value: float, mean: float, scale: float) -> float | None:
        z = float(squash(np.array(value)) - mean) / scale
        return (df + 1) / 2 * np.log1p(z * z / df) if abs(z) <= _REACH else None

    squashed = float(squash(np.array(y)))
    fits = []
    for value, prior, hint in _changes(y):
        able = possible is None or bool(possible(np.array(value)))
        at = cost(value, mean, scale) if able else None
        if at is not None and abs(float(squash(np.array(value))) - squashed) > _SHIFT * scale:
            fits.append(_Fit(at - np.log(prior), hint))
    for swap in columns:
        at = cost(swap.value, swap.mean, swap.deviation * factor)
        if at is not None:
            swapped = f"{SWAPPED} {swap.column}"
            fits.append(_Fit(at - swap.gain - np.log(_SWAP), Hint(swapped, f"swap with {swap.column}", swapped)))
    return min(fits, key=lambda fit: fit.cost).hint if fits else None


def _changes(y: float) -> Iterator[tuple[float, float, Hint]]:
    """Yield the target in other units and with the other sign, how common each mistake is, and its words."""
    for factor, prior in _FACTORS.items():
        for sign, value in (("÷", y / factor), ("×", y * factor)):
            words = f"{sign}{factor:,g} would fit"
            yield value, prior, Hint(words, f"{sign} {factor:,g}", words)
    yield -y, _SIGN, Hint(f"sign: {number(-y)} would fit", "× −1", "the other sign would fit")
