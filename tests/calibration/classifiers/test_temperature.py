import copy
import pickle

import numpy as np
import pytest
import torch
from scipy.optimize import minimize_scalar
from scipy.special import log_softmax, softmax
from sklearn.base import clone

from likely._rows import blocks
from likely.calibration import FeatureTemperature, GlobalTemperature, LinearTemperature
from pairwise import together

METHODS = [GlobalTemperature, LinearTemperature, FeatureTemperature]


def problem(n=3000, classes=5, d=6, seed=0, effect=0.0):
    """Logits twice too sure, and surer still in the direction of the first feature if there is an effect."""
    rng = np.random.default_rng(seed)
    true = 1.5 * rng.normal(size=(n, classes))
    y = np.array([rng.choice(classes, p=p) for p in softmax(true, axis=1)])
    features = rng.normal(size=(n, d))
    return true * 2 * np.exp(effect * features[:, :1]), y, features


def nll(logits, y):
    return -log_softmax(logits, axis=1)[np.arange(len(y)), y]


class TestGlobal:
    @pytest.mark.parametrize("weighted", [False, True])
    def test_finds_the_optimum(self, weighted):
        logits, y, _ = problem(5000)
        weight = np.random.default_rng(1).random(5000) if weighted else np.ones(5000)

        def loss(log_tau):
            return weight @ nll(logits * np.exp(log_tau), y)

        best = np.exp(-minimize_scalar(loss, bracket=(-3, 3), tol=1e-12).x)
        fitted = GlobalTemperature().fit(logits, y, sample_weight=weight if weighted else None)
        assert fitted.temperature_ == pytest.approx(best, rel=1e-6)

    def test_weights_are_repetitions(self):
        logits, y, _ = problem(600)
        weight = np.random.default_rng(1).integers(0, 4, 600)
        repeated = GlobalTemperature().fit(np.repeat(logits, weight, 0), np.repeat(y, weight))
        weighted = GlobalTemperature().fit(logits, y, sample_weight=weight)
        assert weighted.temperature_ == pytest.approx(repeated.temperature_, rel=1e-6)

    @pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
    def test_does_not_care_for_units_or_the_order_of_rows(self, scale):
        logits, y, _ = problem(8000)
        order = np.argsort(y)
        base = GlobalTemperature().fit(logits, y).temperature_
        assert GlobalTemperature().fit(logits[order] * scale, y[order]).temperature_ == pytest.approx(scale * base)

    def test_sane_where_no_optimum_exists(self):
        right = np.eye(3)[[0, 1, 2, 0]]
        always = GlobalTemperature().fit(right, np.array([0, 1, 2, 0]))
        never = GlobalTemperature().fit(right, np.array([1, 2, 0, 1]))
        flat = GlobalTemperature().fit(np.ones((4, 3)), np.array([0, 1, 2, 0]))
        for fitted in (always, never, flat):
            assert 0 < fitted.temperature_ < np.inf
            assert np.isfinite(fitted.predict_proba(right)).all()
        assert always.temperature_ < 1 < never.temperature_


@pytest.mark.parametrize("method", [LinearTemperature, FeatureTemperature])
class TestPredicted:
    def test_is_global_scaling_exactly_where_nothing_is_to_be_gained(self, method):
        logits, y, features = problem(400)
        fitted = method().fit(logits, y, features)
        base = GlobalTemperature().fit(logits, y)
        assert fitted.precision_ == np.inf
        np.testing.assert_allclose(fitted.temperature(logits, features), base.temperature_, rtol=1e-6)

    def test_finds_an_effect_and_pays_for_itself(self, method):
        logits, y, features = problem(4000, effect=0.8)
        if method is LinearTemperature:
            logits = logits + 3 * features[:, :1]  # a shift of the row shows it in the logits
        train, test = slice(0, 2000), slice(2000, None)
        fitted = method().fit(logits[train], y[train], features[train])
        base = GlobalTemperature().fit(logits[train], y[train])
        gain = nll(base.transform(logits[test]), y[test]) - nll(fitted.transform(logits[test], features[test]), y[test])
        assert gain.mean() > 0.03
        assert np.corrcoef(np.log(fitted.temperature(logits, features)), features[:, 0])[0, 1] > 0.7

    def test_accuracy_is_untouched(self, method):
        logits, y, features = problem(2000, effect=1.0)
        fitted = method().fit(logits, y, features)
        assert np.array_equal(fitted.predict(logits, features), logits.argmax(1))

    def test_more_features_than_rows(self, method):
        logits, y, _ = problem(300, classes=4)
        features = np.random.default_rng(0).normal(size=(300, 1000))
        fitted = method().fit(logits, y, features)
        assert np.isfinite(fitted.transform(logits, features)).all()


def test_without_a_penalty_it_overfits_as_the_paper_found():
    """The paper's LFS row of .173, in small: 200 features that mean nothing, 300 rows, and no ridge."""
    logits, y, _ = problem(1300, classes=4)
    features = np.random.default_rng(0).normal(size=(1300, 200))
    train, test = slice(0, 300), slice(300, None)

    def loss(calibrator):
        fitted = calibrator.fit(logits[train], y[train], features[train])
        return nll(fitted.transform(logits[test], features[test]), y[test]).mean()

    base = loss(GlobalTemperature())
    assert loss(FeatureTemperature(penalty=None)) > base + 0.05
    assert loss(FeatureTemperature()) < base + 0.005


class OnDisk:
    """Logits of which some rows can be read, but not all at once, as of an array in a file."""

    def __init__(self, array):
        self.array, self.dtype, self.shape, self.ndim, self.longest = array, array.dtype, array.shape, array.ndim, 0

    def __array__(self, *_, **__):
        raise MemoryError("read in blocks")

    def __len__(self):
        return len(self.array)

    def __getitem__(self, rows):
        block = self.array[rows]
        self.longest = max(self.longest, len(block))
        return block


def test_logits_on_disk_are_read_in_blocks(monkeypatch):
    logits, y, _ = problem(600)
    monkeypatch.setattr(blocks, "CACHED_NUMBERS", 500)
    disk = OnDisk(logits)
    fitted = GlobalTemperature().fit(disk, y)
    assert fitted.temperature_ == pytest.approx(GlobalTemperature().fit(logits, y).temperature_, rel=1e-9)
    np.testing.assert_allclose(fitted.predict_proba(disk), fitted.predict_proba(logits))
    assert disk.longest == 100


@pytest.mark.parametrize("method", METHODS)
class TestInterface:
    def test_any_kind_of_array(self, method, tmp_path):
        logits, y, features = problem(3000, effect=0.5)
        reference = method().fit(logits, y, features)
        expected = reference.predict_proba(logits, features)
        mapped = np.memmap(tmp_path / "logits", dtype=np.float32, mode="w+", shape=logits.shape)
        mapped[:] = logits
        kinds = {
            "float32": (logits.astype(np.float32), 1e-4),
            "float16": (logits.astype(np.float16), 2e-2),
            "memmap": (mapped, 1e-4),
            "list": (logits.tolist(), 1e-12),
            "torch": (torch.tensor(logits), 1e-12),
            "bfloat16": (torch.tensor(logits, dtype=torch.bfloat16), 1e-1),
            "gradient": (torch.tensor(logits, requires_grad=True), 1e-12),
        }
        for name, (given, tolerance) in kinds.items():
            extra = torch.tensor(features) if isinstance(given, torch.Tensor) else features
            proba = method().fit(given, y, extra).predict_proba(given, extra)
            assert isinstance(proba, torch.Tensor) == isinstance(given, torch.Tensor), name
            np.testing.assert_allclose(np.asarray(proba), expected, atol=tolerance, err_msg=name)

    def test_probabilities_by_an_explicit_flag(self, method):
        logits, y, features = problem(1000)
        logits = log_softmax(logits, axis=1)
        by_logits = method().fit(logits, y, features).predict_proba(logits, features)
        by_probability = method(inputs="probabilities").fit(np.exp(logits), y, features)
        np.testing.assert_allclose(by_probability.predict_proba(np.exp(logits), features), by_logits, rtol=1e-6)

    def test_clone_pickle_copy_repr(self, method):
        logits, y, features = problem(500)
        fitted = method().fit(logits, y, features)
        expected = fitted.predict_proba(logits, features)
        for twin in (pickle.loads(pickle.dumps(fitted)), copy.deepcopy(fitted), clone(fitted).fit(logits, y, features)):
            assert np.array_equal(twin.predict_proba(logits, features), expected)
        assert method.__name__ in repr(fitted)

    def test_blocks_change_nothing(self, method, monkeypatch):
        logits, y, features = problem(3000, effect=0.5)
        expected = method().fit(logits, y, features).temperature(logits, features)
        monkeypatch.setattr(blocks, "CACHED_NUMBERS", 64)
        np.testing.assert_allclose(method().fit(logits, y, features).temperature(logits, features), expected, rtol=1e-6)

    def test_a_ruled_out_class(self, method):
        logits, y, features = problem(500)
        logits[np.arange(500), (y + 1) % 5] = -np.inf
        proba = method().fit(logits, y, features).predict_proba(logits, features)
        assert np.isfinite(proba).all()
        assert (proba[np.arange(500), (y + 1) % 5] == 0).all()


def bad(**changes):
    arguments = {"logits": np.random.default_rng(0).normal(size=(20, 3)), "y": np.arange(20) % 3, "features": None}
    return {**arguments, **changes}


@together(
    ("changes", "message"),
    [
        ({"logits": np.full((20, 3), np.nan)}, "NaN"),
        ({"logits": np.full((20, 3), np.inf)}, "∞"),
        ({"logits": np.zeros(20)}, r"shape \(rows, classes\)"),
        ({"logits": np.zeros((20, 1))}, "two classes or more"),
        ({"logits": np.zeros((0, 3)), "y": np.zeros(0, int)}, "no rows"),
        ({"y": np.arange(20)}, "classes 0 to 19, but the logits have classes 0 to 2"),
        ({"y": np.arange(20) - 1}, "classes -1"),
        ({"y": np.arange(19) % 3}, "one label per row"),
        ({"y": np.linspace(0, 1, 20)}, "LabelEncoder"),
        ({"sample_weight": np.ones(3)}, "one weight per row"),
        ({"sample_weight": np.zeros(20)}, "sample_weight is zero everywhere"),
        ({"sample_weight": -np.ones(20)}, "≥ 0"),
        ({"features": np.zeros((19, 2))}, r"shape \(20, d\)"),
        ({"features": np.full((20, 2), np.nan)}, "features hold NaN"),
    ],
)
def test_bad_input(changes, message):
    with pytest.raises(ValueError, match=message):
        GlobalTemperature().fit(**bad(**changes))


def test_more_bad_input():
    with pytest.raises(ValueError, match="needs features="):
        FeatureTemperature().fit(**bad())
    with pytest.raises(ValueError, match="sum to one"):
        GlobalTemperature(inputs="probabilities").fit(**bad())
    with pytest.raises(ValueError, match="inputs must be"):
        GlobalTemperature(inputs="scores").fit(**bad())
    fitted = FeatureTemperature().fit(**bad(features=np.ones((20, 2))))
    with pytest.raises(ValueError, match="4 classes, the calibrator was fitted on 3"):
        fitted.predict_proba(np.zeros((2, 4)), np.ones((2, 2)))
    with pytest.raises(ValueError, match="5 columns, the fit had 2"):
        fitted.predict_proba(np.zeros((2, 3)), np.ones((2, 5)))


def test_two_rows_and_one_class():
    for method in METHODS:
        logits, features = np.array([[1.0, 0.0], [0.0, 2.0]]), np.ones((2, 3))
        assert np.isfinite(method().fit(logits, [0, 0], features).predict_proba(logits, features)).all()


def test_many_features_are_read_along_their_leading_directions(monkeypatch):
    rng = np.random.default_rng(0)
    logits, y, causes = problem(2400, effect=0.5)
    wide = causes @ rng.normal(size=(6, 300)) + 0.3 * rng.normal(size=(2400, 300)) + 5
    half, rest = slice(0, 1200), slice(1200, None)
    fast = FeatureTemperature().fit(logits[half], y[half], wide[half])
    monkeypatch.setattr(FeatureTemperature, "_directions", 300)
    exact = FeatureTemperature().fit(logits[half], y[half], wide[half])
    losses = [nll(c.transform(logits[rest], wide[rest]), y[rest]).mean() for c in (fast, exact)]
    base = nll(GlobalTemperature().fit(logits[half], y[half]).transform(logits[rest]), y[rest]).mean()
    assert losses[0] == pytest.approx(losses[1], abs=0.003)
    assert losses[0] < base - 0.05
    # The answer is a line in the features themselves, whatever it was found through.
    assert fast.solution_.coef.shape == (300,)
    assert np.corrcoef(fast.temperature(logits, wide), exact.temperature(logits, wide))[0, 1] > 0.99


def test_more_features_than_rows_that_mean_nothing_change_nothing():
    logits, y, _ = problem(60)
    fitted = FeatureTemperature().fit(logits, y, np.random.default_rng(1).normal(size=(60, 500)))
    assert fitted.precision_ == np.inf
