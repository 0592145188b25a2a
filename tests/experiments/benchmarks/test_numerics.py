"""log Z and ρ against mpmath, which shares no code and no formula with them."""

import mpmath as mp
import numpy as np
import pytest
import torch

from experiments.benchmarks import numerics
from experiments.benchmarks._robust_reference import log_partition
from likely.functional import robust_log_partition, robust_nll, robust_rho

mp.mp.dps = 20


def test_the_reference_knows_the_closed_forms():
    assert abs(log_partition(0.0) - mp.log(mp.pi * mp.sqrt(2))) < 1e-18
    assert abs(log_partition(1.0) - mp.log(2 * mp.e * mp.besselk(1, 1))) < 1e-18
    assert abs(log_partition(4.0) - mp.mpf(1) / 4 - mp.log(mp.besselk(0.25, 0.25))) < 1e-18


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_every_error_is_below_its_bar(dtype):
    for name, error in {**numerics.partition_errors(dtype, dense=False), **numerics.rho_errors(dtype)}.items():
        assert error <= numerics.BARS[name][dtype], name


def test_log_partition_at_its_ends():
    value = robust_log_partition(torch.tensor([0.0, 2.0, torch.inf, -1e-9], dtype=torch.float64))
    expected = [float(mp.log(mp.pi * mp.sqrt(2))), float(mp.log(2 * mp.pi) / 2), 0.7052602544175697, np.inf]
    np.testing.assert_allclose(value.numpy(), expected, rtol=1e-14)


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
