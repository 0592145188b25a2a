import math

import numpy as np
import pytest
import torch
from sklearn.metrics import brier_score_loss, log_loss

from likely import metrics
from likely.metrics import (
    brier_decomposition,
    brier_score,
    classwise_calibration_error,
    expected_calibration_error,
    maximum_calibration_error,
    negative_log_likelihood,
)
from likely.metrics._bins import Bins, sums_in_bins, upper_edges
from likely.metrics._input import classified, judged
from metrics.examples import three_classes, two_classes
from pairwise import together


def bins_of(y, p, pos_label, n_bins, strategy):
    data = judged(classified(y, p, None), pos_label)
    edges = upper_edges(data, n_bins, strategy)
    return edges, Bins.of(*sums_in_bins(data, edges, n_bins))


def guo(y, p):
    """The definition of the notes, word for word."""
    top, hit = p.max(1), p.argmax(1) == y
    index = np.clip(np.ceil(15 * top) - 1, 0, 14)
    gaps = [abs((hit[index == b] - top[index == b]).sum()) for b in range(15)]
    return sum(gaps) / len(y)


def test_peers_agree_away_from_the_edges():
    y, p = three_classes()
    assert expected_calibration_error(y, p) == pytest.approx(guo(y, p), abs=1e-15)
    # netcal 1.4.0: ECE(15), MCE(15); torchmetrics 1.9.0 has the same to float32, and 0.10273756 for norm="l2".
    assert expected_calibration_error(y, p) == pytest.approx(0.07958530851012326, abs=1e-14)
    assert maximum_calibration_error(y, p) == pytest.approx(0.2218460446246945, abs=1e-14)
    assert expected_calibration_error(y, p, norm="l2") == pytest.approx(0.10273756, abs=1e-8)
    # netcal and torchmetrics, ten bins, two classes: the probability of class 1.
    y, p = two_classes()
    assert expected_calibration_error(y, p, n_bins=10, pos_label=1) == pytest.approx(0.19792146018523873, abs=1e-14)


@together("dtype", [torch.float64, torch.float32, torch.float16, torch.bfloat16])
@together("n_bins", [5, 10, 15, 25, 41])
def test_a_confidence_on_an_edge_belongs_below_it(dtype, n_bins):
    """Each edge with a miss, just below it a hit: one bin, so the gaps cancel but for the rounding of one step."""
    edges = (torch.arange(1, n_bins + 1, dtype=torch.float64) / n_bins).to(dtype)
    for edge in edges.tolist():
        below = torch.nextafter(torch.tensor(edge, dtype=torch.float64), torch.tensor(0.0)).item()
        pair = torch.tensor([edge, edge if dtype != torch.float64 else below], dtype=dtype)
        error = expected_calibration_error([0, 1], pair, n_bins=n_bins, pos_label=1)
        assert error == pytest.approx(abs(0.5 - edge), abs=1e-12)
        edges, bins = bins_of([0], torch.tensor([edge], dtype=dtype), 1, n_bins, "uniform")
        assert edges[bins.occupied][0] == edge


def test_the_ends_of_the_scale():
    # c = 0 in the first bin, c = 1 in the last: (0 + 0.05)/2 misses, (1 + 0.95)/2 hits.
    assert expected_calibration_error([0, 0], [0.0, 0.05], pos_label=1) == pytest.approx(0.025)
    assert expected_calibration_error([0, 1], [1.0, 0.95], pos_label=1) == pytest.approx(0.475)
    # torchmetrics 1.9.0 gives c = 1 a bin of its own: (1 + 0.05)/2.
    assert expected_calibration_error([0, 1], [1.0, 0.95], n_bins=15, pos_label=1) != pytest.approx(0.525)
    for p in ([0.0, 1.0, 1.0], [0.0] * 3, [1.0] * 3, [0.5] * 3):
        for strategy in ("uniform", "quantile"):
            assert 0 <= expected_calibration_error([0, 1, 1], p, strategy=strategy) <= 1


def test_ties_go_to_the_first_class():
    assert expected_calibration_error([0, 0], [[0.5, 0.5], [0.5, 0.5]]) == 0.5
    assert expected_calibration_error([1, 1], [0.5, 0.5]) == 0.5


def test_quantile_bins_hold_equal_weight_and_keep_ties_together():
    p = np.array([0.1, 0.2, 0.3, 0.4, 0.6, 0.7, 0.8, 0.9])
    y = np.array([0, 1, 0, 0, 1, 1, 0, 1])
    # Four bins of two: gaps |.5 - .15|, |0 - .35|, |1 - .65|, |.5 - .85|.
    assert expected_calibration_error(y, p, n_bins=4, strategy="quantile", pos_label=1) == pytest.approx(0.35)
    equal = np.full(8, 0.6)
    assert expected_calibration_error(y, equal, n_bins=4, strategy="quantile", pos_label=1) == pytest.approx(0.1)


def test_perfect_calibration_is_zero():
    y = np.repeat([1, 0, 1, 0], [9, 1, 3, 2])
    p = np.repeat([0.9, 0.6], [10, 5])
    for metric in (
        expected_calibration_error,
        maximum_calibration_error,
        metrics.smooth_calibration_error,
        classwise_calibration_error,
    ):
        assert metric(y, p) == pytest.approx(0, abs=1e-12)
    assert brier_decomposition(y, p).reliability == pytest.approx(0, abs=1e-12)


def test_debiasing_by_hand():
    # One bin, three of four hits at .9: gap .15, noise .75 · .25.
    y, p = [1, 1, 0, 1], [0.9] * 4
    assert expected_calibration_error(y, p, norm="l2", debiased=True) == 0
    y, p = [1, 0, 0, 1] * 4, [0.9] * 16
    squared = 0.4**2 - 0.25 / 15
    assert expected_calibration_error(y, p, norm="l2", debiased=True) == pytest.approx(math.sqrt(squared))
    noise = math.sqrt(0.25 / 16)
    draws = np.abs(0.4 + noise * np.random.default_rng(0).normal(size=400_000)).mean()
    assert expected_calibration_error(y, p, debiased=True) == pytest.approx(0.8 - draws, abs=1e-3)
    # A bin of one row says nothing about its noise, and counts as zero.
    assert expected_calibration_error([1], [0.6], norm="l2", debiased=True) == 0


def test_debiasing_removes_the_bias():
    rng = np.random.default_rng(0)
    plain, squares, flat = [], [], []
    for _ in range(300):
        p = rng.uniform(0.5, 1, 150)
        y = rng.random(150) < p
        plain.append(expected_calibration_error(y, p))
        flat.append(expected_calibration_error(y, p, debiased=True))
        _, bins = bins_of(y, p, None, 8, "quantile")
        gap = (bins.accuracy - bins.confidence) ** 2 - bins.accuracy * (1 - bins.accuracy) / (bins.size - 1)
        squares.append(np.dot(bins.mass, gap))
    assert abs(np.mean(squares)) < 3 * np.std(squares) / math.sqrt(300) + 1e-4
    assert np.mean(flat) < 0.7 * np.mean(plain)


def test_classwise_by_hand():
    y, p = [0, 1, 2, 2], [[0.8, 0.1, 0.1], [0.2, 0.6, 0.2], [0.1, 0.2, 0.7], [0.1, 0.1, 0.8]]
    errors = classwise_calibration_error(y, p, average=None)
    # Class 0: .8 hits; .2, .1, .1 miss: gaps .2, .2 and twice .1.
    np.testing.assert_allclose(errors, [0.15, 0.2, 0.2], atol=1e-12)
    for k in range(3):
        assert errors[k] == pytest.approx(expected_calibration_error(y, p, pos_label=k))


def test_brier_and_likelihood_are_scikit_learns():
    y, p = three_classes()
    # scikit-learn 1.9 (older ones have no Brier score of many classes).
    assert brier_score(y, p) == pytest.approx(0.49857021742451224, abs=1e-14)
    assert negative_log_likelihood(y, p) == pytest.approx(log_loss(y, p), abs=1e-14)
    y, p = two_classes()
    assert brier_score(y, p) == pytest.approx(brier_score_loss(y, p), abs=1e-14)
    assert brier_score(y, p, scale_by_half=False) == pytest.approx(2 * brier_score_loss(y, p), abs=1e-14)
    assert negative_log_likelihood(y, p) == pytest.approx(log_loss(y, p), abs=1e-14)


def test_rows_average_to_the_score():
    y, p = three_classes()
    for metric in (brier_score, negative_log_likelihood):
        rows = metric(y, p, reduction="none")
        assert rows.shape == (200,)
        assert rows.mean() == pytest.approx(metric(y, p))


def test_decomposition_by_hand():
    parts = brier_decomposition([1, 1, 0, 1], [0.9, 0.92, 0.61, 0.65])
    # Bins {.9, .92} with accuracy 1 and {.61, .65} with ½; base rate ¾.
    np.testing.assert_allclose(parts, [0.0125, 0.0625, 0.1875, 0.00025, 0.005], atol=1e-12)


def test_impossible_events_cost_infinity():
    assert negative_log_likelihood([1, 0], [0.0, 0.5]) == math.inf
    assert negative_log_likelihood([1, 0], [1.0, 0.0]) == 0
    assert negative_log_likelihood([1, 0], [0.0, 0.5], sample_weight=[0, 1]) == pytest.approx(math.log(2))


def test_likelihood_from_logits():
    y, p = three_classes()
    expected = negative_log_likelihood(y, p)
    assert negative_log_likelihood(y, logits=np.log(p) + 3) == pytest.approx(expected, abs=1e-12)
    assert negative_log_likelihood(y, logits=torch.tensor(np.log(p), dtype=torch.bfloat16)) == pytest.approx(
        expected, abs=1e-2
    )
    y, p = two_classes()
    assert negative_log_likelihood(y, logits=np.log(p / (1 - p))) == pytest.approx(negative_log_likelihood(y, p))
    assert negative_log_likelihood([0, 1], logits=[[1e4, -math.inf], [1e4, 0.0]]) == 5000


def test_one_row():
    for metric in (expected_calibration_error, maximum_calibration_error, metrics.smooth_calibration_error):
        assert metric([1], [0.7]) == pytest.approx(0.3, abs=1e-6)
    assert metrics.calibration_refinement([1], [0.7], cv=None).refinement >= 0


def test_many_rows_and_classes_in_half_precision():
    z = torch.randn(300, 1000, generator=torch.Generator().manual_seed(0))
    y = z.argmax(1)
    full, half = z.softmax(1), z.softmax(1).half()
    assert expected_calibration_error(y, half) == pytest.approx(expected_calibration_error(y, full), abs=1e-2)
    assert brier_score(y, half) == pytest.approx(brier_score(y, full), abs=1e-3)
