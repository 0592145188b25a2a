import numpy as np
import pandas as pd
import pytest

from experiments.benchmarks import composition
from experiments.benchmarks.safety import nll
from experiments.data import load_logits
from experiments.entries import Context
from likely.calibration import AutoCalibrator, VectorScaling, compose
from likely.calibration._temperature import LinearTemperature

METHODS = ["GS", "LS", "VS", "SMS", "VS → LS", "SMS → LS", "Auto", "probmetrics SVS", "probmetrics SMS"]
GOOD = [1.0, 0.99, 0.98, 0.97, 0.97, 0.96, 0.961, 0.98, 0.97]


def table(**changed):
    """Two splits of each of two networks, on which all bars are met but for what is changed."""
    index = pd.MultiIndex.from_product([["a", "b"], [1000], [0, 1]], names=["network", "n", "seed"])
    row = dict(zip(METHODS, GOOD, strict=True)) | {name.replace("_", " "): value for name, value in changed.items()}
    return pd.DataFrame([row] * 4, index=index)


@pytest.mark.parametrize(
    ("changed", "missed"),
    [
        ({}, []),
        ({"VS": 0.96}, ["VS → LS, below its parts"]),
        ({"LS": 0.96}, ["VS → LS, below its parts", "SMS → LS, below its parts"]),
        ({"probmetrics_SVS": 0.95}, ["SMS → LS, below probmetrics' best"]),
        ({"Auto": 0.963}, ["Auto, share of networks within 0.002 of the best of ours"]),
    ],
)
def test_the_bars(changed, missed):
    bars = list(composition.judge(table(**changed)))
    assert [bar.name for bar in bars if bar.met is False] == missed
    assert {bar.name: bar.value for bar in bars}["VS → LS, below its parts"] == pytest.approx(
        min(changed.get("VS", 0.98), changed.get("LS", 0.99)) - 0.97
    )


def test_methods_are_compared_on_the_splits_that_have_both():
    splits = table()
    splits["LFS"], splits["SMS → LFS"] = splits["LS"], splits["SMS → LS"]
    easy = splits.index.get_level_values("seed") == 1
    splits[easy] -= 0.5
    splits.loc[easy, ["LFS", "SMS → LFS"]] = np.nan
    assert all(bar.met is not False for bar in composition.judge(splits))


def test_measures_files_and_does_without_probmetrics(tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    (tmp_path / "logits").mkdir()
    y = rng.integers(0, 3, 2200)
    logits = (4 * (np.eye(3)[y] + rng.normal(size=(2200, 3))) + [2, 0, 0]).astype(np.float32)
    np.savez(tmp_path / "logits" / "plain.npz", logits=logits, labels=y, is_val=np.arange(2200) < 1000)
    monkeypatch.setattr(composition, "find_spec", lambda name: None)
    result = composition.run(Context(quick=True, data=tmp_path))
    frame = result.tables[0].frame
    assert list(frame.index) == [("plain", 1000)]
    assert "not installed" in result.notes
    rows = load_logits("plain", tmp_path)
    order = np.random.default_rng([0, 1000]).permutation(2200)
    fit, test = order[:1000], order[1100:]
    pair = compose(VectorScaling(), LinearTemperature())
    for name, calibrator in {"Auto": AutoCalibrator(), "VS → LS": pair}.items():
        answer = calibrator.fit(rows.logits[fit], rows.labels[fit]).transform(rows.logits[test])
        assert frame[name].item() == pytest.approx(nll(answer, rows.labels[test]).mean(), abs=1e-6)
    with pytest.raises(FileNotFoundError, match="LIKELY_DATA"):
        composition.run(Context(quick=True, data=tmp_path / "logits"))
