"""The two-piece Student t: digits against mpmath, limits, moments, scores, samples, and what it is for."""

import itertools
import math

import mpmath
import numpy as np
import pytest
import torch
from scipy import stats

import likely
from likely import functional as F
from likely._numerics.special import digamma_half_step, log_cosh
from likely.distributions import SkewStudentT, StudentT
from likely.losses import SkewStudentTLoss
from likely.metrics import crps, crps_from_samples
from likely.metrics._scores import _by_quadrature
from pairwise import together
from quadrature import integral

CASES = [(0.8, 0.3), (1.5, -0.4), (2.5, 1.2), (4.0, -2.0), (7.0, 0.0), (60.0, 0.7)]
every = pytest.mark.parametrize(("df", "skew"), CASES)


def double(value):
    return torch.tensor(value, dtype=torch.float64)


def made(df, skew, loc=0.3, scale=0.7):
    return SkewStudentT(*(double([value]) for value in (df, skew, loc, scale)))


def exact(z, df, skew):
    """The NLL at scale one and its slopes in z and the skew, to 60 digits."""
    z, df, skew = (mpmath.mpf(float(value)) for value in (z, df, skew))
    sign = -1 if z < 0 else 1
    ratio = z**2 * mpmath.exp(-2 * sign * skew) / df
    constant = mpmath.loggamma(df / 2) - mpmath.loggamma((df + 1) / 2) + mpmath.log(df * mpmath.pi) / 2
    nll = (df + 1) / 2 * mpmath.log1p(ratio) + constant + mpmath.log(mpmath.cosh(skew))
    pull = (df + 1) * ratio / (1 + ratio)
    return nll, pull / z if z else mpmath.mpf(0), mpmath.tanh(skew) - sign * pull


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 5e-6), (torch.float64, 1e-14)])
def test_nll_and_slopes_are_exact_at_the_edges(dtype, tolerance):
    sizes = [0.0, 1e-30, 1e-8, 0.5, 1.0, 40.0, 1e8, 1e30]
    grid = list(
        itertools.product([*sizes, *(-s for s in sizes)], [1e-3, 1.0, 30.0, 1e6, 1e12], [0.0, 1e-9, 0.3, -3.0, 25, -70])
    )
    z, df, skew = torch.tensor(grid, dtype=dtype).unbind(1)
    z, skew = z.requires_grad_(), skew.requires_grad_()
    nll = F.skew_student_t_nll(torch.zeros_like(z), z, df=df, skew=skew, scale=1.0, reduction="none")
    slopes = torch.autograd.grad(nll.sum(), [z, skew])
    with mpmath.workdps(80):
        wanted = [exact(*values) for values in zip(z.tolist(), df.tolist(), skew.tolist(), strict=True)]
    # A power of df + 1 of numbers that are themselves rounded, and no more.
    for got, expected in zip((nll, *slopes), zip(*wanted, strict=True), strict=True):
        torch.testing.assert_close(
            got.detach(), double([float(e) for e in expected]).to(dtype), rtol=8 * tolerance, atol=tolerance
        )


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_no_finite_parameter_gives_nan(dtype):
    sizes = [0.0, 1e-37, 1e-4, 1.0, 1e30] + [1e-300, 1e300] * (dtype == torch.float64)
    skews = [0.0, 44.0, 89.0, 200.0, 710.0, 1e4, 1e30]
    grid = itertools.product(
        [*sizes, *(-s for s in sizes)], [1e-15, 1e-3, 2.0, 1e30], [*skews, *(-s for s in skews)], [1e-4, 1.0, 1e4]
    )
    leaves = [values.clone().requires_grad_() for values in torch.tensor(list(grid), dtype=dtype).unbind(1)]
    z, df, skew, scale = leaves
    nll = F.skew_student_t_nll(torch.zeros_like(z), z, df=df, skew=skew, scale=scale, reduction="none")
    assert not any(value.isnan().any() for value in (nll, *torch.autograd.grad(nll.sum(), leaves)))
    d = SkewStudentT(df.detach(), skew, 0.0, scale)
    p = d.cdf(z)
    assert not any(value.isnan().any() for value in (p, *torch.autograd.grad(p.sum(), [z, skew, scale])))
    assert ((p >= 0) & (p <= 1)).all()
    level = torch.tensor([0.0, 1e-30, 0.5, 1.0], dtype=dtype)[:, None]
    assert not d.icdf(level).isnan().any()
    assert not d.entropy().isnan().any()


def test_without_skew_it_is_students_t():
    df, y = double([0.7, 1.5, 4.0, 1e9]), double([-2.0, 0.3, 0.9, 5.0])
    x, p = torch.zeros(4, dtype=torch.float64), double([1e-9, 0.3, 0.5, 0.999])
    for skew in (0.0, 1e-17, -1e-17):
        ours, known = SkewStudentT(df, skew, 0.3, 0.7), StudentT(df, 0.3, 0.7)
        got = F.skew_student_t_nll(x, y, df=df, skew=skew, scale=0.7, reduction="none")
        torch.testing.assert_close(got, F.student_t_nll(x, y, df=df, scale=0.7, reduction="none"), rtol=1e-14, atol=0)
        torch.testing.assert_close(ours.cdf(y), known.cdf(y), rtol=1e-14, atol=0)
        torch.testing.assert_close(ours.icdf(p), known.icdf(p), rtol=1e-12, atol=1e-15)
        torch.testing.assert_close(ours.mean, known.mean, equal_nan=True)
        torch.testing.assert_close(ours.variance, known.variance, equal_nan=True)
        torch.testing.assert_close(ours.entropy()[:3], known.entropy()[:3], rtol=1e-13, atol=0)
        np.testing.assert_allclose(crps(y, ours, reduction="none"), crps(y, known, reduction="none"), rtol=1e-13)


@together("df", [1e12, 1e30, 1e200])
@together("skew", [-1.1, 0.4, 6.0])
def test_without_heavy_tails_it_is_the_two_piece_normal(df, skew):
    low, high = 0.7 * math.exp(-skew), 0.7 * math.exp(skew)
    z = double([-3.0, -0.5, 0.0, 0.2, 4.0])
    side = np.where(z < 0, low, high)
    y = 0.3 + z * torch.from_numpy(side)
    d = SkewStudentT(double(df), double(skew), 0.3, 0.7).expand((5,))
    density = stats.norm.logpdf(z) + math.log(2 / (low + high))
    torch.testing.assert_close(d.log_prob(y), torch.from_numpy(density), rtol=1e-9, atol=1e-9)
    below = 2 * low / (low + high) * stats.norm.cdf(z)
    above = 1 - 2 * high / (low + high) * stats.norm.sf(z)
    torch.testing.assert_close(d.cdf(y), torch.from_numpy(np.where(z < 0, below, above)), rtol=1e-9, atol=1e-12)
    shift = math.sqrt(2 / math.pi) * (high - low)
    assert d.mean[0].item() == pytest.approx(0.3 + shift, rel=1e-10)
    assert d.variance[0].item() == pytest.approx((1 - 2 / math.pi) * (high - low) ** 2 + low * high, rel=1e-9)
    assert d.entropy()[0].item() == pytest.approx(0.5 + 0.5 * math.log(math.pi / 2) + math.log(low + high), rel=1e-10)


@every
def test_the_cdf_is_the_integral_of_the_density(df, skew):
    d = made(df, skew)

    def mass(value):
        with mpmath.workdps(40):
            z = (mpmath.mpf(value) - mpmath.mpf(0.3)) / mpmath.mpf(0.7)
            sign = -1 if z < 0 else 1
            x = df / (df + z**2 * mpmath.exp(-2 * sign * mpmath.mpf(skew)))
            weight = 1 / (1 + mpmath.exp(-2 * sign * mpmath.mpf(skew)))
            beyond = weight * mpmath.betainc(mpmath.mpf(df) / 2, 0.5, 0, x, regularized=True)
            return float(beyond if sign < 0 else 1 - beyond)

    values = [-1e3, -6.0, -0.1, 0.3, 0.31, 0.9, 25.0]
    torch.testing.assert_close(d.cdf(double(values)), double([mass(v) for v in values]), rtol=1e-12, atol=0)
    for value in (-6.0, 0.9):
        centre = integral(lambda v: d.log_prob(0.3 + v.sinh()).exp() * v.cosh(), 0, math.asinh(value - 0.3))
        assert d.cdf(double(value)).item() == pytest.approx(1 / (1 + math.exp(2 * skew)) + centre, abs=1e-11)


@every
def test_quantiles_invert_the_cdf(df, skew):
    d = made(df, skew)
    below = 1 / (1 + math.exp(2 * skew))
    p = double([1e-6, 1e-3, 0.1, 0.5, below, 0.75, 0.999, 1 - 1e-6])
    torch.testing.assert_close(d.cdf(d.icdf(p)), p, rtol=1e-9, atol=1e-13)
    assert d.icdf(double(below)).item() == pytest.approx(0.3, abs=1e-8)  # SciPy's digits about the median
    assert d.icdf(double([0.0, 1.0])).tolist() == [-math.inf, math.inf]
    assert d.icdf(double([-0.1, 1.1])).isnan().all()
    assert d.mode.item() == 0.3


@every
def test_moments(df, skew):
    d = made(df, skew)

    def expected(f, low, high):
        return integral(lambda v: (f(v.sinh()) * d.log_prob(0.3 + v.sinh()).exp()) * v.cosh(), low, high)

    if df <= 1:
        assert d.mean.isnan()
        assert d.variance.isnan()
    elif df <= 2:
        assert d.mean.isfinite()
        assert d.variance.item() == math.inf
    else:
        ends = (-40.0 if df < 3 else -20.0), (40.0 if df < 3 else 20.0)
        mean = expected(lambda x: x, *ends)
        assert d.mean.item() == pytest.approx(0.3 + mean, rel=1e-8)
        assert d.variance.item() == pytest.approx(expected(lambda x: (x - mean) ** 2, *ends), rel=1e-6)
    surprise = integral(lambda v: -d.log_prob(0.3 + v.sinh()) * d.log_prob(0.3 + v.sinh()).exp() * v.cosh(), -60, 60)
    assert d.entropy().item() == pytest.approx(surprise, rel=1e-9)


@every
def test_the_score_is_the_integral_of_the_squared_cdf(df, skew):
    d = made(df, skew)
    y = np.array([-30.0, -0.6, 0.3, 0.5, 2.0, 80.0])
    reach = 45.0 if df < 1 else 30.0  # in sinh⁻¹: the square of a heavy tail ends late

    def squared(target):
        place = math.asinh(target - 0.3)
        below = integral(lambda v: d.cdf(0.3 + v.sinh()) ** 2 * v.cosh(), -reach, place)
        return below + integral(lambda v: d.sf(0.3 + v.sinh()) ** 2 * v.cosh(), place, reach)

    # 1 - F of the other side is F of the mirrored distribution, and keeps its digits.
    mirrored = made(df, -skew, -0.3)
    d.sf = lambda x: mirrored.cdf(-x)
    wanted = [squared(target) for target in y]
    np.testing.assert_allclose(crps(y, d.expand((6,)), reduction="none"), wanted, rtol=1e-6 if df < 1 else 1e-9)
    if df > 2:
        np.testing.assert_allclose(_by_quadrature(d.expand((6,)), y), wanted, rtol=1e-5)


def test_the_score_at_the_edges():
    one, zero = double([1.0] * 4), double([0.0] * 4)
    y = [-1e300, -1.0, 1.0, 1e300]
    for skew in (0.0, 40.0, -40.0, 300.0):
        values = crps(y, SkewStudentT(3 * one, skew, zero, one), reduction="none")
        assert (values >= 0).all()
        assert np.isfinite(values).all()
    assert crps([1.0], SkewStudentT(one[:1] / 2, 0.0, 0.0, 1.0)) == math.inf
    # A side without mass: half a t on the other side.
    half = crps([0.5], SkewStudentT(4 * one[:1], 20.0, 0.0, math.exp(-20)))
    torch.manual_seed(0)
    samples = StudentT(double(4.0)).sample((400_000,)).abs().numpy()
    assert half == pytest.approx(crps_from_samples([0.5], samples[None]), rel=0.01)


@every
def test_samples_follow_the_cdf(df, skew):
    d = made(df, skew)
    torch.manual_seed(1)
    x = d.sample((20_000,)).squeeze(-1)
    assert stats.kstest(x.numpy(), lambda v: d.cdf(torch.as_tensor(v)).numpy()).pvalue > 1e-3
    assert crps([0.8], d) == pytest.approx(crps_from_samples([0.8], x.numpy()[None]), rel=0.1) or df < 1


@pytest.mark.parametrize(("df", "skew"), [(1.5, -0.4), (4.0, 0.9), (60.0, 2.0)])
def test_gradients_of_cdf_quantile_and_samples(df, skew):
    shape = double(df)
    leaves = tuple(double(value).requires_grad_() for value in (skew, 0.3, 0.7))
    x, p = double([-2.0, 0.1, 0.5, 3.0]).requires_grad_(), double([0.01, 0.2, 0.7, 0.99]).requires_grad_()
    assert torch.autograd.gradcheck(lambda x, a, m, s: SkewStudentT(shape, a, m, s).cdf(x), (x, *leaves), atol=1e-6)
    assert torch.autograd.gradcheck(lambda p, a, m, s: SkewStudentT(shape, a, m, s).icdf(p), (p, *leaves), atol=1e-5)
    d = SkewStudentT(shape, *leaves)
    torch.manual_seed(2)
    for drawn in d.rsample((12,)):
        level = d.cdf(drawn.detach()).detach()
        got = torch.autograd.grad(drawn, leaves, retain_graph=True)
        expected = torch.autograd.grad(d.icdf(level), leaves, retain_graph=True)
        torch.testing.assert_close(got, expected, rtol=1e-6, atol=1e-9)


def test_samples_have_the_gradient_of_the_mean_in_every_parameter():
    leaves = [double(value).requires_grad_() for value in (9.0, 0.5, 0.3, 0.7)]
    d = SkewStudentT(*leaves)
    torch.manual_seed(3)
    got = torch.autograd.grad(d.rsample((400_000,)).mean(), leaves)
    expected = torch.autograd.grad(d.mean, leaves)
    for sampled, true in zip(got, expected, strict=True):
        assert sampled.item() == pytest.approx(true.item(), rel=0.05)


def test_behaves_like_a_torch_distribution():
    d = SkewStudentT(torch.tensor([3.0, 5.0]), 0.5, 0.0, torch.tensor(1.0))
    assert d.batch_shape == (2,)
    assert d.expand((3, 2)).sample((4,)).shape == (4, 3, 2)
    assert d.rsample((7,)).dtype == torch.float32
    torch.testing.assert_close(d.expand((3, 2)).log_prob(torch.ones(3, 2))[0], d.log_prob(torch.ones(2)))
    with pytest.raises(ValueError, match="df"):
        SkewStudentT(0.0, 0.0, 0.0, 1.0, validate_args=True)
    with pytest.raises(ValueError, match="skew"):
        SkewStudentT(3.0, math.nan, 0.0, 1.0, validate_args=True)


def test_a_skew_has_either_sign_and_is_a_number():
    x, y = torch.zeros(2), torch.tensor([1.0, -1.0])
    flat = SkewStudentTLoss(df=3.0, skew=0, scale=1.0)
    torch.testing.assert_close(flat(x, y), F.student_t_nll(x, y, df=3.0, scale=1.0))
    left, right = (SkewStudentTLoss(df=3.0, skew=a, scale=1.0, reduction="none")(x, y) for a in (-8.0, 8.0))
    torch.testing.assert_close(left, right.flip(0))
    for bad in (math.nan, math.inf, -math.inf):
        with pytest.raises(ValueError, match=r"skew must be finite|skew holds NaN"):
            SkewStudentTLoss(skew=bad)
        with pytest.raises(ValueError, match=f"skew must be finite, got {bad}"):
            F.skew_student_t_nll(x, y, df=3.0, skew=bad, scale=1.0)
    with pytest.raises(ValueError, match="skew holds NaN: lower its learning rate"):
        F.skew_student_t_nll(x, y, df=3.0, skew=torch.tensor([0.0, math.nan]), scale=1.0)
    with pytest.raises(ValueError, match="skew must be finite everywhere, got -2 to inf"):
        F.skew_student_t_nll(x, y, df=3.0, skew=torch.tensor([-2.0, math.inf]), scale=1.0)
    with pytest.raises(ValueError, match="df must be > 0"):
        SkewStudentTLoss(df=-3.0)
    with pytest.raises(ValueError, match="does not reach"):
        SkewStudentTLoss(skew=likely.Global(init=4.0))


def test_parameters_are_found_again():
    torch.manual_seed(4)
    y = SkewStudentT(double(3.0), double(0.6), double(1.0), double(0.5)).sample((6000,))
    prediction, loss_fn = double(0.0).requires_grad_(), SkewStudentTLoss().double()
    optimizer = torch.optim.LBFGS([prediction, *loss_fn.parameters()], max_iter=200, line_search_fn="strong_wolfe")

    def closure():
        optimizer.zero_grad()
        loss = loss_fn(prediction.expand_as(y), y)
        loss.backward()
        return loss

    optimizer.step(closure)
    assert prediction.item() == pytest.approx(1.0, abs=0.06)
    assert loss_fn.skew.value.item() == pytest.approx(0.6, abs=0.06)
    assert loss_fn.scale.value.item() == pytest.approx(0.5, rel=0.06)
    assert loss_fn.df.value.item() == pytest.approx(3.0, rel=0.15)


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 4e-7), (torch.float64, 2e-13)])
def test_special_functions(dtype, tolerance):
    x = torch.logspace(-12, 18, 61, dtype=dtype)
    small = torch.cat([torch.logspace(-15, 3, 40, dtype=dtype), torch.tensor([19.99, 20.01], dtype=dtype)])
    with mpmath.workdps(60):
        half = mpmath.mpf(1) / 2
        step = [float(mpmath.digamma(mpmath.mpf(v) + half) - mpmath.digamma(mpmath.mpf(v))) for v in x.tolist()]
        log = [float(mpmath.log(mpmath.cosh(mpmath.mpf(v)))) for v in small.tolist()]
    torch.testing.assert_close(digamma_half_step(x).double(), double(step), rtol=tolerance, atol=0)
    for signed in (small, -small):
        leaf = signed.clone().requires_grad_()
        value = log_cosh(leaf)
        torch.testing.assert_close(value.detach().double(), double(log), rtol=tolerance, atol=1e-30)
        (slope,) = torch.autograd.grad(value.sum(), leaf)
        torch.testing.assert_close(slope.double(), torch.tanh(signed.double()), rtol=tolerance, atol=0)


def test_the_tails_of_students_t_have_their_sign_and_their_digits():
    d = StudentT(double([3.0, 3.0, 0.5, 0.01]))
    levels = double([0.0, 1e-300, 1e-100, 1e-2])
    low = d.icdf(levels)
    assert low[0] == -math.inf
    with mpmath.workdps(60):
        for df, p, got in zip(d.df.tolist()[1:], levels.tolist()[1:], low.tolist()[1:], strict=True):
            half = mpmath.mpf(df) / 2
            x = df / (df + mpmath.mpf(got) ** 2)
            assert float(mpmath.betainc(half, 0.5, 0, x, regularized=True) / 2 / p) == pytest.approx(1, rel=1e-9)
    assert d.icdf(double(1.0)).tolist() == [math.inf] * 4
    torch.testing.assert_close(d.cdf(low)[1:], levels[1:], rtol=1e-9, atol=0)
    assert d.icdf(double([-0.1, 1.1, math.nan, 2.0])).isnan().all()
