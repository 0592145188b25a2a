"""The benchmark of slips: they are planted far off, and what is said of them is read rightly."""

import numpy as np
import pandas as pd

from experiments.benchmarks import _audit_slips, slips


def test_slips_are_planted_far_off_and_their_hints_are_read() -> None:
    rng = np.random.default_rng(0)
    length = rng.normal(100, 10, 500)
    frame = pd.DataFrame({"length": length, "width": 0.5 * length + rng.normal(size=500), "n": np.arange(500) % 7})
    noise = {name: _audit_slips.Noise.of(frame, name) for name in ("length", "width")}
    changed, planted = _audit_slips.plant(frame, noise, 2, rng)
    assert [own.kind for own in planted] == [kind for kind in _audit_slips.KINDS for _ in range(2)]
    differs = (changed != frame).sum(axis=1)
    assert all(differs[own.row] == (2 if own.kind == "swap" else 1) for own in planted)
    assert differs.sum() == 12
    swap = _audit_slips.Slip("swap", 0, "length", "width")
    assert swap.told("width and length look swapped")
    assert swap.told("width = 100, where similar rows have 20–30; swapped with length it would fit")
    assert not swap.told("width = 100, where similar rows have 20–30; swapped with n it would fit")
    assert not swap.told("width = 100, where similar rows have 20–30; ÷10 would fit")
    assert _audit_slips.Slip("sign", 0, "length").told(
        "length = -9, where similar rows have 8–10; the other sign would fit"
    )
    assert _audit_slips.Slip("× 1000", 0, "length").told("length = 9,000, expected 9 ± 1; ÷1,000 would fit")
    told = list(_audit_slips.slips_in_columns(frame, _audit_slips.noise_of_columns(frame), range(1)))
    assert np.mean([own["right hint"] for own in told]) >= 0.8


def test_the_noise_of_a_row_is_its_own() -> None:
    """Every third row is ten times as noisy: one scale for all rows calls their right values far off."""
    rng = np.random.default_rng(0)
    x, noisy = rng.normal(size=1000), np.arange(1000) % 3 == 0
    frame = pd.DataFrame({"x": x, "noisy": noisy.astype(float)})
    frame["y"] = 5 * x + np.where(noisy, 10.0, 1.0) * rng.normal(size=1000)
    noise = _audit_slips.Noise.of(frame, "y")
    ratio = np.median(noise.own[noisy]) / np.median(noise.own[~noisy])
    assert 4 < ratio < 12
    shares = noise.right_and_far(frame["y"])
    assert shares["by the row's own scale"] < 0.01 < shares["by the median"]
    row, calm = int(np.flatnonzero(noisy)[0]), int(np.flatnonzero(~noisy)[0])
    assert noise.far(row, noise.squash.back(noise.expected[[row]])[0] + 20).by_row < 4
    assert noise.far(calm, noise.squash.back(noise.expected[[calm]])[0] + 20).by_row > 4


def test_the_bars() -> None:
    found = pd.DataFrame({"in": "columns", "planted": ["× 10", "× 10", "swap"], "right hint": [1.0, 1.0, 0.0]})
    met = {bar.name: bar.met for bar in slips.checks(found)}
    assert met["slips in the columns, × 10, told with the right hint"] is True
    assert met["slips in the columns, swap, told with the right hint"] is False
    assert [bar.met for bar in slips.checks(pd.DataFrame())] == [None]
