"""PyOD's own helpers take our detectors."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.metrics import roc_auc_score

pytest.importorskip("pyod")
from likely.integrations.pyod import LikelyDetector
from likely.outliers import LikelihoodDetector, ScatterDetector

RNG = np.random.default_rng(0)
X = RNG.normal(size=(300, 4))
X[:15] += 5
Y = np.arange(300) < 15


def test_it_is_a_pyod_detector() -> None:
    from pyod.utils.data import evaluate_print
    from pyod.utils.utility import standardizer

    detector = LikelyDetector(ScatterDetector(), contamination=0.05).fit(standardizer(X))
    assert detector.labels_.sum() == 15
    assert roc_auc_score(Y, detector.decision_scores_) > 0.95
    assert detector.predict_proba(standardizer(X)).shape == (300, 2)
    assert detector.predict_confidence(standardizer(X)).shape == (300,)
    evaluate_print("ours", Y, detector.decision_scores_)


def test_scores_are_the_detectors_own() -> None:
    adapted = LikelyDetector(LikelihoodDetector(random_state=0)).fit(X)
    alone = LikelihoodDetector(random_state=0).fit(X)
    np.testing.assert_array_equal(adapted.decision_function(X), alone.outlier_score(X))
    np.testing.assert_array_equal(adapted.explain(X), alone.explain(X))
    assert clone(adapted).get_params()["contamination"] == 0.1
