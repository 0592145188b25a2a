"""The robust entries: what they find follows from their numbers, and their words from what they find."""

import numpy as np
import pandas as pd
import pytest

from experiments.entries import Context
from experiments.paper import robust_classification, robust_models, robust_regression
from experiments.paper._comparison import Difference
from presentable import check_presentable


@pytest.fixture(autouse=True)
def few_seeds(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (robust_regression, robust_classification, robust_models):
        monkeypatch.setattr(module, "QUICK", module.Effort(2))


def test_robust_regression_runs_from_end_to_end(monkeypatch: pytest.MonkeyPatch) -> None:
    slow = (robust_regression.THEIL_SEN, robust_regression.ALL_TRIALS)
    for name in slow:
        monkeypatch.setitem(robust_regression.METHODS, name, robust_regression.METHODS[robust_regression.LS])
    told: list[float] = []
    result = robust_regression.run(Context(quick=True, progress=told.append))
    check_presentable(result)
    assert told[-1] == 1.0
    errors = result.tables[0].frame["slope error"]
    assert errors[robust_regression.LS] > 0.5 < errors[robust_regression.DPLS]
    assert errors[[robust_regression.X_ONLY, robust_regression.XY, robust_regression.MIXTURE]].max() < 0.05
    others = result.tables[1].frame
    assert others.loc[robust_regression.MIXTURE].max() < 0.05
    # A predicted scale is no help against outliers on both sides.
    assert others.loc[robust_regression.XY, robust_regression.BOTH_SIDES] > 0.02
    assert [picture.wide for picture in result.pictures] == [True, True]


@pytest.mark.parametrize(
    ("error", "ms"),
    [(0.01, 1.0), (0.01, 9.0), (0.5, 1.0)],
)
def test_robust_regression_says_its_numbers(error: float, ms: float) -> None:
    names = list(robust_regression.METHODS)
    summary = pd.DataFrame({"slope error": 0.01, "ms": 10.0}, index=names)
    summary.loc[robust_regression.XY] = [error, ms]
    others = pd.DataFrame({kind: dict.fromkeys(robust_regression.DRAWN, 0.2) for kind in robust_regression.KINDS})
    notes = robust_regression.describe(summary, others)
    assert f"{error:.4f} for MPLS-XY" in notes
    assert f"{ms / 10:.1f} times what RANSAC takes" in notes
    assert "errs by 0.200 at most" in notes


def test_robust_classification_runs_from_end_to_end() -> None:
    result = robust_classification.run(Context(quick=True))
    check_presentable(result)
    table = result.tables[0].frame
    plain, robust = table[robust_classification.PLAIN], table[robust_classification.ROBUST]
    assert plain[robust_classification.CLUSTER] < 0.8 < 0.95 < robust[robust_classification.CLUSTER]
    np.testing.assert_allclose(plain[robust_classification.FLIPPED], robust[robust_classification.FLIPPED], atol=0.01)
    np.testing.assert_allclose(plain[robust_classification.CLEAN], robust[robust_classification.CLEAN], atol=0.01)


@pytest.mark.parametrize(("hotter", "gain"), [(9.0, 0.3), (1.0, -0.3)])
def test_robust_classification_says_its_numbers(hotter: float, gain: float) -> None:
    kinds = list(robust_classification.SHARES)
    columns = {robust_classification.PLAIN: 0.6, robust_classification.ROBUST: 0.6 + gain, "hotter": hotter}
    gains = dict.fromkeys(kinds, Difference(gain, 0.01))
    notes = robust_classification.describe(pd.DataFrame(columns, index=kinds), gains)
    assert f"{hotter:.0f} times higher" in notes
    assert f"the gain is {gains[kinds[0]]}" in notes


def test_the_labels_are_spoiled_as_said() -> None:
    for kind, share in robust_classification.SHARES.items():
        X, y, bad = robust_classification.labelled(kind, 0)
        assert bad.mean() == share
        clean = (X.sum(1) > 0).astype(int)
        assert (clean == y)[~bad].mean() > 0.98
        if bad.any():
            assert (clean == y)[bad].mean() < 0.02


def test_robust_models_runs_from_end_to_end() -> None:
    result = robust_models.run(Context(quick=True))
    check_presentable(result)
    table = result.tables[0].frame
    assert list(table.index) == list(robust_models.DOMAINS)
    assert (table[robust_models.ROBUST] < 0.2 * table[robust_models.PLAIN]).all()
