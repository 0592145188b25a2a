"""Stacks of members: what may be one, for how long, and what is said where something is wrong."""

from __future__ import annotations

import json
import pickle
from typing import Any

import joblib
import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.compose import make_column_transformer
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.svm import LinearSVC
from torch import nn

from likely.tabular import LikelihoodClassifier, LikelihoodRegressor, _stack
from pairwise import together
from quick_stacks import classifier, mixed_table, regressor, usable

pytestmark = pytest.mark.usefixtures("quick_stacks")
RNG = np.random.default_rng(0)
X = RNG.normal(size=(100, 3))
y = X[:, 0] + 0.3 * RNG.normal(size=100)


def small_network(inputs: int, outputs: int) -> nn.Module:
    return nn.Sequential(nn.Linear(inputs, 4), nn.Tanh(), nn.Linear(4, outputs))


def weights(model: LikelihoodRegressor) -> list[str]:
    return list(model.summary_["weights"])


@pytest.mark.parametrize("name", ["linear", "kernel", "boosting", "shallow", "trees", "network"])
def test_one_member_by_name(name: str) -> None:
    model = regressor(name).fit(X, y)
    usable(model, X)
    assert weights(model) == [name]
    usable(regressor(name, likelihood="negative_binomial").fit(X, np.round(np.exp(y))), X)
    usable(classifier(name).fit(X, np.arange(100) % 3), X)


@pytest.mark.parametrize(
    ("member", "names"),
    [
        (["linear", "boosting"], ["linear", "boosting"]),
        (Ridge(), ["Ridge"]),
        ([Ridge(), Ridge(10.0), "linear"], ["Ridge", "Ridge 2", "linear"]),
        (make_pipeline(StandardScaler(), Ridge()), ["Pipeline"]),
        (nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1)), ["Sequential"]),
        ([small_network, "linear"], ["small_network", "linear"]),
    ],
)
def test_members_of_any_kind(member: Any, names: list[str]) -> None:
    model = regressor(member).fit(X, y)
    usable(model, X)
    assert weights(model) == names
    other = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(other.predict(X), model.predict(X))


def test_classifiers_as_members() -> None:
    for member in ([LogisticRegression(), "boosting"], small_network, nn.Linear(3, 2)):
        usable(classifier(member).fit(X, np.where(y > 0, "up", "down")), X)


def test_pipelines_read_the_frame_as_it_is() -> None:
    frame, target = mixed_table()
    columns = make_column_transformer((OneHotEncoder(handle_unknown="ignore"), ["name"]), ("passthrough", ["number"]))
    model = regressor([make_pipeline(columns, Ridge()), "linear"]).fit(frame, target)
    usable(model, frame)
    assert model.summary_["weights"]["Pipeline"] > 0.2


def test_one_scale_for_all() -> None:
    assert np.ptp(regressor(scale="global").fit(X, y).predict_scale(X)) < 1e-9


@pytest.mark.parametrize("make", [regressor, classifier])
def test_the_same_seed_gives_the_same_model_everywhere(make: Any) -> None:
    target = y if make is regressor else y > 0

    def answer(**options: Any) -> np.ndarray:
        model = make(**options).fit(X, target)
        return model.predict(X) if make is regressor else model.predict_proba(X)

    alone = answer()
    for other in joblib.Parallel(2, backend="threading")(joblib.delayed(answer)() for _ in range(2)):
        np.testing.assert_array_equal(other, alone)
    with joblib.parallel_config("threading"):  # the small sizes of these tests do not reach other processes
        np.testing.assert_allclose(answer(n_jobs=2), alone, rtol=1e-6)
    assert not np.array_equal(answer(random_state=1), alone)


def test_pickled_models_answer_alike() -> None:
    frame, target = mixed_table()
    for model in (regressor().fit(frame, target), classifier().fit(frame, target > 0)):
        other = pickle.loads(pickle.dumps(model))
        np.testing.assert_array_equal(other.predict(frame), model.predict(frame))
        assert clone(model).get_params() == model.get_params()


def test_summaries_are_json() -> None:
    for model in (regressor().fit(X, y), classifier().fit(X, y > 0)):
        assert json.loads(json.dumps(model.summary_)) == model.summary_


def test_no_member_is_begun_after_the_time_limit() -> None:
    for model in (regressor(time_limit=1e-9).fit(X, y), classifier(time_limit=1e-9).fit(X, y > 0)):
        usable(model, X)
        tried = model.summary_["members"] if isinstance(model, LikelihoodRegressor) else None
        tried = tried or model.summary_["members"]
        assert [each["outcome"] == "fitted" for each in tried] == [True, *[False] * (len(tried) - 1)]
        assert "time_limit was reached" in tried[1]["outcome"]


def test_an_interrupt_keeps_what_there_is(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(task: Any) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setitem(_stack.KINDS, "trees", interrupt)
    with pytest.warns(UserWarning, match="interrupted: the fit goes on with linear"):
        model = regressor().fit(X, y)
    usable(model, X)
    assert model.summary_["members"][-1]["outcome"] == "interrupted"
    monkeypatch.setitem(_stack.KINDS, "linear", interrupt)
    with pytest.raises(KeyboardInterrupt):
        regressor().fit(X, y)


def test_progress_is_written_where_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    regressor("linear").fit(X, y)
    assert capsys.readouterr().err == ""
    regressor("linear", verbose=1).fit(X, y)
    assert "linear: fitted" in capsys.readouterr().err


@together(
    ("options", "message"),
    [
        ({"model": "forest"}, "model must be 'auto', one of linear, kernel"),
        ({"model": []}, "empty list: give at least one"),
        ({"model": nn.Linear(3, 2)}, "returns 2 numbers per row, and 1 are needed"),
        ({"model": nn.Linear(5, 1)}, "cannot read rows of 3 numbers"),
        ({"likelihood": "gamma"}, "likelihood must be one of auto, .*NetworkRegressor has others"),
        ({"likelihood": "cauchy"}, "likelihood must be one of auto, normal"),
        ({"scale": "data"}, "NetworkRegressor has 'data' and 'fixed'"),
        ({"time_limit": 0}, "time_limit == 0, must be > 0"),
    ],
)
def test_errors_name_the_argument_and_the_remedy(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        regressor(**options).fit(X, np.exp(y))


@pytest.mark.parametrize("member", [3, None, Ridge, [3]])
def test_what_is_no_member(member: Any) -> None:
    with pytest.raises(TypeError, match="model must be a name, a scikit-learn estimator"):
        regressor(member).fit(X, y)


def test_errors_of_the_classifier() -> None:
    for model, message in (
        (classifier(LinearSVC()), "no predict_proba: wrap it"),
        (classifier(nn.Linear(3, 1)), "returns 1 numbers per row, and 2 are needed"),
    ):
        with pytest.raises(ValueError, match=message):
            model.fit(X, y > 0)
    with pytest.raises(ValueError, match="only one class"):
        classifier().fit(X, np.ones(100))
    with pytest.raises(ValueError, match="not among the classes"):
        classifier("linear").fit(X, y > 0).outlier_score(X[:2], [True, 7])


def test_errors_of_a_fitted_model() -> None:
    model = regressor("linear").fit(X, y)
    for call, message in (
        (lambda: model.predict_quantile(X, 1.0), r"q must lie in \(0, 1\)"),
        (lambda: model.predict_interval(X, 1.0), r"coverage must lie in \(0, 1\)"),
        (lambda: model.outlier_score(X, y[1:]), r"y must have the shape \(100,\)"),
        (lambda: model.outlier_score(X, np.where(y > 0, np.nan, y)), "y contains NaN"),
        (lambda: model.importances(n_repeats=0), "n_repeats == 0"),
        (lambda: model.predict(X[:, :2]), "2 features"),
    ):
        with pytest.raises(ValueError, match=message):
            call()
    for unfitted in (LikelihoodRegressor(), LikelihoodClassifier()):
        for ask in (unfitted.predict, lambda rows, own=unfitted: own.importances()):
            with pytest.raises(NotFittedError):
                ask(X)


def test_global_generators_stay_where_they_are() -> None:
    before = torch.get_rng_state()
    regressor(["linear", "trees", small_network]).fit(X, y)
    assert torch.equal(before, torch.get_rng_state())
