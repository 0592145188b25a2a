"""The parts of `python -m experiments.benchmarks linear` that can be checked without running all of it."""

import numpy as np
import pytest
from sklearn.linear_model import Ridge

from experiments.benchmarks import linear
from experiments.benchmarks.linear import Setting
from experiments.data import make_linear
from experiments.entries import Context
from experiments.paper._recovery import (
    known_support,
    lasso_errors,
    oracle_lasso,
    oracle_ridge,
    recovery_error,
    ridge_errors,
)


def test_problems_are_what_they_are_said_to_be():
    problem = make_linear(2000, 40, share=0.25, noise=0.5, weights="signed", correlation=0.8, seed=3)
    active = problem.coef[problem.coef != 0]
    assert len(active) == 10
    assert ((np.abs(active) >= 1) & (np.abs(active) <= 2)).all()
    assert len(set(np.sign(active))) == 2
    assert np.corrcoef(problem.X[:, 3], problem.X[:, 4])[0, 1] == pytest.approx(0.8, abs=0.05)
    assert (problem.y - problem.X @ problem.coef).std() == pytest.approx(0.5, rel=0.1)
    with pytest.raises(ValueError, match="weights must be"):
        make_linear(weights="heavy")


def test_oracles_are_the_best_of_their_kind():
    problem = make_linear(60, 40, share=0.2, noise=2.0, weights="signed")
    at_ten = ridge_errors(problem, np.array([10.0]))[0]
    assert at_ten == pytest.approx(recovery_error(problem, Ridge(alpha=10.0).fit(problem.X, problem.y).coef_), rel=1e-6)
    assert oracle_ridge(problem) <= at_ten
    assert oracle_lasso(problem) <= lasso_errors(problem, np.array([20.0]))[0] * 1.01
    assert known_support(problem) < oracle_lasso(problem)


def test_the_automatic_choice_is_judged(monkeypatch):
    monkeypatch.setattr(linear, "oracle_ridge", lambda problem: 1e-9)
    monkeypatch.setattr(linear, "product", lambda *axes: [((40, 10), 0.3, 0.5, "signed", 0.0)] * 3)
    table, [bar] = linear.automatic(range(2), Context())
    assert len(table.frame) == 3
    assert bar.met is False
    assert bar.value == table.frame["ratio"].max()
    assert bar.case.endswith("; 3 of 3 settings miss")


def test_real_sets(tmp_path):
    (tmp_path / "regression").mkdir()
    problem = Setting(200, 5, 1.0, 1.0, "normal").make(0)
    np.savez(tmp_path / "regression" / "line.npz", X=problem.X, y=problem.y)
    table, bars = linear.real(Context(quick=True, data=tmp_path))
    assert [bar.met for bar in bars] == [True, True]
    assert table.frame.loc["line", "automatic"] < 0.5
    empty, none = linear.real(Context(data=tmp_path / "regression"))
    assert empty.frame.empty
    assert none == []
