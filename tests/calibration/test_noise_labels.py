"""Labels that have nothing to do with the logits: the best temperature is infinite, and no number may overflow."""

import numpy as np
import pytest

from likely.calibration import FeatureTemperature


@pytest.mark.parametrize("seed", range(12))
def test_noise_is_no_reason_to_overflow(seed: int) -> None:
    rng = np.random.default_rng(seed)
    logits, features = 0.1 * rng.normal(size=(160, 3)), rng.normal(size=(160, 8))
    labels = rng.integers(0, 3, size=160)
    fitted = FeatureTemperature().fit(logits, labels, features, sample_weight=rng.random(160))
    assert np.isfinite(fitted.transform(logits, features)).all()
