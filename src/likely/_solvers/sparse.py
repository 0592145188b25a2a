r"""The sparse solver core: a path of lassos that knows where to stop, and a spike and slab by expectation consistency.

Both work on sums over rows in the units of :class:`Design`. The lasso's coordinate descent is scikit-learn's.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from scipy import linalg
from sklearn import config_context
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import lasso_path

from likely._solvers.design import Design
from likely._typing import Array

_PSEUDO = 2.0  # weights of either sign and no particular size that the slab is taken to have seen before
STEP = 0.79  # from one strength of the path to the next: thirty for three decades
PATIENCE = 4  # strengths without improvement after which the path ends


@dataclass(frozen=True)
class LassoFit:
    """Minimises |y - Xw|²/2 + strength · |w|₁."""

    coef: Array
    strength: float
    noise: float  # variance: the residual over the rows less the active columns
    n_iter: int
    scale: Array | None = None  # of every weight's prior, where each has its own

    @property
    def active(self) -> Any:
        return np.flatnonzero(self.coef)


def lasso_by_validation(design: Design, *, start: tuple[Array, float] | None = None, tol: float = 5e-2) -> LassoFit:
    """The lasso whose strength has the least generalised cross-validation error, on a path from zero weights down.

    ``start`` has the weights and the strength of a fit to similar rows, from just above which the path is followed.

    The error of leaving rows out is estimated by the residual over (1 - k/n)², k being the number of active columns.
    That estimate is noise where k nears n, so k is taken by a standard deviation of such counts too high.
    """
    n, d = design.freedom, design.shape[1]
    best = LassoFit(np.zeros(d), float(np.abs(design.xy).max(initial=0.0)), design.yy / n, 0)
    if best.strength <= 0 or design.yy <= 0:
        return best
    strength, coef, least, waited, n_iter = best.strength, best.coef, design.yy / n, 0, 0
    if start is not None:
        strength, coef = min(strength, start[1] / STEP**PATIENCE), start[0]
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
    if best.coef.any():  # the path was in a hurry, the answer is not
        coef, steps = _settled(design, best.strength, best.coef, 2e-2 * tol * best.noise * n / design.yy)
        k = int(np.count_nonzero(coef))
        best = LassoFit(coef, best.strength, design.residual(coef) / max(n - k, 1.0), n_iter + steps)
    return best


def _settled(design: Design, strength: float, coef: Array, tol: float) -> tuple[Array, int]:
    """The lasso's answer in closed form, once coordinate descent has found which weights are not zero."""
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
    r"""A prior scale for every weight: :math:`b_j = (|w_j| + \epsilon)/c`, the mode under an inverse-gamma hyperprior.

    What is minimised is :math:`|y - Xw|^2/2\sigma^2 + c\sum_j\log(|w_j| + \epsilon)`, by lassos whose strengths are
    the slopes of the logarithms. ε is such that a weight leaves zero where noise on d columns would not lift it:
    at the universal threshold σ√(2 n log d).
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
    """One lasso from a warm start; under ``scale`` its columns are multiplied, which divides their strengths."""
    unit = np.ones(len(coef)) if scale is None else scale
    settings: dict[str, Any] = {}
    if design.has_gram:
        gram = design.gram if scale is None else design.gram * scale * scale[:, None]
        settings = {"precompute": gram, "Xy": design.xy * unit}
    elif design.offset is not None:
        settings = {"X_offset": design.offset * unit, "X_scale": np.ones(len(coef)), "sample_weight": design.weight}
    # What goes in has been checked; checking it again at every strength takes longer than many of the lassos.
    with warnings.catch_warnings(), config_context(skip_parameter_validation=True):
        # One that stops early is a start for the next, and the caller looks at the residual, not at the gap.
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


@dataclass(frozen=True)
class Slab:
    r"""The prior of a weight: zero, or of a magnitude :math:`N(\mu, \tau^2)` and a sign.

    With μ = 0 it is the usual normal slab; with one sign it is a normal of any mean; with both it has the two humps
    that weights of like size and either sign make. All of it is learned.
    """

    share: float  # of weights that are not zero
    positive: float  # of those, with a positive sign
    mean: float
    variance: float

    def posterior(self, pull: Array, precision: float) -> Moments:
        """What is known of weights seen through normal noise of the given precision."""
        noise = 1 / precision
        spread = noise + self.variance
        fit = 0.5 * math.log(noise / spread) + 0.5 * precision * pull**2
        spike = math.log1p(-self.share)
        up = math.log(max(self.share * self.positive, 1e-300)) + fit - 0.5 * (pull - self.mean) ** 2 / spread
        down = math.log(max(self.share * (1 - self.positive), 1e-300)) + fit - 0.5 * (pull + self.mean) ** 2 / spread
        top = np.maximum(np.maximum(up, down), spike)
        plus, minus = np.exp(up - top), np.exp(down - top)
        total = plus + minus + np.exp(spike - top)
        plus, minus = plus / total, minus / total
        shrink = self.variance / spread
        up, down = shrink * pull + (1 - shrink) * self.mean, shrink * pull - (1 - shrink) * self.mean
        own = noise * shrink
        mean = plus * up + minus * down
        variance = plus * (own + up**2) + minus * (own + down**2) - mean**2
        log_evidence = float((top + np.log(total) - 0.5 * precision * pull**2).sum())
        return Moments(mean, variance, plus, minus, up, down, own, log_evidence)


@dataclass(frozen=True)
class Moments:
    """The posterior of every weight: its mean and variance, and those of the two humps with their probabilities."""

    mean: Array
    variance: Array
    plus: Array
    minus: Array
    up: Array
    down: Array
    own: float
    log_evidence: float

    def slab(self) -> Slab:
        """The prior under which these posteriors are likeliest."""
        d = len(self.mean)
        present = self.plus + self.minus
        mass = max(float(present.sum()), 1e-300)
        total = mass + _PSEUDO
        second = self.own + float((self.plus * self.up**2 + self.minus * self.down**2).sum()) / mass
        mean = abs(float((self.plus * self.up - self.minus * self.down).sum())) / total
        square = float((self.plus * (self.up - mean) ** 2 + self.minus * (self.down + mean) ** 2).sum())
        variance = max((square + mass * self.own + _PSEUDO * second) / total, 1e-4 * second, 1e-300)
        positive = (float(self.plus.sum()) + 0.5 * _PSEUDO) / total
        return Slab(min(max(mass / d, 0.5 / d), 1 - 0.5 / d), positive, mean, variance)


@dataclass
class SpikeSlabFit:
    """A spike and slab posterior: moments of the weights, the noise, the prior, and how likely it makes the target."""

    moments: Moments
    slab: Slab
    noise: float
    precision: float  # of the normal that stands for the prior
    evidence: float
    n_iter: int
    converged: bool
    state: tuple[Array, float] = field(repr=False)


class Spectrum:
    """The Gram matrix G = QTQᵀ with T tridiagonal, by rows where they are fewer: G + λ is solved in O(d²) for any λ."""

    def __init__(self, design: Design) -> None:
        n, d = design.shape
        self.x = design.x if d > n else None
        self.reduced = design.reduced
        self.values = self.reduced.values()
        self.unseen = d - len(self.values)

    def solve(self, noise: float, ridge: float, bend: Array) -> Array:
        """(G / noise + ridge)⁻¹ bend."""
        if self.x is None:
            return self.reduced.solve(noise * ridge, bend) * noise
        seen: Array = self.x.T @ self.reduced.solve(noise * ridge, self.x @ bend)
        return (bend - seen) / ridge


def spike_slab(
    design: Design,
    spectrum: Spectrum,
    *,
    start: SpikeSlabStart | None = None,
    share: float = 0.3,
    humps: float = 0.9,
    hold: int = 1,
    damping: float = 0.8,
    max_iter: int = 150,
    tol: float = 1e-4,
) -> SpikeSlabFit:
    r"""Expectation consistency (vector approximate message passing), its prior and noise learned on the way.

    Two approximations of the posterior take turns until their means and mean variances agree: one has the exact prior
    and a normal for the rows, the other the exact rows and a normal for the prior. The natural parameters of what they
    hand over are damped, which is what keeps the turns from diverging. On designs without structure this finds
    the truth far below the lasso's phase transition; on others it is still a stationary point of an approximate
    evidence, by which it can be compared.

    A start without weights takes a ``share`` of as many weights as there are rows not to be zero, with two ``humps``,
    and holds on to that for the first ``hold`` turns: a prior learned from the first answers, which are blurred, may
    hide the ones that it would have found.
    """
    n, d = design.freedom, design.shape[1]
    slab, noise, pull, precision = start or _blank(design, share, humps)
    least, huge = 1e-10 * design.yy / n, 1e4 * math.sqrt(design.yy / n)
    values = spectrum.values
    handed: tuple[Array, float] | None = None
    last, n_iter, converged = np.zeros(d), 0, False
    while n_iter < max_iter and not converged:
        n_iter += 1
        moments = slab.posterior(pull, precision)
        if n_iter > hold:
            slab = moments.slab()
        certainty = 1 / max(float(moments.variance.mean()), 1e-300)
        ridge = min(max(certainty - precision, 1e-6 * certainty), 1e6 * certainty)
        lean = certainty * moments.mean - precision * pull
        if handed is not None:
            lean = damping * lean + (1 - damping) * handed[0]
            ridge = damping * ridge + (1 - damping) * handed[1]
        handed = (lean, ridge)
        size, change = float(np.linalg.norm(moments.mean)), float(np.linalg.norm(moments.mean - last))
        converged = n_iter > 4 and change <= tol * size
        if not size <= huge:  # it diverges
            break
        last, old = moments.mean, noise
        bend = design.xy / noise + lean
        weights = spectrum.solve(noise, ridge, bend)
        curvature = values / noise + ridge
        spread = float((1 / curvature).sum()) + spectrum.unseen / ridge
        # G w = noise · (bend - ridge · w)
        residual = design.yy + float(weights @ (noise * (bend - ridge * weights) - 2 * design.xy))
        noise = min(max((residual + float((values / curvature).sum())) / n, least), design.yy / n)
        certainty = d / spread
        precision = min(max(certainty - ridge, 1e-6 * certainty), 1e6 * certainty)
        pull = (certainty * weights - lean) / precision
    if not converged:
        return SpikeSlabFit(moments, slab, noise, ridge, -math.inf, n_iter, False, (pull, precision))
    evidence = _consistent_evidence(design, spectrum, slab, old, (pull, precision), (lean / ridge, ridge), weights)
    return SpikeSlabFit(moments, slab, noise, ridge, evidence, n_iter, converged, (pull, precision))


SpikeSlabStart = tuple[Slab, float, Array, float]  # the prior, the noise, and what the rows say with which precision


def _blank(design: Design, share: float, humps: float) -> SpikeSlabStart:
    """Nothing known of any weight, and a hundredth of the target taken for noise."""
    n, d = design.freedom, design.shape[1]
    share, noise = share * min(1.0, n / d), design.yy / n / 101
    power = max(design.yy - n * noise, 0.0) / (design.rows * d * share)
    slab = Slab(share, 0.5, humps * math.sqrt(power), (1 - humps**2) * power)
    return slab, noise, np.zeros(d), 1e-3 / max(share * power, 1e-300)


def from_weights(design: Design, coef: Array, noise: float) -> SpikeSlabStart:
    """Weights that are taken to be nearly right."""
    d, present = len(coef), coef[coef != 0]
    sizes = np.abs(present)
    mean = float(sizes.mean())
    share = min(max(len(present) / d, 0.5 / d), 1 - 0.5 / d)
    slab = Slab(share, float((present > 0).mean()), mean, max(float(sizes.var()), 0.01 * mean**2))
    return slab, noise, coef, 0.5 * design.rows / noise


def _consistent_evidence(
    design: Design,
    spectrum: Spectrum,
    slab: Slab,
    noise: float,
    prior: tuple[Array, float],
    rows: tuple[Array, float],
    weights: Array,
) -> float:
    """log Z of the prior's side and of the rows' side, less that of the normal both agree on."""
    n, d = design.freedom, design.shape[1]
    (pull, precision), (center, ridge) = prior, rows
    first = slab.posterior(pull, precision).log_evidence
    volume = float(np.log(spectrum.values / noise + ridge).sum()) + spectrum.unseen * math.log(ridge)
    bend = design.xy / noise + ridge * center
    second = 0.5 * (
        -n * math.log(2 * math.pi * noise)
        - design.yy / noise
        - ridge * float(center @ center)
        + d * math.log(2 * math.pi)
        - volume
        + float(bend @ weights)
    )
    both = precision + ridge
    apart = precision * ridge / both * float(((pull - center) ** 2).sum())
    return first + second - 0.5 * (d * math.log(2 * math.pi / both) - apart)
