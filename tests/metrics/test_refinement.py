import math

import numpy as np
import pytest

from likely.metrics import brier_score, calibration_refinement, negative_log_likelihood
from metrics.examples import three_classes, two_classes


def sigmoid(z):
    return 1 / (1 + np.exp(-z))


@pytest.mark.parametrize("loss", ["nll", "brier"])
@pytest.mark.parametrize("cv", [None, 5])
def test_the_parts_add_up(loss, cv):
    score = negative_log_likelihood if loss == "nll" else brier_score
    for y, p in (three_classes(), two_classes()):
        assert calibration_refinement(y, p, loss=loss, cv=cv).total == pytest.approx(score(y, p))


def test_temperature_finds_the_best_one():
    y, p = three_classes()
    z = np.log(p)
    best = min(negative_log_likelihood(y, logits=b * z) for b in np.linspace(0.5, 2, 3001))
    assert calibration_refinement(y, p, cv=None).refinement == pytest.approx(best, abs=1e-7)
    # probmetrics 1.3.0, refinement_logloss_ts-mix_all, mixes with the uniform in sample too: 0.810161.
    assert calibration_refinement(y, p, cv=None).refinement == pytest.approx(0.810161, abs=1e-3)
    # … and refinement_logloss_ts-mix_cv-5 on folds of its own: 0.814919.
    assert calibration_refinement(y, p).refinement == pytest.approx(0.814919, abs=5e-3)


def test_overconfidence_is_calibration_and_noise_is_refinement():
    rng = np.random.default_rng(0)
    z = 2 * rng.normal(size=8000)
    y = rng.random(8000) < sigmoid(z)
    calm, bold = (calibration_refinement(y, sigmoid(s * z)) for s in (1, 3))
    assert abs(calm.calibration) < 0.01
    assert bold.calibration > 0.15
    assert bold.refinement == pytest.approx(calm.refinement, abs=2e-3)
    vague = calibration_refinement(y, sigmoid(z + 2 * rng.normal(size=8000)))
    assert vague.refinement > calm.refinement + 0.05


def test_logits_and_probabilities_agree():
    y, p = three_classes()
    np.testing.assert_allclose(calibration_refinement(y, logits=np.log(p) - 4), calibration_refinement(y, p), atol=1e-9)
    y, p = two_classes()
    np.testing.assert_allclose(
        calibration_refinement(y, logits=np.log(p / (1 - p))), calibration_refinement(y, p), atol=1e-9
    )


def test_stays_finite_where_the_loss_is_not():
    y, p = [1, 0, 1, 0, 1, 1], [0.0, 0.1, 0.9, 0.2, 1.0, 0.8]
    split = calibration_refinement(y, p, cv=3)
    assert split.calibration == math.inf
    assert math.isfinite(split.refinement)


def test_constant_and_perfect_predictions():
    y = [0, 1] * 10
    constant = calibration_refinement(y, [0.5] * 20)
    assert constant.refinement == pytest.approx(math.log(2), abs=0.1)
    perfect = calibration_refinement(y, [0.0, 1.0] * 10)
    assert perfect.refinement < 0.1
    assert calibration_refinement(y, [0.1, 0.9] * 10, cv=None).refinement < 0.01
    assert calibration_refinement([0, 1], [0.3, 0.8]).refinement > 0  # two rows: two folds
