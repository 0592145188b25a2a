"""The benchmark of priors: fair splits, its bars, and a run that needs no data folder."""

import pandas as pd
import pytest
import torch

from experiments.benchmarks import priors
from experiments.entries import Context


def test_runs_without_a_data_folder(tmp_path, monkeypatch):
    monkeypatch.setattr(priors, "STEPS", 12)
    monkeypatch.setattr(priors, "PRUNING_STEPS", 12)
    monkeypatch.setattr(priors, "DECAYS", (0.0, 0.1))
    monkeypatch.setattr(priors, "ROWS", 120)
    result = priors.run(Context(quick=True, data=tmp_path))
    learned, pruned = (table.frame for table in result.tables)
    assert set(learned.index) == {("digits", "MLP"), ("diabetes", "linear"), ("diabetes", "MLP")}
    assert set(pruned.index) == {("digits", "Laplace"), ("digits", "spike and slab")}
    assert bool((learned["difference"] == learned["learned"] - learned["tuned"]).all())


def test_splits_share_no_row_and_learn_their_units_from_the_first():
    split = priors.load("diabetes", 0, Context())
    x, y = split.train
    assert len(y) + len(split.choose[1]) + len(split.test[1]) == 442
    torch.testing.assert_close(y.mean(), torch.tensor(0.0), atol=1e-5, rtol=0.0)
    torch.testing.assert_close(y.std(correction=0), torch.tensor(1.0))
    assert float(split.test[1].mean().abs()) > 1e-4
    assert not (x[:, None] == split.test[0][None]).all(-1).any()


def test_the_cnn_takes_the_same_rows():
    x, y = torch.randn(4, 64), torch.zeros(4, dtype=torch.long)
    assert priors.network("CNN", x, y)(x).shape == (4, 10)


@pytest.mark.parametrize(
    ("learned", "pruned", "zero", "missed"),
    [
        (0.10, 0.10, 0.9, {}),
        (0.12, 0.10, 0.9, {"learned L2, digits, MLP: error less the tuned one's": 0.02}),
        (0.10, 0.13, 0.9, {"Laplace, digits: error less that without a prior": 0.03}),
        (0.10, 0.10, 0.7, {"Laplace, digits: share of weights that are zero": 0.7}),
    ],
)
def test_the_bars(learned, pruned, zero, missed):
    noise = (-0.001, 0.0, 0.001)
    decay = [("digits", "MLP", seed, 0.1, 0.1, learned + e) for seed, e in enumerate(noise)]
    prune = [("digits", seed, "Laplace", 0.1, pruned + e, zero) for seed, e in enumerate(noise)]
    bars = list(
        priors.judge(
            pd.DataFrame(decay, columns=["set", "network", "seed", "best decay", "tuned", "learned"]),
            pd.DataFrame(prune, columns=["set", "seed", "prior", "plain", "pruned", "share zero"]),
        )
    )
    assert len(bars) == 3
    assert {bar.name: pytest.approx(bar.value) for bar in bars if not bar.met} == missed
