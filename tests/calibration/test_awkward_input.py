"""Inputs that calibrators must shrug off: labels that are noise, logits wider than the features."""

import numpy as np

from likely.calibration import FeatureTemperature
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
