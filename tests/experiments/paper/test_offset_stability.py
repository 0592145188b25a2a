"""Figure 13 on the outputs of a real network, where they are in the data folder."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

from experiments.entries import Context
from experiments.paper import offset_stability
from likely.constraints import ShiftedSoftplus
from presentable import check_presentable


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Outputs of a network whose rows of either part, 80, have features only if they are among the first 60."""
    (tmp_path / "logits").mkdir()
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 3, 160)
    logits = 6 * (np.eye(3)[labels] + rng.normal(size=(160, 3)))
    features = rng.normal(size=(160, 5)).astype(np.float32)
    arrays = {}
    for part, start in (("val", 0), ("test", 1)):
        arrays |= {f"{part}_logits": logits[start::2], f"{part}_labels": labels[start::2]}
        arrays[f"{part}_features"] = features[start::2][:60]
    np.savez(tmp_path / "logits" / f"{offset_stability.NETWORK}.npz", **arrays)
    return tmp_path


def test_the_full_run_takes_the_networks_outputs(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make, effort, about = offset_stability.source(Context(data=folder))
    task = make(0)
    assert task is make(1)
    assert effort is offset_stability.REAL
    assert "ResNet-50" in about
    assert [len(task.labels[part]) for part in task.parts] == [60, 60]
    assert task.features.shape == (120, 5)
    monkeypatch.setattr(offset_stability, "REAL", offset_stability.Effort(2, 20, (offset_stability.SHOWN_RATE,)))
    result = offset_stability.run(Context(data=folder))
    check_presentable(result)
    assert "ResNet-50" in result.notes


def test_the_quick_run_and_an_empty_folder_take_digits(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    empty = tmp_path_factory.mktemp("empty")
    for context in (Context(quick=True, data=folder), Context(data=empty), Context()):
        make, effort, about = offset_stability.source(context)
        assert make is offset_stability.overtrained
        assert effort is (offset_stability.QUICK if context.quick else offset_stability.FULL)
        assert "digits" in about


def test_a_curve_starts_at_the_network_and_says_how_cold_it_gets() -> None:
    torch.manual_seed(0)
    features, logits = torch.randn(40, 4), 3 * torch.randn(40, 3)
    task = offset_stability.Task(features, logits, torch.randint(3, (40,)), calibrated=30)
    curve = offset_stability.calibrate(task, ShiftedSoftplus(0.2), rate=0.1, steps=20, seed=0)
    assert curve.shape == (1 + 20 // offset_stability.EVERY, 3)
    assert (curve[:, 2] > 0.2 / (np.log(2) + 0.2)).all()
    constant = offset_stability.Predicted(4, constraint=ShiftedSoftplus(0.2), init=1.0, weights="zero")
    assert offset_stability.evaluate(constant, task)[:2] == pytest.approx(offset_stability.uncalibrated(task), rel=1e-5)


def test_notes_name_the_rates_at_which_some_run_diverged() -> None:
    frame = pd.DataFrame({"lr 0.03": [0, 0], "lr 0.1": [0, 0], "lr 0.3": [0.5, 0]}, index=["offset 0", "offset 0.2"])
    assert offset_stability._divergence(frame) == (
        "At learning rate 0.3 there diverged 50% with offset 0, 0% with offset 0.2. "
        "At 0.03 and 0.1 no run did, whatever the map."
    )
