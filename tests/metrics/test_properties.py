"""Metrics × what holds for each: a list of calls and the properties that all of them share."""

import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings, strategies as st

from likely import metrics
from likely.distributions import Robust
from pairwise import together

# Each takes (y, p, weight) of a three-class problem; those that are means over bins or rows.
CLASSIFICATION = {
    "ece": lambda y, p, w: metrics.expected_calibration_error(y, p, sample_weight=w),
    "ece, quantile bins": lambda y, p, w: metrics.expected_calibration_error(
        y, p, strategy="quantile", n_bins=4, sample_weight=w
    ),
    "ece of a class": lambda y, p, w: metrics.expected_calibration_error(y, p, pos_label=1, sample_weight=w),
    "rms ce": lambda y, p, w: metrics.expected_calibration_error(y, p, norm="l2", sample_weight=w),
    "mce": lambda y, p, w: metrics.maximum_calibration_error(y, p, sample_weight=w),
    "classwise": lambda y, p, w: metrics.classwise_calibration_error(y, p, sample_weight=w),
    "smooth": lambda y, p, w: metrics.smooth_calibration_error(y, p, sample_weight=w),
    "brier": lambda y, p, w: metrics.brier_score(y, p, sample_weight=w),
    "decomposition": lambda y, p, w: np.array(metrics.brier_decomposition(y, p, sample_weight=w)),
    "nll": lambda y, p, w: metrics.negative_log_likelihood(y, p, sample_weight=w),
    "split in sample": lambda y, p, w: np.array(metrics.calibration_refinement(y, p, cv=None, sample_weight=w)),
}
# Their correction for the size of the bins takes a repeated row for what it is: no new row.
DEBIASED = {
    "debiased ece": lambda y, p, w: metrics.expected_calibration_error(y, p, debiased=True, sample_weight=w),
    "debiased rms ce": lambda y, p, w: metrics.expected_calibration_error(
        y, p, norm="l2", debiased=True, sample_weight=w
    ),
}


def normal(p):
    return {"mean": 3 * p[:, 0], "scale": 0.1 + p[:, 1]}


def robust(p):
    return Robust(torch.as_tensor(3 * p[:, 2]), torch.as_tensor(3 * p[:, 0]), torch.as_tensor(0.1 + p[:, 1]))


REGRESSION = {
    "cal": lambda y, p, w: metrics.quantile_calibration_error(y, **normal(p), sample_weight=w),
    "area": lambda y, p, w: metrics.miscalibration_area(y, **normal(p), sample_weight=w),
    "crps": lambda y, p, w: metrics.crps(y, **normal(p), sample_weight=w),
    "robust crps": lambda y, p, w: metrics.crps(y, robust(p), sample_weight=w),
    "crps of samples": lambda y, p, w: metrics.crps_from_samples(y, 3 * p, fair=True, sample_weight=w),
    "crps of quantiles": lambda y, p, w: metrics.crps_from_quantiles(y, p.cumsum(1), [0.1, 0.5, 0.8], sample_weight=w),
    "nll of a normal": lambda y, p, w: metrics.negative_log_likelihood(y, **normal(p), sample_weight=w),
    "coverage": lambda y, p, w: metrics.interval_coverage(y, **normal(p), sample_weight=w),
    "width": lambda y, p, w: metrics.interval_width(**normal(p), sample_weight=w),
    "interval score": lambda y, p, w: metrics.interval_score(y, **normal(p), sample_weight=w),
    "sharpness": lambda y, p, w: metrics.sharpness(**normal(p), sample_weight=w),
}
REPEATABLE = CLASSIFICATION | REGRESSION
ALL = REPEATABLE | DEBIASED


@st.composite
def problems(draw):
    rows = draw(st.integers(1, 25))
    # Multiples of 1/30, so that many confidences sit on edges of the fifteen bins and many are equal.
    first = draw(st.lists(st.integers(0, 30), min_size=rows, max_size=rows))
    second = draw(st.lists(st.integers(0, 30), min_size=rows, max_size=rows))
    a = np.array(first)
    b = np.minimum(np.array(second), 30 - a)
    p = np.stack([a, b, 30 - a - b], 1) / 30
    y = np.array(draw(st.lists(st.integers(0, 2), min_size=rows, max_size=rows)))
    w = np.array(draw(st.lists(st.integers(0, 3), min_size=rows, max_size=rows)))
    assume(w.any())
    return y, p, w


def same(a, b):
    np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-8)


@together("name", REPEATABLE)
@settings(max_examples=25)
@given(problem=problems())
def test_weights_are_repetitions(name, problem):
    y, p, w = problem
    same(REPEATABLE[name](y, p, w), REPEATABLE[name](np.repeat(y, w), np.repeat(p, w, 0), None))


@together("name", ALL)
@settings(max_examples=15)
@given(problem=problems(), seed=st.integers(0, 99))
def test_order_and_the_scale_of_weights_do_not_matter(name, problem, seed):
    y, p, w = problem
    order = np.random.default_rng(seed).permutation(len(y))
    same(ALL[name](y, p, w), ALL[name](y[order], p[order], 0.3 * w[order]))


@together("name", ALL)
@together("factor", [1e-320, 1e-300, 1e-3, 1e3, 1e300, 1e307], ids="{:g}".format)
def test_weights_of_any_size(name, factor):
    y, p = np.array([0, 1, 2, 2, 1]), np.array([[8, 1, 1], [2, 6, 2], [1, 2, 7], [1, 1, 8], [3, 4, 3]]) / 10
    w = np.array([1.0, 2.0, 0.0, 3.0, 1.0])
    # 1e-320 has three digits left, and so have the weights.
    got, expected = ALL[name](y, p, factor * w), ALL[name](y, p, w)
    np.testing.assert_allclose(got, expected, rtol=1e-3 if factor < 1e-310 else 1e-9, atol=1e-12)
    same(ALL[name](y, p, w / w.sum()), ALL[name](y, p, w))


@together("name", ALL)
def test_weights_that_are_all_zero_are_refused(name):
    y, p = np.array([0, 1, 2]), np.eye(3) * 0.7 + 0.1
    with pytest.raises(ValueError, match="sample_weight is zero everywhere"):
        ALL[name](y, p, np.zeros(3))


@together("name", ALL)
def test_one_row(name):
    value = ALL[name](np.array([1]), np.array([[0.2, 0.5, 0.3]]), None)
    assert np.isfinite(value).all()


@together("name", ALL)
def test_frames_strides_and_single_precision(name):
    pandas, polars = pytest.importorskip("pandas"), pytest.importorskip("polars")
    y, p = np.array([0, 1, 2, 2, 1]), np.array([[8, 1, 1], [2, 6, 2], [1, 2, 7], [1, 1, 8], [3, 4, 3]]) / 10
    w = np.array([1.0, 2.0, 1.0, 0.5, 1.0])
    expected = ALL[name](y, p, w)
    wide = np.zeros((10, 6))
    wide[::2, ::2] = p
    same(ALL[name](y, wide[::2, ::2], w), expected)
    same(ALL[name](y[::-1].copy()[::-1], p[::-1].copy()[::-1], w), expected)
    single = ALL[name](y, p.astype(np.float32), w.astype(np.float32))
    np.testing.assert_allclose(single, expected, rtol=1e-5, atol=1e-5)
    if name in CLASSIFICATION | DEBIASED:
        same(ALL[name](pandas.Series(y, index=range(5, 10)), pandas.DataFrame(p), pandas.Series(w)), expected)
        same(ALL[name](polars.Series(y), polars.DataFrame(p), polars.Series(w)), expected)


@together("name", CLASSIFICATION)
def test_probabilities_slightly_off_their_sum_and_labels_of_text(name):
    y, p = np.array([0, 1, 2, 2, 1]), np.array([[8, 1, 1], [2, 6, 2], [1, 2, 7], [1, 1, 8], [3, 4, 3]]) / 10
    off = p * (1 + 1e-7 * np.arange(5)[:, None])
    np.testing.assert_allclose(
        CLASSIFICATION[name](y, off, None), CLASSIFICATION[name](y, p, None), rtol=1e-5, atol=1e-5
    )
    with pytest.raises(ValueError, match="must sum to one"):
        CLASSIFICATION[name](y, 0.9 * p, None)
    with pytest.raises(TypeError, match=r"y_true must hold numbers.*LabelEncoder"):
        CLASSIFICATION[name](np.array(["a", "b", "c", "c", "b"]), p, None)


@together("name", ALL)
def test_arrays_of_every_kind(name):
    y, p = np.array([0, 1, 2, 2, 1]), np.array([[8, 1, 1], [2, 6, 2], [1, 2, 7], [1, 1, 8], [3, 4, 3]]) / 10
    w = np.array([1.0, 2.0, 1.0, 0.5, 1.0])
    expected = ALL[name](y, p, w)
    same(expected, ALL[name](torch.tensor(y), torch.tensor(p, requires_grad=True), torch.tensor(w)))
    if name in CLASSIFICATION:
        same(expected, ALL[name](y.tolist(), p.tolist(), w.tolist()))
        p.flags.writeable = False
        same(expected, ALL[name](y.astype(float), np.asfortranarray(p), w))


@given(problem=problems())
def test_the_average_gap_is_at_most_the_largest(problem):
    y, p, w = problem
    for strategy in ("uniform", "quantile"):
        options = {"strategy": strategy, "sample_weight": w}
        ece = metrics.expected_calibration_error(y, p, **options)
        rms = metrics.expected_calibration_error(y, p, norm="l2", **options)
        worst = metrics.maximum_calibration_error(y, p, **options)
        assert 0 <= ece <= rms + 1e-12 <= worst + 2e-12 <= 1 + 3e-12


@given(problem=problems())
def test_the_brier_score_is_the_sum_of_its_parts(problem):
    y, p, w = problem
    for n_bins, strategy in ((15, "uniform"), (1, "uniform"), (4, "quantile")):
        parts = metrics.brier_decomposition(y, p, n_bins=n_bins, strategy=strategy, sample_weight=w)
        assert parts.score == pytest.approx(metrics.brier_score(y, p, sample_weight=w), abs=1e-12)


@settings(max_examples=10)
@given(problem=problems())
def test_two_classes_may_come_as_a_vector(problem):
    y, p, w = problem
    y = y > 0
    for name, metric in (CLASSIFICATION | DEBIASED).items():
        if name != "ece of a class":
            same(metric(y, p[:, 1], w), metric(y, np.stack([1 - p[:, 1], p[:, 1]], 1), w))


@pytest.mark.gpu
@together("name", ALL)
def test_tensors_on_a_gpu(name):
    y, p = torch.tensor([0, 1, 2, 2]), torch.tensor([[8, 1, 1], [2, 6, 2], [1, 2, 7], [1, 1, 8]]) / 10
    same(ALL[name](y, p, None), ALL[name](y.cuda(), p.cuda(), torch.ones(4, device="cuda")))
