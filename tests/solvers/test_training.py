"""The training loop: held-out rows decide, callbacks are told."""

from __future__ import annotations

import subprocess
import sys
import textwrap

import numpy as np
import pytest
import torch

from likely._solvers.training import fit_constants, train
from likely.tabular import NetworkRegressor, Progress


def line() -> tuple[torch.nn.Linear, torch.optim.Optimizer]:
    torch.manual_seed(0)
    own = torch.nn.Linear(1, 1)
    return own, torch.optim.SGD(own.parameters(), lr=0.1)


def test_keeps_what_held_out_rows_liked_best() -> None:
    own, optimizer = line()
    scores = iter([3.0, 1.0, 2.0, 5.0, 7.0, 9.0])
    seen: list[torch.Tensor] = []

    def judge() -> torch.Tensor:
        seen.append(own.weight.detach().clone())
        return torch.tensor([next(scores)])

    def loss(step: int) -> torch.Tensor:
        return own(torch.ones(1, 1)).square().sum()

    history = train(
        loss, own, optimizer, max_steps=100, judge=judge, members=[list(own.parameters())], every=1, patience=3
    )
    assert (int(history.best_step), history.step) == (1, 5)
    assert torch.equal(own.weight, seen[1])


def test_diverging_is_an_error_not_an_answer() -> None:
    own, optimizer = line()
    with pytest.raises(FloatingPointError, match="Lower the learning rate"):
        train(
            lambda step: own(torch.ones(1, 1)).sum(),
            own,
            optimizer,
            max_steps=3,
            judge=lambda: torch.tensor([torch.nan]),
            members=[list(own.parameters())],
        )


def test_callbacks_are_told_and_may_stop() -> None:
    X = np.random.default_rng(0).normal(size=(100, 2))
    told: list[Progress] = []

    def stop(progress: Progress) -> bool:
        told.append(progress)
        return progress.step >= 40

    model = NetworkRegressor(scale="global", callbacks=[stop], random_state=0).fit(X, X[:, 0])
    assert [p.step for p in told] == [20, 40]
    assert model.n_steps_ == 40
    assert len(told[0].held_out) == 5


def test_where_a_search_diverges_the_lowest_finite_loss_is_kept() -> None:
    """−p⁴ has no minimum: steps grow until p is infinite."""
    own = torch.nn.Linear(1, 1, bias=False)
    torch.nn.init.ones_(own.weight)
    seen: list[float] = []

    def loss() -> torch.Tensor:
        value = -own.weight.pow(4).sum()
        seen.append(value.item())
        return value

    lowest = fit_constants(own, loss)
    assert -torch.inf in seen
    assert lowest == min(value for value in seen if value > -torch.inf) < -1e9
    assert lowest == -(own.weight.item() ** 4)


@pytest.mark.heavy
def test_a_million_rows_are_streamed_in_two_gigabytes() -> None:
    """Asked of a fifth of them, which may take a fifth of what two gigabytes leave beside the libraries."""
    script = """
        import resource, numpy as np
        from likely.tabular import NetworkRegressor
        from likely.tabular.networks import two_stage
        def peak():
            return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        libraries, rows = peak(), 200_000
        X = np.random.default_rng(0).standard_normal((rows, 50), dtype=np.float32)
        y = X[:, 0] + np.exp(X[:, 1] / 2) * np.random.default_rng(1).standard_normal(rows, dtype=np.float32)
        two_stage.SECOND["max_steps"] = 60
        model = NetworkRegressor(max_steps=60, random_state=0).fit(X, y)
        assert np.isfinite(model.predict(X)).all()
        print(libraries, peak())
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(script)], capture_output=True, text=True, check=True)
    libraries, peak = map(int, done.stdout.split())
    assert peak - libraries < (2_000_000 - libraries) / 5, f"{peak} kB, of which the libraries take {libraries}"
