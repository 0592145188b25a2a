"""Inputs that calibrators must shrug off: labels that are noise, logits wider than the features."""

import numpy as np
import pytest
from scipy.special import log_softmax

from likely.calibration import AutoCalibrator, FeatureTemperature, IsotonicCalibration, PlattScaling
from pairwise import together


@together("seed", range(12))
def test_noise_is_no_reason_to_overflow(seed: int) -> None:
    rng = np.random.default_rng(seed)
    logits, features = 0.1 * rng.normal(size=(160, 3)), rng.normal(size=(160, 8))
    labels = rng.integers(0, 3, size=160)
    fitted = FeatureTemperature().fit(logits, labels, features, sample_weight=rng.random(160))
    assert np.isfinite(fitted.transform(logits, features)).all()


def test_logits_may_be_wider_than_features() -> None:
    rng = np.random.default_rng(0)
    logits, features = rng.normal(size=(300, 4)), rng.normal(size=(300, 6)).astype(np.float32)
    labels = logits.argmax(1)
    wide = FeatureTemperature().fit(logits, labels, features).transform(logits, features)
    narrow = FeatureTemperature().fit(logits.astype(np.float32), labels, features)
    np.testing.assert_allclose(wide, narrow.transform(logits.astype(np.float32), features), rtol=1e-3)


@pytest.mark.parametrize("kind", [IsotonicCalibration, PlattScaling, AutoCalibrator])
def test_what_softmax_ignores_makes_no_difference(kind):
    # Curves and choices are compared on held-out folds, which must not change with a constant added to the logits.
    rng = np.random.default_rng(0)
    logits = 3 * rng.normal(size=(300, 4))
    y = (logits / 2 + rng.gumbel(size=logits.shape)).argmax(1)
    expected = kind().fit(logits, y).predict_proba(logits)
    for same in (logits + 1, logits + rng.normal(size=(300, 1)), log_softmax(logits, axis=1)):
        np.testing.assert_allclose(kind().fit(same, y).predict_proba(same), expected, atol=1e-9)


def test_rows_may_be_a_view_in_reverse():
    rng = np.random.default_rng(0)
    logits, features = 3 * rng.normal(size=(300, 4)), rng.normal(size=(300, 2))
    y = (logits / 2 + rng.gumbel(size=logits.shape)).argmax(1)
    expected = FeatureTemperature().fit(logits, y, features=features).predict_proba(logits, features)
    fitted = FeatureTemperature().fit(logits[::-1], y[::-1], features=features[::-1])
    np.testing.assert_allclose(fitted.predict_proba(logits[::-1], features[::-1])[::-1], expected, rtol=1e-9)
