"""Calibrators are the optima of what their docstrings say, found here by SciPy and scikit-learn."""

from typing import Any

import numpy as np
import pytest
import torch
from scipy import integrate, stats
from scipy.optimize import minimize, minimize_scalar
from scipy.special import betaln, expit, log_softmax
from sklearn.ensemble import RandomForestClassifier
from sklearn.isotonic import IsotonicRegression

from likely._solvers.ridge import RATE
from likely.calibration import (
    CalibratedClassifier,
    FeatureTemperature,
    GlobalScale,
    GlobalTemperature,
    IsotonicCalibration,
    IsotonicScale,
    LinearScale,
    LinearTemperature,
    PlattScaling,
    Recalibrated,
    StructuredMatrixScaling,
    VectorScaling,
)
from likely.distributions import StudentT
from pairwise import together

Array = Any
RNG = np.random.default_rng(0)
N = 300
LABELS = RNG.integers(0, 3, N)
LOGITS = 3 * np.eye(3)[LABELS] + 2 * RNG.normal(size=(N, 3)) + [1.0, 0.0, -0.5]
FEATURES = RNG.normal(2, 3, size=(N, 2))
WEIGHT = RNG.uniform(0.2, 3, N)
WEIGHT *= N / WEIGHT.sum()  # only their ratios count


def nll(logits: Array) -> float:
    """The weighted negative log-likelihood of the labels."""
    return -float(WEIGHT @ log_softmax(logits, 1)[np.arange(N), LABELS])


def softplus(u: Array) -> Array:
    """The shifted softplus at 0.2, which is one at zero."""
    return (np.logaddexp(0, u) + 0.2) / (np.log(2) + 0.2)


def standardized(x: Array) -> Array:
    mean = np.average(x, axis=0, weights=WEIGHT)
    return (x - mean) / np.sqrt(np.average((x - mean) ** 2, axis=0, weights=WEIGHT))


def best_temperature() -> float:
    return float(np.exp(minimize_scalar(lambda t: nll(LOGITS / np.exp(t)), bounds=(-3, 3), method="bounded").x))


@together("unit", [1.0, 1e-25, 1e25])
def test_the_global_temperature_is_the_likeliest(unit: float) -> None:
    fitted = GlobalTemperature().fit(unit * LOGITS, LABELS, sample_weight=WEIGHT)
    assert fitted.temperature_ / unit == pytest.approx(best_temperature(), rel=1e-4)


@together("n", [10, 400])
@together("close", [False, True])
def test_without_an_error_the_temperature_is_the_likeliest_under_the_prior_of_jeffreys(n: int, close: bool) -> None:
    labels = np.arange(n) % 3
    sure = 2.0 * np.eye(3)[labels] + 0.1 * RNG.normal(size=(n, 3))
    if close:  # a row that is right by chance says nothing: T was .002 for it
        sure[0] = [1e-3, 0, 0]

    def penalised(log_tau: float) -> float:
        logs = log_softmax(np.exp(log_tau) * sure, 1)
        mean = (np.exp(logs) * sure).sum(1, keepdims=True)
        information = (np.exp(logs) * np.square(sure - mean)).sum()
        return -logs[np.arange(n), labels].sum() - 0.5 * np.log(information)

    best = minimize_scalar(penalised, bounds=(-3, 3), method="bounded", options={"xatol": 1e-9}).x
    fitted = GlobalTemperature().fit(sure, labels)
    assert fitted.temperature_ == pytest.approx(np.exp(-best), rel=1e-5)
    assert 0.2 < fitted.temperature_ < 2
    assert GlobalTemperature().fit(np.ones((n, 3)), labels).temperature_ == 1


@together("kind", [LinearTemperature, FeatureTemperature])
@together("penalty", [3.0, 40.0, None])
def test_a_temperature_per_row_minimises_the_penalised_loss(kind: Any, penalty: float | None) -> None:
    x = standardized(LOGITS if kind is LinearTemperature else FEATURES)
    base = best_temperature()

    def cost(theta: Array) -> float:
        inverse = softplus(theta[0] + x @ theta[1:]) / base
        return nll(LOGITS * inverse[:, None]) + 0.5 * (penalty or 0.0) * theta[1:] @ theta[1:]

    extra = None if kind is LinearTemperature else FEATURES
    fitted = kind(penalty=penalty).fit(LOGITS, LABELS, extra, sample_weight=WEIGHT)
    theta = minimize(cost, np.zeros(1 + x.shape[1])).x
    expected = base / softplus(theta[0] + x @ theta[1:])
    np.testing.assert_allclose(fitted.temperature(LOGITS, extra), expected, rtol=0.02)
    assert fitted.precision_ == (penalty or 0.0)
    assert np.ptp(expected) > 0.05
    calibrated = log_softmax(LOGITS / fitted.temperature(LOGITS, extra)[:, None], 1)
    np.testing.assert_allclose(fitted.predict_proba(LOGITS, extra), np.exp(calibrated), rtol=1e-6)


@together("kind", [VectorScaling, StructuredMatrixScaling])
@together("penalty", [2.0, 30.0])
def test_affine_maps_of_logits_minimise_the_penalised_loss(kind: Any, penalty: float) -> None:
    """A number is the ridge of factors and biases and, times the number of other classes, of the matrix."""
    tempered = LOGITS / best_temperature()
    x = tempered - tempered.mean(1, keepdims=True)

    def moved(theta: Array) -> Array:
        mixed = x @ theta[6:].reshape(3, 3).T if len(theta) > 6 else 0.0
        return tempered + theta[:3] * x + theta[3:6] + mixed

    def cost(theta: Array) -> float:
        return nll(moved(theta)) + 0.5 * penalty * theta[:6] @ theta[:6] + penalty * theta[6:] @ theta[6:]

    fitted = kind(penalty=penalty).fit(LOGITS, LABELS, sample_weight=WEIGHT)
    theta = minimize(cost, np.zeros(6 if kind is VectorScaling else 15)).x
    np.testing.assert_allclose(fitted.predict_proba(LOGITS), np.exp(log_softmax(moved(theta), 1)), atol=2e-3)
    np.testing.assert_allclose(fitted.factors_, 1 + theta[:3], atol=1e-2)
    np.testing.assert_allclose(fitted.bias_, theta[3:6] - theta[3:6].mean(), atol=1e-2)
    np.testing.assert_allclose(fitted.precision_[:2], penalty)


def log_odds(logits: Array) -> Array:
    logs = log_softmax(logits, 1)
    return logs - np.log(-np.expm1(logs))


def mixture(columns: list[Array], share: float) -> Array:
    """Normalised columns, with the rest that of one temperature."""
    curves = np.stack(columns, axis=1)
    tempered = np.exp(log_softmax(LOGITS / best_temperature(), 1))
    return share * curves / curves.sum(1, keepdims=True) + (1 - share) * tempered


def test_platts_sigmoids_are_fitted_to_smoothed_labels() -> None:
    fitted = PlattScaling().fit(LOGITS, LABELS, sample_weight=WEIGHT)
    columns = []
    for k in range(3):
        odds, own = log_odds(LOGITS)[:, k], k == LABELS
        inside, outside = WEIGHT[own].sum(), WEIGHT[~own].sum()
        target = np.where(own, (inside + 1) / (inside + 2), 1 / (outside + 2))

        def cost(theta: Array, odds: Array = odds, target: Array = target) -> float:
            u = theta[0] * odds + theta[1]
            return float(WEIGHT @ (target * np.logaddexp(0, -u) + (1 - target) * np.logaddexp(0, u)))

        slope, intercept = minimize(cost, [1.0, 0.0]).x
        assert fitted.curves_[k].slope == pytest.approx(slope, rel=1e-3)
        assert fitted.curves_[k].intercept == pytest.approx(intercept, abs=1e-3)
        columns.append(expit(slope * odds + intercept))
    assert 0.5 < fitted.share_ < 1
    np.testing.assert_allclose(fitted.predict_proba(LOGITS), mixture(columns, fitted.share_), rtol=5e-3)


def test_platts_sigmoid_of_equal_odds_is_the_share_of_the_class() -> None:
    labels = np.repeat([0, 1], [30, 10])
    fitted = PlattScaling().fit(np.tile([0.3, 0.1], (40, 1)), labels)
    share = (30 * 31 / 32 + 10 / 12) / 40
    other = (10 * 11 / 12 + 30 / 32) / 40
    expected = np.array([share, other]) / (share + other)
    fitted.share_ = 1.0  # one temperature does the same here
    np.testing.assert_allclose(fitted.predict_proba([[0.3, 0.1]])[0], expected, rtol=1e-6)


def test_isotonic_curves_are_scikit_learns_within_one_row_of_zero_and_one() -> None:
    fitted = IsotonicCalibration().fit(LOGITS, LABELS, sample_weight=WEIGHT)
    floor = 1 / (3 * WEIGHT.sum())
    columns = []
    for k in range(3):
        odds = log_odds(LOGITS)[:, k]
        curve = IsotonicRegression(y_min=floor, y_max=1 - floor, out_of_bounds="clip")
        columns.append(curve.fit(odds, k == LABELS, sample_weight=WEIGHT).predict(odds))
    np.testing.assert_allclose(fitted.predict_proba(LOGITS), mixture(columns, fitted.share_), rtol=1e-5, atol=1e-9)
    fitted.share_ = 1.0
    np.testing.assert_allclose(fitted.predict_proba(LOGITS), mixture(columns, 1.0), rtol=1e-5, atol=1e-9)


def test_zeros_of_a_forest_are_half_of_its_smallest_probability() -> None:
    forest = RandomForestClassifier(5, max_depth=4, random_state=0).fit(LOGITS[:200], LABELS[:200])
    fitted = CalibratedClassifier(forest, "global", cv="prefit").fit(LOGITS[200:], LABELS[200:])
    probabilities = forest.predict_proba(LOGITS[200:])
    assert (probabilities == 0).any()
    assert fitted.floor_ == pytest.approx(probabilities[probabilities > 0].min() / 2)


# Regressors.

MEAN = RNG.normal(size=N)
SCALE = np.exp(0.3 * RNG.normal(size=N))
NOISE = SCALE * np.exp(0.25 * (FEATURES[:, 0] - 2))
Y = MEAN + NOISE * RNG.normal(size=N)


@together("likelihood", ["normal", "laplace"])
@together("penalty", [2.0, 50.0])
def test_a_scale_per_row_minimises_the_penalised_loss(likelihood: str, penalty: float) -> None:
    power = 2 if likelihood == "normal" else 1
    z = np.abs(Y - MEAN) / SCALE
    base = np.average(z**power, weights=WEIGHT) ** (1 / power)
    x = standardized(FEATURES)

    def cost(theta: Array) -> float:
        factor = softplus(theta[0] + x @ theta[1:])
        losses = np.log(factor) + (z / base / factor) ** power / power
        return float(WEIGHT @ losses) + 0.5 * penalty * theta[1:] @ theta[1:]

    common = GlobalScale(likelihood=likelihood).fit(MEAN, SCALE, Y, sample_weight=WEIGHT)
    assert common.global_scale_ == pytest.approx(base)
    np.testing.assert_allclose(common.predict_scale(MEAN, SCALE), base * SCALE)
    fitted = LinearScale(likelihood=likelihood, penalty=penalty)
    fitted.fit(MEAN, SCALE, Y, features=FEATURES, sample_weight=WEIGHT)
    theta = minimize(cost, np.zeros(3)).x
    expected = base * SCALE * softplus(theta[0] + x @ theta[1:])
    np.testing.assert_allclose(fitted.predict_scale(MEAN, SCALE, features=FEATURES), expected, rtol=0.02)
    assert np.ptp(expected / SCALE) > 0.2


def test_the_ridge_of_a_scale_per_row_meets_mackays_condition_whatever_the_tails() -> None:
    """λ|w|² is the number of weights that the rows determine, and what a unit of spread costs.

    Rows count in full though their slopes vary more than the curvature, which is that of the likelihood, says.
    """
    rng = np.random.default_rng(1)
    x = rng.normal(size=(600, 3))
    y = np.exp(0.5 * x[:, 0]) * rng.standard_t(3, size=600)
    fitted = LinearScale(margin=0.0).fit(np.zeros(600), None, y, features=x)
    line = fitted.solution_
    coef, intercept = line.coef / fitted.share_, line.intercept / fitted.share_  # before held-out rows shrank them
    z = (x - line.mean) / line.deviation
    u = intercept + z @ coef
    slope = expit(u) / (np.log(2) + 0.2) / softplus(u)
    residual = np.abs(y) / fitted.global_scale_ / softplus(u)
    curvature = 2 * slope**2
    assert (slope**2 * (1 - residual**2) ** 2).sum() > 1.3 * curvature.sum()
    cross = z.T @ curvature
    values = np.linalg.eigvalsh(z.T @ (curvature[:, None] * z) - np.outer(cross, cross) / curvature.sum())
    determined = (values / (values + fitted.precision_)).sum()
    price = RATE * np.sqrt(3 / fitted.precision_)
    assert fitted.precision_ * coef @ coef == pytest.approx(determined + price, rel=0.02)


BASES = {
    "normal": (lambda: torch.distributions.Normal(1.5, 2.0), stats.norm(1.5, 2.0)),
    "laplace": (lambda: torch.distributions.Laplace(1.5, 2.0), stats.laplace(1.5, 2.0)),
    "student": (lambda: StudentT(torch.tensor(6.0), torch.tensor(1.5), torch.tensor(2.0)), stats.t(6.0, 1.5, 2.0)),
}
LEVELS = np.array([0.0, 0.05, 0.35, 0.4, 0.8, 1.0])


@together("name", BASES)
def test_a_recalibrated_distribution_has_its_integrals(name: str) -> None:
    make, base = BASES[name]
    own = Recalibrated(make(), torch.tensor(LEVELS))
    y = np.linspace(-9, 12, 43)
    knots = np.linspace(0, 1, 6)
    expected = np.interp(base.cdf(y), knots, LEVELS)
    np.testing.assert_allclose(own.cdf(torch.tensor(y)), expected, atol=1e-6)
    slope = 5 * np.diff(LEVELS)[np.minimum((5 * base.cdf(y)).astype(int), 4)]
    np.testing.assert_allclose(own.log_prob(torch.tensor(y)), base.logpdf(y) + np.log(slope), rtol=1e-5, atol=1e-5)
    levels = np.array([0.001, 0.05, 0.2, 0.4, 0.9, 0.999])
    np.testing.assert_allclose(
        own.icdf(torch.tensor(levels)), base.ppf(np.interp(levels, LEVELS, knots)), rtol=1e-4, atol=1e-4
    )
    cuts = [-np.inf, *base.ppf(knots[1:-1]), np.inf]
    moments = [
        sum(
            5 * rise * integrate.quad(lambda t, power=power: t**power * base.pdf(t), low, high)[0]
            for rise, low, high in zip(np.diff(LEVELS), cuts[:-1], cuts[1:], strict=True)
        )
        for power in (1, 2)
    ]
    assert own.mean.item() == pytest.approx(moments[0], rel=1e-5)
    assert own.variance.item() == pytest.approx(moments[1] - moments[0] ** 2, rel=1e-5)
    torch.manual_seed(0)
    draws = own.sample((4000,)).double().numpy()
    assert stats.kstest(draws, lambda t: np.interp(base.cdf(t), knots, LEVELS)).pvalue > 1e-3


def test_a_level_that_no_row_reaches_is_in_the_middle_of_its_part() -> None:
    own = Recalibrated(torch.distributions.Normal(0.0, 1.0), torch.tensor([0.0, 0.5, 0.5, 1.0]))
    assert own.cdf(torch.tensor(0.0)).item() == pytest.approx(0.5)
    assert -0.44 < own.icdf(torch.tensor(0.5)).item() < 0.44
    wide = own.expand((3,))
    assert wide.batch_shape == (3,)
    np.testing.assert_allclose(wide.cdf(torch.ones(3)), own.cdf(torch.tensor(1.0)))


def tree(pit: Array, firmness: float) -> tuple[Array, float]:
    """The mean and the log evidence of a Pólya tree of ten levels whose shares have Beta priors, firmer with depth."""
    counts = np.histogram(pit, bins=1024, range=(0, 1))[0]
    mass, evidence = np.ones(1), len(pit) * 10 * np.log(2)
    for depth in range(1, 11):
        halves = counts.reshape(2**depth, -1).sum(1).reshape(-1, 2)
        prior = firmness * depth**2
        for left, right in halves:
            evidence += betaln(left + prior, right + prior) - betaln(prior, prior)
        mass = (mass[:, None] * (halves + prior) / (halves + prior).sum(1, keepdims=True)).ravel()
    return np.append(0.0, np.cumsum(mass)), evidence


def test_the_isotonic_map_is_the_mean_of_a_tree_of_most_evidence() -> None:
    rng = np.random.default_rng(3)
    y = np.sqrt(rng.random(400))  # skewed, with light tails
    fitted = IsotonicScale().fit(np.zeros(400), None, y)
    assert fitted.tails_ is None
    scale = np.sqrt((y**2).mean())
    assert fitted.global_scale_ == pytest.approx(scale)
    pit = stats.norm.cdf(y / scale)
    levels, evidence = tree(pit, fitted.firmness_)
    np.testing.assert_allclose(fitted.levels_, levels, atol=1e-9)
    assert evidence > 0
    for factor in (0.5, 2.0):
        assert evidence > tree(pit, factor * fitted.firmness_)[1]
    plain = IsotonicScale().fit(np.zeros(400), None, stats.norm.ppf((np.arange(400) + 0.5) / 400))
    assert plain.firmness_ == np.inf
    np.testing.assert_allclose(plain.levels_, np.linspace(0, 1, 1025))


@together(
    ("df", "n", "expected"),
    [(2.5, 400, 2.5), (3.0, 400, 3.0), (4.0, 900, 4.0), (10.0, 9000, 10.0), (np.inf, 400, None), (3.0, 9, None)],
)
def test_tails_are_those_of_a_student_t_where_they_are_worth_a_parameter(
    df: float, n: int, expected: float | None
) -> None:
    """More than ½ log n nats, and ten rows."""
    levels = (np.arange(n) + 0.5) / n
    y = 2.0 * (stats.t(df).ppf(levels) if np.isfinite(df) else stats.norm.ppf(levels))
    fitted = IsotonicScale().fit(np.zeros(n), None, y)
    if expected is None:
        assert fitted.tails_ is None
        return
    assert fitted.tails_.df == expected
    assert fitted.tails_.scale * fitted.global_scale_ == pytest.approx(2.0, rel=0.03)
    z = y / fitted.global_scale_
    gain = stats.t(expected, scale=fitted.tails_.scale).logpdf(z).sum() - stats.norm.logpdf(z).sum()
    assert gain > 0.5 * np.log(n)


def test_tails_that_gain_less_than_half_a_logarithm_of_the_rows_are_left_out() -> None:
    """Ordinary rows and a last one further and further out."""
    base, taken = stats.norm.ppf((np.arange(60) + 0.5) / 60), []
    for far in np.linspace(2.8, 5, 10):
        y = np.append(base, [far, -far])
        scale = np.sqrt((y**2).mean())
        gains = []
        for df in (2.5, 3.0, 4.0, 6.0, 10.0, 20.0):
            best = minimize_scalar(lambda s, y=y, df=df: -stats.t.logpdf(y, df, scale=s).sum(), bounds=(0.2, 3)).fun
            gains.append(-best - stats.norm.logpdf(y, scale=scale).sum())
        if abs(max(gains) - 0.5 * np.log(62)) > 0.05:
            taken.append(max(gains) > 0.5 * np.log(62))
            assert (IsotonicScale().fit(np.zeros(62), None, y).tails_ is not None) == taken[-1], far
    assert 2 < sum(taken) < len(taken) - 2


def test_forecasts_with_heavy_tails_are_calibrated_at_every_level() -> None:
    levels = (np.arange(400) + 0.5) / 400
    y = 2.0 * stats.t(3.0).ppf(levels)
    fitted = IsotonicScale().fit(np.zeros(400), None, y)
    assert fitted.tails_ is not None
    cdf = fitted.distribution(np.zeros(400), None).cdf(torch.tensor(y)).numpy()
    np.testing.assert_allclose(cdf, levels, atol=0.02)
    # It is the tails that do this, not the map.
    base = fitted.distribution(np.zeros(1), None).base
    assert base.scale.item() == pytest.approx(fitted.global_scale_ * fitted.tails_.scale)
    assert base.scale.item() == pytest.approx(2.0, rel=0.05)
    few = y[::8]
    light = IsotonicScale().fit(np.zeros(50), None, few, sample_weight=np.where(np.abs(few) < 4, 1.0, 1e-6))
    assert light.tails_ is None  # rows without weight have no tails


def test_light_but_not_normal_tails_have_twenty_degrees_of_freedom_at_most() -> None:
    levels = (np.arange(20_000) + 0.5) / 20_000
    fitted = IsotonicScale().fit(np.zeros(20_000), None, stats.t(20.0).ppf(levels))
    assert fitted.tails_.df == 20
