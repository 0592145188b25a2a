"""The rule of the automatic threshold, clause by clause, beside SciPy's false discovery rates."""

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from scipy.stats import false_discovery_control, norm

from likely.outliers.threshold import false_alarms, quantiles, shortened, threshold
from pairwise import together

Array = Any


def normal_scores(n: int) -> Array:
    """The quantiles of a standard normal: scores without an outlier, and without chance."""
    return norm.ppf((np.arange(n) + 0.5) / n)


def null_tail(scores: Array) -> Array:
    """The share of ordinary rows above each score, if the middle half, or the ninth decile, is that of a normal."""
    lower, middle, upper, high = np.quantile(scores, [0.25, 0.5, 0.75, 0.9], method="inverted_cdf")
    spread = max(upper - middle, middle - lower) / norm.ppf(0.75) or scores.std()
    spread = max(spread, min((high - middle) / norm.ppf(0.9), 2 * spread))
    return norm.sf((scores - middle) / spread)


def named(scores: Array, contamination: Any = "auto", **options: Any) -> Array:
    """The rows above the threshold, where scores of training rows are those of unseen ones."""
    return np.flatnonzero(scores > threshold(scores, scores, None, contamination, **options))


SHAPES: dict[str, Callable[[np.random.Generator], Array]] = {
    "normal": lambda rng: rng.normal(3, 2, size=401),
    "long upwards": lambda rng: rng.exponential(size=401),
    "long downwards": lambda rng: -rng.exponential(size=401),
    "heavier than normal": lambda rng: rng.standard_t(3, size=401),
    "a fifth far out": lambda rng: np.append(rng.normal(size=320), rng.normal(30, 1, size=80)),
    "most alike": lambda rng: np.where(rng.random(400) < 0.9, 1.0, rng.exponential(size=400)),
}


@together("kind", SHAPES)
def test_false_alarms_are_the_false_discovery_rates_of_a_normal_null(kind: str) -> None:
    scores = SHAPES[kind](np.random.default_rng(0))
    expected = false_discovery_control(null_tail(scores))
    np.testing.assert_allclose(false_alarms(scores), expected, rtol=0.01, atol=1e-4)


def test_a_row_of_weight_three_is_three_rows() -> None:
    rng = np.random.default_rng(1)
    scores, weight = np.append(rng.normal(size=200), [4.0, 5.0]), rng.integers(1, 4, size=202)
    weight[-2:] = 2, 3
    repeated = np.repeat(scores, weight)
    rows = np.cumsum(weight) - 1
    shares = false_alarms(scores, weight.astype(float))
    np.testing.assert_allclose(shares, false_alarms(repeated)[rows], rtol=1e-9)
    assert (shares < 0.1).any()
    for contamination in ("auto", 0.05, 0.3):
        by_weight = threshold(scores, scores, weight.astype(float), contamination)
        assert by_weight == pytest.approx(threshold(repeated, repeated, None, contamination))


def test_a_row_without_weight_is_no_row() -> None:
    scores = normal_scores(300)
    with_more = np.append(scores, [50.0, 60.0, 1.0])
    weight = np.append(np.ones(300), np.zeros(3))
    for contamination in ("auto", 0.1):
        found = threshold(with_more, with_more, weight, contamination)
        assert found == threshold(scores, scores, None, contamination)
    unknown = np.append(np.linspace(0, 1, 300), [np.nan, np.nan, np.nan])
    known = np.where(np.isnan(unknown), 50.0, unknown)
    assert threshold(known, unknown, weight, "auto") == threshold(known[:300], known[:300], None, "auto") < 1.1


def test_equal_scores_name_no_row() -> None:
    scores = np.full(50, 2.0)
    np.testing.assert_array_equal(false_alarms(scores), 1.0)
    assert len(named(scores)) == 0


@together(("n", "count"), [(200, 1), (600, 3), (1000, 5), (1600, 8), (3000, 10), (10000, 10)])
def test_of_ordinary_rows_half_a_percent_are_named_and_never_more_than_ten(n: int, count: int) -> None:
    np.testing.assert_array_equal(named(normal_scores(n)), np.arange(n - count, n))


def test_no_more_than_a_fiftieth_are_named_for_being_rare() -> None:
    """Four of a hundred rows are beyond all but 0.5% of ordinary ones; four times as many could be by chance."""
    scores = np.append(normal_scores(100)[:96], 2.59 + 0.01 * np.arange(4))
    assert (null_tail(scores)[96:] < 0.005).all()
    assert (false_discovery_control(null_tail(scores)) > 0.1).all()
    np.testing.assert_array_equal(named(scores), [98, 99])


def test_of_the_rows_that_are_named_a_tenth_may_be_false_alarms() -> None:
    """Rows at the same height are outliers if they are so many that few of them can be there by chance."""
    rates = []
    for planted in range(12, 60):
        scores = np.append(normal_scores(2000), 3.15 + 1e-4 * np.arange(planted))
        rates.append(false_discovery_control(null_tail(scores))[2000:].max())
        assert (len(named(scores)) >= planted) == (rates[-1] <= 0.1), planted
    assert min(rates) < 0.1 < max(rates)


def test_the_threshold_is_the_highest_score_of_the_other_rows() -> None:
    scores = np.append(np.linspace(-1, 1, 300), [9.0, 11.0])
    assert threshold(scores, scores, None, "auto") == pytest.approx(1.0, abs=1e-8)
    for unit in (1e-3, 1.0, 1e6):  # a hair higher, for the rounding of scores depends on the rows beside a row
        assert threshold(unit * scores, unit * scores, None, "auto") > unit * (1 + 5e-10)


@together(("of_training", "expected"), [(2.4, 2.4), (2.3, 2.3), (1.0, 2.2), (-3.0, 2.2), (2.6, 2.55), (7.0, 2.55)])
def test_a_training_row_that_is_an_outlier_lowers_the_threshold(of_training: float, expected: float) -> None:
    """It fits better than if it had been left out. But no more than ten of a thousand new rows are named for that."""
    ordinary = np.minimum(normal_scores(995), 2.2)
    ordinary[-5:] = 2.55  # of a normal, more than half a percent lie beyond
    unseen = np.append(ordinary, np.linspace(9, 12, 5))
    fitted = np.append(ordinary - 0.3, np.linspace(of_training, of_training + 3, 5))
    for unit in (1e-3, 1.0, 1e3):
        found = threshold(unit * fitted, unit * unseen, None, "auto")
        assert found == pytest.approx(unit * expected, rel=1e-5, abs=1e-6)
        if of_training == expected:
            assert (unit * fitted[-5:] > found).all()


def test_no_outlier_means_that_no_training_row_is_one() -> None:
    unseen = np.linspace(0, 1, 200)
    for fitted in (unseen - 0.2, unseen + 0.2):
        found = threshold(fitted, unseen, None, "auto")
        assert max(fitted.max(), unseen.max()) < found < max(fitted.max(), unseen.max()) + 1e-6


def test_a_row_of_which_the_score_if_left_out_is_unknown() -> None:
    """It is no outlier where no other row is, and does not hide those of others."""
    fitted, unseen = np.linspace(0, 1, 200), np.linspace(0, 1, 200)
    fitted[100], unseen[100] = 50.0, np.nan
    assert 50.0 < threshold(fitted, unseen, None, "auto") < 50.0 + 1e-6
    fitted[-3:] = unseen[-3:] = 9.0
    assert 0.9 < threshold(fitted, unseen, None, "auto") < 1.1


@together(("height", "outliers"), [(5e-10, False), (1e-9, False), (3e-9, True)])
def test_a_row_no_higher_than_rounding_may_put_it_is_no_outlier(height: float, outliers: bool) -> None:
    """Nor then is a row of which the score if left out is unknown: the threshold is above both, or below both."""
    unseen = np.minimum(np.linspace(-1e-11, 1e-12, 200), 0.0)
    unseen[-1], unseen[100] = height, np.nan
    fitted = unseen.copy()
    fitted[100] = 50.0
    found = threshold(fitted, unseen, None, "auto")
    assert (found < 50.0) is outliers
    assert bool(fitted[-1] > found) is outliers


@together(("share", "rows"), [(0.5, 10), (0.1, 6), (0.2, 8), (0.8, 8)])
def test_the_share_of_training_rows_is_exact_within_one_standard_error(share: float, rows: int) -> None:
    """Of 400 unseen rows the standard error is √(400 p (1 - p)) rows; beyond it the share of unseen rows counts."""
    seen = np.arange(400.0)
    for more, agrees in ((rows - 1, True), (rows + 1, False), (1 - rows, True), (-1 - rows, False)):
        held = seen + more
        expected = 400 * (1 - share) - 1 + (0 if agrees else more)
        assert threshold(seen, held, None, share) == pytest.approx(expected), (more, agrees)


@together("n", [1, 4, 19, 20, 99])
def test_of_few_rows_the_kth_highest_is_exceeded_by_k_in_one_more(n: int) -> None:
    """So many of a row more are above it, by symmetry; a smaller share than one of them is above the highest."""
    held = np.random.default_rng(n).permutation(n).astype(float)
    for k in range(1, n + 1):
        assert threshold(held, held, None, k / (n + 1)) == n - k
    for share in (0.5 / (n + 1), 1e-6):
        assert threshold(held, held, None, share) == n - 1


@together("n", [100, 400])
def test_of_a_hundred_rows_or_more_the_kth_highest_is_exceeded_by_fewer_than_k(n: int) -> None:
    seen, held = np.zeros(n), np.arange(float(n))
    for k in (1, 10, n // 2):
        assert threshold(seen, held, None, k / n) == n - k - 1


def test_unseen_rows_that_fit_no_worse_than_three_quarters_name_by_their_tail() -> None:
    """Where most scores are alike the median of the unseen rows is the upper quartile of the others."""
    scores = np.concatenate([np.linspace(0, 0.9, 300), np.full(650, 1.0), np.linspace(20, 30, 50)])
    np.testing.assert_array_equal(named(scores, long=True), np.arange(950, 1000))
    over = threshold(scores - 0.1, scores, None, "auto", long=True)
    assert (scores > over).sum() == 25


def test_where_rows_are_learned_by_heart_one_in_forty_is_named() -> None:
    """Half of the unseen rows fit worse than three quarters of the training rows: their tail tells nothing."""
    unseen = np.append(normal_scores(800)[:-60], np.linspace(20, 30, 60))
    over = threshold(unseen - 0.7, unseen, None, "auto", long=True)
    assert (unseen > over).sum() == 20
    assert (unseen > threshold(unseen - 0.6, unseen, None, "auto", long=True)).sum() > 40
    assert (unseen > threshold(unseen - 0.7, unseen, None, "auto")).sum() > 40


def test_rows_are_named_by_the_scores_that_judge_them() -> None:
    scores = normal_scores(500)
    judged = scores.copy()
    judged[100] = 40.0
    found = threshold(scores, scores, None, "auto", judged=judged)
    assert found == pytest.approx(threshold(scores, scores, None, "auto"), abs=0.5)
    flat = threshold(scores, scores, None, "auto", judged=np.zeros(500))
    assert flat == pytest.approx(scores.max())
    assert flat > scores.max()


@together("deviation", [0.1, 0.4, 1.0, 1.9])
def test_a_lognormal_tail_is_shortened_to_a_normal_one(deviation: float) -> None:
    z = normal_scores(5000)
    scores = 3 + 7 * np.exp(deviation * z)
    short = shortened(scores, None)
    upper = np.flatnonzero(z > 0.1)
    quartile = 7 * (np.exp(deviation * norm.ppf(0.75)) - 1)
    np.testing.assert_allclose(short[upper] - 10, quartile * z[upper] / norm.ppf(0.75), rtol=0.02)
    np.testing.assert_array_equal(short[z < 0], scores[z < 0])


def test_a_tail_is_shortened_by_no_more_than_a_logarithm_of_deviation_two() -> None:
    """Where the ninth decile is further off than that, the factor of the logarithm is still that of deviation two."""
    scores = np.exp(4 * normal_scores(5000))
    short = shortened(scores, None)
    base = np.exp(2 * norm.ppf(0.75))
    middle, upper = np.quantile(scores, [0.5, 0.75], method="inverted_cdf")
    far = scores[-50:]
    expected = middle + (upper - middle) * np.log1p((far - middle) * (base - 1) / (upper - middle)) / np.log(base)
    np.testing.assert_allclose(short[-50:], expected, rtol=1e-3)


def test_a_tail_is_left_alone_unless_its_ninth_decile_is_beyond_a_normals() -> None:
    """Of a normal, the ninth decile is 1.9 times as far from the median as the upper quartile."""
    scores = np.linspace(0, 1, 1000)
    for ninth, changed in ((1.85, False), (2.0, True)):
        bent = np.interp(scores, [0, 0.5, 0.75, 0.9, 1.0], [-1, 0, 1, ninth, 50])
        assert bool(shortened(bent, None)[-1] < bent[-1]) is changed
    equal = np.where(scores < 0.8, 1.0, 1.0 + scores)  # the median is the upper quartile: there is nothing to go by
    np.testing.assert_array_equal(shortened(equal, None), equal)


def test_quantiles_are_the_least_values_that_a_share_does_not_exceed() -> None:
    rng = np.random.default_rng(3)
    for n in (1, 2, 7, 30, 49):
        values = rng.normal(size=n)
        ordered = np.sort(values)
        for weight in (None, np.full(n, 0.3)):
            levels = [k / n for k in range(1, n + 1)]
            np.testing.assert_array_equal(quantiles(values, weight, levels), ordered)
            between = [(k + 0.5) / n for k in range(n)]
            np.testing.assert_array_equal(quantiles(values, weight, between), ordered)
            assert quantiles(values, weight, [0.0])[0] == ordered[0]


def test_quantiles_of_weighted_values() -> None:
    rng = np.random.default_rng(4)
    for n in (2, 7, 30):
        values, weight = rng.normal(size=n), rng.integers(1, 9, size=n)
        weight[0] = 9 + weight[1]
        order = np.argsort(values)
        sums = np.cumsum(weight[order])
        for scale in (1.0, 0.1):
            levels = [float(Fraction(int(s), int(sums[-1]))) for s in sums]
            np.testing.assert_array_equal(quantiles(values, scale * weight, levels), values[order])
            between = (sums - 0.5) / sums[-1]
            np.testing.assert_array_equal(quantiles(values, scale * weight, between), values[order])
