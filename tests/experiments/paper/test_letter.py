"""What the paper fixes of every entry, and its two detectors as the text has them."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from experiments.data import Outliers
from experiments.entries.entry import Context
from experiments.paper import ENTRIES
from experiments.paper._letter_detectors import AE_S, PCA_S, Reading, Replica, scores, started
from experiments.paper._letter_table import readings
from experiments.paper._residual import train_any
from experiments.paper._vision import Recipe, digits, predicted_temperature, say
from experiments.paper.letter import LETTERS
from experiments.paper.outlier_letter import (
    AS_READ,
    FREE,
    READINGS,
    SEEDS,
    letter,
    not_run,
    replicas,
    to_the_letter,
    train_all,
)

CPU = torch.device("cpu")


def rows(count: int = 120, width: int = 5) -> np.ndarray:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(count, 2)) @ rng.normal(size=(2, width)) + 0.1 * rng.normal(size=(count, width))
    x[:6] += 3 * rng.normal(size=(6, width))
    return (x - x.mean(0)) / x.std(0)


def test_every_entry_has_its_record() -> None:
    assert list(LETTERS) == [entry.name for entry in ENTRIES]


@pytest.mark.parametrize("name", LETTERS)
def test_a_record_says_what_is_fixed_open_and_done(name: str) -> None:
    record = LETTERS[name]
    for part in (record.fixed, record.open, record.ours, record.departs):
        assert isinstance(part, tuple)
        assert all(item and not item.endswith(".") for item in part)
    assert record.fixed
    assert record.open
    assert record.ours
    assert not record.saved or record.saved.endswith(".")


def test_the_letter_is_the_papers() -> None:
    read = READINGS[AS_READ]
    assert (read.rate, read.steps, read.dropout) == (5e-4, 4000, 0.2)
    assert SEEDS == 5
    assert len(replicas(PCA_S, AS_READ, SEEDS)) == 3 * 2 * 5
    assert len(replicas(AE_S, AS_READ, SEEDS)) == 3 * 5


@pytest.mark.parametrize("model", [PCA_S, AE_S])
@pytest.mark.parametrize("tenth", [False, True])
def test_replicas_trained_at_once_are_those_trained_alone(model: str, tenth: bool) -> None:
    x, reading = rows(), Reading(steps=20, dropout=0.0, tenth=tenth)
    own = [Replica(0, "torch", "PCA"), Replica(1, "He"), Replica(2, "Glorot")]
    together = scores(model, x, reading, own, CPU)
    for replica, sigma in zip(own, together, strict=True):
        np.testing.assert_allclose(scores(model, x, reading, [replica], CPU)[0], sigma, rtol=1e-4)


def test_a_replica_is_what_a_plain_loop_of_torch_trains() -> None:
    x, reading, replica = rows(), Reading(steps=20, dropout=0.0), Replica(3, "torch", "PCA")
    seen = torch.as_tensor(x, dtype=torch.float32)
    letter = started(PCA_S, seen, reading, replica)
    optimizer = torch.optim.Adam(letter.parameters(), lr=5e-4)
    for _ in range(20):
        optimizer.zero_grad()
        letter(seen).backward()
        optimizer.step()
    sigma = letter.scale(seen).detach().numpy().ravel()
    np.testing.assert_allclose(scores(PCA_S, x, reading, [replica], CPU)[0], sigma, rtol=1e-4)


def test_the_scale_of_every_row_is_free_where_it_is_read_so() -> None:
    sigma = scores(PCA_S, rows(), Reading(steps=50, per_row=True), [Replica(0)], CPU)[0]
    assert np.ptp(sigma) > 0


def test_every_reading_trains_and_is_kept(tmp_path: object) -> None:
    data = Outliers("made", rows(), (np.arange(120) < 6).astype(np.int64))
    readings = {name: own._replace(steps=3) for name, own in READINGS.items()}
    table = train_all([data], readings, 1, 1e9, tmp_path)  # type: ignore[arg-type]
    assert set(table["reading"]) == set(READINGS)
    assert np.isfinite(table[["AUC", "AP"]].to_numpy()).all()
    with np.load(tmp_path / "outlier_letter.npz") as kept:  # type: ignore[operator]
        assert len(kept["AUC"]) == len(table)
        assert kept["model"].dtype.kind == "U"


def test_a_residual_network_learns_with_its_temperature_and_is_looked_at_after_every_epoch() -> None:
    images = digits().select(np.arange(256))
    recipe, epochs = Recipe((8, 16), 3, 64, 1e-2, standardised=True, residual=True), []
    model = train_any(images, predicted_temperature(16), recipe, 0, lambda own: epochs.append(own.training))
    assert epochs == [False] * 3
    temperature = say(model, images.pixels).temperature
    assert temperature is not None
    assert float(temperature.std()) > 0


def test_what_is_kept_of_the_letter_has_every_set_start_and_seed() -> None:
    table = letter(Context(), [])
    assert table["set"].nunique() == 21
    assert set(table.groupby(["set", "model", "reading", "start", "components"])["seed"].nunique()) == {5}
    read = readings(table, 0.851).xs(AS_READ, level="reading")
    assert len(read.loc[PCA_S]) == 6
    assert len(read.loc[AE_S]) == 3
    assert len(to_the_letter(table)) == 2 * 21 * 5
    assert set(table["reading"]) == set(READINGS)
    assert not_run(table) == [f"AE+S with {FREE}"]
    # By the paper's .868 and .846.
    assert abs(read.loc[(PCA_S, "torch", "PCA"), "median AUC"] - 0.868) < 0.02
    assert abs(read.loc[(AE_S, "torch", "–"), "median AUC"] - 0.846) < 0.02
