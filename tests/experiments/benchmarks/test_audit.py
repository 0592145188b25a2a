"""The benchmark: it plants what it says, compares with cleanlab's own scores, and a missed bar is a missed bar."""

import numpy as np
import pandas as pd
import pytest
from scipy.special import softmax

from auditing.conftest import small_models  # noqa: F401 (every test here has small models)
from experiments.benchmarks import _audit_slips, audit
from experiments.entries import Context


def test_planted_labels_rank_well_and_beside_the_others() -> None:
    (row,) = audit.planted_labels("iris", range(1), quick=True)
    assert row["share"] == 0.05
    assert row["likely"] > 0.8 > row["1 - max"]


def test_what_stands_in_for_cleanlab_ranks_as_cleanlab_does() -> None:
    rank = pytest.importorskip("cleanlab.rank")
    rng = np.random.default_rng(0)
    logits, y = rng.normal(size=(200, 4)), rng.integers(0, 4, 200)
    ours = audit._label_scores(logits, y, None)["cleanlab"]
    theirs = rank.get_label_quality_scores(y, softmax(logits, axis=1))  # self-confidence, as Datalab's label score
    assert (np.argsort(-ours) == np.argsort(theirs)).all()


def test_shifted_rows_and_copies_are_found() -> None:
    found = {row["planted"]: row["likely"] for row in audit.planted_rows("wine", range(1))}
    assert found["shifted"] > 0.95
    assert found["copied"] == 1


def test_slips_are_planted_far_off_and_their_hints_are_read() -> None:
    rng = np.random.default_rng(0)
    length = rng.normal(100, 10, 500)
    frame = pd.DataFrame({"length": length, "width": 0.5 * length + rng.normal(size=500), "n": np.arange(500) % 7})
    noise = {name: _audit_slips.Noise.of(frame, name) for name in ("length", "width")}
    changed, slips = _audit_slips.plant(frame, noise, 2, rng)
    assert [own.kind for own in slips] == [kind for kind in _audit_slips.KINDS for _ in range(2)]
    differs = (changed != frame).sum(axis=1)
    assert all(differs[own.row] == (2 if own.kind == "swap" else 1) for own in slips)
    assert differs.sum() == 12
    swap = _audit_slips.Slip("swap", 0, "length", "width")
    assert swap.told("width and length look swapped")
    assert swap.told("length = 50, expected 100 ± 2; looks swapped with width")
    assert not swap.told("width = 100, where rows like it have 20–30; ÷10 would fit")
    assert _audit_slips.Slip("sign", 0, "length").told(
        "length = -9, where rows like it have 8–10; the other sign would fit"
    )
    assert _audit_slips.Slip("× 1000", 0, "length").told("length = 9,000, expected 9 ± 1; ÷1,000 would fit")
    told = list(_audit_slips.slips_in_columns(frame, range(1)))
    assert np.mean([own["right hint"] for own in told]) >= 0.8


def test_without_data_nothing_is_measured(tmp_path: object) -> None:
    assert list(audit.planted_targets("cpu", range(1), Context(data=tmp_path))) == []  # type: ignore[arg-type]
    assert list(audit.human_errors(tmp_path)) == []  # type: ignore[arg-type]


def test_the_bars() -> None:
    labels = pd.DataFrame({"data": ["a", "b"], "share": 0.05, "likely": [0.9, 0.79], "cleanlab": 0.7, "1 - max": 0.1})
    targets = pd.DataFrame({"likely": [0.6], "cleanlab": [0.6], "residual": [0.5]})
    slips = pd.DataFrame({"in": "columns", "planted": ["× 10", "× 10", "swap"], "right hint": [1.0, 1.0, 0.0]})
    met = {bar.name: bar.met for bar in audit.checks(labels, targets, pd.DataFrame(), slips, np.nan)}
    assert met["slips in the columns, × 10, told with the right hint"] is True
    assert met["slips in the columns, swap, told with the right hint"] is False
    assert met["wrong labels at 5%, AP of the worst set"] is False
    assert met["wrong labels, AP above cleanlab"] is True
    assert met["wrong targets, AP above cleanlab"] is False
    assert met["labels that people found wrong, AP above cleanlab"] is None
    assert met["a million rows, 50 columns, CPU time"] is None
