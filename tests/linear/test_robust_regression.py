"""Robust regression: what each kind of scale withstands, the optimum it claims to be, and units that do not matter."""

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np
import pytest
import torch
from scipy.optimize import minimize
from sklearn.linear_model import LinearRegression
from sklearn.metrics import roc_auc_score

from experiments.benchmarks._robust_linear import CELLS, problem
from likely.linear import DynamicRidge
from likely.linear._robust_density import Density
from likely.linear._robust_regression import SCALES, RobustLinearRegression
from linear_models import wider_by
from pairwise import together


def error(model, truth) -> float:
    return float(np.linalg.norm(np.append(model.coef_, model.intercept_) - truth) / np.linalg.norm(truth))


@together("d", [1, 10])
@together("cell", CELLS)
def test_the_default_withstands_every_cell(cell: str, d: int) -> None:
    errors = []
    for seed in range(3):
        X, y, truth = problem(cell, d, 500 + seed)
        errors.append(error(RobustLinearRegression(random_state=0).fit(X, y), truth))
    assert np.median(errors) < (0.03 if d == 1 else 0.08)


@pytest.mark.parametrize("d", [1, 10])
def test_on_clean_rows_it_is_as_good_as_least_squares(d: int) -> None:
    pairs = []
    for seed in range(11):
        X, y, truth = problem("clean", d, 700 + seed)
        pairs.append(
            (error(RobustLinearRegression(random_state=0).fit(X, y), truth), error(LinearRegression().fit(X, y), truth))
        )
    ours, theirs = np.median(pairs, axis=0)
    assert ours <= 1.1 * theirs


def test_each_kind_withstands_what_it_can_see() -> None:
    expected = {  # cell: the kinds that err less than a tenth as much as least squares
        "Y 25%": {"mixture", "predicted_xy", "data"},
        "symmetric Y 30%": {"mixture", "data"},
        "large X 30%": {"mixture", "predicted", "predicted_xy"},
    }
    for cell, able in expected.items():
        found = set()
        for scale in SCALES:
            ratios = []
            for seed in range(5):
                X, y, truth = problem(cell, 1, 900 + seed)
                plain = error(LinearRegression().fit(X, y), truth)
                ratios.append(error(RobustLinearRegression(scale, random_state=0).fit(X, y), truth) / plain)
            if np.median(ratios) < 0.3:
                found.add(scale)
        assert found == able, cell


@together("scale", SCALES)
@together("likelihood", ["normal", "laplace", "student_t", "robust"])
def test_units_do_not_matter(scale: str, likelihood: str) -> None:
    X, y, _ = problem("Y 10%", 3, 1)
    units, shift = np.array([1e-3, 1.0, 1e4]), np.array([5.0, 0.0, -2e4])
    one = RobustLinearRegression(scale, likelihood, random_state=0).fit(X, y)
    other = RobustLinearRegression(scale, likelihood, random_state=0).fit(X * units + shift, 50 * y - 3)
    np.testing.assert_allclose(other.coef_ * units, 50 * one.coef_, rtol=1e-6)
    assert other.scale_ == pytest.approx(50 * one.scale_, rel=1e-6)
    np.testing.assert_allclose(other.weights_, one.weights_, atol=1e-6)
    np.testing.assert_allclose(other.predict(X * units + shift), 50 * one.predict(X) - 3, rtol=1e-6)
    score, scaled = one.outlier_score(X, y), other.outlier_score(X * units + shift, 50 * y - 3)
    np.testing.assert_allclose(scaled, score + np.log(50), rtol=1e-5)


def test_data_scales_are_students_t() -> None:
    X, y, _ = problem("symmetric Y 30%", 2, 3)
    model = RobustLinearRegression("data", df=2.0, tol=1e-9, max_iter=1000).fit(X, y)
    density, design = Density.of("student_t", 2.0), np.column_stack([X, np.ones(len(y))])

    def nll(line):
        return density.nll(y - design @ line, model.scale_).sum()

    best = minimize(nll, np.zeros(3), tol=1e-12).x
    np.testing.assert_allclose(np.append(model.coef_, model.intercept_), best, atol=1e-5)
    z = (y - model.predict(X)) / model.scale_
    pull = 3 / (2 + z**2)
    np.testing.assert_allclose(model.weights_, np.minimum(1, pull))
    # The likeliest scale has the sum n; three degrees of freedom are spent on the line.
    assert pull @ z**2 == pytest.approx(len(y) - 3, rel=1e-4)


def test_the_mixture_is_where_its_own_weights_lead() -> None:
    X, y, _ = problem("Y 25%", 2, 4)
    model = RobustLinearRegression(tol=1e-10, max_iter=2000, random_state=0).fit(X, y)
    again = LinearRegression().fit(X, y, sample_weight=model.weights_)
    np.testing.assert_allclose(model.coef_, again.coef_, atol=1e-6)
    assert model.intercept_ == pytest.approx(again.intercept_, abs=1e-6)
    assert model.inlier_share_ == pytest.approx(model.weights_.mean(), abs=1e-4)
    assert model.inlier_share_ >= 0.5
    assert model.outlier_scale_ >= 3 * model.scale_


def test_outliers_do_not_pull_at_all() -> None:
    # At their large scale eighty far inputs would still move the slope by more than its standard error.
    gaps = []
    for seed in range(9):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(240, 1))
        y = X[:, 0] + 0.1 * rng.normal(size=240)
        X[:80] = 10
        model = RobustLinearRegression(random_state=0).fit(X, y)
        gaps.append(model.coef_[0] - LinearRegression().fit(X[80:], y[80:]).coef_[0])
    assert abs(np.mean(gaps)) < 0.001


def test_predicted_scales_are_found() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2000, 2))
    y = X @ [1.0, -2.0] + np.exp(0.5 + 0.8 * X[:, 0]) * rng.normal(size=2000)
    model = RobustLinearRegression("predicted").fit(X, y)
    np.testing.assert_allclose(model.scale_coef_, [0.8, 0.0], atol=0.06)
    assert model.scale_intercept_ == pytest.approx(0.5, abs=0.06)
    mean, deviation = model.predict(X, return_std=True)
    scale = np.exp(X @ model.scale_coef_ + model.scale_intercept_)
    np.testing.assert_allclose(deviation, wider_by(2000, 3) * scale)
    # The coefficients are least squares at these scales.
    again = LinearRegression().fit(X, y, sample_weight=1 / deviation**2)
    np.testing.assert_allclose(mean, again.predict(X), atol=1e-3)


def test_inliers_of_the_mixture_may_differ_in_scale() -> None:
    rng = np.random.default_rng(3)
    X = rng.normal(size=(400, 2))
    noise = 0.1 * np.exp(X[:, 0])
    y = X @ [1.0, -2.0] + noise * rng.normal(size=400)
    y[:100] += rng.uniform(5, 20, 100)
    model = RobustLinearRegression(random_state=0).fit(X, y)
    np.testing.assert_allclose(model.scale_coef_, [1.0, 0.0], atol=0.15)
    _, deviation = model.predict(X, return_std=True)
    np.testing.assert_allclose(np.log(deviation), np.log(noise), atol=0.6)
    assert model.weights_[:100].max() < 0.1 < 0.8 < model.weights_[100:].mean()
    assert np.abs(model.coef_ - [1, -2]).max() < 0.01
    # A second fit on even noise forgets it.
    assert not hasattr(model.fit(X, X[:, 0] + 0.1 * rng.normal(size=400)), "scale_coef_")


def test_scales_that_are_not_worth_predicting_leave_least_squares() -> None:
    rng = np.random.default_rng(1)
    X = rng.normal(size=(300, 5))
    y = X.sum(1) + rng.normal(size=300)
    model = RobustLinearRegression("predicted").fit(X, y)
    assert (model.scale_coef_ == 0).all()
    np.testing.assert_allclose(model.coef_, LinearRegression().fit(X, y).coef_, atol=1e-6)


@pytest.mark.parametrize("scale", SCALES)
def test_weights_count_rows(scale: str) -> None:
    X, y, _ = problem("Y 10%", 2, 5)
    count = np.random.default_rng(0).integers(0, 3, len(y))
    weighted = RobustLinearRegression(scale, random_state=0, tol=1e-8, max_iter=2000).fit(X, y, sample_weight=count)
    repeated = RobustLinearRegression(scale, random_state=0, tol=1e-8, max_iter=2000).fit(
        X.repeat(count, axis=0), y.repeat(count)
    )
    np.testing.assert_allclose(weighted.coef_, repeated.coef_, atol=1e-4)
    assert weighted.scale_ == pytest.approx(repeated.scale_, rel=1e-3)
    assert weighted.weights_.shape == y.shape


@pytest.mark.parametrize("scale", SCALES)
def test_outliers_score_highest(scale: str) -> None:
    X, y, truth = problem("Y 25%" if scale == "data" else "large X 30%", 1, 6)
    bad = np.abs(y - X @ truth[:-1] - truth[-1]) > 0.7
    model = RobustLinearRegression(scale, random_state=0).fit(X, y)
    score = model.outlier_score(X, y)
    assert roc_auc_score(bad, score) > 0.99
    assert roc_auc_score(bad, -model.weights_) > 0.99
    np.testing.assert_allclose(score, Density.of("normal").nll(y - model.predict(X), model.scale_))


def test_the_deviation_is_that_of_a_trusted_row() -> None:
    X, y, _ = problem("Y 25%", 1, 7)
    for likelihood in ("normal", "laplace"):
        _, deviation = (
            RobustLinearRegression(likelihood=likelihood, random_state=0).fit(X, y).predict(X, return_std=True)
        )
        assert deviation.shape == y.shape
        assert deviation[0] == pytest.approx(0.1, rel=0.25)
    with pytest.raises(ValueError, match="new rows have no scale"):
        RobustLinearRegression("predicted_xy").fit(X, y).predict(X, return_std=True)


@pytest.mark.parametrize("scale", SCALES)
def test_tables_that_leave_nothing_to_learn(scale: str) -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(20, 3))
    line = X @ [1.0, 2.0, 3.0] + 4
    exact = RobustLinearRegression(scale).fit(X, line)
    np.testing.assert_allclose(exact.coef_, [1, 2, 3], atol=1e-6)
    assert (exact.weights_ > 0.9).all()
    constant = RobustLinearRegression(scale).fit(X, np.full(20, 7.0))
    np.testing.assert_allclose(constant.predict(X), 7, atol=1e-6)
    repeated = np.column_stack([X, X[:, 0], np.ones(20)])
    noisy = line + 0.1 * rng.normal(size=20)
    with _told_of_few(SCALES[scale] * 4 > 20):
        np.testing.assert_allclose(
            RobustLinearRegression(scale, random_state=0).fit(repeated, noisy).predict(repeated),
            RobustLinearRegression(scale, random_state=0).fit(X, noisy).predict(X),
            atol=0.1,
        )


def _told_of_few(told: bool) -> AbstractContextManager[Any]:
    return pytest.warns(UserWarning, match="rows are too few to tell outliers") if told else nullcontext()


@pytest.mark.parametrize("scale", [name for name in SCALES if name != "predicted_xy"])
def test_rows_too_few_for_outliers_are_fitted_by_a_ridge(scale: str) -> None:
    """Intervals of 90% cover new rows, and forecasts are no worse than the marginal, with as many columns as rows."""
    covered, gained = [], []
    for seed, (n, d) in enumerate([(15, 15), (15, 45), (30, 20), (24, 13), (30, 90), (40, 22)]):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(n + 300, d))
        y = X[:, 0] - X[:, 1] + rng.normal(size=n + 300)
        with _told_of_few(True):
            model = RobustLinearRegression(scale, random_state=0).fit(X[:n], y[:n])
        np.testing.assert_allclose(model.coef_, DynamicRidge().fit(X[:n], y[:n]).coef_)
        assert (model.weights_ == 1).all()
        forecast, fresh = model.predict_dist(X[n:]), torch.from_numpy(y[n:])
        covered.append(((forecast.cdf(fresh) - 0.5).abs() < 0.45).double().mean().item())
        marginal = torch.distributions.Normal(y[:n].mean(), y[:n].std())
        gained.append((forecast.log_prob(fresh) - marginal.log_prob(fresh)).mean().item())
    assert np.mean(covered) > 0.8, f"coverage of new rows {np.round(covered, 2)}"
    assert np.mean(gained) > -0.05, f"log-likelihood above the marginal's {np.round(gained, 2)}"


@pytest.mark.parametrize("scale", ["mixture", "data"])
def test_intervals_cover_new_rows_where_a_line_takes_a_third_of_the_rows(scale: str) -> None:
    covered = []
    for seed in range(12):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(360, 19))
        y = X @ rng.normal(size=19) + rng.normal(size=360)
        forecast = RobustLinearRegression(scale, random_state=0).fit(X[:60], y[:60]).predict_dist(X[60:])
        covered.append(((forecast.cdf(torch.from_numpy(y[60:])) - 0.5).abs() < 0.45).double().mean().item())
    assert np.mean(covered) > 0.85, f"coverage of new rows {np.round(covered, 2)}"


def test_most_rows_on_a_line_and_the_others_anywhere() -> None:
    rng = np.random.default_rng(0)
    X, bad = rng.normal(size=(100, 1)), np.arange(100) < 40
    y = np.where(bad, 10 * rng.normal(size=100), 2 * X[:, 0] + 1)
    model = RobustLinearRegression(random_state=0).fit(X, y)
    np.testing.assert_allclose([model.coef_[0], model.intercept_], [2, 1], atol=1e-5)
    assert (model.weights_[~bad] > 0.9).all()
    assert (model.weights_[bad] < 0.1).all()


def test_without_an_intercept() -> None:
    truth, rng = np.array([2.0, -1.0]), np.random.default_rng(0)
    X = rng.normal(size=(100, 2))
    y = np.where(np.arange(100) < 30, rng.uniform(5, 9, 100), X @ truth)
    model = RobustLinearRegression(fit_intercept=False, random_state=0).fit(X, y)
    assert model.intercept_ == 0
    np.testing.assert_allclose(model.coef_, truth, atol=1e-5)


def test_many_rows_are_searched_on_a_sample() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(20_000, 3))
    y = X.sum(1) + 0.1 * rng.normal(size=20_000)
    X[:6000] += 20
    model = RobustLinearRegression(random_state=0).fit(X, y)
    np.testing.assert_allclose(model.coef_, 1, atol=0.01)


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ({"scale": "rows"}, "scale must be one of"),
        ({"likelihood": "cauchy"}, "likelihood must be one of"),
        ({"df": 0.0}, "df must be positive"),
        ({"max_iter": 0}, "max_iter == 0"),
    ],
)
def test_bad_parameters_are_named(parameters, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        RobustLinearRegression(**parameters).fit(np.eye(3), np.arange(3.0))


WRONG = {
    "moved by 50": lambda X, y, bad: (X, y + 50 * bad),
    "a constant": lambda X, y, bad: (X, np.where(bad, 30.0, y)),
    "moved by 8": lambda X, y, bad: (X, y + 8 * bad),
    "other units": lambda X, y, bad: (X * np.where(bad[:, None] & (np.arange(X.shape[1]) == 0), 2.2, 1.0), y),
}


@together("wrong", list(WRONG))
def test_forty_percent_of_wrong_rows_at_thirty_columns(wrong: str) -> None:
    rng = np.random.default_rng(31)
    X, slope = rng.normal(size=(1000, 30)), rng.normal(size=30)
    X[:, 0] = 6 + X[:, 0]
    slope[0] = 5.0
    X, y = WRONG[wrong](X, X @ slope + rng.normal(size=1000), rng.permutation(1000) < 400)
    model = RobustLinearRegression(random_state=0).fit(X, y)
    assert np.abs(model.coef_ - slope).max() < 0.3, "the coefficients follow the wrong rows"
    assert 0.5 <= model.inlier_share_ < 0.7


def test_two_lines_that_fit_alike_are_told_of() -> None:
    rng = np.random.default_rng(5)
    X = rng.normal(size=(600, 3))
    y = X @ [1.2, 1.0, -1.0] + rng.normal(size=600)
    X[:240, 0] += 20  # either these inputs are wrong, or the first column has no effect
    with pytest.warns(UserWarning, match="about equally well"):
        RobustLinearRegression(random_state=0).fit(X, y)


def test_a_column_in_other_units_in_forty_percent_of_the_rows() -> None:
    rng = np.random.default_rng(6)
    X = rng.normal(size=(500, 8))
    y = 1.5 * X.sum(1) + 3 + 0.1 * rng.normal(size=500)
    X[:200, 0] *= 1000
    model = RobustLinearRegression(random_state=0).fit(X, y)
    assert np.abs(model.coef_ - 1.5).max() < 0.1, "the coefficients follow the rows in other units"
    assert model.weights_[:200].mean() < 0.05


@pytest.mark.parametrize("seed", [0, 2, 9, 12])
def test_a_predicted_scale_is_not_extrapolated(seed: int) -> None:
    """The scale of rows beyond those of the fit fell to e⁻³⁰, and the mean NLL of new rows was 3e13."""
    rng = np.random.default_rng([seed, 24, 2])
    X, fresh = rng.standard_t(2, size=(24, 2)), rng.standard_t(2, size=(1000, 2))
    y, truth = X.sum(1) + rng.normal(size=24), fresh.sum(1) + rng.normal(size=1000)
    model = RobustLinearRegression("predicted").fit(X, y)
    marginal = torch.distributions.Normal(y.mean(), y.std())
    nll, constant = (-dist.log_prob(torch.from_numpy(truth)).mean() for dist in (model.predict_dist(fresh), marginal))
    assert nll < constant + 2


def test_predicted_scales_do_not_collapse_where_the_noise_has_a_least_size() -> None:
    """At distant inputs the noise is not as small as a line of log σ says; all scales fell to e⁻¹⁸."""
    rng = np.random.default_rng([104, 500, 3])
    X = rng.standard_t(2, size=(500, 3))
    y = X.sum(1) + np.exp(np.clip(X[:, 0], -3, 3)) * rng.normal(size=500)
    model = RobustLinearRegression("predicted").fit(X, y)
    np.testing.assert_allclose(model.coef_, 1, atol=0.05)
    assert 0.5 < model.scale_ < 2
    assert 0.5 < model.scale_coef_[0] < 1


def test_a_majority_of_equal_targets_is_no_division_by_zero() -> None:
    rng = np.random.default_rng(404)
    X, y = rng.normal(size=(120, 4)), np.where(rng.random(120) < 0.55, 0.0, rng.gamma(2, 1, 120))
    model = RobustLinearRegression(random_state=0).fit(X, y)  # warnings are errors
    np.testing.assert_array_equal(model.coef_, 0.0)
