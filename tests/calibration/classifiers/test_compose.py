"""Calibrators in a row, and the choice among them."""

import pickle
from typing import ClassVar

import numpy as np
import pytest
import torch
from joblib import parallel_config
from scipy.special import log_softmax
from sklearn.base import clone

from likely._rows.contents import fold_numbers, splits_of
from likely.calibration._choice import AutoCalibrator, compose, default_candidates
from likely.calibration._scaling import StructuredMatrixScaling, VectorScaling
from likely.calibration._temperature import FeatureTemperature, GlobalTemperature, LinearTemperature
from pairwise import together


def mixed(n=1500, seed=0):
    """Logits too fond of class 0, and noisier where the first feature is high."""
    rng = np.random.default_rng(seed)
    y, features = rng.integers(0, 3, n), rng.normal(size=(n, 5))
    noise = np.exp(features[:, :1])
    return 3 * np.eye(3)[y] + noise * rng.normal(size=(n, 3)) + [2, 0, 0], y, features


def nll(calibrator, logits, y, features=None):
    log_p = log_softmax(np.asarray(calibrator.transform(logits, features), dtype=float), axis=1)
    return -log_p[np.arange(len(y)), y].mean()


def test_both_parts_count():
    (logits, y, features), (fresh, labels, told) = mixed(), mixed(seed=1)
    both = compose(VectorScaling(), FeatureTemperature()).fit(logits, y, features)
    vs, lfs = VectorScaling().fit(logits, y), FeatureTemperature().fit(logits, y, features)
    assert nll(both, fresh, labels, told) < min(nll(vs, fresh, labels), nll(lfs, fresh, labels, told)) - 0.02


def test_without_folds_a_step_sees_what_the_one_before_gives():
    logits, y, features = mixed(400)
    both = compose(VectorScaling(), FeatureTemperature(), cv=None).fit(logits, y, features)
    first = VectorScaling().fit(logits, y)
    second = FeatureTemperature().fit(first.transform(logits), y, features)
    by_hand = second.transform(first.transform(logits), features)
    np.testing.assert_allclose(both.transform(logits, features), by_hand, atol=1e-6)


def test_folds_keep_an_overfit_step_honest():
    (logits, y, _), (fresh, labels, _) = mixed(60), mixed(2000, seed=1)
    steps = [StructuredMatrixScaling(penalty=1e-3), GlobalTemperature()]
    honest, naive = (nll(compose(*steps, cv=cv).fit(logits, y), fresh, labels) for cv in (5, None))
    assert honest < naive


def test_many_logits_are_not_kept(monkeypatch):
    logits, y, features = mixed(400)
    make = lambda: compose(VectorScaling(), FeatureTemperature(), cv=None)  # noqa: E731
    kept = make().fit(logits, y, features).transform(logits, features)
    monkeypatch.setattr("likely.calibration._calibrator.KEPT_NUMBERS", 0)
    np.testing.assert_allclose(make().fit(logits, y, features).transform(logits, features), kept, atol=1e-6)


def test_temperatures_multiply():
    logits, y, features = mixed(400)
    both = compose(GlobalTemperature(), FeatureTemperature()).fit(logits, y, features)
    first, second = both.fitted_
    calibrated = first.transform(logits)
    temperature = first.temperature(logits) * second.temperature(calibrated, features)
    np.testing.assert_allclose(both.transform(logits, features), logits / temperature[:, None], rtol=1e-6)
    np.testing.assert_array_equal(both.predict(logits, features), logits.argmax(1))
    with pytest.raises(AttributeError, match="no temperature"):
        compose(VectorScaling(), GlobalTemperature()).fit(logits, y).temperature(logits)


def test_parameters_nest():
    both = compose(VectorScaling(), LinearTemperature(), LinearTemperature())
    names = [name for name, _ in both.steps]
    assert names == ["vectorscaling", "lineartemperature-1", "lineartemperature-2"]
    both.set_params(vectorscaling__penalty=3.0)
    copy = clone(both)
    assert copy.get_params()["vectorscaling__penalty"] == 3.0
    assert copy.steps[0][1] is not both.steps[0][1]
    assert "VectorScaling(penalty=3.0)" in repr(both)


def test_steps_are_left_alone_and_fits_pickle():
    logits, y, _ = mixed(200)
    step = VectorScaling()
    both = compose(step, LinearTemperature()).fit(logits, y)
    assert not hasattr(step, "n_classes_")
    again = pickle.loads(pickle.dumps(both))
    np.testing.assert_array_equal(again.transform(logits), both.transform(logits))


def test_inputs_belong_to_the_whole():
    logits, y, _ = mixed(200)
    probabilities = torch.softmax(torch.as_tensor(logits), 1)
    answer = compose(VectorScaling(), LinearTemperature()).set_params(inputs="probabilities").fit(probabilities, y)
    assert torch.isfinite(answer.predict_proba(probabilities)).all()
    with pytest.raises(ValueError, match="set inputs= of the composition"):
        compose(VectorScaling(inputs="probabilities")).fit(logits, y)
    with pytest.raises(ValueError, match="at least one"):
        compose().fit(logits, y)


def test_weights_reach_every_step():
    logits, y, _ = mixed(300)
    weight = np.r_[np.ones(150), np.zeros(150)]
    part = compose(VectorScaling(), LinearTemperature(), cv=None).fit(logits[:150], y[:150])
    whole = compose(VectorScaling(), LinearTemperature(), cv=None).fit(logits, y, sample_weight=weight)
    np.testing.assert_allclose(whole.predict_proba(logits), part.predict_proba(logits), atol=1e-4)


def test_folds_do_not_repeat_the_class_frequencies_of_the_rows_fitted():
    folds = [held for _, held in splits_of(fold_numbers(np.arange(63, dtype=np.uint64), 5))]
    assert sorted(np.concatenate(folds)) == list(range(63))
    # Labels of pure chance: a bias that follows their frequencies must not look good on rows held out.
    rng, gains = np.random.default_rng(0), []
    for _ in range(10):
        logits, y = 0.1 * rng.normal(size=(120, 20)), rng.integers(0, 20, 120)
        two = {"GS": GlobalTemperature(), "VS": VectorScaling(penalty=1.0)}
        scores = AutoCalibrator(two).fit(logits, y).scores_
        gains.append(scores["GS"] - scores["VS"])
    assert np.mean(gains) < 0


def test_steps_that_chains_share_are_fitted_once(monkeypatch):
    logits, y, _ = mixed(200)
    fits = []
    fit = VectorScaling._fit
    monkeypatch.setattr(VectorScaling, "_fit", lambda self, *rows: fits.append(len(rows[1])) or fit(self, *rows))
    three = {
        "VS": VectorScaling(),
        "VS → LS": compose(VectorScaling(), LinearTemperature()),
        "VS → GS": compose(VectorScaling(), GlobalTemperature()),
    }
    auto = AutoCalibrator(three, slack=np.inf).fit(logits, y)
    assert sorted(fits) == [160] * 5 + [200]
    for name, calibrator in three.items():
        alone = calibrator.fit(logits, y).transform(logits)
        np.testing.assert_allclose(auto.members_[name].transform(logits), alone, atol=1e-9)


def test_auto_finds_what_is_there():
    (logits, y, features), (fresh, labels, told) = mixed(300), mixed(seed=1)
    auto = AutoCalibrator(cv=2).fit(logits, y, features)
    assert nll(auto, fresh, labels, told) < nll(GlobalTemperature().fit(logits, y), fresh, labels) - 0.05
    assert set(auto.scores_) == set(default_candidates(3, features=True))
    assert auto.scores_[auto.name_] == min(auto.scores_.values())
    assert set(auto.members_) == {name for name, errors in auto.behind_.items() if errors <= 2}
    assert auto.scores_[auto.name_] == pytest.approx(nll(auto, fresh, labels, told), abs=0.2)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(auto)).transform(fresh, told), auto.transform(fresh, told))


def test_a_candidate_is_behind_by_standard_errors_of_the_difference():
    rng = np.random.default_rng(1)
    logits = 2 * rng.normal(size=(300, 4))
    y = (logits + rng.gumbel(size=logits.shape)).argmax(1)  # calibrated as they are
    few = {"GS": GlobalTemperature(), "VS": VectorScaling(penalty=None)}
    auto = AutoCalibrator(few, random_state=0).fit(logits, y)
    assert auto.name_ == "GS"
    assert 0 < auto.behind_["VS"] < 3  # eight parameters of which nothing is to be learned


def test_auto_repeats_itself_on_any_number_of_workers():
    logits, y, features = mixed(200)
    few = {"GS": GlobalTemperature(), "LFS": FeatureTemperature()}
    with parallel_config(backend="threading"):
        first, again = (AutoCalibrator(few, n_jobs=jobs).fit(logits, y, features) for jobs in (None, 2))
    assert first.scores_ == pytest.approx(again.scores_)


def test_auto_averages_what_it_cannot_tell_apart():
    logits, y, features = mixed(100)
    few = {"GS": GlobalTemperature(), "LFS": FeatureTemperature()}
    both = AutoCalibrator(few, slack=np.inf).fit(logits, y, features)
    alone = [calibrator.fit(logits, y, features).transform(logits, features) for calibrator in few.values()]
    np.testing.assert_allclose(both.transform(logits, features), np.mean(alone, axis=0))
    assert len(AutoCalibrator(few, slack=0).fit(logits, y, features).members_) == 1


def test_some_of_many_rows_choose(monkeypatch):
    logits, y, features = mixed(600)
    monkeypatch.setattr("likely.calibration._calibrator.KEPT_NUMBERS", 900)
    few = {"GS": GlobalTemperature(), "VS → LFS": compose(VectorScaling(), FeatureTemperature(), cv=None)}
    auto = AutoCalibrator(few).fit(logits, y, features)
    assert list(auto.members_) == ["VS → LFS"]
    whole = few["VS → LFS"].fit(logits, y, features).transform(logits, features)
    np.testing.assert_allclose(auto.transform(logits, features), whole)


def test_auto_takes_candidates():
    logits, y, features = mixed()
    only = AutoCalibrator({"LFS": FeatureTemperature(), "GS": GlobalTemperature()}).fit(logits, y, features)
    assert list(only.members_) == ["LFS"]
    np.testing.assert_array_equal(only.predict(logits, features), logits.argmax(1))
    expected = FeatureTemperature().fit(logits, y, features).temperature(logits, features)
    np.testing.assert_allclose(only.members_["LFS"].temperature(logits, features), expected)
    with pytest.raises(ValueError, match="cv must be"):
        AutoCalibrator(cv=1).fit(logits, y)
    with pytest.raises(TypeError, match="candidates must be a dictionary from names to calibrators"):
        AutoCalibrator(["global"]).fit(logits, y)


class Counted(GlobalTemperature):
    """A temperature of one that notes the number of rows of each fit."""

    rows: ClassVar[list[int]] = []

    def _fit(self, logits, y, features, weight):
        self.rows.append(len(y))
        self.temperature_ = 1.0


@together(("n", "sizes"), [(10, [8] * 5), (6, [4] * 3), (4, [2] * 2), (3, [])])
def test_folds_are_as_many_as_leave_two_rows_in_each(n, sizes):
    """Of three rows or fewer none are held out."""
    logits, y, _ = mixed(10)
    Counted.rows.clear()
    auto = AutoCalibrator({"GS": Counted()}, cv=5).fit(logits[:n], y[:n])
    assert Counted.rows == [*sizes, n]  # all rows at last
    assert list(auto.members_) == ["GS"]
    assert list(auto.scores_) == (["GS"] if sizes else [])


def test_auto_takes_every_kind_of_random_state():
    logits, y, _ = mixed(60)
    few = {"GS": GlobalTemperature(), "LS": LinearTemperature()}
    first, again = (AutoCalibrator(few, random_state=np.random.RandomState(3)).fit(logits, y) for _ in range(2))
    assert first.scores_ == again.scores_
    assert AutoCalibrator(few, random_state=None).fit(logits, y).name_ in few


@pytest.mark.parametrize("case", ["two rows", "one class", "ruled out"])
def test_auto_survives_hard_input(case):
    logits, y, _ = mixed(30)
    if case == "two rows":
        logits, y = logits[:2], y[:2]
    elif case == "one class":
        y = np.zeros_like(y)
    else:
        logits[np.arange(3), y[:3]] = -np.inf
    assert np.isfinite(AutoCalibrator(cv=2).fit(logits, y, sample_weight=np.ones(len(y))).predict_proba(logits)).all()
