"""A model's outputs: labels judged by logits and features."""

from typing import Any

import numpy as np
import pytest
from scipy.special import log_softmax
from sklearn.datasets import load_wine
from sklearn.ensemble import ExtraTreesClassifier
from sklearn.metrics import average_precision_score
from sklearn.model_selection import cross_val_predict

import likely
from likely.auditing.target.label_verdict import judge_labels
from pairwise import together


def outputs(n: int = 600, wrong: float = 0.05, seed: int = 0) -> tuple[Any, Any, Any, Any]:
    rng = np.random.default_rng(seed)
    truth = rng.integers(0, 4, n)
    hard = rng.uniform(size=n)
    logits = (8 * np.eye(4)[truth] + (1 + 4 * hard[:, None]) * rng.normal(size=(n, 4))).astype(np.float32)
    labels, bad = truth.copy(), rng.choice(n, round(wrong * n), replace=False)
    labels[bad] = (truth[bad] + 1) % 4
    features = np.column_stack([hard, rng.normal(size=(n, 2))]).astype(np.float32)
    return logits, labels, features, bad


def test_features_that_tell_hard_rows_improve_the_ranking() -> None:
    logits, labels, features, bad = outputs(3000)
    wrong = np.isin(np.arange(3000), bad)
    own = np.arange(3000)
    confidence = log_softmax(logits.astype(float), axis=1)
    ours = average_precision_score(wrong, judge_labels(logits, labels, features).nll)
    assert ours > average_precision_score(wrong, -confidence[own, labels]) + 0.02  # cleanlab's self-confidence
    assert ours > average_precision_score(wrong, -confidence.max(1)) + 0.3


def test_all_that_can_be_found_in_outputs_is_there() -> None:
    logits, labels, features, bad = outputs()
    audit = likely.audit(logits=logits, labels=labels, features=features)
    found = next(f for f in audit.findings if f.name == "labels").rows
    assert np.isin(found, bad).mean() > 0.6
    assert {finding.name for finding in audit.findings} >= {"overview", "labels", "calibration", "rows"}


def test_the_share_of_wrong_labels_is_estimated_and_none_is_none() -> None:
    for share in (0.0, 0.05, 0.15):
        logits, labels, _, _ = outputs(3000, share)
        assert abs(judge_labels(logits, labels).share - share) < 0.02


def test_multiplying_the_logits_changes_nothing() -> None:
    logits, labels, _, _ = outputs()
    first, second = judge_labels(logits.astype(float), labels), judge_labels(7.0 * logits.astype(float), labels)
    np.testing.assert_allclose(first.nll, second.nll, rtol=0.02, atol=0.02)
    np.testing.assert_allclose(7 * first.temperature, second.temperature, rtol=0.05)


@together(
    ("change", "message"),
    [
        ({"logits": np.zeros(5)}, "shape"),
        ({"logits": np.full((600, 4), np.nan)}, "NaN"),
        ({"logits": np.zeros((5, 4)), "labels": np.zeros(5, int)}, "20 or more"),
        ({"labels": np.zeros(5, int)}, "one class per row"),
        ({"labels": np.full(600, 9)}, "from 0 to 3"),
        ({"labels": np.full(600, 0.5)}, "from 0 to 3"),
        ({"labels": None}, "go together"),
        ({"features": np.zeros((5, 2))}, "features must be"),
        ({"features": np.full((600, 2), np.inf)}, "features hold NaN"),
        ({"classes": ["a"]}, "class names"),
        ({"data": {"x": [1]}}, "not both"),
    ],
)
def test_outputs_that_do_not_fit_together_are_refused(change: dict[str, Any], message: str) -> None:
    logits, labels, features, _ = outputs()
    with pytest.raises(ValueError, match=message):
        likely.audit(**{"logits": logits, "labels": labels, "features": features, **change})


def test_nothing_to_audit() -> None:
    with pytest.raises(ValueError, match="give a table"):
        likely.audit()


def test_probabilities_of_exactly_zero_and_labels_as_floats_are_read() -> None:
    X, truth = load_wine(return_X_y=True)
    bad = np.arange(0, 178, 18)
    labels = truth.astype(float)
    labels[bad] = (labels[bad] + 1) % 3
    p = cross_val_predict(ExtraTreesClassifier(50, random_state=0), X, labels, method="predict_proba")
    assert (p == 0).mean() > 0.1
    with np.errstate(divide="ignore"):
        audit = likely.audit(logits=np.log(p), labels=labels)
    found = {suspect.row for suspect in audit.suspects if suspect.kind == "labels"}
    assert len(found & {*bad.tolist()}) >= 7, "wrong labels of a forest with zeros among its probabilities are found"
    with pytest.raises(ValueError, match="class numbers"):
        likely.audit(logits=p, labels=labels + 0.5)
