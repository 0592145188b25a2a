"""Tables 2 and 6: what they say follows from their numbers, and they run from end to end."""

import math
from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.linear_model import LinearRegression
from torch.distributions import Normal

from experiments.data import Regression
from experiments.entries import Context
from experiments.paper import _regression_tables, robust_regression_deep, robust_regression_linear
from experiments.paper._comparison import Comparison
from experiments.paper._regression_tables import BASES, CONSTANT, DEFAULT, FITTED, LEVEL, OURS, TEMP, UNIT, Effort
from experiments.paper._regressors import predict, train
from presentable import check_presentable

SHORT = Effort(2, 40, 1e-2, 120, {"max_steps": 40})
DEEP, LINEAR = robust_regression_deep.run.__self__, robust_regression_linear.run.__self__


def made(**methods: tuple[float, float, float]) -> Comparison:
    """Two sets on which each method has these means, with a little noise of its own."""
    rng = np.random.default_rng(0)
    scores = {
        name: {method: np.array(mean) + 1e-3 * rng.normal(size=(5, 3)) for method, mean in methods.items()}
        for name in ("one", "two")
    }
    return Comparison(scores, ("CAL", "MSE", "NLL"), FITTED, test_per_train=1 / 3, order=tuple(methods))


@pytest.mark.parametrize(
    ("temp", "met"),
    [
        ((0.1, 0.1, 0.5), 6),
        ((0.1, 0.3, 0.5), 4),
        ((0.3, 0.1, 9.0), 3),  # better than σ = 1 in CAL, and in MSE than both
        ((0.6, 0.3, 9.0), 0),
    ],
)
def test_the_papers_training_is_held_against_both_bases(temp, met: int) -> None:
    other = (0.6, 0.3, 9.0)  # one start may be better than the other
    found = made(**{UNIT: (0.5, 0.2, 2.0), FITTED: (0.2, 0.2, 1.0), TEMP: other, LEVEL: temp, OURS: (0.1, 0.1, 0.5)})
    notes = _regression_tables.describe(found, missing=["cpu"])
    assert f"in {met} of 6 comparisons" in notes
    assert _regression_tables.records(found).loc[(OURS, FITTED), "CAL"] == "2 – 0 – 0"
    assert f"`temp, from σ = 1` {temp[2]:.2f}" in notes
    assert "Not in the data folder: cpu." in notes
    assert "stand-ins" in _regression_tables.describe(found, missing=None)


def test_records_hold_every_predicted_scale_against_its_rivals() -> None:
    temp, ours = (0.1, 0.3, 9.0), (0.1, 0.1, 0.5)
    found = made(**{UNIT: (0.5, 0.2, 2.0), FITTED: (0.2, 0.2, 1.0), TEMP: temp, LEVEL: temp, OURS: ours})
    table = _regression_tables.records(found)
    rivals = (UNIT, FITTED, TEMP, LEVEL)
    assert table.index.tolist() == [
        *((method, base) for method in (TEMP, LEVEL) for base in BASES),
        *((OURS, rival) for rival in rivals),
    ]
    assert table.loc[(TEMP, FITTED)].tolist() == ["2 – 0 – 0", "0 – 0 – 2", "0 – 0 – 2"]
    assert table.loc[(OURS, TEMP), "NLL"] == "2 – 0 – 0"
    assert _regression_tables.differences(found).index.tolist()[:2] == [("one", "CAL"), ("one", "MSE")]


def test_measures_are_those_of_the_distribution() -> None:
    y = torch.tensor([-1.0, 1.0, 3.0]).double()
    cal, mse, nll = _regression_tables.measured(y, Normal(torch.ones(3).double(), 2 * torch.ones(3).double()))
    assert mse == pytest.approx(8 / 3)
    assert nll == pytest.approx(8 / 3 / 8 + math.log(2) + CONSTANT)
    levels = np.arange(11) / 10
    reached = (np.array([0.158655, 0.5, 0.841345])[:, None] <= levels).mean(0)
    assert cal == pytest.approx(np.square(levels - reached).sum())


def linear(rows: int = 120, seed: int = 0) -> Regression:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(rows, 3))
    y = X @ [1.0, -1.0, 0.5] + 0.3 * rng.normal(size=rows)
    X[::7, 1] = np.nan
    return Regression("line", X, y)


def test_parts_of_a_split_are_standardised_by_the_rows_that_train() -> None:
    x, y, n = _regression_tables.dealt(linear(), SHORT, seed=0)
    assert (x.shape, y.shape, n) == ((2, 120, 3), (2, 120), 90)
    assert x.isfinite().all()
    torch.testing.assert_close(y[:, :n].mean(1), torch.zeros(2), atol=1e-5, rtol=0)
    torch.testing.assert_close(y[:, :n].std(1, correction=0), torch.ones(2))
    assert (y[0] != y[1]).any()


def test_without_a_hidden_layer_the_base_is_least_squares() -> None:
    x, y, n = _regression_tables.dealt(linear(), SHORT, seed=0)
    base = train(LINEAR.networks(2, 3, predicted=False, seed=0), x[:, :n], y[:, :n], 1500, 1e-2)
    mean, scale = predict(base, x)
    assert (scale == 1).all()
    for i in range(2):
        exact = LinearRegression().fit(x[i, :n], y[i, :n]).predict(x[i])
        np.testing.assert_allclose(mean[i], exact, atol=1e-3)


@pytest.mark.parametrize("study", [DEEP, LINEAR])
def test_the_fitted_base_has_the_likeliest_scale(study) -> None:
    x, y, n = _regression_tables.dealt(linear(), SHORT, seed=0)
    # Judged on the rows it was fitted to, no other constant scale has a lower NLL.
    twice = (torch.cat([part[:, :n], part[:, :n]], 1) for part in (x, y))
    unit, fitted, *_ = study.papers(*twice, n, SHORT, seed=0).values()
    for (_, mse, at_one), (_, same, best) in zip(unit, fitted, strict=True):
        assert mse == same
        assert at_one == pytest.approx(mse / 2 + CONSTANT)
        assert best == pytest.approx(0.5 * math.log(mse) + 0.5 + CONSTANT)


def test_a_level_start_has_a_scale_of_one() -> None:
    x, _, _ = _regression_tables.dealt(linear(), SHORT, seed=0)
    for study in (DEEP, LINEAR):
        _, scale = predict(study.networks(2, 3, predicted=True, level=True, seed=0), x)
        torch.testing.assert_close(scale, torch.ones_like(scale))
        assert predict(study.networks(2, 3, predicted=True, seed=0), x)[1].std() > 0.1


def test_the_papers_numbers_are_typed_as_its_claims_count_them() -> None:
    for study, counts in ((DEEP, (7, 7, 5)), (LINEAR, (8, 8, 7))):  # the paper's own, in its claims
        assert list(study.paper) == list(DEEP.paper)
        for which, count in enumerate(counts):
            assert sum(row[which][1] < row[which][0] for row in study.paper.values()) == count


def test_deep_table_without_data(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_regression_tables, "QUICK", SHORT)
    told: list[float] = []
    result = robust_regression_deep.run(Context(quick=True, progress=told.append))
    check_presentable(result)
    assert told == [0.5, 1.0]
    _, cal, mse, nll, worst, _ = (table.frame for table in result.tables)
    assert cal.columns.tolist() == [*BASES, TEMP, LEVEL, OURS, DEFAULT]
    assert mse.columns.tolist() == ["base", TEMP, LEVEL, OURS, DEFAULT]
    assert (worst.to_numpy() >= nll.to_numpy()).all()
    assert "stand-ins" in result.notes


def test_linear_table_puts_the_papers_numbers_beside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_regression_tables, "QUICK", SHORT)
    (tmp_path / "regression").mkdir()
    data = linear()
    np.savez(tmp_path / "regression" / "mpg.npz", X=data.X, y=data.y)
    result = robust_regression_linear.run(Context(quick=True, data=tmp_path))
    check_presentable(result)
    _, cal, mse, nll, _, _ = (table.frame for table in result.tables)
    assert cal.loc[("mpg", "paper"), [UNIT, TEMP]].tolist() == [0.093, 0.016]
    assert mse.loc[("mpg", "paper"), ["base", TEMP]].tolist() == [0.057, 0.030]
    assert nll.loc[("mpg", "paper"), TEMP] == pytest.approx(-0.183 + 0.9189385)
    assert DEFAULT not in cal.columns
    assert "Not in the data folder: crime," in result.notes
