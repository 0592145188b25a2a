"""The benchmark: it plants what it says, compares with cleanlab's own scores, and a missed bar is a missed bar."""

import numpy as np
import pandas as pd
import pytest
from scipy.special import softmax

from auditing.conftest import small_models  # noqa: F401 (every test here has small models)
from experiments.benchmarks import audit
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


def test_without_data_nothing_is_measured(tmp_path: object) -> None:
    assert list(audit.planted_targets("cpu", range(1), Context(data=tmp_path))) == []  # type: ignore[arg-type]
    assert list(audit.human_errors(tmp_path)) == []  # type: ignore[arg-type]


def test_the_bars() -> None:
    labels = pd.DataFrame({"data": ["a", "b"], "share": 0.05, "likely": [0.9, 0.79], "cleanlab": 0.7, "1 - max": 0.1})
    targets = pd.DataFrame({"likely": [0.6], "cleanlab": [0.6], "residual": [0.5]})
    met = {bar.name: bar.met for bar in audit.checks(labels, targets, pd.DataFrame(), np.nan)}
    assert met["wrong labels at 5%, AP of the worst set"] is False
    assert met["wrong labels, AP above cleanlab"] is True
    assert met["wrong targets, AP above cleanlab"] is False
    assert met["labels that people found wrong, AP above cleanlab"] is None
    assert met["a million rows, 50 columns, CPU time"] is None
