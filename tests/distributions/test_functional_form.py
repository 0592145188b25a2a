"""What every function made by ``functional_form`` promises to whoever calls it, and what ``register`` refuses."""

from __future__ import annotations

import inspect

import numpy as np
import pytest
import torch
from torch import Tensor

import likely
from likely import functional
from likely.distributions import AsymmetricLaplace, Huber, Logistic, Ordinal, Robust
from likely.likelihoods import LIKELIHOODS, Likelihood, functional_form, register
from pairwise import together

X, Y = torch.zeros(2), torch.ones(2)
FORMS = [likelihood.nll for likelihood in LIKELIHOODS.values()]


@together("form", FORMS, ids=lambda form: form.__name__)
def test_signatures_say_what_every_argument_is(form: object) -> None:
    parameters = inspect.signature(form).parameters  # type: ignore[arg-type]
    assert all(p.annotation is not p.empty and p.annotation is not inspect.Parameter.empty for p in parameters.values())
    assert parameters["reduction"].annotation in ("str", str)
    assert "Any" not in str(list(parameters.values()))


@pytest.mark.parametrize("number", [2.5, -1.0, float("nan")])
@pytest.mark.parametrize("name", ["zero_inflated_poisson_nll", "zero_inflated_negative_binomial_nll"])
def test_numbers_are_always_checked(name: str, number: float) -> None:
    others = {"dispersion": 1.0} if "negative" in name else {}
    with pytest.raises(ValueError, match=r"inflation must lie in \[0, 1\], got"):
        getattr(functional, name)(X, Y, inflation=number, validate_args=False, **others)


def test_numbers_of_numpy_are_numbers() -> None:
    expected = functional.zero_inflated_poisson_nll(X, Y, inflation=0.25)
    assert torch.equal(functional.zero_inflated_poisson_nll(X, Y, inflation=np.float32(0.25)), expected)


@pytest.mark.parametrize(
    ("name", "parameters"),
    [("gamma_nll", {"concentration": 2.0}), ("log_normal_nll", {"scale": 1.0}), ("beta_nll", {"concentration": 2.0})],
)
def test_a_target_that_is_a_number_is_refused_by_name(name: str, parameters: dict[str, float]) -> None:
    with pytest.raises(TypeError, match="target must be a tensor, got float"):
        getattr(functional, name)(X, 0.5, **parameters)


@pytest.mark.parametrize("no", [False, 0, np.False_])
def test_means_are_checked_however_no_is_said(no: object) -> None:
    with pytest.raises(ValueError, match="prediction must be ≥ 0"):
        likely.PoissonLoss(log_input=no)(-torch.ones(2), torch.ones(2))  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="prediction must be a tensor, got ndarray"):
        functional.poisson_nll(np.ones(2), torch.ones(2), log_input=no)  # type: ignore[arg-type]


def test_errors_of_keywords_name_the_function() -> None:
    with pytest.raises(TypeError, match=r"student_t_nll\(\) missing a required argument: 'df'"):
        functional.student_t_nll(X, Y)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match=r"normal_nll\(\) got an unexpected keyword argument 'foo'"):
        functional.normal_nll(X, Y, scale=1.0, foo=1)  # type: ignore[call-arg]


def test_formulas_name_their_parameters_behind_a_star() -> None:
    with pytest.raises(TypeError, match="must take its parameters by name"):

        @functional_form()
        def loose_nll(prediction: Tensor, target: Tensor, scale: Tensor) -> Tensor:
            return (prediction - target) / scale


def test_distributions_are_shown_as_they_are_made() -> None:
    one = torch.ones(())
    shown = [
        (Logistic(2 * one, 3 * one), ["loc", "scale"]),
        (Huber(one, one, one), ["delta", "loc", "scale"]),
        (Robust(one, one, one), ["alpha", "loc", "scale"]),
        (AsymmetricLaplace(one / 2, one, one), ["quantile", "loc", "scale"]),
        (Ordinal(one, torch.arange(2.0)), ["loc", "cutpoints"]),
    ]
    for distribution, names in shown:
        assert list(distribution.arg_constraints) == names
        assert list(inspect.signature(type(distribution)).parameters)[: len(names)] == names


def test_registering_refuses_what_is_no_loss_and_names_that_are_taken() -> None:
    class AnotherNormal(likely.NormalLoss):
        pass

    with pytest.raises(ValueError, match="there is a likelihood called 'normal' already"):
        register(AnotherNormal)
    for odd in (LIKELIHOODS["normal"], likely.NormalLoss(), torch.nn.Linear, Likelihood):
        with pytest.raises(TypeError, match="register takes a loss class that names its nll and its family"):
            register(odd)  # type: ignore[arg-type]
    assert LIKELIHOODS["normal"].loss is likely.NormalLoss
