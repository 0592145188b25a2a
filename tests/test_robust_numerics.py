"""log Z and ρ against mpmath, which shares no code and no formula with them."""

import functools

import mpmath as mp
import numpy as np
import pytest
import torch

from likely.functional import robust_log_partition, robust_nll, robust_rho

mp.mp.dps = 20
STEPS = [10.0**-k for k in range(2, 9)]
SHAPES = sorted(
    {0.0, 1e-9, 1e-4, 0.999999, 1.0, 3.0, 4.0, 30.0, 400.0}
    | {round(a, 6) for a in np.linspace(0, 8, 65)} - {2.0}
    | {2 + s for s in STEPS}
    | {2 - s for s in STEPS}
)


@functools.cache
def log_partition(alpha: float) -> mp.mpf:
    """Gauss–Legendre on the density itself, in v = sinh⁻¹ x."""

    def density(v: mp.mpf) -> mp.mpf:
        return mp.exp(-rho(mp.sinh(v), mp.mpf(alpha))) * mp.cosh(v)

    return mp.log(2 * mp.quad(density, panels(alpha), method="gauss-legendre"))


@functools.cache
def log_partition_slope(alpha: float) -> mp.mpf:
    """-E ∂ρ/∂α, again by quadrature."""

    def slope(v: mp.mpf) -> mp.mpf:
        x = mp.sinh(v)
        return -rho_slopes(x, mp.mpf(alpha))[1] * mp.exp(-rho(x, mp.mpf(alpha))) * mp.cosh(v)

    return 2 * mp.quad(slope, panels(alpha), method="gauss-legendre") / mp.exp(log_partition(alpha))


def panels(alpha: float) -> list[float]:
    """Shorter towards zero, because ρ has branch points at x = ±i√|α - 2|, and long enough for the tail."""
    ends = [0, 1e-4, 1e-2, 0.1, 0.5, 1, 1.5, 2, 2.5, 3, 4, 6]
    return ends + ([9, 13] if alpha < 1.2 else []) + ([20, 30, 50, 75] if alpha < 0.5 else [])


def rho(x: mp.mpf, alpha: mp.mpf) -> mp.mpf:
    if alpha == 0:
        return mp.log1p(x * x / 2)
    if alpha == 2:
        return x * x / 2
    b = abs(alpha - 2)
    return b / alpha * ((x * x / b + 1) ** (alpha / 2) - 1)


def rho_slopes(x: mp.mpf, alpha: mp.mpf) -> tuple[mp.mpf, mp.mpf]:
    b = abs(alpha - 2)
    y = x * x / b
    power, log = (1 + y) ** (alpha / 2), mp.log1p(y)
    slope_x = x * (1 + y) ** (alpha / 2 - 1)
    if alpha == 0:
        return slope_x, log**2 / 4 - (log - y / (1 + y)) / 2
    sign = mp.sign(alpha - 2)
    return slope_x, 2 * sign / alpha**2 * (power - 1) + power * (b * log / (2 * alpha) - sign * y / (1 + y) / 2)


def test_the_reference_knows_the_closed_forms():
    assert abs(log_partition(0.0) - mp.log(mp.pi * mp.sqrt(2))) < 1e-18
    assert abs(log_partition(1.0) - mp.log(2 * mp.e * mp.besselk(1, 1))) < 1e-18
    assert abs(log_partition(4.0) - mp.mpf(1) / 4 - mp.log(mp.besselk(0.25, 0.25))) < 1e-18


@pytest.mark.parametrize(
    ("dtype", "value_bar", "slope_bar"), [(torch.float64, 1e-12, 1e-9), (torch.float32, 5e-7, 2e-5)]
)
def test_log_partition(dtype, value_bar, slope_bar):
    alpha = torch.tensor(SHAPES, dtype=dtype).unique()
    alpha = alpha[(alpha - 2).abs() > 0].requires_grad_()
    value = robust_log_partition(alpha)
    (slope,) = torch.autograd.grad(value.sum(), alpha)
    for a, v, s in zip(alpha.tolist(), value.tolist(), slope.tolist(), strict=True):
        assert abs(v - log_partition(a)) <= value_bar * abs(log_partition(a)), a
        assert abs(s - log_partition_slope(a)) <= slope_bar * abs(log_partition_slope(a)), a


def test_log_partition_at_its_ends():
    value = robust_log_partition(torch.tensor([0.0, 2.0, torch.inf, -1e-9], dtype=torch.float64))
    expected = [float(mp.log(mp.pi * mp.sqrt(2))), float(mp.log(2 * mp.pi) / 2), 0.7052602544175697, np.inf]
    np.testing.assert_allclose(value.numpy(), expected, rtol=1e-14)


@pytest.mark.parametrize(("dtype", "bar", "slope_bar"), [(torch.float64, 1e-12, 1e-12), (torch.float32, 2e-6, 1e-4)])
@mp.workdps(50)  # the textbook form loses 2 log10(1/α) digits
def test_rho_and_its_slopes_over_the_box(dtype, bar, slope_bar):
    rng = np.random.default_rng(0)
    shapes = [0, 1e-12, 1e-6, 1e-3, 0.5, 0.999999, 1, 1.999, 2 - 1e-6, 2 + 1e-6, 2.001, 3, 4, 8, *rng.uniform(0, 8, 60)]
    sizes = [1e-4, 1e-2, 0.1, 1, 1e4, *10 ** rng.uniform(-4, 4, 8)]
    scale = torch.tensor(0.7, dtype=dtype)
    alpha, z = torch.meshgrid(torch.tensor(shapes, dtype=dtype), torch.tensor(sizes, dtype=dtype), indexing="ij")
    alpha, residual = alpha.clone().requires_grad_(), (z * scale).clone().requires_grad_()
    scales = scale.expand_as(alpha).clone().requires_grad_()
    value = robust_rho(residual, alpha=alpha, scale=scales)
    slope_x, slope_alpha, slope_scale = torch.autograd.grad(value.sum(), (residual, alpha, scales))
    sigma = mp.mpf(scale.item())
    for a, r, v, dx, da, ds in zip(
        *(t.flatten().tolist() for t in (alpha, residual, value, slope_x, slope_alpha, slope_scale)), strict=True
    ):
        x = mp.mpf(r) / sigma
        exact_x, exact_alpha = rho_slopes(x, mp.mpf(a))
        exact = rho(x, mp.mpf(a))
        assert abs(v - exact) <= bar * exact, (a, r)
        assert abs(dx - exact_x / sigma) <= bar * exact_x / sigma, (a, r)
        assert abs(ds + exact_x * x / sigma) <= bar * exact_x * x / sigma, (a, r)
        if abs(a - 2) >= 1e-6:
            assert abs(da - exact_alpha) <= slope_bar * (mp.mpf("1e-3") + abs(exact_alpha)), (a, r)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_nothing_is_infinite_in_the_box(dtype):
    alpha, z = torch.meshgrid(torch.linspace(0, 8, 161), torch.logspace(-4, 4, 81), indexing="ij")
    alpha, z = alpha.to(dtype).requires_grad_(), torch.cat([-z, z]).to(dtype).requires_grad_()
    alpha = torch.cat([alpha, alpha]).detach().requires_grad_()
    nll = robust_nll(torch.zeros_like(z), z, alpha=alpha, scale=1.0, reduction="none")
    grads = torch.autograd.grad(nll.sum(), (z, alpha))
    assert all(t.isfinite().all() for t in (nll, *grads))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_an_alpha_that_starts_at_two_moves_the_right_way(dtype):
    torch.manual_seed(0)
    for residual, sign in ((torch.distributions.StudentT(3.0).sample((4000,)), 1), (torch.rand(4000) * 2 - 1, -1)):
        alpha = torch.tensor(2.0, dtype=dtype, requires_grad=True)
        scale = residual.square().mean().sqrt().to(dtype)
        robust_nll(torch.zeros(4000, dtype=dtype), residual.to(dtype), alpha=alpha, scale=scale).backward()
        assert alpha.grad.isfinite()
        assert alpha.grad.sign() == sign


def test_rho_at_the_named_limits():
    z = torch.tensor([0.0, 0.5, 3.0], dtype=torch.float64)
    for alpha, expected in {
        -torch.inf: -torch.expm1(-z.square() / 2),
        -2.0: 2 * z.square() / (z.square() + 4),
        0.0: torch.log1p(z.square() / 2),
        1.0: (z.square() + 1).sqrt() - 1,
        2.0: z.square() / 2,
        torch.inf: torch.expm1(z.square() / 2),
    }.items():
        torch.testing.assert_close(robust_rho(z, alpha=alpha), expected, rtol=1e-14, atol=0)
