"""MAPIE's intervals and sets over our models hold what they promise."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression, Ridge

from likely.calibration import CalibratedClassifier, CalibratedRegressor
from likely.tabular import NetworkClassifier, NetworkRegressor

pytest.importorskip("mapie")
from mapie.classification import SplitConformalClassifier
from mapie.regression import SplitConformalRegressor

from likely.integrations.mapie import ScaledScore

RNG = np.random.default_rng(0)
N = 4000
X = RNG.uniform(-1, 1, size=(N, 2))
NOISE = 1.05 + X[:, 0]
Y = X[:, 1] + NOISE * RNG.standard_t(4, size=N)
TRAIN, CALIBRATE, TEST = slice(0, 1000), slice(1000, 2500), slice(2500, N)


def inside(intervals, rows):
    return (intervals[:, 0, 0] <= Y[rows]) & (Y[rows] <= intervals[:, 1, 0])


@pytest.mark.parametrize(
    "model",
    [CalibratedRegressor(Ridge()), NetworkRegressor(hidden=(), objective="joint", max_steps=100, random_state=0)],
    ids=["calibrated", "likelihood"],
)
def test_intervals_cover_and_follow_the_noise(model):
    model.fit(X[TRAIN], Y[TRAIN])
    mean, std = model.predict(X[TEST], return_std=True)
    loud = NOISE[TEST] > 1
    for sym in (True, False):
        conformal = SplitConformalRegressor(model, confidence_level=0.8, conformity_score=ScaledScore(model, sym=sym))
        prediction, intervals = conformal.conformalize(X[CALIBRATE], Y[CALIBRATE]).predict_interval(X[TEST])
        np.testing.assert_allclose(prediction, mean)
        covered = inside(intervals, TEST)
        assert abs(covered.mean() - 0.8) < 0.05
        assert abs(covered[loud].mean() - covered[~loud].mean()) < 0.15
        below, above = (mean - intervals[:, 0, 0]) / std, (intervals[:, 1, 0] - mean) / std
        np.testing.assert_allclose(below, below[0], rtol=1e-6)  # one factor for all scales
        np.testing.assert_allclose(above, above[0], rtol=1e-6)
        assert (abs(below[0] - above[0]) < 1e-6) == sym


def test_residuals_alone_miss_where_it_is_loud():
    """What the scales are for: MAPIE's own score covers too little there."""
    model = CalibratedRegressor(Ridge()).fit(X[TRAIN], Y[TRAIN])
    plain = SplitConformalRegressor(model, confidence_level=0.8).conformalize(X[CALIBRATE], Y[CALIBRATE])
    covered, loud = inside(plain.predict_interval(X[TEST])[1], TEST), NOISE[TEST] > 1
    assert covered[~loud].mean() - covered[loud].mean() > 0.25


@pytest.mark.parametrize(
    "model",
    [CalibratedClassifier(LogisticRegression()), NetworkClassifier(hidden=(16,), max_steps=100, random_state=0)],
    ids=["calibrated", "likelihood"],
)
def test_sets_cover(model):
    labels = (X + 0.5 * np.random.default_rng(1).normal(size=X.shape)).argmax(1)
    labels[Y > 1] = 2
    model.fit(X[TRAIN], labels[TRAIN])
    conformal = SplitConformalClassifier(model, confidence_level=0.9)
    _, sets = conformal.conformalize(X[CALIBRATE], labels[CALIBRATE]).predict_set(X[TEST])
    covered = sets[np.arange(len(sets)), labels[TEST], 0]
    assert abs(covered.mean() - 0.9) < 0.04
    assert sets.shape[1] == 3


def test_what_it_needs_it_says():
    score = ScaledScore(CalibratedRegressor(Ridge()).fit(X[TRAIN], Y[TRAIN]))
    with pytest.raises(ValueError, match="SplitConformalRegressor"):
        score.get_signed_conformity_scores(Y[:3], Y[:3])
