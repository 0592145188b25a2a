"""The densities' shortcuts against the functions that define them."""

import numpy as np
import pytest
import torch
from scipy import integrate, stats

from likely.linear._robust_density import Density

DENSITIES = [
    Density.of("normal"),
    Density.of("laplace"),
    Density.of("student_t", 3.0),
    Density.of("robust", 0.0),
    Density.of("robust", 1.3),
    Density.of("robust", 2.0),
]


def name(density: Density) -> str:
    return f"{density.likelihood}-{density.shape}"


@pytest.mark.parametrize("density", DENSITIES, ids=name)
def test_loss_is_the_nll_less_a_constant(density: Density) -> None:
    z = np.linspace(-8, 8, 41)
    constant = density.nll(z, 1.0) - density.loss(z)
    np.testing.assert_allclose(constant, constant[0], atol=1e-9)
    np.testing.assert_allclose(density.nll(3 * z, 3.0), density.nll(z, 1.0) + np.log(3), rtol=1e-9)


@pytest.mark.parametrize("density", DENSITIES, ids=name)
def test_weight_is_the_slope_of_the_nll_over_z(density: Density) -> None:
    z, step = np.array([-5.0, -0.3, 0.2, 1.0, 7.0]), 1e-5
    slope = (density.nll(z + step, 1.0) - density.nll(z - step, 1.0)) / (2 * step)
    np.testing.assert_allclose(density.weight(z) * np.ones(5), slope / z, rtol=1e-5)


@pytest.mark.parametrize("density", DENSITIES, ids=name)
def test_densities_integrate_to_one(density: Density) -> None:
    t = np.linspace(-20, 20, 20_001)
    mass = integrate.trapezoid(np.exp(-density.nll(np.sinh(t), 1.0)) * np.cosh(t), t)
    assert mass == pytest.approx(1, abs=1e-5)


def test_information_and_deviation_are_the_closed_forms() -> None:
    for density, information, deviation in (
        (Density.of("normal"), 2, 1),
        (Density.of("laplace"), 1, 2**0.5),
        (Density.of("student_t", 5.0), 10 / 8, (5 / 3) ** 0.5),
        (Density.of("robust", 1.999), 2, 1),
    ):
        assert density.information == pytest.approx(information, rel=2e-3)
        assert density.deviation == pytest.approx(deviation, rel=2e-3)
    assert Density.of("student_t", 1.5).deviation == Density.of("robust", 0.0).deviation == np.inf


def test_a_shape_that_is_not_given_is_learned() -> None:
    sample = stats.t(2).rvs(4000, random_state=0)
    learned = Density.of("student_t").refitted(sample, 1.0, np.ones(4000))
    assert 1.3 < learned.shape < 3
    assert Density.of("student_t", 7.0).refitted(sample, 1.0, np.ones(4000)).shape == 7
    normal = torch.randn(4000, generator=torch.Generator().manual_seed(0), dtype=torch.double).numpy()
    assert Density.of("robust").refitted(normal, 1.0, np.ones(4000)).shape > 1.7


@pytest.mark.parametrize(
    ("likelihood", "shape"), [("cauchy", None), ("student_t", 0.0), ("robust", -1.0), ("robust", 3.0)]
)
def test_bad_densities_are_refused(likelihood: str, shape: float | None) -> None:
    with pytest.raises(ValueError, match=r"(likelihood|shape) must be"):
        Density.of(likelihood, shape)
