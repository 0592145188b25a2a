"""Draws follow from a seed alone: threads, other draws and torch's global generator do not matter."""

from __future__ import annotations

import threading
from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from likely._numerics.random import CheapDropout, Seeded, generator
from likely._solvers.training import train
from pairwise import together

DRAWS: dict[str, Callable[[], Tensor]] = {
    "rand": lambda: torch.rand(5),
    "randn": lambda: torch.randn(2, 3, dtype=torch.float64),
    "randint": lambda: torch.randint(10, (5,)),
    "randint from": lambda: torch.randint(3, 10, (5,)),
    "randperm": lambda: torch.randperm(6),
    "rand_like": lambda: torch.rand_like(torch.zeros(5)),
    "randn_like": lambda: torch.randn_like(torch.zeros(5)),
    "randint_like": lambda: torch.randint_like(torch.zeros(5), 9),
    "normal": lambda: torch.normal(torch.zeros(5), 1.0),
    "bernoulli": lambda: torch.bernoulli(torch.full((20,), 0.5)),
    "multinomial": lambda: torch.multinomial(torch.ones(9), 5),
    "in place": lambda: torch.empty(5).uniform_() + torch.empty(5).normal_() + torch.empty(5).exponential_(),
    "dropout": lambda: nn.functional.dropout(torch.ones(40)),
    "native dropout": lambda: torch.native_dropout(torch.ones(40), 0.5, True)[0],
    "layer": lambda: nn.Linear(3, 2).weight.detach(),
    "gamma": lambda: torch.distributions.Gamma(torch.ones(3), 1.0).sample(),
    "cheap dropout": lambda: CheapDropout(0.5)(torch.ones(40)),
    "attention": lambda: nn.functional.scaled_dot_product_attention(*torch.ones(3, 1, 1, 4, 4), dropout_p=0.5),
}


@together("name", DRAWS)
def test_draws_follow_from_the_seed_and_leave_the_global_generator_alone(name: str) -> None:
    def drawn(seed: int) -> Tensor:
        with Seeded(seed):
            return DRAWS[name]()

    before = torch.get_rng_state()
    first = drawn(1)
    assert torch.equal(torch.get_rng_state(), before)
    torch.manual_seed(5)
    torch.testing.assert_close(drawn(1), first, rtol=0, atol=0)
    assert any(not torch.equal(drawn(seed), first) for seed in range(2, 9))


def test_a_generator_of_ones_own_is_left_alone() -> None:
    with Seeded(0):
        theirs = torch.rand(3, generator=torch.Generator().manual_seed(7))
    assert torch.equal(theirs, torch.rand(3, generator=torch.Generator().manual_seed(7)))
    assert generator() is None


def test_dropout_has_the_gradient_of_what_it_keeps() -> None:
    x = torch.ones(200, requires_grad=True)
    with Seeded(0):
        kept = nn.functional.dropout(x, 0.25)
    kept.sum().backward()
    assert x.grad is not None
    assert torch.equal(x.grad, kept.detach())
    assert 0.6 < float((kept > 0).float().mean()) < 0.9


@pytest.mark.parametrize("dropout", [nn.Dropout, CheapDropout])
def test_training_in_threads_is_training_alone(dropout: type[nn.Module]) -> None:
    x = torch.linspace(-1, 1, 64)[:, None]

    def trained() -> np.ndarray:
        with Seeded(3):
            net = nn.Sequential(nn.Linear(1, 32), nn.ReLU(), dropout(0.3), nn.Linear(32, 1))

        def loss(step: int) -> Tensor:
            rows = torch.randint(64, (16,), generator=generator())
            return (net(x[rows]) - x[rows] ** 2).square().mean()

        train(loss, net, torch.optim.Adam(net.parameters(), lr=0.01), max_steps=60, seed=4)
        return net[3].weight.detach().numpy().copy()

    alone = trained()
    before, fits = torch.get_rng_state(), dict[int, np.ndarray]()
    threads = [threading.Thread(target=lambda k=k: fits.update({k: trained()})) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert torch.equal(torch.get_rng_state(), before)
    for k in range(4):
        np.testing.assert_array_equal(fits[k], alone)
