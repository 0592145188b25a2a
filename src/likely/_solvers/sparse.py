"""Lassos: a path that stops at the lowest generalised cross-validation error, and one with a scale per weight.

They use sums over rows in the units of :class:`~likely._solvers.design.Design`; the coordinate descent is
scikit-learn's. The spike and slab is in :mod:`likely._solvers.spike_slab`.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import linalg
from sklearn import config_context
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import lasso_path

from likely._solvers.design import Design
from likely._typing import Array

STEP = 0.79  # from one strength of the path to the next: thirty for three decades
PATIENCE = 4  # strengths without improvement after which the path ends


@dataclass(frozen=True)
class LassoFit:
    """The minimum of |y - Xw|²/2 + strength · |w|₁."""

    coef: Array
    strength: float
    noise: float  # variance: the residual over the rows less the active columns
    n_iter: int
    scale: Array | None = None  # of every weight's prior, where each has its own

    @property
    def active(self) -> Any:
        return np.flatnonzero(self.coef)


def lasso_by_validation(design: Design, *, tol: float = 5e-2) -> LassoFit:
    """Return the lasso of least generalised cross-validation error, on a path of strengths from zero weights down.

    The error of leaving rows out is estimated by the residual over (1 - k/n)², where k is the number of active columns.
    As that estimate is noisy where k is near n, one standard deviation of such counts is added to k.
    """
    n, d = design.freedom, design.shape[1]
    best = LassoFit(np.zeros(d), float(np.abs(design.xy).max(initial=0.0)), design.yy / n, 0)
    if best.strength <= 0 or design.yy <= 0:
        return best
    strength, coef, least, waited, n_iter = best.strength, best.coef, design.yy / n, 0, 0
    residual, margin, top = design.yy, 0.25 * math.sqrt(n), best.strength
    while waited < PATIENCE and strength > 1e-6 * top:
        strength *= STEP
        coef, steps = solve_lasso(design, strength, coef, tol * residual / design.yy)
        n_iter += steps
        k = int(np.count_nonzero(coef))
        residual = design.residual(coef)
        if k + margin >= n or residual <= 1e-14 * design.yy:
            break
        error = residual / (n - k - margin) ** 2 * (n - margin) ** 2 / n
        waited += 1
        if error < least:
            least, waited = error, 0
            best = LassoFit(coef, strength, residual / (n - k), n_iter)
    if best.coef.any():  # the path is solved coarsely, the result precisely
        coef, steps = _settled(design, best.strength, best.coef, 2e-2 * tol * best.noise * n / design.yy)
        k = int(np.count_nonzero(coef))
        best = LassoFit(coef, best.strength, design.residual(coef) / max(n - k, 1.0), n_iter + steps)
    return best


def _settled(design: Design, strength: float, coef: Array, tol: float) -> tuple[Array, int]:
    """Return the lasso's solution in closed form, once coordinate descent has determined which weights are not zero."""
    total = 0
    for precision in (tol, 1e-3 * tol, 1e-6 * tol):
        coef, steps = solve_lasso(design, strength, coef, precision)
        total += steps
        active, signs = np.flatnonzero(coef), np.sign(coef[coef != 0])
        try:
            root = linalg.cho_factor(design.gram_of(active))
        except linalg.LinAlgError:  # some of these columns are combinations of others
            continue
        exact = np.zeros(len(coef))
        exact[active] = linalg.cho_solve(root, design.xy[active] - strength * signs)
        if (np.sign(exact[active]) == signs).all() and np.abs(design.pull(exact)).max() <= strength * (1 + 1e-9):
            return exact, total
    return coef, total


def reweighted_lasso(design: Design, start: LassoFit, *, concentration: float = 3.0, max_iter: int = 30) -> LassoFit:
    r"""Fit a lasso with a scale per weight, :math:`b_j = (|w_j| + \epsilon)/c`, the mode of an inverse-gamma prior.

    It minimises :math:`|y - Xw|^2/2\sigma^2 + c\sum_j\log(|w_j| + \epsilon)`, by lassos whose strengths are the slopes
    of the logarithms. ε is such that a weight leaves zero only where noise on d columns would not lift it: at the
    universal threshold σ√(2 n log d).
    """
    d = design.shape[1]
    coef, noise, n_iter = start.coef, start.noise, start.n_iter
    scale, size = np.abs(coef), math.sqrt(design.rows)
    if not coef.any():
        return replace(start, scale=scale)
    for _ in range(max_iter):
        threshold = size * math.sqrt(noise * 2 * math.log(max(d, 2)))
        floor = concentration * noise / threshold
        scale = np.abs(coef) + floor
        new, steps = solve_lasso(design, concentration * noise, coef, 1e-4 * noise * design.rows / design.yy, scale)
        n_iter += steps
        k = int(np.count_nonzero(new))
        if k >= design.freedom:
            break
        noise = max(design.residual(new) / (design.freedom - k), 1e-14 * design.yy / design.rows)
        moved = float(np.abs(new - coef).max(initial=0.0))
        coef = new
        if moved <= 1e-3 * math.sqrt(noise / design.rows):
            break
    return LassoFit(coef, concentration * noise, noise, n_iter, scale / concentration)


def solve_lasso(
    design: Design, strength: float, coef: Array, tol: float, scale: Array | None = None
) -> tuple[Array, int]:
    """Solve one lasso from a warm start; columns are multiplied by ``scale``, which divides their strengths."""
    unit = np.ones(len(coef)) if scale is None else scale
    settings: dict[str, Any] = {}
    if design.has_gram:
        gram = design.gram if scale is None else design.gram * scale * scale[:, None]
        settings = {"precompute": gram, "Xy": design.xy * unit}
    elif design.offset is not None:
        settings = {"X_offset": design.offset * unit, "X_scale": np.ones(len(coef)), "sample_weight": design.weight}
    # The input has been checked; checking it again at every strength would take longer than many of the lassos.
    with warnings.catch_warnings(), config_context(skip_parameter_validation=True):
        # A lasso that stops early is a start for the next; the residual is used, not the gap.
        warnings.simplefilter("ignore", ConvergenceWarning)
        _, path, _, steps = lasso_path(
            design.x if scale is None or design.has_gram else design.scaled(scale),
            design.y,
            alphas=[strength / len(design.y)],
            coef_init=coef / unit,
            check_input=False,
            return_n_iter=True,
            tol=max(tol, 1e-12),
            max_iter=1000,
            random_state=0,  # not drawn from, but None would move NumPy's global generator
            **settings,
        )
    return path[:, 0] * unit, int(steps[0])
