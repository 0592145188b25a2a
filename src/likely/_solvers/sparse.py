r"""Sparse regressions: lassos, and a spike and slab by expectation consistency.

The lassos, one on a path that stops at the lowest generalised cross-validation error and one with a scale per weight,
use sums over rows in the units of :class:`~likely._solvers.design.Design`; the coordinate descent is scikit-learn's.

The spike and slab learns prior and noise on the way.
Two approximations of the posterior are updated in turn until their means and mean variances agree: one has the exact
prior and a normal for the rows, the other the exact rows and a normal for the prior (Opper and Winther 2005; vector
approximate message passing, Rangan, Schniter and Fletcher 2019, whose symbols these are):

- the prior's side observes every weight through a normal of mean :math:`r_1` and precision :math:`\gamma_1`. Its
  posterior has the mean :math:`\hat x_1` and the mean precision :math:`\eta_1`. It passes on :math:`\gamma_2 = \eta_1 -
  \gamma_1` and :math:`h_2 = \gamma_2 r_2 = \eta_1 \hat x_1 - \gamma_1 r_1`;
- the rows' side has a ridge :math:`\gamma_2` around :math:`r_2`. Its posterior has :math:`\hat x_2` and :math:`\eta_2`,
  and it passes back :math:`\gamma_1 = \eta_2 - \gamma_2` and :math:`\gamma_1 r_1 = \eta_2 \hat x_2 - h_2`.

For unstructured designs this finds the true weights far below the lasso's phase transition; for others it is still a
stationary point of an approximate evidence, by which fits can be compared.
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
_PSEUDO_WEIGHTS = 2.0  # pseudo-observations of weights of either sign in the estimate of the slab


@dataclass(frozen=True)
class LassoFit:
    """The minimum of |y - Xw|²/2 + strength · |w|₁."""

    coef: Array
    strength: float
    noise: float  # variance: the residual over the rows less the active columns
    n_iter: int
    forecast: float = 0.0  # variance of the noise of new rows
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
    best = LassoFit(np.zeros(d), float(np.abs(design.xy).max(initial=0.0)), design.yy / n, 0, design.yy / n)
    path = [(design.yy / n, design.yy / n)]  # error and noise of every strength
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
        path.append((error, residual / (n - k)))
        waited += 1
        if error < least:
            least, waited = error, 0
            best = LassoFit(coef, strength, residual / (n - k), n_iter, residual / (n - k))
    if not best.coef.any():
        return best
    # The path is solved coarsely, the result precisely.
    coef, steps = _settled(design, best.strength, best.coef, 2e-2 * tol * best.noise * n / design.yy)
    k = int(np.count_nonzero(coef))
    noise = design.residual(coef) / max(n - k, 1.0)
    # With as many columns as rows the best strength is the best by little, and the noise of others is as likely.
    errors, noises = np.array(path).T
    share = (least / errors) ** (0.5 * n)
    forecast = _forecast(design, coef, k + math.sqrt(k))  # one standard deviation more than the count
    return LassoFit(coef, best.strength, noise, n_iter + steps, max(forecast, float(share @ noises / share.sum())))


def _forecast(design: Design, coef: Array, spent: float) -> float:
    """Return the variance of the noise of new rows, if so many degrees of freedom are spent."""
    unused, most = design.freedom - spent, design.yy / design.freedom
    return most if unused < 1 else design.widened(min(design.residual(coef) / unused, most), unused)


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
    # Every weight of the start had a scale to learn.
    spent = np.count_nonzero(coef) + np.count_nonzero(start.coef)
    forecast = max(_forecast(design, coef, float(spent)), start.forecast)
    return LassoFit(coef, concentration * noise, noise, n_iter, forecast, scale / concentration)


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


@dataclass(frozen=True)
class Slab:
    r"""The prior of a weight: zero, or of a magnitude :math:`N(\mu, \tau^2)` and a sign.

    With μ = 0 it is the usual normal slab; with one sign it is a normal of any mean; with both it has two modes, for
    weights of similar size and either sign. All of it is learned.
    """

    share: float  # of weights that are not zero
    positive: float  # of those, with a positive sign
    mean: float
    variance: float

    def posterior(self, r1: Array, gamma1: float) -> Moments:
        """Return the posterior of weights w, given observations r₁ from N(w, 1/γ₁)."""
        noise = 1 / gamma1
        spread = noise + self.variance
        # Log odds of the spike and of the two humps, less the log density of r₁ under the spike.
        fit = 0.5 * math.log(noise / spread) + 0.5 * gamma1 * r1**2
        spike = math.log1p(-self.share)
        log_plus, log_minus = (
            math.log(max(self.share * part, 1e-300)) + fit - 0.5 * (r1 - mean) ** 2 / spread
            for part, mean in ((self.positive, self.mean), (1 - self.positive, -self.mean))
        )
        top = np.maximum(np.maximum(log_plus, log_minus), spike)
        plus, minus = np.exp(log_plus - top), np.exp(log_minus - top)
        total = plus + minus + np.exp(spike - top)
        plus, minus = plus / total, minus / total
        # Each hump is a normal prior, whose posterior is normal.
        shrink = self.variance / spread
        up, down = shrink * r1 + (1 - shrink) * self.mean, shrink * r1 - (1 - shrink) * self.mean
        spread_within = noise * shrink
        mean = plus * up + minus * down
        variance = plus * (spread_within + up**2) + minus * (spread_within + down**2) - mean**2
        log_evidence = float((top + np.log(total) - 0.5 * gamma1 * r1**2).sum())
        return Moments(mean, variance, plus, minus, up, down, spread_within, log_evidence)


@dataclass(frozen=True)
class Moments:
    """The posterior of every weight: its mean and variance, and those of the two modes with their probabilities."""

    mean: Array
    variance: Array
    plus: Array  # probability of the hump of positive weights, and of the other
    minus: Array
    up: Array  # mean of a weight in each
    down: Array
    spread_within: float  # variance of a weight in either
    log_evidence: float

    @property
    def inclusion(self) -> Array:
        """The probability of each weight not to be zero."""
        return self.plus + self.minus

    def slab(self) -> Slab:
        """Return the prior under which these posteriors are likeliest."""
        d = len(self.mean)
        mass = max(float(self.inclusion.sum()), 1e-300)
        total = mass + _PSEUDO_WEIGHTS
        second = self.spread_within + float((self.plus * self.up**2 + self.minus * self.down**2).sum()) / mass
        mean = abs(float((self.plus * self.up - self.minus * self.down).sum())) / total
        square = float((self.plus * (self.up - mean) ** 2 + self.minus * (self.down + mean) ** 2).sum())
        variance = max((square + mass * self.spread_within + _PSEUDO_WEIGHTS * second) / total, 1e-4 * second, 1e-300)
        positive = (float(self.plus.sum()) + 0.5 * _PSEUDO_WEIGHTS) / total
        return Slab(min(max(mass / d, 0.5 / d), 1 - 0.5 / d), positive, mean, variance)


class Spectrum:
    """The Gram matrix G = QTQᵀ with T tridiagonal, by rows where they are fewer: G + λ is solved in O(d²) for any λ."""

    def __init__(self, design: Design) -> None:
        n, d = design.shape
        self.x = design.x if d > n else None
        self.reduced = design.reduced
        self.values = self.reduced.values()
        self.unseen = d - len(self.values)

    def solve(self, noise: float, ridge: float, bend: Array) -> Array:
        """Return (G / noise + ridge)⁻¹ bend."""
        if self.x is None:
            return self.reduced.solve(noise * ridge, bend) * noise
        seen: Array = self.x.T @ self.reduced.solve(noise * ridge, self.x @ bend)
        return (bend - seen) / ridge


@dataclass(frozen=True)
class Start:
    """The prior, the noise, and the first message to the prior's side."""

    slab: Slab
    noise: float
    r1: Array
    gamma1: float

    @classmethod
    def blank(cls, design: Design, share: float, humps: float) -> Start:
        """Return a start without information on any weight, with a hundredth of the target as noise."""
        n, d = design.freedom, design.shape[1]
        share, noise = share * min(1.0, n / d), design.yy / n / 101
        power = max(design.yy - n * noise, 0.0) / (design.rows * d * share)
        slab = Slab(share, 0.5, humps * math.sqrt(power), (1 - humps**2) * power)
        return cls(slab, noise, np.zeros(d), 1e-3 / max(share * power, 1e-300))

    @classmethod
    def from_weights(cls, design: Design, coef: Array, noise: float) -> Start:
        """Return a start at weights that are assumed to be nearly right."""
        d, present = len(coef), coef[coef != 0]
        sizes = np.abs(present)
        mean = float(sizes.mean())
        share = min(max(len(present) / d, 0.5 / d), 1 - 0.5 / d)
        slab = Slab(share, float((present > 0).mean()), mean, max(float(sizes.var()), 0.01 * mean**2))
        return cls(slab, noise, coef, 0.5 * design.rows / noise)


@dataclass
class SpikeSlabFit:
    """A spike and slab posterior: moments of the weights, the noise, the prior, and the log evidence."""

    moments: Moments
    slab: Slab
    noise: float
    precision: float  # γ₂, of the normal that stands for the prior
    evidence: float  # -∞ where the iterations did not converge
    n_iter: int
    converged: bool


def spike_slab(
    design: Design,
    spectrum: Spectrum,
    *,
    start: Start | None = None,
    share: float = 0.3,
    humps: float = 0.9,
    hold: int = 1,
    damping: float = 0.8,
    max_iter: int = 150,
    tol: float = 1e-4,
) -> SpikeSlabFit:
    """Return the spike and slab posterior that the iterations lead to."""
    n = design.freedom
    begin = start or Start.blank(design, share, humps)
    slab, noise, r1, gamma1 = begin.slab, begin.noise, begin.r1, begin.gamma1
    huge = 1e4 * math.sqrt(design.yy / n)
    message: tuple[Array, float] | None = None  # the last message, γ₂ r₂ and γ₂
    last, n_iter, converged = np.zeros(design.shape[1]), 0, False
    while n_iter < max_iter and not converged:
        n_iter += 1
        moments = slab.posterior(r1, gamma1)
        if n_iter > hold:
            slab = moments.slab()
        eta1 = 1 / max(float(moments.variance.mean()), 1e-300)
        gamma2 = _bounded(eta1 - gamma1, eta1)
        h2 = eta1 * moments.mean - gamma1 * r1
        if message is not None:  # damped natural parameters keep the iterations from diverging
            h2 = damping * h2 + (1 - damping) * message[0]
            gamma2 = damping * gamma2 + (1 - damping) * message[1]
        message = (h2, gamma2)
        size, change = float(np.linalg.norm(moments.mean)), float(np.linalg.norm(moments.mean - last))
        converged = n_iter > 4 and change <= tol * size
        if not size <= huge:  # it diverges
            break
        last, used = moments.mean, noise
        x2, eta2, noise = _rows_side(design, spectrum, noise, h2, gamma2)
        gamma1 = _bounded(eta2 - gamma2, eta2)
        r1 = (eta2 * x2 - h2) / gamma1
    evidence = -math.inf
    if converged:
        evidence = _evidence(design, spectrum, Start(slab, used, r1, gamma1), h2 / gamma2, gamma2, x2)
    return SpikeSlabFit(moments, slab, noise, gamma2, evidence, n_iter, converged)


def _bounded(gamma: float, eta: float) -> float:
    """Return a precision kept positive and finite."""
    return min(max(gamma, 1e-6 * eta), 1e6 * eta)


def _rows_side(
    design: Design, spectrum: Spectrum, noise: float, h2: Array, gamma2: float
) -> tuple[Array, float, float]:
    """Return x̂₂ and η₂ of the exact rows under a normal prior, and the noise of highest likelihood."""
    n, values = design.freedom, spectrum.values
    bend = design.xy / noise + h2
    x2 = spectrum.solve(noise, gamma2, bend)
    curvature = values / noise + gamma2
    trace = float((1 / curvature).sum()) + spectrum.unseen / gamma2  # of the posterior covariance
    # G x₂ = noise · (bend - γ₂ x₂)
    residual = design.yy + float(x2 @ (noise * (bend - gamma2 * x2) - 2 * design.xy))
    learned = (residual + float((values / curvature).sum())) / n
    return x2, design.shape[1] / trace, min(max(learned, 1e-10 * design.yy / n), design.yy / n)


def _evidence(design: Design, spectrum: Spectrum, end: Start, r2: Array, gamma2: float, x2: Array) -> float:
    """Return log Z of the prior's side and of the rows' side, less that of the normal on which both agree."""
    n, d, noise = design.freedom, design.shape[1], end.noise
    prior = end.slab.posterior(end.r1, end.gamma1).log_evidence
    volume = float(np.log(spectrum.values / noise + gamma2).sum()) + spectrum.unseen * math.log(gamma2)
    bend = design.xy / noise + gamma2 * r2
    squares = design.yy / noise + gamma2 * float(r2 @ r2) - float(bend @ x2)
    rows = -0.5 * (n * math.log(2 * math.pi * noise) - d * math.log(2 * math.pi) + volume + squares)
    both = end.gamma1 + gamma2
    apart = end.gamma1 * gamma2 / both * float(((end.r1 - r2) ** 2).sum())
    return prior + rows - 0.5 * (d * math.log(2 * math.pi / both) - apart)
