"""One network trained by two processes is the network that one process trains."""

import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import distributed as dist
from torch import multiprocessing as mp
from torch import nn

from likely.tabular import NetworkClassifier, NetworkRegressor, Progress

pytestmark = pytest.mark.skipif(
    not dist.is_available() or sys.platform == "win32", reason="needs torch.distributed with gloo"
)
ROWS, COUNT = 301, 2


def table() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    random = np.random.default_rng(0)
    X = random.normal(size=(ROWS, 3))
    y = np.sin(2 * X[:, 0]) + (0.1 + 0.4 * (X[:, 1] > 0)) * random.normal(size=ROWS)
    return X, y, random.uniform(0.5, 2, size=ROWS)


def bent(inputs: int, outputs: int) -> nn.Module:
    return nn.Sequential(nn.Linear(inputs, 8), nn.Tanh(), nn.Linear(8, outputs))


FEW = {"hidden": (16,), "cv": 3, "max_steps": 30, "batch_size": 65, "random_state": 0}  # two do not divide 65
MODELS = {
    "two stages": lambda: NetworkRegressor(**FEW),
    # Adam would divide gradients that are zero but for rounding, such as those of a fitted line, by their size.
    "all rows": lambda: NetworkRegressor(**{**FEW, "batch_size": None}, objective="joint", optimizer="sgd"),
    "a scale per row": lambda: NetworkRegressor(**FEW, objective="joint", scale="data"),
    "ensemble": lambda: NetworkRegressor(**FEW, objective="joint", ensemble=2, n_jobs=2),
    "module": lambda: NetworkRegressor(bent, **FEW, objective="beta"),
}


def answers() -> dict[str, torch.Tensor]:
    X, y, weight = table()
    parts = {}
    for name, make in MODELS.items():
        model = make().fit(X, y, sample_weight=weight)
        parts[name] = torch.tensor(np.stack([*model.predict(X, return_std=True), model.outlier_scores_]))
    parts["classes"] = torch.tensor(NetworkClassifier(**FEW, objective="joint").fit(X, y > 0).predict_proba(X))
    stream = NetworkRegressor(hidden=(16,), batch_size=32, random_state=0)
    parts["stream"] = torch.tensor(stream.partial_fit(X[:200], y[:200]).partial_fit(X[200:], y[200:]).predict(X))
    return parts


def process(rank: int, folder: str) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/meet", rank=rank, world_size=COUNT)
    try:
        X, y, _ = table()
        results = answers()
        seen: list[Progress] = []

        def stop(progress: Progress) -> bool:
            seen.append(progress)
            return rank == 1

        settings = {**FEW, "objective": "joint", "random_state": None}  # one seed is drawn for all processes
        model = NetworkRegressor(**settings, callbacks=[stop], verbose=1).fit(X, y)
        results |= {"ended": torch.tensor([model.n_steps_, seen[0].loss]), "unseeded": torch.tensor(model.predict(X))}
        with pytest.raises(ValueError, match="different tables"):
            NetworkRegressor(**FEW).fit(X[rank:], y[rank:])
        with pytest.raises(ValueError, match="checkpoint must be None"):
            NetworkRegressor(**FEW, checkpoint=f"{folder}/fit").fit(X, y)
        torch.save(results, f"{folder}/{rank}.pt")
        dist.barrier()
    finally:
        dist.destroy_process_group()


@pytest.fixture(scope="module")
def together(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, torch.Tensor]]:
    folder: Path = tmp_path_factory.mktemp("processes")
    # Not forks: a fit uses thread pools of several libraries, and those of other tests would wait forever in a fork.
    mp.start_processes(process, args=(str(folder),), nprocs=COUNT, start_method="spawn")
    return [torch.load(folder / f"{rank}.pt", weights_only=True) for rank in range(COUNT)]


@pytest.fixture(scope="module")
def alone() -> dict[str, torch.Tensor]:
    return answers()


def test_all_processes_have_the_same_model(together) -> None:
    for name, answer in together[0].items():
        assert torch.equal(answer, together[1][name]), name


@pytest.mark.parametrize("name", [*MODELS, "classes", "stream"])
def test_it_is_the_model_of_one_process(name: str, alone, together) -> None:
    torch.testing.assert_close(together[0][name], alone[name], rtol=1e-4, atol=1e-4)


def test_one_process_may_end_the_training(together) -> None:
    assert together[0]["ended"][0] == 20
