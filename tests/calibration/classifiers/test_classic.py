"""Platt's and isotonic calibration."""

import pickle

import numpy as np
import pytest
import torch
from scipy.special import expit, log_softmax
from sklearn.base import clone

from likely.calibration._classic import IsotonicCalibration, PlattScaling, _log_odds
from pairwise import together

KINDS = [PlattScaling, IsotonicCalibration]


def overconfident(n=1500, classes=3, seed=0):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, classes, n)
    return 4 * (np.eye(classes)[y] + rng.normal(size=(n, classes))), y


def nll(log_p, y):
    return -log_softmax(np.asarray(log_p, dtype=float), axis=1)[np.arange(len(y)), y].mean()


@pytest.mark.parametrize("kind", KINDS)
def test_calibrates_overconfident_logits(kind):
    (logits, y), (fresh, labels) = overconfident(), overconfident(seed=1)
    fitted = kind().fit(logits, y)
    assert nll(fitted.transform(fresh), labels) < nll(fresh, labels) - 0.2
    np.testing.assert_allclose(np.exp(fitted.transform(fresh)).sum(1), 1, rtol=1e-9)


def test_platt_of_two_classes_finds_the_sigmoid():
    rng = np.random.default_rng(0)
    odds = rng.normal(size=40_000) * 3
    y = (rng.random(40_000) < expit(0.5 * odds - 1)).astype(int)
    fitted = PlattScaling().fit(np.stack([np.zeros_like(odds), odds], axis=1), y)
    np.testing.assert_allclose(fitted.curves_[1], (0.5, -1), atol=0.05)


def test_isotonic_rises_and_shares_ties():
    logits, y = overconfident()
    logits = np.round(logits)
    fitted = IsotonicCalibration().fit(logits, y)
    odds = np.sort(_log_odds(torch.as_tensor(logits))[:, 0])
    curve = fitted.curves_[0].predict(odds)
    assert (np.diff(curve) >= 0).all()
    assert curve.min() >= 1 / (3 * len(y)) - 1e-12


@together("kind", KINDS)
@together(("n", "folds"), [(12, 5), (10, 5), (4, 2)])
def test_the_share_of_the_curves_is_decided_in_five_folds_or_as_many_as_have_two_rows(kind, n, folds):
    class Counted(kind):
        def _curve(self, odds, positive, weight):
            fits.append(len(odds))
            return super()._curve(odds, positive, weight)

    fits = []
    logits, y = overconfident(60)
    Counted().fit(logits[:n], y[:n])
    whole, *others = fits[::3]  # of three classes
    assert (whole, len(others)) == (n, folds)
    assert sum(n - rows for rows in others) == n


@together("kind", KINDS)
@together("case", ["one class", "two rows", "constant", "separated", "ruled out"])
def test_nll_stays_finite(kind, case):
    logits, y = overconfident(60)
    if case == "one class":
        y = np.zeros_like(y)
    elif case == "two rows":
        logits, y = logits[:2], np.array([0, 1])
    elif case == "constant":
        logits = np.ones_like(logits)
    elif case == "separated":
        logits = 1e3 * np.eye(3)[y]
    else:
        logits = np.where(np.eye(3)[(y + 1) % 3] == 1, -np.inf, logits)
    fitted = kind().fit(logits, y)
    for labels in (y, (y + 1) % 3):
        assert np.isfinite(nll(fitted.transform(logits), labels))


@pytest.mark.parametrize("kind", KINDS)
def test_weights_types_clone_and_pickle(kind):
    logits, y = overconfident(400)
    weight = np.random.default_rng(0).integers(0, 2, 400)
    weighted = kind().fit(logits, y, sample_weight=weight)
    fewer = kind().fit(logits[weight == 1], y[weight == 1])
    np.testing.assert_allclose(weighted.predict_proba(logits), fewer.predict_proba(logits), atol=1e-4)
    tensor = torch.as_tensor(logits).bfloat16()
    assert torch.isfinite(kind().fit(tensor, y).predict_proba(tensor)).all()
    again = pickle.loads(pickle.dumps(weighted))
    np.testing.assert_array_equal(again.transform(logits), weighted.transform(logits))
    assert not hasattr(clone(weighted), "curves_")
    with pytest.raises(AttributeError, match="no temperature"):
        weighted.temperature(logits)


def test_log_odds_do_not_cancel():
    logits = torch.tensor([[60.0, 0.0, 0.0], [0.0, 0.0, 0.0], [0.0, 0.0, -torch.inf]], dtype=torch.float64)
    expected = [[60 - np.log(2), -60, -60], [-np.log(2)] * 3, [0, 0, -1e4]]
    np.testing.assert_allclose(_log_odds(logits), expected, rtol=1e-9, atol=1e-12)
