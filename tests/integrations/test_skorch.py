"""skorch trains φ, slower than the module; searches choose among losses; every fit begins anew."""

import pickle

import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from torch import nn

import likely

pytest.importorskip("skorch")
from likely.integrations.skorch import LikelihoodNetClassifier, LikelihoodNetRegressor

RNG = np.random.default_rng(0)
X = RNG.normal(size=(200, 3)).astype(np.float32)
NOISE = np.where(X[:, 1] > 0, 1.0, 0.1)
Y = (X[:, 0] + NOISE * RNG.normal(size=200)).astype(np.float32)
LABELS = (X[:, 0] + RNG.normal(size=200) > 0).astype(np.int64)


def body():
    return nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, 1))


def regressor(module=None, **options):
    return LikelihoodNetRegressor(
        module or nn.Linear(3, 1), **{"lr": 0.05, "max_epochs": 8, "verbose": 0, "batch_size": 50, **options}
    )


def test_the_optimizer_has_the_scale_at_the_rate_of_param_groups():
    net = regressor(lr=0.001, optimizer__weight_decay=0.5, optimizer=torch.optim.AdamW).fit(X, Y)
    (model, likelihood) = net.optimizer_.param_groups
    assert likelihood["params"] == [net.criterion_.scale.raw]
    assert (model["lr"], likelihood["lr"]) == (0.001, pytest.approx(0.01))
    assert (model["weight_decay"], likelihood["weight_decay"]) == (0.5, 0.0)
    history = net.history[:, "likelihood/scale"]
    assert len(set(history)) == 8
    assert history[-1] == pytest.approx(net.criterion_.scale.value.item())


def test_a_group_of_the_users_own_is_kept():
    net = regressor(optimizer__param_groups=[("scale.raw", {"lr": 0.7})]).initialize()
    assert sorted(group["lr"] for group in net.optimizer_.param_groups) == [0.05, 0.7]


@pytest.mark.parametrize(("features", "width"), [("1", 8), ("input", 3)])
def test_a_scale_is_predicted(features, width):
    net = regressor(
        body(),
        features=features,
        criterion__scale=likely.Predicted(width, (1,)),
        lr=0.02,
        max_epochs=60,
        multiplier=1.0,
        optimizer=torch.optim.Adam,
    ).fit(X, Y)
    scale = net.predict_dist(X).scale.flatten().numpy()
    assert scale[X[:, 1] > 0.5].mean() > 1.5 * scale[X[:, 1] < -0.5].mean()
    assert {"likelihood/scale/mean", "likelihood/scale/min"} <= set(net.history[-1])
    assert not net.criterion_.scale._forward_hooks
    again = pickle.loads(pickle.dumps(net))
    np.testing.assert_array_equal(again.predict(X), net.predict(X))
    np.testing.assert_array_equal(again.predict_dist(X).scale, net.predict_dist(X).scale)


def test_every_fit_begins_anew():
    given = likely.Predicted(3, (1,), weights="zero")
    net = regressor(features="input", criterion__scale=given, max_epochs=1)
    net.fit(X, Y)
    assert not given.ready
    assert net.criterion_.scale is not given
    loss_fn = likely.NormalLoss()
    regressor(criterion=loss_fn).fit(X, Y)
    assert loss_fn.scale.value == 1


def test_a_search_chooses_the_loss():
    grid = {"criterion": [likely.NormalLoss, likely.LaplaceLoss], "lr": [0.01, 0.1]}
    search = GridSearchCV(regressor(train_split=None, max_epochs=3), grid, cv=2).fit(X, Y)
    assert len(search.cv_results_["params"]) == 4
    assert type(search.best_estimator_.criterion_) in grid["criterion"]
    assert search.score(X, Y) > 0


def test_nets_stand_in_pipelines_and_can_be_cloned():
    pipeline = make_pipeline(StandardScaler(), regressor(criterion__scale=likely.Global(init=2.0)))
    found = clone(pipeline).fit(X, Y).predict(X)
    assert found.shape == (200, 1)


def test_a_classifiers_probabilities_know_the_temperature():
    net = LikelihoodNetClassifier(
        nn.Linear(3, 2), features="input", criterion__temperature=likely.Predicted(3), lr=0.5, max_epochs=5, verbose=0
    ).fit(X, LABELS)
    x = torch.from_numpy(X)
    temperature = net.criterion_.temperature(features=x)
    expected = torch.softmax(net.module_(x) / temperature[:, None], 1).detach().numpy()
    np.testing.assert_allclose(net.predict_proba(X), expected, rtol=1e-5)
    assert temperature.std() > 0
    assert net.score(X, LABELS) > 0.6


def test_two_classes_by_one_logit():
    net = LikelihoodNetClassifier(nn.Linear(3, 1), criterion=likely.BernoulliLoss, lr=0.5, max_epochs=5, verbose=0)
    probabilities = net.fit(X, LABELS).predict_proba(X)
    np.testing.assert_allclose(probabilities.sum(1), 1, rtol=1e-6)
    assert net.score(X, LABELS) > 0.6


def test_rows_without_numbers_cannot_have_their_own_scale():
    with pytest.raises(ValueError, match="row numbers"):
        regressor(criterion__scale=likely.Data(200)).fit(X, Y)
