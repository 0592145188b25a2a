"""FSDP2 on two gloo processes, against one process that has everything."""

import copy
import gc
from pathlib import Path

import pytest
import torch
from tests.losses.torch_features import LOSSES
from torch import distributed as dist, multiprocessing as mp, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor

import likely

# Forks have imported everything already, but may not take gradients where the parent has threads for GPUs.
START = "spawn" if torch.cuda.is_available() else "fork"
# Newer Pythons warn of forks beside threads; these use none of the parent's.
pytestmark = [pytest.mark.heavy, pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")]

WORLD, ROWS, STEPS = 2, 16, 4
KINDS = {
    "Fixed": lambda: likely.Fixed(1.5),
    "Global": lambda: likely.Global(1, init=1.5),  # FSDP2 takes no parameter without an axis
    "Predicted": lambda: likely.Predicted(8, init=1.5),
    "Data": lambda: likely.Data(ROWS, init=1.5, lr=0.05),
}
CELLS = [(loss, kind) for loss in LOSSES for kind in KINDS]


def build(loss: str, kind: str) -> likely.Supervised:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 3))
    loss_fn = LOSSES[loss](**{name: KINDS[kind]() for name in LOSSES[loss].slots})
    return likely.Supervised(model, loss_fn, features="1" if kind == "Predicted" else None)


def rows(loss: str) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(ROWS, 3, generator=generator)
    y = x + torch.randn(ROWS, 3, generator=generator)
    y = y.argmax(1) if loss == "Softmax" else (y > 0).float() if loss == "Bernoulli" else y
    return x, y, torch.arange(ROWS)


def train(module: likely.Supervised, loss: str, part: slice) -> dict[str, torch.Tensor]:
    x, y, index = (t[part] for t in rows(loss))
    optimizer = torch.optim.SGD(module.parameters(), lr=0.01)
    for _ in range(STEPS):
        optimizer.zero_grad()
        module(x, y, index=index).backward()
        optimizer.step()
    state = {k: v.full_tensor() if isinstance(v, DTensor) else v for k, v in module.state_dict().items()}
    return copy.deepcopy(state)


def worker(rank: int, folder: str) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/meet", rank=rank, world_size=WORLD)
    try:
        mesh, share = init_device_mesh("cpu", (WORLD,)), ROWS // WORLD
        found = {}
        for loss, kind in CELLS:
            module = build(loss, kind)
            fully_shard(module, mesh=mesh)
            found[loss, kind] = train(module, loss, slice(rank * share, (rank + 1) * share))
        with pytest.raises(ValueError, match="scalar"):  # torch's own: use likely.Global(1)
            fully_shard(likely.NormalLoss(), mesh=mesh)
        torch.save(found, f"{folder}/{rank}.pt")
        # Cycles hold gloo's threads: a process that ends with them, or before its peer is done, may abort.
        gc.collect()
        dist.barrier()
    finally:
        dist.destroy_process_group()


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> list[dict]:
    path: Path = tmp_path_factory.mktemp("sharded")
    mp.start_processes(worker, args=(str(path),), nprocs=WORLD, start_method=START)
    return [torch.load(path / f"{rank}.pt") for rank in range(WORLD)]


@pytest.mark.parametrize(("loss", "kind"), CELLS)
def test_fsdp2_equals_one_process(loss, kind, found):
    module = build(loss, kind)
    alone = train(module, loss, slice(None))
    for name, value in alone.items():
        for rank in range(WORLD):
            torch.testing.assert_close(found[rank][loss, kind][name], value, rtol=1e-4, atol=1e-5)
