"""The entries themselves: what they find follows from their numbers, and their words from what they find."""

import math

import numpy as np
import pandas as pd
import pytest
import torch

from experiments.entries import Context
from experiments.paper import (
    adaptive_regularization,
    conditioning,
    dimensionality,
    loss_likelihood,
    offset_stability,
)
from experiments.paper.grid import COLUMNS, ROWS, SIZE, learned_scales
from presentable import check_presentable


def test_loss_likelihood_finds_the_closed_forms() -> None:
    result = loss_likelihood.run(Context(quick=True))
    check_presentable(result)
    assert len(result.pictures) == 6
    frame = result.tables[0].frame
    assert frame["closed form"].tolist()[:3] == [0.5, 1.0, 2.0]
    assert frame["closed form"].iloc[-1] == pytest.approx(4 / math.log(9))
    np.testing.assert_allclose(frame["learned"], frame["closed form"], rtol=1e-5)


def test_the_envelope_lies_below_every_scale() -> None:
    residual = torch.linspace(0.05, 4, 50)
    for scale in (0.3, 1.0, 2.5):
        assert (loss_likelihood.envelope(residual) <= loss_likelihood.normal(residual, scale) + 1e-6).all()
    touch = torch.tensor([2.5])
    assert loss_likelihood.envelope(touch).item() == pytest.approx(loss_likelihood.normal(touch, 2.5).item())


def test_conditioning_sees_what_each_kind_can_see() -> None:
    result = conditioning.run(Context(quick=True))
    check_presentable(result)
    table = result.tables[0].frame
    assert table["at test time"].tolist() == ["defined", "refused", "defined"]
    assert table["learned"].tolist() == [1, conditioning.FITTED, 65]
    assert table.loc["global", [conditioning.LABELS, conditioning.CROPS, conditioning.UNSEEN]].tolist() == [0.5] * 3
    assert table.loc["data", conditioning.LABELS] > 0.9
    assert table.loc["predicted", conditioning.UNSEEN] > 0.9
    assert math.isnan(table.loc["data", conditioning.UNSEEN])


def test_dimensionality_pays_on_photographs_not_seen() -> None:
    result = dimensionality.run(Context(quick=True))
    check_presentable(result)
    assert result.tables[0].frame["|φ|"].tolist() == [1, 3, 3 * 32 * 32]
    assert [picture.wide for picture in result.pictures] == [False] * 4 + [True]


def test_count_table_counts_as_the_paper_does() -> None:
    size = 3 * dimensionality.SIZE**2
    counted = dimensionality.count_table(n=10, d=4)
    assert counted.loc["global"].tolist() == [1, 3, size]
    assert counted.loc["data"].tolist() == [10, 30, 10 * size]
    assert counted.loc["predicted"].tolist() == [5, 15, 15]


def test_every_cell_of_the_grid_is_what_its_place_says() -> None:
    images, cells = learned_scales()
    for row, values in zip(ROWS, cells, strict=True):
        for column, value in zip(COLUMNS, values, strict=True):
            rows = () if row.title == "Global" else (len(images),)
            assert value.shape == (*rows, *column.shape)
            assert (value > 0).all()
    rms = (
        images - torch.nn.functional.avg_pool2d(torch.nn.functional.pad(images, (2,) * 4, mode="replicate"), 5, 1)
    ).square()
    assert cells[0][0].item() == pytest.approx(rms.mean().sqrt().item(), rel=1e-2)
    assert cells[0][1].flatten().tolist() == pytest.approx(rms.mean((0, 2, 3)).sqrt().tolist(), rel=1e-2)
    assert cells[2][2].shape[-1] == SIZE


@pytest.mark.parametrize("without", [0.5, 0.1])
def test_offset_stability_says_how_often_runs_diverged(without: float) -> None:
    names = ("exp", "offset 0.01", "offset 0.05", "offset 0.2")
    summary = pd.DataFrame({"steps": {"offset 0": 80.0, **dict.fromkeys(names, 20.0)}, "test − GS": 0.01})
    shown = {"offset 0": without, **dict.fromkeys(names, 0.1)}
    failures = pd.DataFrame({"lr 0.01": 0.0, "lr 0.03": 0.0, "lr 0.1": shown})
    notes = offset_stability.describe(summary, failures)
    assert f"{without:.0%} with offset 0" in notes
    assert "At 0.01 and 0.03 no run did" in notes
    assert "0.010 nats above" in notes
    assert "no run did" not in offset_stability.describe(summary, failures[["lr 0.1"]])


def test_offset_stability_counts_steps_and_divergence() -> None:
    plain = np.array([[1.0, 1.0]])
    curves = np.array([[[2.0, 0, 1], [0.5, 0, 1], [1.5, 0, 1], [0.9, 0, 1], [0.8, 0, 1]]])
    assert offset_stability.steps_needed(curves, plain) == 3 * offset_stability.EVERY
    assert not offset_stability.diverged(curves, plain).any()
    for end in (1.1, np.inf, np.nan):
        curves[0, -1, 0] = end
        assert offset_stability.diverged(curves, plain).all()
    curves[0, -1, 0] = np.inf
    assert offset_stability.steps_needed(curves, plain) == np.inf


def test_offset_stability_runs_from_end_to_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(offset_stability, "QUICK", offset_stability.Effort(2, 20, (offset_stability.SHOWN_RATE,)))
    told: list[float] = []
    result = offset_stability.run(Context(quick=True, progress=told.append))
    check_presentable(result)
    assert len(told) == 2 * len(offset_stability.MAPS)
    assert told[-1] == 1.0
    frame = result.tables[0].frame
    assert frame.index.tolist() == [offset_stability.GLOBAL, *offset_stability.MAPS]
    assert (frame["seeds"] == 2).all()
    # The floor of offset 0.2 keeps the NLL within 1/.224 of what it is at temperature 1.
    assert np.isfinite(frame.loc["offset 0.2", ["calibration NLL", "test NLL"]].astype(float)).all()
    assert torch.get_num_threads() >= 1


def test_adaptive_regularization(monkeypatch) -> None:
    monkeypatch.setattr(adaptive_regularization, "SHARES", (0.05, 0.3))
    told: list[float] = []
    result = adaptive_regularization.run(Context(quick=True, progress=told.append))
    by_method, by_share, _ = (table.frame for table in result.tables)
    assert (
        by_method.loc["Dynamic Lasso", "L1, a tenth not zero"] < 1.2 * by_method.loc["best λ", "L1, a tenth not zero"]
    )
    assert (by_share["spike and slab"] < 0.7 * by_share["best single strength"]).all()
    assert "has no minimum" in result.notes
    assert "paper's objective" in result.pictures[0].svg
    assert told[-1] == 1
