"""CalibratedClassifier: scikit-learn's own checks, every way of fitting, and logits from every kind of classifier."""

import pickle

import joblib
import numpy as np
import pytest
import sklearn
from sklearn.base import clone
from sklearn.datasets import load_digits, make_classification
from sklearn.ensemble import RandomForestClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.model_selection import GroupKFold, KFold, StratifiedKFold, cross_val_predict
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, LinearSVC
from sklearn.tree import DecisionTreeClassifier

from likely.calibration import CalibratedClassifier, FeatureTemperature, GlobalTemperature, LinearTemperature
from likely.calibration._choice import METHODS
from pairwise import together
from scikit_learn_checks import meets_all_checks


def test_scikit_learn_checks() -> None:
    meets_all_checks(CalibratedClassifier(LogisticRegression(C=1), method="global", cv=3))


@pytest.fixture(scope="module")
def data():
    X, y = make_classification(1200, 12, n_informative=6, n_classes=3, class_sep=0.7, random_state=0)
    names = np.array(["ant", "bee", "cow"])
    return X[:800], names[y[:800]], X[800:], names[y[800:]]


@pytest.mark.parametrize("method", ["global", "linear", GlobalTemperature()])
def test_it_calibrates_an_overconfident_classifier(data, method) -> None:
    X, y, X_test, y_test = data
    plain = GaussianNB().fit(X, y)
    calibrated = CalibratedClassifier(GaussianNB(), method).fit(X, y)
    probability = calibrated.predict_proba(X_test)
    np.testing.assert_allclose(probability.sum(1), 1)
    assert log_loss(y_test, probability) < log_loss(y_test, plain.predict_proba(X_test)) - 0.01
    # The estimator is fitted on all rows again, and a temperature does not change which class comes first.
    assert (calibrated.predict(X_test) == plain.predict(X_test)).all()
    assert (calibrated.temperature(X_test) > 1).mean() > 0.9


@pytest.mark.parametrize("method", [name for name in METHODS if name != "feature"])
def test_every_method_by_its_name(data, method: str) -> None:
    X, y, X_test, y_test = data
    calibrated = CalibratedClassifier(GaussianNB(), method, cv=3).fit(X[:300], y[:300])
    assert type(calibrated.calibrator_) is METHODS[method]
    assert log_loss(y_test, calibrated.predict_proba(X_test)) < np.log(3)


def test_cross_fitting_is_what_it_says(data) -> None:
    X, y, X_test, _ = data
    cv = StratifiedKFold(4)  # a number would deal the rows by what they hold
    calibrated = CalibratedClassifier(LogisticRegression(), "global", cv=cv).fit(X, y)
    logits = cross_val_predict(LogisticRegression(), X, y, cv=cv, method="decision_function")
    by_hand = GlobalTemperature().fit(logits, np.unique(y, return_inverse=True)[1])
    assert calibrated.calibrator_.temperature_ == pytest.approx(by_hand.temperature_, rel=1e-6)
    full = LogisticRegression().fit(X, y)
    np.testing.assert_allclose(
        calibrated.predict_proba(X_test), by_hand.predict_proba(full.decision_function(X_test)), rtol=1e-5
    )


@pytest.mark.parametrize("declare", ["frozen", "prefit"])
def test_a_fitted_estimator_is_left_alone(data, declare: str) -> None:
    X, y, X_test, _ = data
    fitted = GaussianNB().fit(X[:400], y[:400])
    before = pickle.dumps(fitted)
    wrapped = (
        CalibratedClassifier(FrozenEstimator(fitted), "global")
        if declare == "frozen"
        else CalibratedClassifier(fitted, "global", cv="prefit")
    )
    wrapped.fit(X[400:], y[400:])
    assert pickle.dumps(fitted) == before
    by_hand = GlobalTemperature(inputs="probabilities")
    by_hand.fit(fitted.predict_proba(X[400:]), np.searchsorted(fitted.classes_, y[400:]))
    np.testing.assert_allclose(
        wrapped.predict_proba(X_test), by_hand.predict_proba(fitted.predict_proba(X_test)), atol=1e-6
    )
    with pytest.raises(ValueError, match=r"labels the estimator was not fitted on: \['dog'\]"):
        wrapped.fit(X[:2], np.array(["dog", "ant"]))


def test_prefit_needs_a_fitted_estimator(data) -> None:
    with pytest.raises(sklearn.exceptions.NotFittedError):
        CalibratedClassifier(GaussianNB(), "global", cv="prefit").fit(*data[:2])


@pytest.mark.parametrize(
    "estimator",
    [
        LinearSVC(),
        SVC(decision_function_shape="ovr"),
        RandomForestClassifier(20, random_state=0),
        KNeighborsClassifier(5),
        make_pipeline(StandardScaler(), LogisticRegression()),
    ],
    ids=lambda estimator: type(estimator).__name__,
)
@together("labels", [(0, 1), (False, True), ("no", "yes"), (2.0, 7.0), (0, 1, 2)], ids=str)
def test_any_classifier_and_any_labels(data, estimator, labels) -> None:
    X, y = data[0][:300], np.array(labels)[np.searchsorted(["ant", "bee", "cow"], data[1][:300]) % len(labels)]
    calibrated = CalibratedClassifier(estimator, "global", cv=3).fit(X, y)
    assert calibrated.classes_.tolist() == sorted(labels)
    assert calibrated.predict_proba(X).shape == (300, len(labels))
    assert np.isin(calibrated.predict(X), y).all()
    assert np.mean(calibrated.predict(X) == y) > 0.5


def test_a_binary_score_is_the_difference_of_two_logits(data) -> None:
    X, y = data[0], data[1] == "bee"
    fitted = LogisticRegression().fit(X, y)
    calibrated = CalibratedClassifier(fitted, "global", cv="prefit").fit(X, y)
    slope = 1 / calibrated.calibrator_.temperature_
    np.testing.assert_allclose(
        calibrated.predict_proba(X)[:, 1], 1 / (1 + np.exp(-slope * fitted.decision_function(X))), rtol=1e-5
    )


def test_zeros_of_a_forest_do_not_blow_the_temperature_up() -> None:
    X, y = load_digits(return_X_y=True)
    forest = RandomForestClassifier(30, random_state=0)
    calibrated = CalibratedClassifier(forest, "global", cv=3).fit(X[:900], y[:900])
    plain = log_loss(y[900:], clone(forest).fit(X[:900], y[:900]).predict_proba(X[900:]))
    assert log_loss(y[900:], calibrated.predict_proba(X[900:])) < 0.9 * plain
    assert 0.2 < calibrated.calibrator_.temperature_ < 2


def test_one_vs_one_scores_fall_back_to_probabilities_or_say_so(data) -> None:
    X, y = load_digits(return_X_y=True)
    with pytest.raises(ValueError, match="neither predict_proba nor a decision_function"):
        CalibratedClassifier(SVC(decision_function_shape="ovo"), "global", cv=2).fit(X[:300], y[:300])


def test_features_come_from_a_function_of_the_inputs(data) -> None:
    X, y, X_test, _ = data
    calibrated = CalibratedClassifier(GaussianNB(), FeatureTemperature(), features=lambda X: X[:, :3]).fit(X, y)
    assert len(calibrated.calibrator_.solution_.coef) == 3
    assert calibrated.temperature(X_test).shape == (400,)
    with pytest.raises(ValueError, match="needs features"):
        CalibratedClassifier(GaussianNB(), "feature").fit(X, y)


def test_weights_reach_the_estimator_and_the_calibrator(data) -> None:
    X, y, X_test, _ = data
    weight = np.random.default_rng(0).integers(0, 3, len(y)).astype(float)
    fitted = GaussianNB().fit(X, y)
    weighted = CalibratedClassifier(fitted, "global", cv="prefit").fit(X, y, sample_weight=weight)
    repeated = CalibratedClassifier(fitted, "global", cv="prefit")
    repeated.fit(np.repeat(X, weight.astype(int), 0), np.repeat(y, weight.astype(int)))
    np.testing.assert_allclose(weighted.predict_proba(X_test), repeated.predict_proba(X_test), atol=1e-6)
    both = CalibratedClassifier(GaussianNB(), "global").fit(X, y, sample_weight=weight)
    np.testing.assert_allclose(both.estimator_.theta_, GaussianNB().fit(X, y, weight).theta_)
    with pytest.warns(UserWarning, match="takes no sample_weight"):
        CalibratedClassifier(KNeighborsClassifier(), "global").fit(X, y, sample_weight=weight + 1)


def test_a_fold_without_a_class_is_named(data) -> None:
    X, y = data[0], np.sort(data[1])
    with pytest.raises(ValueError, match="training rows of a fold hold no class 'cow'"):
        CalibratedClassifier(GaussianNB(), "global", cv=KFold(3)).fit(X[:, :2], y)
    for rows, weight in ((slice(5), None), (slice(None), np.where(y == "ant", 1.0, 0.0))):
        with pytest.raises(ValueError, match="one class"):
            CalibratedClassifier(GaussianNB(), "global").fit(X[rows], y[rows], sample_weight=weight)


def test_a_wrong_method_is_named(data) -> None:
    with pytest.raises(ValueError, match="method must be a Calibrator or one of auto, global"):
        CalibratedClassifier(GaussianNB(), "gobal").fit(*data[:2])
    with pytest.raises(ValueError, match="inputs='logits'"):
        CalibratedClassifier(GaussianNB(), GlobalTemperature(inputs="probabilities")).fit(*data[:2])


def test_it_clones_pickles_and_runs_in_parallel(data) -> None:
    X, y, X_test, _ = data
    calibrated = CalibratedClassifier(GaussianNB(), LinearTemperature(penalty=2.0), cv=3)
    assert clone(calibrated).method.penalty == 2.0
    calibrated.fit(X, y)
    again = pickle.loads(pickle.dumps(calibrated))
    assert np.array_equal(again.predict_proba(X_test), calibrated.predict_proba(X_test))
    assert not hasattr(calibrated.method, "solution_")
    with joblib.parallel_config(backend="threading"):
        two = clone(calibrated).set_params(n_jobs=2).fit(X, y)
    assert np.array_equal(two.predict_proba(X_test), calibrated.predict_proba(X_test))


def test_groups_reach_the_splitter() -> None:
    """Four copies of each row, at random labels: only folds by group show that nothing can be learned."""
    rng = np.random.default_rng(0)
    X, y, groups = (
        np.repeat(rng.normal(size=(60, 3)), 4, 0),
        np.repeat(rng.integers(0, 2, 60), 4),
        np.repeat(range(60), 4),
    )
    tree = DecisionTreeClassifier(random_state=0)
    grouped = CalibratedClassifier(tree, "global", cv=GroupKFold(3)).fit(X, y, groups=groups)
    listed = CalibratedClassifier(tree, "global", cv=list(GroupKFold(3).split(X, y, groups))).fit(X, y)
    np.testing.assert_array_equal(grouped.predict_proba(X), listed.predict_proba(X))
    with pytest.raises(TypeError, match="groups"):
        CalibratedClassifier(tree, "global", cv=3).fit(X, y, groups=groups)
