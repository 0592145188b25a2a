"""Table 7: bytes follow the formulas exactly, and the words follow the slopes."""

import numpy as np
import pandas as pd
import pytest
import torch

from experiments.entries import Context
from experiments.paper import conditioning_cost
from experiments.paper.conditioning_cost import CENTRE, KINDS, PAPER, PLAIN, Setting, Step
from presentable import check_presentable


@pytest.mark.parametrize("at", [Setting(10, 1, 2), Setting(100, 3, 5)])
def test_bytes_are_those_of_the_formulas(at: Setting) -> None:
    numbers = {"global": at.p, "data": at.p * at.n, "predicted": at.p * (at.d + 1)}
    assert {kind: conditioning_cost.space_of(kind, at) for kind in KINDS} == {k: 4 * v for k, v in numbers.items()}


def test_slopes_are_exponents() -> None:
    measured = {"data": {at: 7.0 * at.p * at.n**2 for sweep in conditioning_cost.SWEEPS.values() for at in sweep}}
    assert conditioning_cost.slopes_of(measured).loc["data"].tolist() == pytest.approx([2, 1, 0])


@pytest.mark.parametrize("hidden", [None, 8])
@pytest.mark.parametrize("kind", [PLAIN, *KINDS])
def test_a_step_moves_what_learns(kind: str, hidden: int | None) -> None:
    step = Step(kind, Setting(2000, 2, 3), hidden)
    before = {name: value.clone() for name, value in step.loss_fn.state_dict().items()}
    learned = list(step.model.parameters()) if step.model else []
    weights = [weight.detach().clone() for weight in learned]
    step()
    moved = [name for name, value in step.loss_fn.state_dict().items() if (value != before[name]).any()]
    assert bool(moved) == (kind != PLAIN)
    assert all((now != then).any() for now, then in zip(learned, weights, strict=True))
    assert (step.prediction.grad is None) == (hidden is not None)


def exact(shift: float = 0.0) -> dict[str, pd.DataFrame]:
    def frame(place: int) -> pd.DataFrame:
        return pd.DataFrame({k: conditioning_cost.exponents(f[place]) for k, f in PAPER.items()}).T.astype(float)

    return {"bytes": frame(0), "time": frame(1) + shift}


@pytest.mark.parametrize(
    ("byte", "shift"),
    [(0.0, 0.0), (0.0, -0.5), (0.0, 0.5), (0.5, 0.5)],
)
def test_described_by_slopes(byte: float, shift: float) -> None:
    slopes = exact(shift)
    slopes["bytes"] += byte
    summary = pd.DataFrame({"in training": dict.fromkeys(KINDS, "1.25 ± 0.01")})
    notes = conditioning_cost.describe(slopes, summary)
    assert ("do not grow as the formulas say" in notes) == (byte > 0)
    assert ("grow no faster" in notes) == (shift <= 0)
    assert "global 1.25, data 1.25, predicted 1.25." in notes


def test_runs_from_end_to_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conditioning_cost, "QUICK", conditioning_cost.Effort(2, 1))
    small = {axis: CENTRE.along(axis, (4, 16, 64)) for axis in "npd"}
    monkeypatch.setattr(conditioning_cost, "SWEEPS", small)
    told: list[float] = []
    result = conditioning_cost.run(Context(quick=True, progress=told.append))
    check_presentable(result)
    assert told[-1] == 1.0
    summary, formulas = (table.frame for table in result.tables)
    assert summary["bytes"].tolist() == [4 * 16, 4 * 16 * 10_000, 4 * 16 * 65]
    assert formulas.xs("bytes", level="of")[["in n", "in p"]].to_numpy() == pytest.approx(
        np.array([[0, 1], [1, 1], [0, 1]]), abs=1e-9
    )
    assert torch.get_num_threads() >= 1
