import numpy as np
import pytest

from likely.metrics import smooth_calibration_error
from metrics.examples import three_classes, two_classes


def directly(y, c, width):
    """∫|Σ (y - c) K(t, c)| dt / n with the reflected kernel written out."""
    t = (np.arange(20_000) + 0.5) / 20_000
    curve = np.zeros_like(t)
    for confidence, hit in zip(c, y, strict=True):
        for k in range(-4, 5):
            for place in (confidence, -confidence):
                curve += (hit - confidence) * np.exp(-0.5 * ((t - place + 2 * k) / width) ** 2)
    return np.abs(curve).mean() / (np.sqrt(2 * np.pi) * width) / len(c)


@pytest.mark.parametrize("width", [0.005, 0.05, 0.3, 1.0])
def test_the_kernel_is_the_reflected_gaussian(width):
    y, c = two_classes()
    y, c = y[:40], np.concatenate([c[:36], [0.0, 1.0, 1.0, 0.5]])
    value = smooth_calibration_error(y, c, bandwidth=width, pos_label=1)
    assert value == pytest.approx(directly(y, c, width), abs=1e-6)


def test_the_fixed_point():
    for y, p, options in ((*three_classes(), {}), (*two_classes(), {"pos_label": 1})):
        value = smooth_calibration_error(y, p, **options)
        assert smooth_calibration_error(y, p, bandwidth=value, **options) == pytest.approx(value, abs=1e-8)


def test_agrees_with_its_authors():
    # relplot 1.0.3: smECE, which searches to 1e-3, and smECE_sigma on a mesh of 200 points.
    y, p = three_classes()
    assert smooth_calibration_error(y, p) == pytest.approx(0.05581685, abs=1e-3)
    assert smooth_calibration_error(*two_classes(), pos_label=1) == pytest.approx(0.17932448, abs=1e-3)
    for width, value in ((0.02, 0.08143981), (0.05, 0.05648931), (0.2, 0.05270199)):
        assert smooth_calibration_error(y, p, bandwidth=width) == pytest.approx(value, abs=2e-4)


def test_all_wrong_and_all_right():
    assert smooth_calibration_error([0] * 5, [1.0] * 5, pos_label=1) == pytest.approx(1, abs=1e-6)
    assert smooth_calibration_error([1] * 5, [1.0] * 5, pos_label=1) == 0


def test_is_lipschitz_where_bins_jump():
    y, c = [1] * 50 + [0] * 50, np.full(100, 1 / 3)
    moved = c + np.where(np.arange(100) < 50, 1e-4, -1e-4)
    change = smooth_calibration_error(y, moved, pos_label=1) - smooth_calibration_error(y, c, pos_label=1)
    assert abs(change) < 1e-3
