"""Stacks of members: targets as people have them, with weights and groups."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.model_selection import GroupKFold, KFold, ShuffleSplit

from likely.distributions import SkewStudentT, StudentT
from likely.linear import DynamicRidge
from likely.tabular.targets.links import Link
from quick_stacks import classifier, mixed_table, regressor, usable

pytestmark = pytest.mark.usefixtures("quick_stacks")


def rows(n: int = 150) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 3))
    return X, X[:, 0] + 0.5 * rng.normal(size=n)


def likelihood(model: Any) -> str:
    return str(model.summary_["likelihood"])


COUNTS = {
    "poisson": lambda x, rng: rng.poisson(0.3 * np.exp(0.5 * x)),
    "negative binomial": lambda x, rng: rng.negative_binomial(1, 0.1, len(x)),
    "many zeros": lambda x, rng: rng.poisson(np.exp(1 + x)) * (rng.random(len(x)) < 0.5),
    "rounded": lambda x, rng: np.maximum(0, np.round(5 + 2 * x)),
}


@pytest.mark.parametrize("kind", COUNTS)
def test_counts_have_a_likelihood_of_counts(kind: str) -> None:
    X, _ = rows(200)
    y = COUNTS[kind](X[:, 0], np.random.default_rng(1))
    model = regressor().fit(X, y)
    usable(model, X)
    assert likelihood(model).endswith(("poisson", "binomial", "rounded"))
    assert (model.predict(X) >= 0).all()
    quantiles = model.predict_quantile(X, [0.1, 0.5, 0.9])
    np.testing.assert_array_equal(quantiles, np.round(quantiles))
    numbers = torch.arange(3000, dtype=torch.float64)[:, None]
    np.testing.assert_allclose(model.predict_dist(X).log_prob(numbers).exp().sum(0), 1, atol=1e-3)
    for fold in (0, 1):  # a fold without events
        split = KFold(2)
        halves = np.where(np.arange(200) // 100 == fold, 0, y)
        usable(regressor("boosting", likelihood="poisson", cv=split).fit(X, halves), X)


def test_positive_targets_stay_positive() -> None:
    X, y = rows(300)
    model = regressor().fit(X, np.exp(2 * y))
    assert likelihood(model) == "log_normal"
    usable(model, X)
    assert (model.predict_interval(X, 0.99)[0] > 0).all()


def test_shares_stay_between_zero_and_one() -> None:
    X, y = rows(300)
    model = regressor().fit(X, 1 / (1 + np.exp(-6 * y)))
    assert likelihood(model).endswith("of the log odds")
    usable(model, X)
    lower, upper = model.predict_interval(X, 0.99)
    assert (lower >= 0).all()
    assert (upper <= 1).all()
    np.testing.assert_allclose(model.predict_dist(X).mean, model.predict(X), rtol=1e-6)


TARGETS = {
    "constant": lambda y: np.full(len(y), 3.0),
    "zero": np.zeros_like,
    "a tiny constant": lambda y: np.full(len(y), 1e-300),
    "huge": lambda y: 1e300 * y,
    "tiny": lambda y: 1e-300 * y,
    "huge and positive": lambda y: 1e300 * np.exp(y),
    "tiny and positive": lambda y: 1e-300 * np.exp(y),
    "over many orders": lambda y: np.exp(20 * y),
    "two values": lambda y: np.where(y > 0, 5.0, 7.0),
    "one far off": lambda y: np.r_[1e10, np.zeros(len(y) - 1)],
    "large and close": lambda y: 1e9 + 1e-6 * np.arange(len(y)),
    "zeros and ones": lambda y: np.clip(y, 0, 1),
    "large integers": lambda y: (y * 2**58).astype(np.int64),
}


@pytest.mark.parametrize("kind", TARGETS)
def test_any_target_gives_numbers(kind: str) -> None:
    X, y = rows(100)
    target = TARGETS[kind](y)
    model = regressor().fit(X, target)
    usable(model, X)
    assert np.isfinite(model.outlier_scores_).all()
    assert np.isfinite(model.out_of_fold_).all()
    assert np.isfinite(model.outlier_score(X, target)).all()
    found = model.importances(n_repeats=1)
    assert np.isfinite(found.mean).all()
    assert np.isfinite(found.scale).all()


@pytest.mark.parametrize("n", [2, 3, 4, 7, 10])
def test_few_rows(n: int) -> None:
    rng = np.random.default_rng(n)
    X, fresh = rng.normal(size=(n, 2)), rng.normal(size=(3, 2))
    for y in (rng.normal(size=n), np.arange(n)):
        model = regressor(cv=None).fit(X, y)
        usable(model, fresh)
        lower, upper = model.predict_interval(fresh, conformal=True)
        assert (lower < upper).all()
    for labels in (np.arange(n) % 2, np.arange(n)):
        usable(classifier(cv=None).fit(X, labels), fresh)


@pytest.mark.parametrize(
    "convert", [list, np.float32, pd.Series, lambda y: y[:, None]], ids=["list", "float32", "series", "column"]
)
@pytest.mark.filterwarnings("ignore:A column-vector y was passed")
def test_targets_of_any_type(convert: Any) -> None:
    X, y = rows(80)
    y = y.astype(np.float32).astype(np.float64)
    other = regressor().fit(X, convert(y)).predict(X)
    np.testing.assert_allclose(other.ravel(), regressor().fit(X, y).predict(X), rtol=1e-9)


def test_several_targets_are_fitted_one_by_one() -> None:
    X, y = rows(80)
    with pytest.raises(ValueError, match="one LikelihoodRegressor per target"):
        regressor().fit(X, np.column_stack([y, y]))


def test_a_row_without_weight_is_a_row_left_out() -> None:
    frame, y = mixed_table()
    frame, weight = frame[["number", "name", "many"]], np.r_[np.zeros(40), np.ones(80)]
    y[:40] = 1e6
    model, without = regressor().fit(frame, y, sample_weight=weight), regressor().fit(frame[40:], y[40:])
    np.testing.assert_allclose(model.predict(frame), without.predict(frame), rtol=1e-9)
    np.testing.assert_allclose(model.outlier_scores_[40:], without.outlier_scores_, rtol=1e-9)
    labels = np.r_[["c"] * 40, np.where(y[40:] > 0, "a", "b")]
    found = classifier().fit(frame, labels, sample_weight=weight)
    assert list(found.classes_) == ["a", "b"]
    left = classifier().fit(frame[40:], labels[40:])
    np.testing.assert_allclose(found.predict_proba(frame), left.predict_proba(frame), rtol=1e-9)
    assert np.isinf(found.outlier_scores_[:40]).all()


def test_rows_of_a_group_are_held_out_together() -> None:
    rng = np.random.default_rng(0)
    group = np.arange(150) // 10
    X, y = rng.permutation(15)[group].astype(float)[:, None], rng.normal(size=15)[group]  # all rows of a group alike
    alone, together = regressor().fit(X, y), regressor().fit(X, y, groups=group)
    assert np.mean((alone.out_of_fold_ - y) ** 2) < 0.1 * y.var()
    assert np.mean((together.out_of_fold_ - y) ** 2) > 0.5 * y.var()
    assert together.predict_scale(X).mean() > 3 * alone.predict_scale(X).mean()
    classifier().fit(X, y > 0, groups=[f"group {i}" for i in group])
    assert regressor("linear", cv=GroupKFold(3)).fit(X, y, groups=group).summary_["folds"] == 3


def test_splits_and_groups_that_cannot_be_used() -> None:
    X, y = rows(30)
    for options, arguments, message in (
        ({"cv": ShuffleSplit(3)}, {}, "holds out each row once"),
        ({"cv": 1}, {}, "cv == 1, must be >= 2"),
        ({}, {"groups": np.ones(30)}, "one group only"),
        ({}, {"groups": np.arange(29)}, "inconsistent numbers"),
        ({}, {"sample_weight": np.ones(29)}, "sample_weight must hold one weight per row"),
        ({"likelihood": "poisson"}, {}, "choose another likelihood"),
        ({"likelihood": "log_normal"}, {}, "choose another likelihood"),
    ):
        with pytest.raises(ValueError, match=message):
            regressor(**options).fit(X, y, **arguments)


@pytest.mark.parametrize("link", ["log", "logit"])
@pytest.mark.parametrize("base", [StudentT(3.0, 0.0, 1.0), SkewStudentT(3.0, 0.4, 0.0, 1.0)], ids=["t", "skewed t"])
def test_values_beyond_the_range_of_a_link_have_no_density(link: str, base: Any) -> None:
    d = Link(link, 0.0, 1.0).distribution(base.expand((4,)))
    values = torch.tensor([-1.0, 0.3, 0.6, -0.2])
    inside = torch.tensor([False, True, True, False])
    torch.testing.assert_close(d.log_prob(values).isfinite(), inside)
    assert (d.log_prob(values)[~inside] == -torch.inf).all()
    assert (d.cdf(values)[~inside] == 0).all()
    above = d.cdf(torch.tensor(2.0))
    torch.testing.assert_close(above, torch.ones(4) if link == "logit" else base.cdf(torch.tensor(2.0).log()).expand(4))


def test_a_zero_has_no_density_where_all_targets_were_positive() -> None:
    X, y = rows(150)
    model = regressor("linear", likelihood="log_normal").fit(X, np.exp(y))
    nll = -np.asarray(model.predict_dist(X[:3]).log_prob(torch.tensor([0.0, -1.0, 1.0])))
    assert np.isposinf(nll).tolist() == [True, True, False]
    assert np.isfinite(nll[2])


@pytest.mark.parametrize("fit", [regressor("linear").fit, DynamicRidge().fit], ids=["table", "ridge"])
def test_dates_are_no_targets(fit: Any) -> None:
    with pytest.raises(ValueError, match="y holds dates or durations"):
        fit(rows(40)[0], pd.date_range("2024-01-01", periods=40))


def test_a_few_positive_targets_do_not_make_negative_ones_impossible() -> None:
    rng = np.random.default_rng(3)
    X, y = rng.normal(size=(15, 2)), rng.lognormal(1, 0.8, 15)  # by chance, for all that fifteen rows can show
    assert np.isfinite(regressor("linear").fit(X, y).outlier_score(X[:1], [-1.0])).all()
    X = np.tile(X, (20, 1)) + rng.normal(size=(300, 2))
    y = rng.lognormal(X[:, 0], 0.2)
    assert np.isinf(regressor("linear").fit(X, y).outlier_score(X[:1], [-1.0])).all()
