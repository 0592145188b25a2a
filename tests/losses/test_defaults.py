"""What is not given is what the documentation says: defaults of functions, initial values and ranges of parameters."""

import inspect

import numpy as np
import pytest
import torch
from torch import nn

import likely
from likelihoods import LIKELIHOODS, Likelihood
from likely import functional
from pairwise import together


@together("row", LIKELIHOODS, ids=str)
def test_a_loss_is_the_mean_of_full_likelihoods(row: Likelihood) -> None:
    prediction, target = row.draw(6, 4)
    phi = {name: torch.tensor(value, dtype=torch.float64) for name, value in row.phi.items()}
    plain = row.nll(prediction, target, **phi, **row.options)
    full = {"full": True} if "full" in inspect.signature(row.nll).parameters else {}
    spelled = row.nll(prediction, target, **phi, **row.options, **full, reduction="mean")
    assert plain.shape == ()
    torch.testing.assert_close(plain, spelled, rtol=0, atol=0)
    each = row.nll(prediction, target, **phi, **row.options, reduction="none")
    torch.testing.assert_close(plain, each.mean())
    torch.testing.assert_close(row.nll(prediction, target, **phi, **row.options, reduction="sum"), each.sum())


def test_defaults_of_the_functions_are_those_of_the_documentation() -> None:
    x, y = torch.zeros(5), torch.tensor([-3.0, -1.0, 0.2, 1.5, 4.0])
    huber = functional.huber_nll(x, y, scale=1.0)
    torch.testing.assert_close(huber, functional.huber_nll(x, y, scale=1.0, delta=1.345, partition=True))
    assert huber != functional.huber_nll(x, y, scale=1.0, delta=1.5)
    # Without its partition function the loss is half the square near zero.
    near = functional.huber_nll(x, 0.1 * torch.ones(5), scale=1.0, partition=False)
    torch.testing.assert_close(near, torch.tensor(0.005))
    quantile = functional.asymmetric_laplace_nll(x, y, scale=1.0)
    torch.testing.assert_close(quantile, functional.asymmetric_laplace_nll(x, y, scale=1.0, quantile=0.5))
    counts = torch.tensor([0.0, 1.0, 2.0, 3.0, 4.0])
    expected = torch.nn.functional.poisson_nll_loss(x + 0.5, counts, log_input=True, full=False)
    found = functional.poisson_nll(x + 0.5, counts, full=False)
    torch.testing.assert_close(found, expected)


def test_a_row_of_the_class_that_is_ignored_counts_as_no_row() -> None:
    hidden, weight = torch.randn(6, 5), torch.randn(7, 5)
    labels = torch.tensor([0, 6, -100, 3, -100, 2])
    logits = hidden @ weight.T
    expected = nn.functional.cross_entropy(logits, labels)
    torch.testing.assert_close(functional.linear_softmax_nll(hidden, weight, labels), expected)
    torch.testing.assert_close(likely.SoftmaxLoss(temperature=1.0)(logits, labels), expected)
    again = functional.linear_softmax_nll(hidden.reshape(2, 3, 5), weight, labels.reshape(2, 3), temperature=2.0)
    torch.testing.assert_close(again, nn.functional.cross_entropy(logits / 2, labels))
    one = functional.linear_softmax_nll(hidden[0], weight, labels[0])
    torch.testing.assert_close(one, nn.functional.cross_entropy(logits[:1], labels[:1]))


STARTS = {
    "RobustLoss": {"alpha": 1.0, "scale": 1.0},
    "HuberLoss": {"delta": 1.345, "scale": 1.0},
    "StudentTLoss": {"df": 4.0, "scale": 1.0},
    "SkewStudentTLoss": {"df": 4.0, "skew": 0.0, "scale": 1.0},
    "AsymmetricLaplaceLoss": {"quantile": 0.5, "scale": 1.0},
    "SoftmaxLoss": {"temperature": 1.0},
    "BernoulliLoss": {"temperature": 1.0},
    "BetaLoss": {"concentration": 2.0},
    "GammaLoss": {"concentration": 1.0},
    "NegativeBinomialLoss": {"dispersion": 1.0},
    "VonMisesLoss": {"concentration": 1.0},
    "NormalLoss": {"scale": 1.0},
}
RANGES = {
    ("RobustLoss", "alpha"): (0.0, 3.0),
    ("SkewStudentTLoss", "skew"): (-3.0, 3.0),
    ("AsymmetricLaplaceLoss", "quantile"): (0.001, 0.999),
}


@together("name", STARTS)
def test_parameters_have_their_initial_values_and_ranges(name: str) -> None:
    """A scale, and what else is estimated from the first training batch, is one before, and of the batch after."""
    ranged = {own: likely.Global() for loss, own in RANGES if loss == name}
    loss = getattr(likely, name)(**ranged)
    for parameter, value in STARTS[name].items():
        assert getattr(loss, parameter).value.item() == pytest.approx(value, abs=1e-6), parameter
        if (name, parameter) in RANGES:
            for raw, bound in zip((-60.0, 60.0), RANGES[name, parameter], strict=True):
                own = getattr(loss, parameter)
                with torch.no_grad():
                    own.level().fill_(raw)
                assert own.value.item() == pytest.approx(bound, abs=1e-5)


@together("spatial", [False, True])
@together("init", [2.0, 0.25])
def test_a_network_of_ones_own_starts_at_the_initial_value(spatial: bool, init: float) -> None:
    net = nn.Linear(3, 1)
    nn.init.zeros_(net.weight)
    nn.init.zeros_(net.bias)
    shape = (2, 2) if spatial else (1,)
    parameter = likely.Predicted(3, shape, net=net, spatial=spatial, init=init, constraint=likely.constraints.Exp())
    features = torch.randn(4, 3, 2, 2) if spatial else torch.randn(4, 3)
    values = parameter(features)
    assert values.shape == (4, *shape)
    np.testing.assert_allclose(values.detach(), init, rtol=1e-5)


def test_a_fixed_number_keeps_all_its_digits() -> None:
    """In double precision it is the number that was given, and in single precision its rounding."""
    third = likely.Fixed(1 / 3)
    assert third().dtype == torch.float32
    assert third(dtype=torch.float64).item() == 1 / 3
    assert third(dtype=torch.float16).dtype == torch.float32  # not more precise: the value as it is
    assert third(dtype=torch.float32) is third.value
    assert third.double()().item() == 1 / 3
    assert third.float()().dtype == torch.float32
    assert third.double()().item() == 1 / 3
    with torch.no_grad():
        third.value.fill_(0.7)  # another number was loaded
    assert third(dtype=torch.float64).item() == pytest.approx(0.7)
    meta = likely.Fixed(0.5).to("meta")
    assert meta(dtype=torch.float64).is_meta
