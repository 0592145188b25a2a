"""Two gloo processes must learn what one process learns on the joined batch."""

import copy
import gc
from pathlib import Path

import pytest
import torch
from torch import distributed as dist, multiprocessing as mp, nn
from torch.nn.parallel import DistributedDataParallel

import likely

# Forks have imported everything already, but may not take gradients where the parent has threads for GPUs.
START = "spawn" if torch.cuda.is_available() else "fork"
# Newer Pythons warn of forks beside threads; these use none of the parent's.
pytestmark = [pytest.mark.heavy, pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")]

ROWS, STEPS, WORLD = 16, 6, 2
KINDS = ("global", "predicted", "data")


def build(kind: str) -> likely.Supervised:
    torch.manual_seed(0)
    scale = {
        "global": likely.Global(),
        "predicted": likely.Predicted(8, hidden=(4,)),
        "data": likely.Data(ROWS, lr=0.05),
    }[kind]
    model = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 1))
    return likely.Supervised(model, likely.NormalLoss(scale=scale), features="1" if kind == "predicted" else None)


def rows() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(ROWS, 3, generator=generator)
    return x, x.sum(1, keepdim=True) + 3 * torch.randn(ROWS, 1, generator=generator), torch.arange(ROWS)


def train(step: nn.Module, module: likely.Supervised, part: slice) -> dict[str, torch.Tensor]:
    x, y, index = (t[part] for t in rows())
    optimizer = torch.optim.SGD(likely.param_groups(module.model, module.loss_fn, lr=0.1, multiplier=1.0))
    likely.clip_gradients(optimizer, module.loss_fn)
    for _ in range(STEPS):
        optimizer.zero_grad()
        step(x, y, index=index).backward()
        optimizer.step()
    return copy.deepcopy(module.state_dict())


def worker(rank: int, folder: str) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/meet", rank=rank, world_size=WORLD)
    try:
        share = ROWS // WORLD
        for kind in KINDS:
            module = build(kind)
            state = train(DistributedDataParallel(module), module, slice(rank * share, (rank + 1) * share))
            torch.save(state, f"{folder}/{kind}{rank}.pt")
        # DDP's cycles hold gloo's threads: a process that ends with them, or before its peer is done, may abort.
        gc.collect()
        dist.barrier()
    finally:
        dist.destroy_process_group()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("ddp")
    mp.start_processes(worker, args=(str(path),), nprocs=WORLD, start_method=START)
    return path


@pytest.mark.parametrize("kind", KINDS)
def test_two_processes_equal_one(kind: str, folder: Path):
    first, second = (torch.load(folder / f"{kind}{rank}.pt") for rank in range(WORLD))
    module = build(kind)
    alone = train(module, module, slice(None))
    before = build(kind).state_dict()
    assert any(not torch.equal(before[name], alone[name]) for name in alone if name.startswith("loss_fn"))
    for name, value in alone.items():
        assert torch.equal(first[name], second[name]), name
        torch.testing.assert_close(first[name], value, rtol=1e-4, atol=1e-6)
