r"""log Z(α), the normaliser of the robust likelihood, exact to rounding on [0, ∞).

:math:`Z(\alpha) = \int e^{-\rho(x, \alpha, 1)}\,dx` has no closed form, and near :math:`\alpha = 2` it behaves
like :math:`b \log b` with :math:`b = |\alpha - 2|`: a spline cannot follow that. Scaling :math:`x` by
:math:`b^{1/2 - 1/\alpha}` splits the singular part off, and what is left is smooth in :math:`t`:

    log Z = base + envelope · Q(t) + u · R(b)

==========  ============================  ========  =========  =============================
α           base                          envelope  t          u
==========  ============================  ========  =========  =============================
[0, 1)      log(π√2)                      α         √α         0
[1, 2]      ½ log 2π - b log(b) / 2α      b         √b         b · expm1((2/α - 1) · log b)
(2, 3)      ½ log 2π + b log(b) / 2α      b         √b         b · expm1((2/α - 1) · log b)
[3, ∞]      0                             1         3/α        0
==========  ============================  ========  =========  =============================

Q and R are Chebyshev series, whose coefficients tools/fit_partition.py writes: a table for each precision.
"""

import json
import math
from functools import cache
from pathlib import Path

import numpy as np
import torch
from numpy.polynomial import Chebyshev, Polynomial
from numpy.polynomial.chebyshev import cheb2poly
from numpy.typing import NDArray
from torch import Tensor

from likely._numerics.special import with_slopes

# Q_SINGLE and others: a row for each piece of [0, ∞), shorter ones filled up with zeros.
COEFFICIENTS: dict[str, list[list[float]]] = json.loads(Path(__file__).with_suffix(".json").read_text())

_HALF_LOG_2PI = 0.5 * math.log(2 * math.pi)
_LOG_PI_SQRT2 = math.log(math.pi * math.sqrt(2))


def _evaluate(shaped: Tensor) -> tuple[Tensor, Tensor]:
    """log Z and its derivative; +∞ and 0 below zero, where the integral diverges."""
    alpha = shaped.reshape(-1)  # the compiler takes an index without axes for a number
    q_table, r_table = _tables(alpha.dtype, alpha.device)
    positive = alpha.clamp(min=0)
    piece = (alpha >= 1).long() + (alpha > 2).long() + (alpha >= 3).long()
    low, near, high = piece == 0, (piece == 1) | (piece == 2), piece == 3

    # Each case is computed everywhere, from an argument that is harmless outside its own piece.
    root = torch.where(low, positive, 1.0).clamp(min=torch.finfo(alpha.dtype).tiny).sqrt()
    a = torch.where(near, positive, 1.0)
    # At α = 2 the slope is infinite: one unit in the last place away it is finite and has the right sign.
    distance = (a - 2).abs()
    b = distance.clamp(min=torch.finfo(alpha.dtype).eps)
    sign = torch.where(piece == 1, -1.0, 1.0).to(alpha.dtype)
    inverse = 3 / torch.where(high, positive, 3.0)

    t = torch.where(low, root, torch.where(near, b.sqrt(), inverse))
    q, dq = _clenshaw(q_table, piece, t)
    r, dr = _clenshaw(r_table, piece, b)

    log_b = b.log()
    exponent = 2 / a - 1
    growth = torch.expm1(exponent * log_b)
    u = b * growth
    du = growth + (growth + 1) * (exponent - sign * 2 * b * log_b / a.square())

    below = _LOG_PI_SQRT2 + positive * q
    below_slope = q + 0.5 * t * dq
    around = _HALF_LOG_2PI + distance * (sign * log_b / (2 * a) + q + growth * r)  # at α = 2 the constant itself
    around_slope = (log_b + 1) / (2 * a) + sign * (q + 0.5 * t * dq + du * r + u * dr - b * log_b / (2 * a.square()))
    value = torch.where(low, below, torch.where(near, around, q))
    slope = torch.where(low, below_slope, torch.where(near, around_slope, t.square() * dq / -3))
    value, slope = torch.where(alpha < 0, torch.inf, value), torch.where(alpha < 0, 0.0, slope)
    return value.view(shaped.shape), slope.view(shaped.shape)


# Functions, since the compiler does not know `operator.itemgetter` in every state.
log_partition = with_slopes(_evaluate, lambda both: both[0], lambda both: both[1])


def _clenshaw(coefficients: Tensor, piece: Tensor, t: Tensor) -> tuple[Tensor, Tensor]:
    """A Chebyshev series on [0, 1] and its derivative, each element with its own piece's coefficients."""
    x = 4 * t - 2
    value, previous = torch.zeros_like(t), torch.zeros_like(t)
    slope, previous_slope = torch.zeros_like(t), torch.zeros_like(t)
    for row in coefficients.flip(0)[:-1]:
        slope, previous_slope = 4 * value + x * slope - previous_slope, slope
        value, previous = row[piece] + x * value - previous, value
    slope = 2 * value + 0.5 * x * slope - previous_slope
    value = coefficients[0][piece] + 0.5 * x * value - previous
    return value, slope


def _as_tensors(precision: str, dtype: torch.dtype) -> tuple[Tensor, ...]:
    return tuple(torch.tensor(COEFFICIENTS[f"{kind}_{precision}"], dtype=dtype).T.contiguous() for kind in "QR")


_SINGLE, _DOUBLE = _as_tensors("SINGLE", torch.float32), _as_tensors("DOUBLE", torch.float64)


def _copies(dtype: torch.dtype, device: torch.device) -> tuple[Tensor, ...]:
    return tuple(t.to(device) for t in (_DOUBLE if dtype == torch.float64 else _SINGLE))


_kept_copies = cache(_copies)


def _tables(dtype: torch.dtype, device: torch.device) -> tuple[Tensor, ...]:
    # The compiler cannot look into a cache; it folds the copy into its graph instead.
    if device.type == "cpu" or torch.compiler.is_compiling():
        return _copies(dtype, device)
    return _kept_copies(dtype, device)


@cache
def partition(parts: int, terms: int) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """log Z's series cut into parts on which few powers are enough.

    Q and R as (power, piece · parts + part), Q in x from -1 to 1 across its part, R in b.

    >>> q, r = partition(4, 10)
    >>> q.shape, r.shape
    ((10, 16), (3, 16))
    """
    ends = np.linspace(0, 1, parts + 1)
    pieces, factors = COEFFICIENTS["Q_SINGLE"], COEFFICIENTS["R_SINGLE"]
    q, r = np.zeros((terms, 4 * parts)), np.zeros((len(factors[0]), 4 * parts))
    for piece, (series, factor) in enumerate(zip(pieces, factors, strict=True)):
        whole = Chebyshev(series, domain=[0, 1])
        powers = Chebyshev(factor, domain=[0, 1]).convert(kind=Polynomial).coef
        for part in range(parts):
            coefficients = cheb2poly(Chebyshev.interpolate(whole, terms - 1, domain=ends[part : part + 2]).coef)
            q[: len(coefficients), piece * parts + part] = coefficients
            r[: len(powers), piece * parts + part] = powers
    return q.astype(np.float32), r.astype(np.float32)
