"""Verdicts on labels and targets are those of the models in their docstrings, written out again here with SciPy."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy import stats
from scipy.special import expit, log_softmax

from likely.auditing.columns.scale import FACTORS, AsinhScale, ColumnLimits
from likely.auditing.odd_rows.slips import by_chance
from likely.auditing.target.label_verdict import LabelVerdict, judge_labels
from likely.auditing.target.target_verdict import TargetVerdict, judge_targets, student_nll
from pairwise import together

Array = Any


def mislabelled(share: float, n: int = 600, classes: int = 4, sure: float = 8.0, seed: int = 0) -> tuple[Array, Array]:
    """Logits, and labels of which the first ones are wrong."""
    rng = np.random.default_rng([seed, n, classes])
    truth = rng.integers(0, classes, n)
    logits = sure * np.eye(classes)[truth] + rng.normal(size=(n, classes))
    wrong = np.arange(n) < round(share * n)
    return logits, np.where(wrong, (truth + rng.integers(1, classes, n)) % classes, truth)


def p_wrong(q: Array, share: float, classes: int) -> Array:
    """By Bayes' rule, where a right label has probability q, and a wrong one is any other with equal probability."""
    wrong = share * (1 - q) / (classes - 1)
    return wrong / (wrong + (1 - share) * q)


def at_labels(values: Array, y: Array) -> Array:
    return np.array([values[row, label] for row, label in enumerate(y)])


@together(("share", "classes"), [(0.02, 2), (0.05, 3), (0.08, 5)])
def test_the_probability_that_a_label_is_wrong_is_by_bayes_rule(share: float, classes: int) -> None:
    logits, y = mislabelled(share, classes=classes)
    verdict = judge_labels(logits, y)
    assert verdict.judged
    assert verdict.predictable.classes.all()
    assert not verdict.too_many
    assert verdict.share == pytest.approx(share, abs=0.01)
    np.testing.assert_allclose(np.exp(verdict.log_p).sum(1), 1)
    q = np.exp(at_labels(verdict.log_p, y))
    np.testing.assert_allclose(verdict.wrong, p_wrong(q, verdict.share, classes), rtol=1e-9, atol=1e-12)
    assert (verdict.wrong[: round(share * 600)] > 0.5).mean() > 0.9
    assert (verdict.wrong[round(share * 600) :] > 0.5).sum() <= 2
    # The share of wrong labels is the mean of these probabilities, as in every mixture of highest likelihood.
    assert verdict.share == pytest.approx(p_wrong(q, verdict.share, classes).mean(), rel=1e-3)
    np.testing.assert_allclose(verdict.nll, -np.log(q))


def test_labels_as_they_are_given_are_right_ones_and_wrong_ones() -> None:
    logits, y = mislabelled(0.05, classes=3)
    verdict = judge_labels(logits, y)
    rows = np.array([0, 5, 500])
    q = np.exp(verdict.log_p[rows])
    expected = verdict.expected(rows)
    np.testing.assert_allclose(expected, (1 - verdict.share) * q + verdict.share * (1 - q) / 2)
    np.testing.assert_allclose(expected.sum(1), 1)


def test_the_class_that_is_suggested_is_the_likeliest_one_of_labels_that_are_probably_wrong() -> None:
    logits, y = mislabelled(0.05, classes=3)
    verdict = judge_labels(logits, y)
    called = np.flatnonzero(verdict.wrong > 0.5)
    assert len(called) > 20
    np.testing.assert_array_equal(verdict.suggested[called], logits[called].argmax(1))
    others = np.setdiff1d(np.arange(len(y)), called)
    assert (verdict.suggested[others] == -1).all()
    scores = verdict.scores
    np.testing.assert_array_equal(scores["label_wrong"], verdict.wrong)
    np.testing.assert_array_equal(scores["label_nll"], verdict.nll)
    np.testing.assert_array_equal(scores["temperature"], verdict.temperature)
    half = replace(verdict, wrong=np.full(len(y), 0.5), log_p=verdict.log_p)
    assert (half.suggested == -1).all()
    own = replace(verdict, wrong=np.ones(len(y)), y=verdict.log_p.argmax(1))
    assert (own.suggested == -1).all()


@together("hotter", [0.25, 1.0, 4.0])
def test_a_common_temperature_makes_the_logits_those_of_the_labels(hotter: float) -> None:
    """Labels that are drawn from logits: of logits that are so many times as large the temperature is that number."""
    rng = np.random.default_rng(2)
    z = 4 * rng.normal(size=(1500, 3))
    y = (np.exp(log_softmax(z, 1)).cumsum(1) > rng.random((1500, 1))).argmax(1)
    verdict = judge_labels(hotter * z, y)
    assert verdict.share == 0  # labels that are hard to predict are no wrong ones
    assert np.median(verdict.temperature) == pytest.approx(hotter, rel=0.1)
    np.testing.assert_allclose(verdict.log_p, log_softmax(hotter * z / verdict.temperature[:, None], 1))
    further = verdict.judge(hotter * z[:50], y[:50])
    assert further.temperature == pytest.approx(verdict.temperature[:50], rel=0.1)
    np.testing.assert_allclose(further.log_p, log_softmax(hotter * z[:50] / further.temperature[:, None], 1))
    np.testing.assert_allclose(further.wrong, p_wrong(np.exp(at_labels(further.log_p, y[:50])), 0.01, 3))


def test_a_temperature_per_row_follows_the_features_and_ignores_wrong_labels() -> None:
    rng = np.random.default_rng(3)
    x = rng.normal(size=(3000, 2))
    truth = rng.integers(0, 3, 3000)
    z = 5 * np.eye(3)[truth] + 1.5 * rng.normal(size=(3000, 3))
    temperature = np.where(x[:, 0] > 0, 3.0, 0.7)
    y = (np.exp(log_softmax(z, 1)).cumsum(1) > rng.random((3000, 1))).argmax(1)
    clean = judge_labels(z * temperature[:, None], y, x)
    assert np.corrcoef(clean.temperature, x[:, 0])[0, 1] > 0.9
    high, low = clean.temperature[x[:, 0] > 0.5].mean(), clean.temperature[x[:, 0] < -0.5].mean()
    assert high > 1.5 * low
    wrong = rng.random(3000) < 0.06
    soiled = judge_labels(z * temperature[:, None], np.where(wrong, (z.argmax(1) + 1) % 3, y), x)
    assert np.median(soiled.temperature / clean.temperature) == pytest.approx(1, abs=0.15)
    assert (soiled.wrong[wrong] > 0.5).mean() > 0.7


def test_labels_are_wrong_only_where_that_explains_them_better_by_two_nats() -> None:
    """Beside the likelihood of a temperature alone, and that of one and a share of wrong labels."""
    scale, share = np.geomspace(0.2, 3, 80)[:, None, None], np.geomspace(1e-4, 0.2, 30)[:, None]
    decided = []
    for count, seed in ((2, 0), (2, 2), (4, 0), (4, 3), (4, 5), (5, 1), (6, 5), (7, 1), (7, 3)):
        rng = np.random.default_rng([5, count, seed])
        z = 2.5 * rng.normal(size=(400, 3))
        y = (np.exp(log_softmax(z, 1)).cumsum(1) > rng.random((400, 1))).argmax(1)
        y[: count // 2] = z[: count // 2].argmin(1)
        q = np.exp(log_softmax(scale * z, 2))[:, np.arange(400), y]
        alone = np.log(q).sum(1).max()
        both = np.log((1 - share) * q[:, None] + share * (1 - q[:, None]) / 2).sum(2).max()
        if abs(both - alone - 2) > 0.3:  # the temperatures that are tried are a few percent apart
            decided.append(both - alone > 2)
            assert (judge_labels(z, y).share > 0) == decided[-1], (count, seed, both - alone)
    assert 3 <= sum(decided) <= len(decided) - 3


def test_no_label_is_called_wrong_where_more_than_15_percent_of_such_rows_would_be() -> None:
    logits, y = mislabelled(0.1, classes=3)
    verdict = judge_labels(logits, y)
    rest = np.linspace(0.005, 0.1, 60)  # the probability of the two other classes
    log_p = np.log(np.column_stack([1 - rest, rest / 2, rest / 2]))
    further = verdict.judge_calibrated(log_p, np.ones(60), np.ones(60, dtype=int))
    plain = p_wrong(rest / 2, verdict.share, 3)
    assert (plain > 0.5).all()
    accused = rest * (1 - verdict.share) + verdict.share * (1 - rest / 2)
    assert (accused > 0.15).any()
    assert (accused < 0.14).any()
    np.testing.assert_allclose(further.wrong, np.where(accused > 0.15, 0.5, plain))
    right = verdict.judge_calibrated(log_p, np.ones(60), np.zeros(60, dtype=int))
    np.testing.assert_allclose(right.wrong, p_wrong(1 - rest, verdict.share, 3))


@together(("share", "n", "too_many"), [(0.13, 1500, False), (0.16, 1500, True), (0.135, 300, True), (0.13, 300, False)])
def test_wrong_labels_are_told_as_long_as_they_are_surely_less_than_15_percent(
    share: float, n: int, too_many: bool
) -> None:
    """Surely is by one standard error: 1% of 1,500 labels, 2% of 300."""
    logits, y = mislabelled(share, n, classes=3)
    verdict = judge_labels(logits, y)
    assert verdict.share == pytest.approx(share, abs=0.008)
    assert verdict.too_many is too_many
    assert (verdict.wrong.max() <= 0.5) == too_many


def test_wrong_labels_are_not_told_where_predictions_differ_from_a_fifth_of_all() -> None:
    """A tenth of the labels are wrong, and the classes of some other rows cannot be told apart."""
    for unsure, too_many in ((0.1, False), (0.4, True)):
        rng = np.random.default_rng(7)
        logits, y = mislabelled(0.05, 2000, classes=3)
        blurred = np.flatnonzero((rng.random(2000) < unsure) & (np.arange(2000) > 200))
        logits[blurred] = 0.3 * rng.normal(size=(len(blurred), 3))
        verdict = judge_labels(logits, y)
        assert verdict.share < 0.1
        differ = (verdict.log_p.argmax(1) != y).mean()
        assert (differ > 0.2) == too_many
        assert verdict.too_many is too_many


def test_labels_that_cannot_be_predicted_have_the_shares_of_the_classes() -> None:
    rng = np.random.default_rng(8)
    y = rng.choice(3, 200, p=[0.7, 0.25, 0.05])
    verdict = judge_labels(rng.normal(size=(200, 3)), y)
    assert not verdict.judged
    assert verdict.share == 0
    assert verdict.too_many is False
    counts = np.bincount(y)
    # Jeffreys' prior: half a row more of each class.
    np.testing.assert_allclose(np.exp(verdict.log_p[17]), (counts + 0.5) / (200 + 1.5))
    for own in (verdict, verdict.judge(9 * np.eye(3)[[0, 1, 2, 2]], np.array([0, 1, 2, 0]))):
        np.testing.assert_array_equal(own.temperature, 1)
        assert not (own.wrong > 0).any()
        np.testing.assert_allclose(own.log_p, verdict.log_p[: len(own.y)])
        assert np.isnan(own.scores["label_wrong"]).all()
        assert np.isfinite(own.scores["label_nll"]).all()


def test_a_class_that_cannot_be_predicted_is_not_judged_though_the_others_are() -> None:
    rng = np.random.default_rng(9)
    side = rng.integers(0, 2, 1000)
    y = np.where(rng.random(1000) < 0.08, 2, side)
    y[:20] = 1 - side[:20]
    logits = 7 * np.eye(3)[side] + rng.normal(size=(1000, 3))
    verdict = judge_labels(logits, y)
    np.testing.assert_array_equal(verdict.predictable.classes, [True, True, False])
    assert not (verdict.wrong[y == 2] > 0).any()
    np.testing.assert_array_equal(np.isnan(verdict.scores["label_wrong"]), y == 2)
    assert (verdict.wrong[:20] > 0.5).all()


def test_other_probabilities_can_only_speak_for_a_label() -> None:
    logits, y = mislabelled(0.05, classes=3)
    verdict = judge_labels(logits, y)
    rows = np.array([0, 1, 2, 500])
    for_them = np.full((4, 3), 0.1)
    for_them[np.arange(4), y[rows]] = 0.8
    again = verdict.reconsider(rows, for_them)
    excused = p_wrong(np.full(4, 0.8), verdict.share, 3)
    np.testing.assert_allclose(again.wrong[rows], np.minimum(verdict.wrong[rows], excused))
    assert (again.wrong[:3] < 0.05).all()
    others = np.setdiff1d(np.arange(len(y)), rows)
    np.testing.assert_array_equal(again.wrong[others], verdict.wrong[others])
    against = verdict.reconsider(rows, np.where(for_them == 0.8, 1e-18, 0.5))
    np.testing.assert_array_equal(against.wrong, verdict.wrong)


def clean_labels() -> LabelVerdict:
    rng = np.random.default_rng(2)
    z = 4 * rng.normal(size=(1000, 3))
    return judge_labels(z, (np.exp(log_softmax(z, 1)).cumsum(1) > rng.random((1000, 1))).argmax(1))


def test_one_label_in_a_hundred_may_be_wrong_where_the_data_do_not_speak_for_more() -> None:
    verdict = clean_labels()
    assert verdict.share == 0
    q = np.exp(at_labels(verdict.log_p, verdict.y))
    np.testing.assert_allclose(verdict.wrong, p_wrong(q, 0.01, 3), rtol=1e-9)
    far = np.array([[1.0 - 2e-6, 1e-6, 1e-6]])
    named = verdict.judge_calibrated(np.log(far), np.ones(1), np.array([1]))
    assert named.wrong[0] == pytest.approx(p_wrong(1e-6, 0.01, 3))
    np.testing.assert_allclose(verdict.expected(np.array([3])), np.exp(verdict.log_p[[3]]))


# Targets.


def forecasts(seed: int = 0, n: int = 450, tail: float = 8.0) -> tuple[Array, Array, AsinhScale]:
    """Predictions and targets on a squashed scale, with noise that differs between rows."""
    rng = np.random.default_rng([1, seed])
    x = rng.normal(size=(n, 2))
    squash = AsinhScale(100.0, 20.0)
    mean = 1.2 * rng.normal(size=n)
    u = mean + 0.15 * np.exp(0.3 * x[:, 0]) * rng.standard_t(tail, size=n)
    return mean, u, squash


def log_t(residual: Array, df: float) -> Array:
    return stats.t.logpdf(residual, df)


def predicted(verdict: TargetVerdict) -> bool:
    """Whether targets are judged by predictions, or else by their median."""
    return verdict.judged


def log_odds(verdict: TargetVerdict) -> Array:
    """The logarithm of the odds that each target is wrong, as the docstrings say."""
    u, mean, scale, squash = verdict.u, verdict.mean, verdict.scale, verdict.squash
    y = squash.back(u)
    wrong = 0.7 / 20 + 0.1 * np.exp(np.interp(u, *verdict.others))
    for factor in FACTORS:
        mended = squash(y * factor)
        density = np.exp(log_t((mended - mean) / scale, verdict.df)) / scale
        wrong += np.where(np.abs(mended - u) > 3 * scale, 0.2 / len(FACTORS) * density, 0.0)
    right = log_t((u - mean) / scale, verdict.df) - np.log(scale)
    if predicted(verdict):
        centre, reach = verdict.limits
        right -= 2 * np.log(np.maximum(np.abs(y - centre) / reach, 1.0))
    return np.log(max(verdict.share, 0.01)) - np.log1p(-verdict.share) + np.log(wrong) - right


@together("case", ["plain", "far out", "median alone"])
def test_the_odds_are_those_of_the_model(case: str) -> None:
    mean, u, squash = forecasts()
    if case == "far out":
        u[:6] = [6.0, -6.0, 7.0, 3.5, 8.0, -4.0]
    if case == "median alone":
        mean = np.zeros_like(mean)
    verdict = judge_targets(mean, u, squash=squash)
    assert predicted(verdict) is (case != "median alone")
    again = verdict.judge(verdict.u, verdict.mean, verdict.scale)  # without what is found by slips
    np.testing.assert_allclose(again.odds, log_odds(verdict), rtol=1e-9, atol=1e-9)
    assert (verdict.odds >= again.odds - 1e-12).all()
    np.testing.assert_allclose(verdict.wrong, expit(verdict.odds))
    np.testing.assert_allclose(verdict.scores["expected"], squash.back(verdict.mean))
    np.testing.assert_array_equal(verdict.scores["target_nll"], verdict.nll)
    if case == "far out":
        assert (verdict.wrong[:6] > 0.9).all()
    assert (verdict.wrong[6:] > 0.5).sum() <= 2


def test_the_density_of_any_rows_target_is_the_mean_of_all_forecasts() -> None:
    mean, u, squash = forecasts()
    verdict = judge_targets(mean, u, squash=squash)
    values, logs = verdict.others
    assert values[0] == u.min()
    assert values[-1] == u.max()
    assert len(values) > 200
    density = np.exp(log_t((values[:, None] - verdict.mean) / verdict.scale, verdict.df)) / verdict.scale
    np.testing.assert_allclose(logs, np.log(density.mean(1)), rtol=1e-9)
    np.testing.assert_allclose(np.interp(np.median(u), values, logs), logs[len(logs) // 2], atol=0.1)


def test_targets_are_expected_up_to_the_furthest_forecast_or_as_far_as_all_but_one_in_twenty() -> None:
    mean, u, squash = forecasts()
    y = squash.back(u)
    centre, reach = judge_targets(mean, u, squash=squash).limits
    assert centre == np.median(y)
    assert reach == pytest.approx(np.abs(squash.back(mean) - centre).max())
    modest = 0.3 * mean
    _, reach = judge_targets(modest, u, squash=squash).limits
    assert reach == pytest.approx(np.quantile(np.abs(y - centre), 0.95))


def likelihood_of(residual: Array, df: float, factor: float, share: float) -> float:
    """Of residuals in units of their scales that are Student's t, or with a probability anywhere in 20 units."""
    density = np.exp(log_t(residual / factor, df)) / factor
    return float(np.log((1 - share) * density + share / 20).sum())


@together(("tail", "wrong"), [(2.5, 0), (4.0, 15), (30.0, 0), (30.0, 20), (8.0, 8)])
def test_tails_scales_and_the_share_of_wrong_targets_are_the_likeliest(tail: float, wrong: int) -> None:
    rng = np.random.default_rng(5)
    u = rng.standard_t(tail, size=450)
    u[:wrong] = rng.uniform(-10, 10, wrong)
    verdict = judge_targets(rng.normal(size=450), u)
    assert not predicted(verdict)  # all scales are alike
    residual = u - np.median(u)
    own = likelihood_of(residual, verdict.df, verdict.factor, verdict.share)
    for factor in (0.93, 1.07):
        assert own > likelihood_of(residual, verdict.df, verdict.factor * factor, verdict.share)
    for share in (max(verdict.share - 0.01, 1e-6), verdict.share + 0.01):
        assert own > likelihood_of(residual, verdict.df, verdict.factor, share) - 1e-3
    for df in (2.5, 4.0, 8.0, 30.0):
        for factor in np.linspace(0.5, 1.5, 11):
            others = max(likelihood_of(residual, df, factor, share) for share in (1e-6, 0.02, 0.05))
            assert own > others - 0.2, (df, factor)
    if wrong == 20:
        assert verdict.df == 30
        assert verdict.share == pytest.approx(20 / 450, abs=0.02)


def test_scales_follow_the_prediction_and_those_of_models_count_as_much() -> None:
    rng = np.random.default_rng(6)
    mean = rng.normal(size=1500)
    truth = 0.2 * np.exp(0.5 * mean)
    u = mean + truth * rng.normal(size=1500)
    verdict = judge_targets(mean, u)
    np.testing.assert_allclose(np.median(verdict.scale / truth), 1, atol=0.15)
    assert np.corrcoef(np.log(verdict.scale), np.log(truth))[0, 1] > 0.95
    one = judge_targets(mean, u, np.ones(1500))
    ratio = np.log(one.scale / one.factor) / np.log(verdict.scale / verdict.factor)
    np.testing.assert_allclose(ratio, 0.5)
    expected, scale = verdict.forecast(mean[:6], None)
    np.testing.assert_array_equal(expected, mean[:6])
    np.testing.assert_allclose(scale, verdict.scale[:6])
    given = np.array([0.0, 1.0, 2.0, 3.0, 4.0, 5.0])
    _, joint = verdict.forecast(mean[:6], given)
    np.testing.assert_allclose(joint, np.sqrt(scale * verdict.factor * np.maximum(given, 2.5e-9)))


def test_a_single_residual_has_no_say_in_the_scales() -> None:
    mean, u, _ = forecasts()
    far, further = u.copy(), u.copy()
    far[3], further[3] = 20.0, 200.0
    one, other = judge_targets(mean, far), judge_targets(mean, further)
    np.testing.assert_allclose(other.scale, one.scale, rtol=0.01)


@together("share", [0.6, 1.0])
def test_forecasts_that_are_exact_for_many_rows(share: float) -> None:
    rng = np.random.default_rng(10)
    mean = rng.normal(size=400)
    u = np.where(rng.random(400) < share, mean, mean + rng.normal(size=400))
    verdict = judge_targets(mean, u)
    assert np.isfinite(verdict.odds).all()
    assert (verdict.scale > 0).all()
    if share == 1:
        assert (verdict.wrong < 0.5).all()


def test_targets_that_cannot_be_predicted_are_judged_by_the_median() -> None:
    rng = np.random.default_rng(11)
    u = rng.normal(3, 0.1, size=500)
    u[:5] = 30.0
    verdict = judge_targets(rng.normal(size=500), u)
    assert not predicted(verdict)
    np.testing.assert_array_equal(verdict.mean, np.median(u))
    np.testing.assert_allclose(verdict.scale, verdict.factor)
    assert verdict.factor == pytest.approx(0.1, rel=0.2)
    assert verdict.far == 0.01
    assert (verdict.wrong[:5] > 0.5).all()
    expected, scale = verdict.forecast(np.ones(3), None)
    np.testing.assert_array_equal(expected, np.median(u))
    np.testing.assert_allclose(scale, verdict.factor)


@together(("by_forecasts", "share", "too_many"), [(True, 0.13, False), (True, 0.17, True), (False, 0.015, False)])
def test_where_too_many_targets_are_far_out_none_is_called_wrong(
    by_forecasts: bool, share: float, too_many: bool
) -> None:
    """15% of targets that are predicted, 2% of others: more are no errors, but how targets are spread."""
    rng = np.random.default_rng(12)
    mean = rng.normal(size=1000)
    u = (mean if by_forecasts else 0.0) + 0.05 * rng.normal(size=1000)
    count = round(share * 1000)
    u[:count] += rng.uniform(5, 9, count)
    verdict = judge_targets(mean, u)
    assert predicted(verdict) is by_forecasts
    assert verdict.far == pytest.approx(share, abs=0.003)
    assert verdict.too_many is too_many
    assert verdict.wrong.max() == (0.5 if too_many else pytest.approx(1, abs=0.1))
    most = 0.15 if by_forecasts else 0.02
    assert replace(verdict, far=1.02 * most).too_many
    assert not replace(verdict, far=0.98 * most).too_many


def test_a_forecast_that_deviates_further_excuses_a_target() -> None:
    mean, u, squash = forecasts()
    u[:6] = [6.0, -6.0, 7.0, 3.5, 8.0, -4.0]
    verdict = judge_targets(mean, u, squash=squash)
    deviation = np.zeros(450)
    deviation[:3] = [9.0, 0.5, 0.01]
    deviation[10] = 2.0
    exact = np.zeros(450, dtype=bool)
    exact[[4, 20]] = True
    again = verdict.reconsider(deviation, exact)
    np.testing.assert_allclose(again.scale, np.sqrt(verdict.scale**2 + deviation**2))
    wider = verdict.judge(u, mean, again.scale).odds
    expected = np.where(deviation > 0, np.minimum(verdict.odds, wider), verdict.odds)
    assert again.odds[0] < verdict.odds[0] - 1
    expected[[4, 20]] = np.minimum(expected[[4, 20]], -3)
    np.testing.assert_allclose(again.odds, expected)
    assert again.odds[4] == -3


def test_a_target_that_another_unit_mends_is_wrong_unless_chance_explains_it() -> None:
    rng = np.random.default_rng(13)
    n, squash = 400, AsinhScale(100.0, 20.0)
    expected = 100 + 25 * rng.normal(size=n)
    y = expected + 4 * rng.normal(size=n)
    expected[:6] = 100.0
    y[:6] = expected[:6] * [10, 0.1, 1000, -1, 10, 0.01]
    y[6:9] = [np.sqrt(10) * 100, 500, -20]
    mean, u = squash(expected), squash(y)
    verdict = judge_targets(mean, u, squash=squash)
    plain = verdict.judge(u, mean, verdict.scale)
    possible, scale = ColumnLimits.of(squash.back(u)), verdict.scale
    gains = np.zeros(n)
    for factor in FACTORS:
        mended = squash(y * factor)
        fits = (np.abs(mended - mean) < 3 * scale) & (np.abs(mended - u) > 3 * scale) & possible(y * factor)
        fits &= np.abs(u - mean) > 2 * scale
        gain = log_t((mended - mean) / scale, verdict.df) - log_t((u - mean) / scale, verdict.df)
        gain += possible.nats(y) - possible.nats(y * factor)
        gains = np.maximum(gains, np.where(fits, gain, 0.0))
    raised = verdict.odds > plain.odds + 1e-9
    assert (gains[:6] > 4).all()
    assert (verdict.wrong[:6] > 0.8).all()  # at most a fifth of such rows are false alarms
    assert (verdict.odds >= plain.odds).all()
    assert (gains[raised] > 3).all()
    assert raised.sum() <= 8
    # Rows that gain more are no less likely to be wrong by that.
    order = np.flatnonzero(raised)[np.argsort(gains[raised])]
    assert (np.diff(verdict.odds[order]) >= -1e-9).all() or len(order) < 2
    # Half a power of ten is no unit, and a row beyond all that another unit would bring near.
    np.testing.assert_array_equal(verdict.odds[6:9], plain.odds[6:9])


@together("count", [2, 3, 8])
def test_a_slip_is_as_sure_as_such_gains_are_rare(count: int) -> None:
    """Of whole numbers, few of them negative: half a row is expected by chance, and a fifth may be false alarms."""
    rng = np.random.default_rng(14)
    n, squash = 900, AsinhScale(300.0, 60.0)
    expected = rng.choice([50.0, 200.0, 300.0, 700.0], n)
    y = expected.copy()
    y[:count] = (expected * rng.choice([0.1, 10.0, -1.0], n))[:count]
    y[-1], expected[-1] = -40, -40
    y[-4:-1], expected[-4:-1] = 3000, 200  # a tenth is nearer, not near
    scale = np.full(n, 0.05)
    law = judge_targets(rng.normal(size=40), rng.normal(size=40), squash=squash)
    unsure = np.full(n, -30.0)
    verdict = replace(law, u=squash(y), mean=squash(expected), scale=scale, df=4.0, odds=unsure)
    possible = ColumnLimits.of(y)
    gains = np.zeros(n)
    for row in range(n):
        before = -log_t((verdict.u[row] - verdict.mean[row]) / 0.05, 4.0) + possible.nats(y[[row]])[0]
        for factor in FACTORS if abs(verdict.u[row] - verdict.mean[row]) > 0.1 else ():
            new = np.array([factor * y[row]])
            moved, off = abs(squash(new)[0] - verdict.u[row]), abs(squash(new)[0] - verdict.mean[row])
            if moved > 0.15 and off < 0.15 and possible(new)[0]:
                after = -log_t(off / 0.05, 4.0) + possible.nats(new)[0]
                gains[row] = max(gains[row], before - after)
    np.testing.assert_array_equal(gains > 0, np.arange(n) < count)
    false = by_chance(gains)
    assert false[:count].max() == pytest.approx(0.5 / count, rel=0.5)
    surely = -np.log(false) + np.log1p(-np.minimum(false, 1 - 1e-12))
    slipped = verdict.with_slips()
    np.testing.assert_allclose(slipped.odds, np.where(false <= 0.2, np.maximum(surely, -30), -30), rtol=1e-9)
    assert (slipped.odds[:count] > 0).all() == (count > 2)
    sure = replace(verdict, odds=np.full(n, 40.0))
    np.testing.assert_array_equal(sure.with_slips().odds, 40.0)


def test_targets_are_far_out_if_they_are_rather_wrong_than_right() -> None:
    mean, u, squash = forecasts()
    verdict = judge_targets(mean, u, squash=squash)
    odds = np.linspace(-4, 0, len(u))
    odds[:9] = 0.5
    assert replace(verdict, odds=odds).settled().far == 9 / len(u)
    assert verdict.judge(u, mean, verdict.scale).far == verdict.far
    limit = replace(verdict, far=0.15, odds=np.full(len(u), 50.0))
    assert not limit.too_many
    np.testing.assert_allclose(limit.wrong, 1.0)
    assert replace(verdict, far=0.16, odds=odds).wrong.max() == 0.5


def test_errors_are_students_t() -> None:
    residual, scale = np.array([-3.0, 0.0, 0.5, 20.0]), np.array([0.5, 1.0, 2.0, 3.0])
    for df in (2.5, 30.0):
        np.testing.assert_allclose(student_nll(residual, scale, df), -stats.t(df, scale=scale).logpdf(residual))
