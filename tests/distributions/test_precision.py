"""Numbers are what was named: exact in double precision, and to a rounding or two in single."""

import copy
import math
import pickle

import pytest
import torch

import likely
from likelihoods import LIKELIHOODS, full
from likely import functional as F
from pairwise import together

learned = together("likelihood", [c for c in LIKELIHOODS if c.phi], ids=str)


@learned
@together("convert", [lambda m: m, lambda m: m.double(), lambda m: m.half().double()])
def test_fixed_numbers_are_exact_for_double_data(likelihood, convert):
    prediction, target = likelihood.draw(7, 3)
    phi = {k: tuple(0.1 * x for x in v) if isinstance(v, tuple) else 0.1 for k, v in likelihood.phi.items()}
    loss_fn = convert(likelihood.loss(**phi, reduction="none"))
    exact = {name: full((), value) for name, value in phi.items()}
    expected = likelihood.nll(prediction, target, **exact, reduction="none")
    for twin in (loss_fn, copy.deepcopy(loss_fn), pickle.loads(pickle.dumps(loss_fn))):
        torch.testing.assert_close(twin(prediction, target), expected, rtol=1e-15, atol=0)
    torch.testing.assert_close(
        likelihood.nll(prediction, target, **phi, reduction="none"), expected, rtol=1e-15, atol=0
    )


def test_a_fixed_number_follows_the_module():
    fixed = likely.Fixed([0.1, 0.2])
    assert fixed.value.dtype == torch.float32
    assert fixed.double().value.tolist() == [0.1, 0.2]
    assert torch.equal(fixed.half().value, torch.tensor([0.1, 0.2], dtype=torch.float16))
    assert torch.equal(fixed.float().value, torch.tensor([0.1, 0.2]))
    assert likely.Fixed(torch.tensor(0.1, dtype=torch.float64)).double().value.item() == 0.1
    assert fixed.to("meta").value.is_meta


def test_a_fixed_number_that_was_moved_without_its_value_has_all_digits_when_that_is_loaded():
    fixed = likely.Fixed([0.1, 0.2])
    state = copy.deepcopy(fixed.state_dict())
    fixed.to("meta").to_empty(device="cpu").load_state_dict(state)
    assert torch.equal(fixed.value, torch.tensor([0.1, 0.2]))
    assert fixed(dtype=torch.float64).tolist() == [0.1, 0.2]
    assert fixed.double().value.tolist() == [0.1, 0.2]


def test_a_fixed_number_that_was_replaced_is_the_new_one():
    """By hand or from a state_dict: the digits kept beside it are those of the number named first."""
    loss_fn = likely.NormalLoss(scale=0.1)
    loss_fn.load_state_dict({"scale.value": torch.tensor(0.3)})
    x, y = torch.zeros(1), torch.ones(1)
    torch.testing.assert_close(loss_fn(x, y), F.normal_nll(x, y, scale=0.3))
    x, y = x.double(), y.double()
    torch.testing.assert_close(loss_fn(x, y), F.normal_nll(x, y, scale=float(torch.tensor(0.3))), rtol=1e-15, atol=0)
    assert loss_fn.double().scale.value.item() == float(torch.tensor(0.3))
    fresh = likely.NormalLoss(scale=0.1)
    fresh.load_state_dict(likely.NormalLoss(scale=0.1).state_dict())
    assert fresh.double().scale.value.item() == 0.1


def test_a_linear_layers_softmax_is_exact_in_double():
    hidden, weight = torch.randn(7, 4, dtype=torch.float64), torch.randn(9, 4, dtype=torch.float64)
    target = torch.randint(0, 9, (7,))
    got = F.linear_softmax_nll(hidden, weight, target, 0.1)
    torch.testing.assert_close(got, F.softmax_nll(hidden @ weight.T, target, temperature=0.1), rtol=1e-14, atol=0)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_log_partition_at_two_is_the_normals(dtype):
    exact, step = 0.5 * math.log(2 * math.pi), torch.finfo(dtype).eps / 2  # a unit in the last place of .92
    assert abs(F.robust_log_partition(torch.tensor(2.0, dtype=dtype)).item() - exact) <= step
    x, y = torch.zeros(20, dtype=dtype), torch.zeros(20, dtype=dtype)
    for reduction in ("none", "mean"):
        nll = F.robust_nll(x, y, alpha=2.0, scale=1.0, reduction=reduction)
        assert (nll.double() - exact).abs().max() <= 2 * step


def test_log_partition_around_two_in_single_precision():
    near = 2 + torch.linspace(-1e-4, 1e-4, 2001)
    exact = F.robust_log_partition(near.double())
    assert (F.robust_log_partition(near).double() - exact).abs().max() <= 1.5 * torch.finfo(torch.float32).eps
    nll = F.robust_nll(torch.zeros(2001), torch.zeros(2001), alpha=near, scale=1.0, reduction="none")
    assert (nll.double() - exact).abs().max() <= 2 * torch.finfo(torch.float32).eps


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_rho_never_exceeds_its_bound(dtype):
    alpha = -torch.logspace(-6, 8, 400, dtype=dtype)[:, None]
    z = torch.logspace(-3, 30, 300, dtype=dtype)
    value = F.robust_rho(z, alpha=alpha)
    assert (value <= (alpha - 2) / alpha).all()
    assert (value >= 0).all()
    assert not F.robust_rho(z, alpha=-torch.tensor(1e-42)).isnan().any()


def test_rho_divides_the_residual_by_the_scale():
    residual = torch.tensor([0.3, -2.0, 40.0])
    for alpha in (0.0, 1.0, 2.0):
        torch.testing.assert_close(
            F.robust_rho(residual, alpha=alpha, scale=4.0), F.robust_rho(residual / 4, alpha=alpha)
        )
    assert F.robust_rho(torch.tensor(3.0), alpha=2.0, scale=2.0).item() == pytest.approx(1.125)
