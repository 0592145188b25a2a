import numpy as np
import pandas as pd
import pytest

from experiments.benchmarks import safety
from experiments.entries import Context


def test_measures_every_file_and_judges(tmp_path):
    rng = np.random.default_rng(0)
    (tmp_path / "logits").mkdir()
    y = rng.integers(0, 3, 2200)
    arrays = {"logits": 4 * (np.eye(3)[y] + rng.normal(size=(2200, 3))), "labels": y, "is_val": np.arange(2200) < 1000}
    np.savez(tmp_path / "logits" / "plain.npz", **arrays)
    np.savez(tmp_path / "logits" / "rich.npz", features=rng.normal(size=(2200, 4)), **arrays)
    result = safety.run(Context(quick=True, data=tmp_path))
    assert list(result.tables[0].frame.index) == [
        ("plain", "DS"),
        ("plain", "LS"),
        ("rich", "DS"),
        ("rich", "LFS"),
        ("rich", "LS"),
    ]
    assert result.tables[0].frame.abs().to_numpy().max() < 0.01
    with pytest.raises(FileNotFoundError, match="LIKELY_DATA"):
        safety.run(Context(quick=True, data=tmp_path / "logits"))


@pytest.mark.parametrize(
    ("n", "difference", "missed"),
    [
        (1000, 0.01, ["splits clearly worse", "mean NLL less GS's"]),
        (1000, 0.0001, ["mean NLL less GS's"]),
        (250, 0.006, ["share of splits worse", "worst NLL less GS's"]),
        (1000, -0.01, []),
    ],
)
def test_the_bars(n, difference, missed):
    rows = [("net", "LS", n, difference, 0.001)] * 5
    bars = list(safety.judge(pd.DataFrame(rows, columns=["network", "method", "n", "difference", "error"])))
    assert len(bars) == 2
    assert [bar.name.split(": ")[1] for bar in bars if not bar.met] == missed
