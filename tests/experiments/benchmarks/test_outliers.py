"""The outlier benchmark and Table 3: the same labels judge everyone, and words follow from numbers."""

from typing import Any

import numpy as np
import pandas as pd
import pytest

from experiments.benchmarks import outliers as bench
from experiments.data import Outliers
from experiments.entries import Context
from experiments.paper import outlier_detection, outlier_distribution
from experiments.paper._detectors import RIVALS, cut, judged, refused, stand_ins
from likely.outliers import ScatterDetector
from presentable import check_presentable

RNG = np.random.default_rng(0)
ROWS = RNG.normal(size=(400, 3))
ROWS[:20] *= 10
DATA = Outliers("made", ROWS, (np.arange(400) < 20).astype(np.int64))


@pytest.mark.parametrize("split", [False, True])
def test_scores_are_judged_by_the_labels(split: bool) -> None:
    found = judged(DATA, "scatter", lambda _: ScatterDetector(), 0, split=split)
    assert found.AUC > 0.9
    assert found.AP > 0.6
    turned = Outliers("made", ROWS, 1 - DATA.y)
    assert judged(turned, "scatter", lambda _: ScatterDetector(), 0).AUC < 0.1


def test_a_constant_column_is_no_harm_to_the_rivals() -> None:
    pytest.importorskip("pyod")
    data = Outliers("made", np.column_stack([ROWS, np.ones(400)]), DATA.y)
    assert judged(data, "PCA", RIVALS["PCA"].make, 0).AUC > 0.9


class Refuses:
    """As CBLOF does where it finds no large and small clusters."""

    def fit(self, X: np.ndarray) -> None:
        raise ValueError("Could not form valid cluster separation.")


def test_a_rival_that_refuses_a_set_is_named_and_one_of_ours_may_not(monkeypatch) -> None:
    assert np.isnan(judged(DATA, "CBLOF", lambda _: Refuses(), 0).AUC)
    with pytest.raises(ValueError, match="cluster separation"):
        judged(DATA, "scatter", lambda _: Refuses(), 0)
    found = scores(0.9, 0.8)
    found.loc[(found["method"] == "IF") & (found["set"] == "set 2"), ["AUC", "AP"]] = np.nan
    assert refused(found) == " IF failed on the set “set 2”."
    assert refused(scores(0.9, 0.8)) == ""
    frame = bench.summary(found, "all rows")
    assert frame.loc["IF", "mean AUC"] == pytest.approx(0.8026)
    assert frame.loc["IF", "p, AUC"] == pytest.approx(2 / 2**5)
    auc = found.pivot_table(index="set", columns="method", values="AUC")
    assert "nan" not in outlier_distribution.picture(auc).svg.lower()


def test_a_cut_keeps_the_share_of_outliers() -> None:
    rng = np.random.default_rng(1)
    large = Outliers("large", rng.normal(size=(20_000, 2)), (np.arange(20_000) % 50 == 0).astype(np.int64))
    assert cut(large, 1000).share == pytest.approx(0.02)
    assert cut(DATA, 1000) is DATA


def scores(ours: float, forest: float) -> pd.DataFrame:
    rows = [
        (f"set {k}", method, seed, "all rows", value + 0.001 * k, value, 0.1)
        for k in range(6)
        for method, value in ((bench.DEFAULT, ours), ("IF", forest))
        for seed in range(2)
    ]
    return pd.DataFrame(rows, columns=["set", "method", "seed", "protocol", "AUC", "AP", "seconds"])


def test_the_bars_follow_the_numbers(monkeypatch) -> None:
    monkeypatch.setattr(bench, "rivals", lambda: {"IF": RIVALS["IF"]})
    assert all(bar.met for bar in bench.judge(scores(0.9, 0.8)))
    missed = [bar for bar in bench.judge(scores(0.7, 0.8)) if not bar.met]
    assert [bar.name for bar in missed] == [f"{bench.DEFAULT}, mean AUC", f"{bench.DEFAULT}, mean AP"]
    assert missed[0].case == "the best rival is IF"
    frame = bench.summary(scores(0.9, 0.8), "all rows")
    assert frame.loc["IF", "wins, AUC"] == "6 of 6"
    assert frame.loc["IF", "p, AUC"] == pytest.approx(2 / 2**6)
    assert np.isnan(frame.loc[bench.DEFAULT, "p, AUC"])


def test_stand_ins_hold_few_outliers() -> None:
    for data in stand_ins(0):
        assert 0 < data.share < 0.1


def in_few_steps(make: bench.Make) -> bench.Make:
    def made(seed: int) -> Any:
        detector = make(seed)
        return detector.set_params(max_steps=20) if "max_steps" in detector.get_params() else detector

    return made


def test_table_and_figure_without_data(monkeypatch) -> None:
    ours = {name: in_few_steps(make) for name, make in outlier_detection.ours(quick=True).items()}
    monkeypatch.setattr(outlier_detection, "ours", lambda quick: ours)
    monkeypatch.setattr(outlier_detection, "rivals", dict)
    monkeypatch.setattr(outlier_detection, "stand_ins", lambda seed: stand_ins(seed)[:2])
    monkeypatch.setattr(outlier_detection, "_SCORED", {})
    table = outlier_detection.run(Context(quick=True))
    check_presentable(table)
    assert "Not run: LOF" in table.notes
    assert table.tables[0].frame.loc["PCA+S", "paper"] == 0.868
    check_presentable(outlier_distribution.run(Context(quick=True)))
