import pickle
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.isotonic import IsotonicRegression
from sklearn.linear_model import LinearRegression
from torch.distributions import Laplace, Normal

from likely._rows.blocks import Rows
from likely.calibration import _scale
from likely.calibration._choice import AutoScale, ScalePipeline, compose
from likely.calibration._isotonic import IsotonicScale, Recalibrated, leaf_masses, polya_tree
from likely.calibration._row_scale import DeepScale, LinearScale
from likely.calibration._scale import Forecasts, GlobalScale
from likely.distributions import StudentT
from pairwise import together

CALIBRATORS = [
    GlobalScale(),
    GlobalScale(likelihood="laplace"),
    LinearScale(),
    LinearScale(likelihood="laplace"),
    DeepScale(max_iter=60),
    IsotonicScale(),
    compose(LinearScale(), IsotonicScale()),
    AutoScale(
        candidates={"global": GlobalScale(), "linear": LinearScale(), "both": compose(LinearScale(), IsotonicScale())},
        cv=2,
    ),
]
every = pytest.mark.parametrize("calibrator", CALIBRATORS, ids=str)


def rows(n=400, seed=0, noise=lambda x: np.log1p(np.exp(2 * x[:, 0]))):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 3))
    mean, scale = rng.normal(size=n), np.exp(0.3 * rng.normal(size=n))
    return mean, scale, mean + scale * noise(x) * rng.normal(size=n), x


def nll(calibrator, mean, scale, y, x):
    return float(-calibrator.distribution(mean, scale, x).log_prob(torch.as_tensor(y)).mean())


@every
def test_contract(calibrator):
    mean, scale, y, x = rows()
    fitted = clone(calibrator).fit(mean, scale, y, features=x)
    distribution = fitted.distribution(mean, scale, x)
    assert distribution.log_prob(torch.as_tensor(y)).isfinite().all()
    p = torch.linspace(0.01, 0.99, 7, dtype=torch.float64)[:, None].expand(7, len(y))
    torch.testing.assert_close(distribution.cdf(distribution.icdf(p)), p)
    assert distribution.sample((2,)).shape == (2, len(y))
    lower, upper = fitted.predict_interval(mean, scale, x, coverage=0.8)
    assert abs(((lower < y) & (y < upper)).mean() - 0.8) < 0.1
    assert (fitted.predict_scale(mean, scale, x) > 0).all()
    again = pickle.loads(pickle.dumps(fitted))
    np.testing.assert_array_equal(again.predict_scale(mean, scale, x), fitted.predict_scale(mean, scale, x))
    twin = clone(calibrator).fit(mean, scale, y, features=x)
    np.testing.assert_array_equal(twin.predict_scale(mean, scale, x), fitted.predict_scale(mean, scale, x))


@every
def test_a_tensor_for_a_tensor(calibrator):
    arrays = rows()
    mean, scale, y, x = (torch.as_tensor(part, dtype=torch.float32) for part in arrays)
    fitted = clone(calibrator).fit(mean, scale, y, features=x)
    answer = fitted.predict_scale(mean, scale, x)
    assert isinstance(answer, torch.Tensor)
    assert answer.dtype == torch.float32
    mean, scale, y, x = arrays
    wanted = clone(calibrator).fit(mean, scale, y, features=x).predict_scale(mean, scale, x)
    assert isinstance(wanted, np.ndarray)
    np.testing.assert_allclose(answer, wanted, rtol=0.05)


@every
def test_without_a_scale_or_features(calibrator):
    mean, _, y, _ = rows()
    fitted = clone(calibrator).fit(mean, None, y)
    assert np.isfinite(fitted.predict_scale(mean, None)).all()
    with pytest.raises(ValueError, match="fitted without scales"):
        fitted.predict_scale(mean, np.ones_like(mean))


@every
def test_two_rows_and_perfect_predictions_give_a_finite_answer(calibrator):
    x = np.array([[0.0], [1.0]])
    for y in ([0.0, 1.0], [0.5, 3.0]):
        fitted = clone(calibrator).fit([0.0, 1.0], None, y, features=x)
        scale = fitted.predict_scale([0.0, 1.0], None, x)
        assert np.isfinite(scale).all()
        assert (scale > 0).all()


@pytest.mark.parametrize(("likelihood", "family"), [("normal", Normal), ("laplace", Laplace)])
def test_the_global_scale_is_the_best_one(likelihood, family):
    mean, scale, y, _ = rows()
    weight = np.random.default_rng(1).exponential(size=len(y))
    fitted = GlobalScale(likelihood=likelihood).fit(mean, scale, y, sample_weight=weight)

    def loss(factor):
        log_prob = family(torch.as_tensor(mean), torch.as_tensor(scale * factor)).log_prob(torch.as_tensor(y))
        return -float(torch.as_tensor(weight) @ log_prob)

    best = fitted.global_scale_
    assert loss(best) < min(loss(1.001 * best), loss(best / 1.001))


@pytest.mark.parametrize("family", _scale.FAMILIES.values(), ids=_scale.FAMILIES)
def test_slopes_and_information_of_the_linear_scale(family):
    u = torch.linspace(-3, 3, 50, dtype=torch.float64, requires_grad=True)
    z = torch.as_tensor(np.random.default_rng(0).normal(size=50))
    loss, slope, information = family.relative(z, u)
    (wanted,) = torch.autograd.grad(loss.sum(), u)
    torch.testing.assert_close(slope, wanted)
    assert (information > 0).all()


def test_weights_count_rows():
    mean, scale, y, x = rows(300)
    counts = np.random.default_rng(2).integers(0, 4, size=300)
    # A penalty that is given is not checked on rows held out, which would be others here and there.
    once = LinearScale(penalty=3.0).fit(mean, scale, y, features=x, sample_weight=counts)
    repeated = [np.repeat(part, counts, axis=0) for part in (mean, scale, y, x)]
    twice = LinearScale(penalty=3.0).fit(*repeated)
    seen = counts > 0
    np.testing.assert_allclose(
        once.predict_scale(mean[seen], scale[seen], x[seen]),
        twice.predict_scale(mean[seen], scale[seen], x[seen]),
        rtol=1e-4,
    )


def test_linear_and_deep_scales_find_noise_that_is_there():
    train, test = rows(2000, seed=1), rows(2000, seed=2)
    losses = []
    for calibrator in (GlobalScale(), LinearScale(), DeepScale(max_iter=200)):
        mean, scale, y, x = train
        losses.append(nll(calibrator.fit(mean, scale, y, features=x), *test))
    assert max(losses[1:]) < losses[0] - 0.15


@pytest.mark.parametrize("calibrator", [LinearScale(), DeepScale(max_iter=60)], ids=str)
def test_without_structure_it_is_global_scaling_exactly(calibrator):
    for seed in range(3):
        mean, scale, y, x = rows(150, seed=seed, noise=lambda x: 0.7)
        fitted = clone(calibrator).fit(mean, scale, y, features=x)
        plain = GlobalScale().fit(mean, scale, y)
        np.testing.assert_array_equal(fitted.predict_scale(mean, scale, x), plain.predict_scale(mean, scale))


def test_evidence_that_rows_held_out_deny_is_not_followed():
    worse = []
    for seed in range(12):
        rng = np.random.default_rng(seed)
        x, y = rng.normal(size=(560, 8)), rng.standard_cauchy(size=560)  # tails, and no feature that tells of them
        known, rest = (np.zeros(60), None, y[:60], x[:60]), (np.zeros(500), None, y[60:], x[60:])
        guarded = LinearScale().fit(*known)
        assert 0 <= guarded.share_ <= 1
        # A ridge that is given is taken at its word.
        trusting = GlobalScale() if np.isinf(guarded.precision_) else LinearScale(penalty=guarded.precision_)
        plain = nll(GlobalScale().fit(*known), *rest)
        worse.append([nll(each, *rest) > plain for each in (guarded, trusting.fit(*known))])
    guarded, trusting = np.mean(worse, axis=0)
    assert guarded <= trusting / 2
    assert trusting > 0.3


def test_unregularised_it_blows_up_where_evidence_does_not():
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(440, 60)), rng.normal(size=440)
    zeros, new = np.zeros(80), np.zeros(360)
    wild = LinearScale(penalty=None).fit(zeros, None, y[:80], features=x[:80])
    tame = LinearScale().fit(zeros, None, y[:80], features=x[:80])
    assert nll(wild, new, None, y[80:], x[80:]) > 2
    assert nll(tame, new, None, y[80:], x[80:]) < 1.5


def test_new_rows_get_no_scale_beyond_the_range_of_the_fit():
    mean, scale, y, x = rows(1000)
    fitted = LinearScale().fit(mean, scale, y, features=x)
    seen = fitted.predict_scale(mean, np.ones_like(scale), x)
    far = fitted.predict_scale(np.zeros(2), np.ones(2), np.array([[1e6, 0, 0], [-1e6, 0, 0]]))
    edge = fitted.predict_scale(np.zeros(2), np.ones(2), [[x[:, 0].max(), 0, 0], [x[:, 0].min(), 0, 0]])
    np.testing.assert_allclose(far, edge)
    assert seen.min() <= far.min() < far.max() <= seen.max()


def test_more_features_than_rows():
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(30, 200)), rng.normal(size=30)
    fitted = LinearScale().fit(np.zeros(30), None, y, features=x)
    assert np.isfinite(fitted.predict_scale(np.zeros(30), None, x)).all()


def test_isotonic_agrees_with_the_empirical_map():
    rng = np.random.default_rng(0)
    mean, y = np.zeros(4000), rng.gamma(2.0, size=4000)
    distribution = IsotonicScale().fit(mean, None, y).distribution(mean, None)
    base = Normal(0.0, float(np.sqrt(np.mean(y**2)))).cdf(torch.as_tensor(y)).numpy()
    share = np.argsort(np.argsort(y)) / len(y)
    wanted = IsotonicRegression().fit(base, share).predict(base)
    assert np.abs(distribution.cdf(torch.as_tensor(y)).numpy() - wanted).max() < 0.02


def test_isotonic_leaves_a_calibrated_forecast_alone():
    levels, firmness = polya_tree(leaf_masses((np.arange(500) + 0.5) / 500, np.ones(500)))
    knots = np.linspace(0, 1, len(levels))
    assert firmness == np.inf
    np.testing.assert_array_equal(levels, knots)
    chance = np.random.default_rng(0).uniform(size=(10, 500))
    bent = np.mean([np.abs(polya_tree(leaf_masses(pit, np.ones(len(pit))))[0] - knots).max() for pit in chance])
    steps = np.mean([np.abs((pit[:, None] <= knots).mean(0) - knots).max() for pit in chance])
    assert bent < 0.7 * steps


def test_heavy_tails_get_a_student_t():
    rng = np.random.default_rng(0)
    mean, y = np.zeros(300), 2 * rng.standard_t(3, size=300)
    fitted = IsotonicScale().fit(mean, None, y)
    df, factor = fitted.tails_
    assert df <= 4
    assert factor * fitted.global_scale_ == pytest.approx(2, rel=0.2)
    fresh = torch.as_tensor(2 * rng.standard_t(3, size=5000))
    zeros = np.zeros(5000)
    normal = GlobalScale().fit(mean, None, y).distribution(zeros, None)
    assert fitted.distribution(zeros, None).log_prob(fresh).mean() > normal.log_prob(fresh).mean() + 0.05
    assert IsotonicScale().fit(mean, None, rng.normal(size=300)).tails_ is None
    assert np.isfinite(fitted.predict_scale(mean, None)).all()


@pytest.mark.parametrize(
    "family", [Normal, Laplace, lambda loc, scale: StudentT(torch.full_like(loc, 6.0), loc, scale)]
)
def test_recalibrated_is_a_distribution(family):
    raw = np.random.default_rng(0).dirichlet(np.ones(16))
    levels = torch.as_tensor(np.concatenate([[0], raw.cumsum()]))
    levels[-1] = 1
    loc, scale = torch.tensor([-1.0, 2.0], dtype=torch.float64), torch.tensor([0.5, 3.0], dtype=torch.float64)
    bent = Recalibrated(family(loc, scale), levels)
    grid = torch.linspace(-150, 150, 600_001, dtype=torch.float64)[:, None]
    density = bent.log_prob(grid).exp()
    torch.testing.assert_close(torch.trapezoid(density, grid, dim=0), torch.ones(2).double(), atol=1e-3, rtol=0)
    mean = torch.trapezoid(density * grid, grid, dim=0)
    torch.testing.assert_close(bent.mean, mean, atol=3e-3, rtol=0)
    variance = torch.trapezoid(density * (grid - mean) ** 2, grid, dim=0)
    torch.testing.assert_close(bent.variance, variance, atol=1e-2, rtol=1e-3)
    torch.manual_seed(0)
    torch.testing.assert_close(bent.sample((20_000,)).mean(0), mean, atol=0.1, rtol=0)
    assert bent.log_prob(torch.full((2,), 300.0).double()).isfinite().all()
    assert bent.expand((3, 2)).sample().shape == (3, 2)


def test_a_uniform_map_changes_nothing():
    base = Normal(torch.zeros(3), torch.ones(3))
    bent, y = Recalibrated(base, torch.linspace(0, 1, 9)), torch.tensor([-1.0, 0.2, 3.0])
    torch.testing.assert_close(bent.log_prob(y), base.log_prob(y))
    torch.testing.assert_close(bent.cdf(y), base.cdf(y))
    torch.testing.assert_close(bent.variance, base.variance)


def test_auto_finds_the_linear_scale_and_the_bend():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(600, 2))
    y = np.log1p(np.exp(2 * x[:, 0])) * (rng.exponential(size=600) - 1)
    auto = AutoScale(cv=2).fit(np.zeros(600), None, y, features=x)
    assert auto.name_ in ("linear+isotonic", "deep+isotonic")
    assert list(auto.scores_) == ["global", "linear", "deep", "isotonic", "linear+isotonic", "deep+isotonic"]
    assert auto.scores_[auto.name_] < auto.scores_["global"]


@together(
    ("change", "message"),
    [
        ({"scale": [1.0, 0.0]}, "scale must be positive"),
        ({"scale": [1.0]}, "scale must hold one number per row"),
        ({"mean": [[0.0], [1.0]]}, "mean must hold one number per row"),
        ({"mean": [], "y": [], "scale": None}, "mean has no rows"),
        ({"y": [0.0, float("nan")]}, "y holds NaN"),
        ({"features": [[1.0]]}, "features must have the shape"),
        ({"features": [[1.0], [float("inf")]]}, "features hold NaN"),
        ({"sample_weight": [-1.0, 1.0]}, "sample_weight must be finite"),
    ],
)
def test_bad_input(change, message):
    given = {"mean": [0.0, 1.0], "scale": [1.0, 1.0], "y": [0.0, 2.0]} | change
    with pytest.raises(ValueError, match=message):
        LinearScale().fit(**given)


def test_wrong_use():
    mean, scale, y, x = rows(50)
    with pytest.raises(ValueError, match="likelihood must be one of 'normal', 'laplace'"):
        GlobalScale(likelihood="cauchy").fit(mean, scale, y)
    with pytest.raises(ValueError, match=r"coverage must lie in \(0, 1\)"):
        GlobalScale().fit(mean, scale, y).predict_interval(mean, scale, coverage=90)
    for calibrator in (LinearScale(), DeepScale(max_iter=5)):
        with pytest.raises(ValueError, match="2 columns, the fit had 3"):
            calibrator.fit(mean, scale, y, features=x).predict_scale(mean, scale, x[:, :2])
    with pytest.raises(ValueError, match="comes last"):
        compose(IsotonicScale(), LinearScale()).fit(mean, scale, y)
    with pytest.raises(ValueError, match="cv must be 2 or more, got 1"):
        AutoScale(cv=1).fit(mean, scale, y)
    with pytest.raises(ValueError, match="give at least one calibrator"):
        ScalePipeline([]).fit(mean, scale, y)


def test_default_features_are_the_mean_and_the_log_scale():
    mean, scale, _, _ = rows(50)
    source = Forecasts.checked(mean, scale, None).source
    assert isinstance(source, Rows)
    np.testing.assert_allclose(source[slice(0, 50)].numpy(), np.stack([mean, np.log(scale)], axis=1))


@pytest.mark.parametrize(
    "calibrator", [GlobalScale(), LinearScale(), IsotonicScale(), AutoScale(candidates={"global": GlobalScale()})]
)
def test_targets_must_be_there(calibrator: Any) -> None:
    with pytest.raises(ValueError, match="y must hold one number per row"):
        calibrator.fit(np.zeros(4), None, None)


def test_steps_that_are_no_calibrators_are_refused_in_words() -> None:
    with pytest.raises(TypeError, match="must be scale calibrators of likely"):
        AutoScale(candidates={"own": LinearRegression()}).fit(
            np.zeros(40), None, np.random.default_rng(0).normal(size=40)
        )


def test_moments_are_refused_where_they_are_not_known() -> None:
    levels = torch.linspace(0, 1, 9, dtype=torch.float64) ** 1.5
    bent = Recalibrated(torch.distributions.Gumbel(torch.zeros(2).double(), torch.ones(2).double()), levels)
    assert bent.cdf(torch.zeros(2).double()).isfinite().all()
    with pytest.raises(NotImplementedError, match="moments are known for Normal, Laplace"):
        _ = bent.mean
    with pytest.raises(NotImplementedError, match="likely's StudentT"):
        _ = Recalibrated(torch.distributions.StudentT(torch.full((2,), 5.0).double()), levels).mean
