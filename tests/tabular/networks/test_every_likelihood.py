"""Every likelihood of the registry can be named in NetworkRegressor."""

import warnings
from itertools import cycle

import numpy as np
import pytest
import torch
from torch.distributions.constraints import real

from likely.likelihoods import LIKELIHOODS
from likely.tabular import NetworkRegressor
from pairwise import together

ROWS = 240
QUICK = {"hidden": (), "cv": 2, "max_steps": 60, "batch_size": None, "random_state": 0}
NUMBERS = [name for name in LIKELIHOODS if name != "softmax"]


def table(name: str) -> tuple[np.ndarray, np.ndarray]:
    """Rows whose targets were drawn from the likelihood itself, with a prediction that follows the first column."""
    rng = np.random.default_rng(7)
    X = rng.normal(size=(ROWS, 3))
    record = LIKELIHOODS[name]
    line = torch.as_tensor(X[:, 0] + (3.0 if record.start is None else 0.0))
    make = record.loss(classes=4) if name == "ordinal" else record.loss()
    with torch.random.fork_rng(), torch.no_grad():
        torch.manual_seed(7)
        y = make.double().distribution(line).sample().numpy()
    return X, y


@pytest.mark.usefixtures("few_steps")
@pytest.mark.parametrize(("name", "objective"), list(zip(NUMBERS, cycle(["two_stage", "joint"]))))
def test_fits_predicts_and_beats_a_constant(name: str, objective: str) -> None:
    X, y = table(name)
    model = NetworkRegressor(likelihood=name, objective=objective, **QUICK).fit(X, y)
    assert np.isfinite(model.predict(X)).all()
    assert model.predict(X).shape == y.shape
    nll = -model.predict_dist(X).log_prob(torch.as_tensor(y)).mean().item()
    blind = NetworkRegressor(likelihood=name, scale="global", objective=objective, **QUICK).fit(0 * X, y)
    constant = -blind.predict_dist(X).log_prob(torch.as_tensor(y)).mean().item()
    assert np.isfinite(nll)
    assert nll < constant
    lower, upper = model.predict_interval(X[:80], coverage=0.8)
    assert ((lower <= y[:80]) & (y[:80] <= upper)).mean() > 0.6
    assert np.isfinite(model.outlier_scores_).all()
    parameters = model.likelihood_parameters(X)
    assert set(parameters) == set(LIKELIHOODS[name].loss.slots)
    assert all(np.isfinite(value).all() for value in parameters.values())


@pytest.mark.parametrize("name", NUMBERS)
def test_several_targets(name: str) -> None:
    X, y = table(name)
    both = np.column_stack([y, y[::-1]])
    model = NetworkRegressor(likelihood=name, scale="global", **QUICK).fit(X, both)
    assert model.predict(X).shape == both.shape
    assert model.predict_dist(X).log_prob(torch.as_tensor(both)).isfinite().all()


@together("name", [name for name in NUMBERS if LIKELIHOODS[name].support is not real])
def test_targets_outside_the_support_are_refused(name: str) -> None:
    X, y = table(name)
    y = y.copy()
    y[5] = -7.5
    with pytest.raises(ValueError, match=r"likelihood is for targets in .*and y holds -7\.5"):
        NetworkRegressor(likelihood=name, **QUICK).fit(X, y)


def test_a_likelihood_without_a_scale_says_what_it_has() -> None:
    X, y = table("poisson")
    model = NetworkRegressor(likelihood="poisson", **QUICK).fit(X, y)
    with pytest.raises(ValueError, match="no scale: call likelihood_parameters"):
        model.predict_scale(X)


@pytest.mark.usefixtures("few_steps")
@pytest.mark.parametrize("likelihood", ["skew_student_t", "robust"])
@pytest.mark.parametrize("target", ["constant", "without noise"])
def test_shapes_at_the_end_of_their_range_are_no_error(likelihood, target):
    """Where most targets are equal or exact, the best shape is an end of its range, where a network cannot start."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(120, 3))
    y = np.ones(120) if target == "constant" else X[:, 0]
    model = NetworkRegressor(likelihood=likelihood, **QUICK)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert np.isfinite(model.fit(X, y).predict(X)).all()
