import math

import numpy as np
import pytest
import torch
from scipy import stats

from likely.distributions import Huber, Robust, StudentT
from likely.likelihoods.robust import _rejection_sample
from pairwise import together
from quadrature import integral

SHAPES = [0.0, 0.05, 0.5, 1.0, 1.5, 1.999, 2.0, 2.001, 3.0, 8.0]


def double(value):
    return torch.tensor(value, dtype=torch.float64)


def everywhere(f, loc, reach=40):
    """∫ f over the line, in v = sinh⁻¹(x - loc), so that heavy tails are short."""
    return integral(lambda v: f(loc + v.sinh()) * v.cosh(), -reach, reach)


def make(kind, shape):
    return (
        Robust(double(shape), double(0.3), double(0.7))
        if kind == "robust"
        else Huber(double(shape), double(0.3), double(0.7))
    )


CASES = [("robust", a) for a in SHAPES] + [("huber", d) for d in (0.2, 1.345, 5.0)]


@together(("kind", "shape"), CASES)
def test_cdf_is_the_integral_of_the_density(kind, shape):
    d = make(kind, shape)
    for value in (-6.0, 0.3, 0.9, 25.0):
        centre = integral(lambda v: d.log_prob(0.3 + v.sinh()).exp() * v.cosh(), 0, math.asinh(value - 0.3))
        assert d.cdf(double(value)).item() == pytest.approx(0.5 + centre, abs=1e-11)


@together(("kind", "shape"), CASES)
def test_quantiles_invert_the_cdf(kind, shape):
    d = make(kind, shape)
    p = double([1e-6, 1e-3, 0.1, 0.5, 0.75, 0.999, 1 - 1e-6])
    torch.testing.assert_close(d.cdf(d.icdf(p)), p, rtol=1e-9, atol=1e-13)
    assert d.icdf(double([0.0, 1.0])).tolist() == [-math.inf, math.inf]


@together(("kind", "shape"), [c for c in CASES if c != ("robust", 0.0)])
def test_moments(kind, shape):
    d = make(kind, shape)

    def density(x):
        return d.log_prob(x).exp()

    if shape >= 0.2:
        assert d.variance.item() == pytest.approx(everywhere(lambda x: (x - 0.3) ** 2 * density(x), 0.3), rel=1e-7)
    assert d.mean.item() == d.mode.item() == 0.3
    if kind == "robust":
        expected = everywhere(lambda x: -density(x) * d.log_prob(x), 0.3)
        assert d.entropy().item() == pytest.approx(expected, rel=1e-7)


def test_the_cauchy_has_no_moments():
    d = Robust(double(0.0), double(0.3), double(0.7))
    assert d.mean.isnan()
    assert d.variance.item() == math.inf
    assert d.entropy().item() == pytest.approx(math.log(4 * math.pi * 0.7 * math.sqrt(2)), rel=1e-9)


@together(("kind", "shape"), CASES)
def test_samples_follow_the_cdf(kind, shape):
    d = make(kind, shape)
    torch.manual_seed(1)
    x = d.sample((20_000,))
    assert stats.kstest(x.numpy(), lambda v: d.cdf(torch.as_tensor(v)).numpy()).pvalue > 1e-3


def test_every_twentieth_of_the_cauchy_has_its_share_of_many_samples():
    """Ten times as many as in the test above, without gradients; from these samples those below α = 2 are chosen."""
    torch.manual_seed(0)
    sample = _rejection_sample(torch.zeros(200_000, dtype=torch.float64))
    counts = np.histogram(stats.cauchy(scale=math.sqrt(2)).cdf(sample.numpy()), bins=20, range=(0, 1))[0]
    assert stats.chisquare(counts).pvalue > 1e-3


def test_drawing_asks_for_no_cdf_unless_its_gradient_is_wanted(monkeypatch):
    asked = []
    d = Robust(double(1.3).requires_grad_(), double(0.3), double(0.7))
    monkeypatch.setattr(Robust, "_standard_cdf", lambda self, z: asked.append(z) or z * self.alpha)
    drawn = d.sample((5,))
    assert not asked
    assert not drawn.requires_grad
    assert d.rsample((5,)).requires_grad
    assert asked


@pytest.mark.parametrize(("kind", "shape"), [("robust", 0.5), ("robust", 1.5), ("robust", 2.5), ("huber", 1.345)])
def test_sample_gradients_are_those_of_the_quantile(kind, shape):
    parameters = [double(v).requires_grad_() for v in (shape, 0.3, 0.7)]
    d = (Robust if kind == "robust" else Huber)(*parameters)
    torch.manual_seed(2)
    x = d.rsample((5,))
    p = d.cdf(x.detach()).detach()
    for k in range(5):
        got = torch.autograd.grad(x[k], parameters, retain_graph=True)
        expected = torch.autograd.grad(d.icdf(p[k]), parameters, retain_graph=True)
        torch.testing.assert_close(got, expected, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("alpha", [0.5, 1.5, 2.5])
def test_cdf_and_icdf_gradients(alpha):
    arguments = (double([-0.4, 2.0]).requires_grad_(), double(alpha).requires_grad_(), double(0.1).requires_grad_())
    assert torch.autograd.gradcheck(lambda x, a, m: Robust(a, m, double(0.8)).cdf(x), arguments, atol=1e-6)
    probabilities = (double([0.2, 0.9]).requires_grad_(), *arguments[1:])
    assert torch.autograd.gradcheck(lambda p, a, m: Robust(a, m, double(0.8)).icdf(p), probabilities, atol=1e-6)


def test_student_t_is_scipys():
    d = StudentT(double([0.7, 3.0, 40.0]), double(0.3), double(0.7))
    x, p = double([-2.0, 0.4, 3.0]), double([0.01, 0.6, 0.999])
    reference = stats.t([0.7, 3.0, 40.0], 0.3, 0.7)
    np.testing.assert_allclose(d.cdf(x), reference.cdf(x), rtol=1e-12)
    np.testing.assert_allclose(d.icdf(p), reference.ppf(p), rtol=1e-9)
    assert torch.autograd.gradcheck(d.cdf, x.requires_grad_())
    assert torch.autograd.gradcheck(d.icdf, p.requires_grad_(), atol=1e-5)


def test_behaves_like_a_torch_distribution():
    d = Robust(torch.tensor([0.5, 2.0]), 0.0, torch.tensor(1.0))
    assert d.batch_shape == (2,)
    assert d.expand((3, 2)).sample((4,)).shape == (4, 3, 2)
    assert d.rsample((7,)).shape == (7, 2)
    torch.testing.assert_close(d.expand((3, 2)).log_prob(torch.ones(3, 2))[0], d.log_prob(torch.ones(2)))
    with pytest.raises(ValueError, match="alpha"):
        Robust(-0.1, 0.0, 1.0, validate_args=True)
    with pytest.raises(ValueError, match="scale"):
        Huber(1.0, 0.0, 0.0, validate_args=True)


@pytest.mark.parametrize("alpha", [0.3, 1.0, 3.0])
def test_the_entropy_of_the_robust_distribution_has_its_gradient(alpha):
    def entropy(value: float) -> float:
        return Robust(torch.tensor(value, dtype=torch.float64), 0.0, 1.0).entropy().item()

    shape = torch.tensor(alpha, dtype=torch.float64, requires_grad=True)
    (slope,) = torch.autograd.grad(Robust(shape, 0.0, 1.0).entropy(), shape)
    assert slope.item() == pytest.approx((entropy(alpha + 1e-5) - entropy(alpha - 1e-5)) / 2e-5, rel=1e-6)
