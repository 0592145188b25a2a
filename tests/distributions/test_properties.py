"""What holds of a likelihood for any parameters and any numbers: drawn by Hypothesis, the same ones each time."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from hypothesis import given, settings, strategies as st
from torch import Tensor

from likelihoods import LIKELIHOODS, Likelihood
from pairwise import together
from quadrature import integral


def log_uniform(low: float, high: float) -> st.SearchStrategy[float]:
    return st.floats(math.log(low), math.log(high)).map(math.exp)


# Of heavier tails than Cauchy's, too much lies beyond what can be integrated.
PARAMETERS = {
    "scale": log_uniform(1e-3, 1e3),
    "df": log_uniform(1, 1e4),
    "skew": st.floats(-2, 2),
    "delta": log_uniform(0.1, 10),
    "alpha": st.floats(0, 6),
    "quantile": st.floats(0.02, 0.98),
    "concentration": log_uniform(3, 1e3),
    "temperature": log_uniform(0.05, 20),
    "dispersion": log_uniform(1e-3, 4),
    "inflation": st.floats(0.01, 0.99),
    "cutpoints": st.lists(st.floats(0.01, 3), min_size=3, max_size=3),
}
ONE = {row.name: row for row in LIKELIHOODS if "_heavy" not in row.name and "_light" not in row.name}
ROWS = [row for row in ONE.values() if not row.name.endswith("_left")]


def of(*supports: str) -> Any:
    return together("likelihood", [row for row in ROWS if row.support in supports], ids=str)


def drawn(data: st.DataObject, likelihood: Likelihood, dtype: torch.dtype = torch.float64) -> dict[str, Tensor]:
    """A value of every parameter."""
    found = {}
    for name in likelihood.phi:
        # Of a logarithm, whose powers soon leave what floats hold.
        small = name == "scale" and likelihood.support == "positive"
        value = torch.tensor(data.draw(log_uniform(0.05, 2) if small else PARAMETERS[name], label=name), dtype=dtype)
        found[name] = value.cumsum(-1) - 2 if name == "cutpoints" else value
    return found


def nll(likelihood: Likelihood, prediction: Tensor, target: Tensor, **phi: Tensor) -> Tensor:
    return likelihood.nll(prediction, target, **phi, reduction="none")


def number(data: st.DataObject, low: float, high: float, label: str) -> Tensor:
    return torch.tensor(data.draw(st.floats(low, high), label=label), dtype=torch.float64)


@of("real", "positive", "unit", "angle", "count", "binary", "class", "ordered")
@settings(max_examples=8)
@given(data=st.data())
def test_probabilities_sum_to_one(likelihood: Likelihood, data: st.DataObject) -> None:
    phi, x = drawn(data, likelihood), number(data, -1.5, 1.5, "prediction")

    def density(y: Tensor) -> Tensor:
        return torch.exp(-nll(likelihood, x.expand_as(y), y, **phi))

    match likelihood.support:
        case "real":  # x + scale · sinh(v): heavy tails become exponential ones
            scale = phi["scale"]
            total = integral(lambda v: density(x + scale * v.sinh()) * scale * v.cosh(), -30, 30)
        case "positive":
            total = integral(lambda v: density(v.exp()) * v.exp(), -30, 14)
        case "unit":
            total = integral(lambda v: density(v.sigmoid()) * v.sigmoid() * (-v).sigmoid(), -36, 36)
        case "angle":
            total = integral(density, -math.pi, math.pi)
        case "count":
            total = density(torch.arange(3000, dtype=torch.float64)).sum().item()
        case "binary":
            total = density(torch.tensor([0.0, 1.0], dtype=torch.float64)).sum().item()
        case "class":
            logits = torch.stack([x, 2 * x, torch.zeros_like(x)]).expand(3, 3)
            total = torch.exp(-nll(likelihood, logits, torch.arange(3), **phi)).sum().item()
        case "ordered":
            total = density(torch.arange(4)).sum().item()
    assert total == pytest.approx(1, abs=2e-5)


@of("real", "positive", "unit", "angle", "count")
@settings(max_examples=10)
@given(data=st.data())
def test_the_cdf_rises_and_quantiles_invert_it(likelihood: Likelihood, data: st.DataObject) -> None:
    phi = drawn(data, likelihood)
    distribution = likelihood.loss(**phi).distribution(number(data, -3, 3, "prediction"))
    share = torch.linspace(0.002, 0.998, 41, dtype=torch.float64)
    quantile = distribution.icdf(share)
    assert quantile.isfinite().all()
    assert (quantile.diff() >= 0).all(), "a quantile is below one of a smaller share"
    below = distribution.cdf(quantile)
    assert ((below >= 0) & (below <= 1)).all()
    assert (below.diff() >= -1e-12).all(), "the distribution function falls"
    if likelihood.support == "count":
        assert (below >= share - 1e-9).all()
        positive = quantile >= 1
        assert (distribution.cdf(quantile[positive] - 1) <= share[positive] + 1e-9).all(), "a smaller count would do"
    else:
        torch.testing.assert_close(below, share, rtol=1e-6, atol=1e-8)


@of("real")
@settings(max_examples=15)
@given(data=st.data(), log_factor=st.floats(-12, 12), shift=st.floats(-1e3, 1e3))
def test_another_unit_adds_its_logarithm(likelihood: Likelihood, data, log_factor: float, shift: float) -> None:
    """nll(c·x + a, c·y + a; c·scale) = nll(x, y; scale) + log c."""
    phi, factor = drawn(data, likelihood), math.exp(log_factor)
    x = number(data, -5, 5, "prediction")
    y = x + phi["scale"] * torch.linspace(-40, 40, 33, dtype=torch.float64)
    residual = factor * (y - x)
    shifted = torch.full_like(y, shift)
    target = shifted + residual  # what rounding leaves of the residual is the same on both sides
    expected = nll(likelihood, torch.zeros_like(y), (target - shifted) / factor, **phi) + log_factor
    got = nll(likelihood, shifted, target, **{**phi, "scale": factor * phi["scale"]})
    torch.testing.assert_close(got, expected, rtol=1e-9, atol=1e-9)


@of("positive")
@settings(max_examples=15)
@given(data=st.data(), log_factor=st.floats(-12, 12))
def test_another_unit_of_amounts_adds_its_logarithm(likelihood: Likelihood, data, log_factor: float) -> None:
    """The prediction is a logarithm: nll(x + log c, c·y) = nll(x, y) + log c."""
    phi, x = drawn(data, likelihood), number(data, -3, 3, "prediction")
    y = torch.logspace(-3, 3, 25, dtype=torch.float64)
    got = nll(likelihood, (x + log_factor).expand_as(y), math.exp(log_factor) * y, **phi)
    torch.testing.assert_close(got, nll(likelihood, x.expand_as(y), y, **phi) + log_factor, rtol=1e-9, atol=1e-9)


# A product of two must be a number: the logarithm of a rate that is infinite, and a count.
FLOATS = st.floats(-(2.0**100), 2.0**100, width=32)
TARGETS = {
    "real": FLOATS,
    "angle": FLOATS,
    "positive": st.floats(2.0**-126, 2.0**127, width=32),
    "unit": st.floats(2.0**-24, 1 - 2.0**-24, width=32),
    "count": st.integers(0, 2**24),
    "binary": st.integers(0, 1),
    "class": st.integers(0, 2),
    "ordered": st.integers(0, 3),
}


@of(*TARGETS)
@settings(max_examples=25)
@given(data=st.data())
def test_no_finite_number_gives_nan(likelihood: Likelihood, data: st.DataObject) -> None:
    """Neither a loss nor a gradient; infinity where the true one overflows is no mistake."""
    classes = likelihood.support == "class"
    prediction = torch.tensor([data.draw(FLOATS) for _ in range(3)]).requires_grad_()
    targets = [data.draw(TARGETS[likelihood.support]) for _ in range(1 if classes else 3)]
    target = torch.tensor(targets[0]) if classes else torch.tensor(targets, dtype=torch.float32)
    phi = {name: value.requires_grad_() for name, value in drawn(data, likelihood, torch.float32).items()}
    loss = likelihood.nll(prediction, target, **phi, reduction=data.draw(st.sampled_from(["mean", "none"])))
    gradients = torch.autograd.grad(loss.sum(), [prediction, *phi.values()])
    for name, value in zip(["the loss", "prediction", *phi], (loss, *gradients), strict=True):
        assert not value.isnan().any(), f"{name} is NaN"
