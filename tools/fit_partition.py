"""Fit the coefficients of ``likely._numerics.partition`` and write ``src/likely/_numerics/partition.json``.

The reference is the trapezoid rule in 80-bit floats, which converges exponentially here: with
b = |α - 2| and x = √b sinh v up to α = 4, in x itself above. The test suite checks the result against
mpmath, which this script never calls. Needs a platform whose long double has 64 bits of mantissa (x86).

    python tools/fit_partition.py
"""

import json
from pathlib import Path

import numpy as np

Real = np.longdouble
HALF_LOG_2PI = Real("0.918938533204672741780329736405617639861")
LOG_PI_SQRT2 = Real("1.491303476129372828852043412082146995685")
OUT = Path(__file__).parents[1] / "src" / "likely" / "_numerics" / "partition.json"


def log_partition(alpha: Real) -> Real:
    b = abs(alpha - 2)
    if alpha <= 4:
        step = Real(1) / 64
        v = step * np.arange(90 * 64).astype(Real)
        log_cosh = v - np.log(Real(2)) + np.log1p(np.exp(-2 * v))
        with np.errstate(over="ignore"):
            rho = b * (np.expm1(alpha * log_cosh) / alpha if alpha > 0 else log_cosh)
        terms, width = np.exp(log_cosh - rho), np.sqrt(b) * step
    else:
        step = Real(1) / 256
        x = step * np.arange(12 * 256).astype(Real)
        with np.errstate(over="ignore"):
            terms = np.exp(-(b / alpha) * np.expm1((alpha / 2) * np.log1p(x * x / b)))
        width = step
    return np.log(2 * width * (terms.sum() - terms[0] / 2))


def chebyshev(t: np.ndarray, n: int) -> np.ndarray:
    """T_0 … T_{n-1} on [0, 1], a column each."""
    x = 2 * t - 1
    columns = [np.ones_like(x), x]
    for _ in range(2, n):
        columns.append(2 * x * columns[-1] - columns[-2])
    return np.stack(columns[:n], axis=1)


def least_squares(a: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Householder QR, because LAPACK has no long double."""
    a, y, n = a.copy(), y.copy(), a.shape[1]
    for k in range(n):
        v = a[k:, k].copy()
        v[0] += np.copysign(np.sqrt(v @ v), v[0])
        v /= np.sqrt(v @ v)
        a[k:, k:] -= 2 * np.outer(v, v @ a[k:, k:])
        y[k:] -= 2 * v * (v @ y[k:])
    x = np.zeros(n, Real)
    for k in reversed(range(n)):
        x[k] = (y[k] - a[k, k + 1 :] @ x[k + 1 :]) / a[k, k]
    return x


def fit(terms: tuple[int, int, int, int], corrections: int) -> tuple[np.ndarray, np.ndarray]:
    """Coefficients of Q (4 × max(terms)) and of R (4 × corrections), one row per piece of [0, ∞)."""
    q, r = np.zeros((4, max(terms)), Real), np.zeros((4, corrections), Real)
    t = (1 - np.cos(np.pi * (np.arange(400) + 0.5).astype(Real) / 400)) / 2

    # Dividing by √envelope keeps the slope at 0 and at 2 as exact as the value.
    values = np.array([log_partition(a) for a in t * t])
    q[0, : terms[0]] = least_squares(chebyshev(t, terms[0]) * t[:, None], (values - LOG_PI_SQRT2) / t)

    for piece, sign in ((1, -1), (2, 1)):
        b = np.concatenate([t * t, Real(10) ** np.linspace(-12, -1, 60).astype(Real)])
        alpha, log_b, s = 2 + sign * b, np.log(b), np.sqrt(b)
        u = b * np.expm1((2 / alpha - 1) * log_b)
        base = HALF_LOG_2PI + sign * b / (2 * alpha) * log_b
        values = np.array([log_partition(a) for a in alpha])
        design = [chebyshev(s, terms[piece]) * b[:, None], chebyshev(b, corrections) * u[:, None]]
        c = least_squares(np.concatenate(design, axis=1) / s[:, None], (values - base) / s)
        q[piece, : terms[piece]], r[piece] = c[: terms[piece]], c[terms[piece] :]

    values = np.array([log_partition(3 / s) for s in t])
    q[3, : terms[3]] = least_squares(chebyshev(t, terms[3]), values)
    return q, r


def shown(name: str, table: np.ndarray, digits: int) -> str:
    """A table by its name as JSON, a line per row."""
    rows = (json.dumps([float(f"{c:.{digits}g}") for c in row]) for row in table.astype(float))
    return f'"{name}": [\n  ' + ",\n  ".join(rows) + "\n]"


def main() -> None:
    double, single = fit((36, 24, 24, 24), corrections=4), fit((18, 14, 14, 14), corrections=3)
    tables = [
        shown("Q_DOUBLE", double[0], 17),
        shown("R_DOUBLE", double[1], 17),
        shown("Q_SINGLE", single[0], 10),
        shown("R_SINGLE", single[1], 10),
    ]
    OUT.write_text("{" + ",\n".join(tables) + "}\n")


if __name__ == "__main__":
    main()
