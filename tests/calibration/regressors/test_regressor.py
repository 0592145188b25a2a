import pickle

import numpy as np
import pytest
import torch
from sklearn.base import BaseEstimator, RegressorMixin, clone
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import BayesianRidge, LinearRegression, Ridge
from sklearn.model_selection import KFold, cross_val_predict, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from likely.calibration._choice import compose
from likely.calibration._estimator import CalibratedRegressor, mean_and_scale
from likely.calibration._isotonic import IsotonicScale
from likely.calibration._row_scale import LinearScale
from likely.calibration._scale import GlobalScale
from scikit_learn_checks import meets_all_checks


def data(n=600, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(0, 3, size=(n, 2))
    return X, X @ [1.0, -2.0] + (0.2 + X[:, 0]) * rng.normal(size=n)


def test_scikit_learn():
    meets_all_checks(CalibratedRegressor(Ridge()))


@pytest.mark.parametrize("method", ["global", "linear", "deep", "isotonic", compose(LinearScale(), IsotonicScale())])
def test_distributions_of_new_rows(method):
    X, y = data()
    model = CalibratedRegressor(LinearRegression(), method=method).fit(X, y)
    new_X, new_y = data(2000, seed=1)
    lower, upper = model.predict_interval(new_X, coverage=0.9)
    assert abs(((lower < new_y) & (new_y < upper)).mean() - 0.9) < 0.05
    mean, std = model.predict(new_X, return_std=True)
    np.testing.assert_array_equal(mean, LinearRegression().fit(X, y).predict(new_X))
    assert model.predict_dist(new_X).log_prob(torch.as_tensor(new_y)).isfinite().all()
    copy = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(copy.predict(new_X, return_std=True)[1], std)


def test_the_linear_scale_follows_the_input():
    X, y = data()
    std = CalibratedRegressor(LinearRegression()).fit(X, y).predict([[0.1, 1.0], [2.9, 1.0]], return_std=True)[1]
    assert std[1] > 4 * std[0]


def test_the_global_scale_is_that_of_out_of_fold_residuals():
    X, y = data(100)
    folds = KFold(4, shuffle=True, random_state=3)
    model = CalibratedRegressor(LinearRegression(), method="global", cv=folds).fit(X, y)
    residuals = y - cross_val_predict(LinearRegression(), X, y, cv=folds)
    np.testing.assert_allclose(model.predict(X, return_std=True)[1], np.sqrt(np.mean(residuals**2)))


def test_a_fitted_estimator_stays_as_it_is():
    X, y = data()
    ridge = Ridge().fit(X[:300], y[:300])
    frozen = CalibratedRegressor(FrozenEstimator(ridge)).fit(X[300:], y[300:])
    prefit = CalibratedRegressor(ridge, cv="prefit").fit(X[300:], y[300:])
    np.testing.assert_array_equal(frozen.predict(X), ridge.predict(X))
    np.testing.assert_array_equal(frozen.predict(X, return_std=True)[1], prefit.predict(X, return_std=True)[1])


@pytest.mark.parametrize("estimator", [BayesianRidge(), make_pipeline(StandardScaler(), BayesianRidge())], ids=str)
def test_an_estimator_with_a_scale_brings_it(estimator):
    X, y = data()
    fitted = clone(estimator).fit(X[:300], y[:300])
    scale = mean_and_scale(fitted, X)[1]
    np.testing.assert_allclose(scale, fitted.predict(X, return_std=True)[1])
    model = CalibratedRegressor(fitted, method="global", cv="prefit").fit(X[300:], y[300:])
    ratio = model.predict(X, return_std=True)[1] / scale
    np.testing.assert_allclose(ratio, ratio[0])


class Sure(RegressorMixin, BaseEstimator):
    """Says a scale of zero for some rows."""

    def fit(self, X, y):
        self.fitted_ = True
        return self

    def predict(self, X, return_std=False):
        mean = np.zeros(len(X))
        return (mean, np.arange(len(X)) % 2.0) if return_std else mean


def test_a_scale_of_zero_is_survived():
    X, y = data(100)
    model = CalibratedRegressor(Sure(), features=None).fit(X, y)
    assert model.predict_dist(X).log_prob(torch.as_tensor(y)).isfinite().all()


def test_missing_inputs_where_the_estimator_takes_them():
    X, y = data(200)
    X[::7, 1] = np.nan
    model = CalibratedRegressor(HistGradientBoostingRegressor(max_iter=5), cv=2).fit(X, y)
    assert np.isfinite(model.predict(X, return_std=True)[1]).all()


def test_weights_reach_estimator_and_calibrator():
    X, y = data(200)
    weight = np.r_[np.ones(100), np.zeros(100)]
    folds = [(np.arange(50), np.arange(50, 100)), (np.arange(50, 100), np.arange(50))]
    rest = [(np.r_[train, 100:200], test) for train, test in folds]
    some = CalibratedRegressor(Ridge(), cv=folds).fit(X[:100], y[:100])
    weighted = CalibratedRegressor(Ridge(), cv=rest).fit(X, y, sample_weight=weight)
    for one, other in zip(some.predict(X, return_std=True), weighted.predict(X, return_std=True), strict=True):
        np.testing.assert_allclose(one, other)
    with pytest.warns(UserWarning, match="Sure takes no sample_weight"):
        CalibratedRegressor(Sure(), features=None).fit(X, y, sample_weight=weight)


def test_features_may_be_a_function_and_scores_are_those_of_the_estimator():
    X, y = data()
    model = CalibratedRegressor(Ridge(), features=lambda X: X[:, :1]).fit(X, y)
    assert len(model.calibrator_.solution_.coef) == 1
    plain = cross_val_score(Ridge(), X, y)
    np.testing.assert_allclose(cross_val_score(CalibratedRegressor(Ridge()), X, y), plain)


def test_wrong_settings():
    X, y = data(50)
    with pytest.raises(ValueError, match="method must be a ScaleCalibrator or one of global, linear"):
        CalibratedRegressor(Ridge(), method="platt").fit(X, y)
    with pytest.raises(TypeError, match="method must be a ScaleCalibrator"):
        CalibratedRegressor(Ridge(), method=Ridge()).fit(X, y)
    with pytest.raises(ValueError, match="features must be 'input', None or a function"):
        CalibratedRegressor(Ridge(), features="output").fit(X, y)
    assert isinstance(CalibratedRegressor(Ridge(), method=GlobalScale()).fit(X, y).calibrator_, GlobalScale)
