"""The training loop: held-out rows decide, callbacks are told, a killed run goes on."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest
import torch

from likely._solvers.training import Checkpoint, train
from likely.tabular import NetworkRegressor, Progress, _fitting


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


def test_progress_bar(capsys: pytest.CaptureFixture[str]) -> None:
    X = np.random.default_rng(0).normal(size=(50, 2))
    NetworkRegressor(verbose=1, max_steps=40, scale="global", random_state=0).fit(X, X[:, 0])
    assert "step 40/40" in capsys.readouterr().err


# Forks have imported everything already, and die of a signal as a killed job does: between two checkpoints.
KILLED = """
import os, signal, sys
from pathlib import Path
import numpy as np
import likely._solvers.training
from likely.tabular import NetworkRegressor, _fitting

likely._solvers.training.Checkpoint.__init__.__defaults__ = (0.0,)
_fitting.SECOND["max_steps"] = 60
folder = Path(sys.argv[1])
rng = np.random.default_rng(0)
X = rng.normal(size=(400, 3)); y = np.sin(X[:, 0]) + np.exp(X[:, 1]) * rng.normal(size=400)

def fit(name, checkpoint=None, killed_at=None):
    steps = []

    def tell(progress):
        steps.append(progress.step)
        if progress.step == killed_at:
            os.kill(os.getpid(), signal.SIGKILL)

    settings = dict(max_steps=160, patience=10_000, random_state=0, callbacks=[tell], checkpoint=checkpoint)
    model = NetworkRegressor(hidden=(8,), cv=2, **settings).fit(X, y)
    np.save(folder / name, np.column_stack([model.predict(X), model.predict_scale(X)]))
    return steps[0]

for step in (40, 100):
    child = os.fork()
    if child == 0:
        fit("killed.npy", folder / "fit.pt", step)
        os._exit(0)
    print(os.waitpid(child, 0)[1], len(list(folder.glob("fit.pt.*"))))
print(fit("resumed.npy", folder / "fit.pt"), fit("whole.npy"))
"""


def test_a_killed_fit_goes_on_as_if_nothing_had_happened(tmp_path: Path) -> None:
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-c", KILLED, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    *kills, last = (tuple(map(int, line.split())) for line in done.stdout.splitlines())
    assert [ended_by for ended_by, _ in kills] == [signal.SIGKILL, signal.SIGKILL]
    assert all(checkpoints > 0 for _, checkpoints in kills)
    assert last == (80, 20)  # from the last checkpoint before the second kill: it did not start anew
    np.testing.assert_array_equal(np.load(tmp_path / "resumed.npy"), np.load(tmp_path / "whole.npy"))
    assert not list(tmp_path.glob("fit.pt*"))
    assert not (tmp_path / "killed.npy").exists()


def test_foreign_checkpoints_are_refused(tmp_path: Path) -> None:
    own, optimizer = line()
    path = tmp_path / "run.pt"
    checkpoint = Checkpoint(path, {"rows": 3}, seconds=0)
    train(lambda step: own(torch.ones(1, 1)).square().sum(), own, optimizer, max_steps=40, checkpoint=checkpoint)
    assert path.exists()
    with pytest.raises(ValueError, match=r"another fit \(rows 3, now 4\)"):
        train(lambda step: own.weight.sum(), own, optimizer, max_steps=1, checkpoint=Checkpoint(path, {"rows": 4}))
    path.write_bytes(b"not a checkpoint")
    with pytest.raises(ValueError, match="not a checkpoint of likely"):
        train(lambda step: own.weight.sum(), own, optimizer, max_steps=1, checkpoint=checkpoint)


def test_dask_trains_an_ensemble(monkeypatch: pytest.MonkeyPatch) -> None:
    distributed = pytest.importorskip("distributed", reason="a Dask cluster needs distributed")
    import joblib

    rng = np.random.default_rng(0)
    X = rng.normal(size=(100, 2))
    monkeypatch.setitem(_fitting.SECOND, "max_steps", 20)
    model = NetworkRegressor(ensemble=2, max_steps=20, random_state=0)
    with (
        distributed.LocalCluster(n_workers=1, threads_per_worker=2, processes=False, dashboard_address=":0") as cluster,
        distributed.Client(cluster),
        joblib.parallel_config(backend="dask"),
    ):
        far = model.fit(X, X[:, 0]).predict(X)
    np.testing.assert_allclose(
        far, NetworkRegressor(ensemble=2, max_steps=20, random_state=0).fit(X, X[:, 0]).predict(X)
    )


def test_a_million_rows_are_streamed_in_two_gigabytes() -> None:
    """Asked of a fifth of them, which may take a fifth of what two gigabytes leave beside the libraries."""
    script = """
        import resource, numpy as np
        from likely.tabular import NetworkRegressor, _fitting
        def peak():
            return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        libraries, rows = peak(), 200_000
        X = np.random.default_rng(0).standard_normal((rows, 50), dtype=np.float32)
        y = X[:, 0] + np.exp(X[:, 1] / 2) * np.random.default_rng(1).standard_normal(rows, dtype=np.float32)
        _fitting.SECOND["max_steps"] = 60
        model = NetworkRegressor(max_steps=60, random_state=0).fit(X, y)
        assert np.isfinite(model.predict(X)).all()
        print(libraries, peak())
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(script)], capture_output=True, text=True, check=True)
    libraries, peak = map(int, done.stdout.split())
    assert peak - libraries < (2_000_000 - libraries) / 5, f"{peak} kB, of which the libraries take {libraries}"
