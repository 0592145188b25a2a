"""FSDP2 and tensor-parallel vocabularies on two gloo processes, against one process that has everything."""

import copy
import gc
from pathlib import Path

import pytest
import torch
from torch import distributed as dist
from torch import multiprocessing as mp
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor

import likely
from likely import functional as F

# Forks have imported everything already, but may not take gradients where the parent has threads for GPUs.
START = "spawn" if torch.cuda.is_available() else "fork"
# Newer Pythons warn of forks beside threads; these use none of the parent's.
pytestmark = [pytest.mark.heavy, pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")]

WORLD, ROWS, STEPS, CLASSES, WIDTH = 2, 16, 4, 7, 4
KINDS = {
    "Fixed": lambda: likely.Fixed(1.5),
    "Global": lambda: likely.Global(1, init=1.5),  # FSDP2 takes no parameter without an axis
    "Predicted": lambda: likely.Predicted(8, init=1.5),
    "Data": lambda: likely.Data(ROWS, init=1.5, lr=0.05),
}
LOSSES = {
    "Normal": likely.NormalLoss,
    "Laplace": likely.LaplaceLoss,
    "Student-t": likely.StudentTLoss,
    "Softmax": likely.SoftmaxLoss,
    "Bernoulli": likely.BernoulliLoss,
    "Robust": likely.RobustLoss,
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


def tokens() -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(2)
    drawn = {
        "states": torch.randn(2, 5, WIDTH, generator=generator),
        "weight": torch.randn(CLASSES, WIDTH, generator=generator),  # an odd number: parts of 4 and 3
        "bias": torch.randn(CLASSES, generator=generator),
        "temperature": torch.rand(6, generator=generator) + 0.5,
        "logits": 3 * torch.randn(6, CLASSES, generator=generator),
    }
    drawn["logits"][0, 1] = drawn["logits"][1, 6] = -torch.inf
    return {name: value.requires_grad_() for name, value in drawn.items()}


IDS = torch.tensor([[0, 3, 6, 4, 1], [2, 2, -100, 5, 0]])
LABELS = torch.tensor([0, 3, 6, -100, 4, 1])


def losses(given: dict[str, torch.Tensor], weight: torch.Tensor, bias: torch.Tensor, logits: torch.Tensor):
    """Every loss that a vocabulary may be spread for."""
    torch.manual_seed(3)
    head = likely.TokenTemperature(WIDTH, label_smoothing=0.1)
    nn.init.normal_(head.parameter.net[0].weight)
    yield "head", head(given["states"], weight, IDS, bias=bias), list(head.parameters())
    yield "linear", F.linear_softmax_nll(given["states"], weight, IDS, 1.5, reduction="sum"), []
    loss_fn = likely.SoftmaxLoss()
    yield "global", loss_fn(logits, LABELS), list(loss_fn.parameters())
    yield "smooth", F.softmax_nll(logits[2:], LABELS[2:], temperature=2.0, label_smoothing=0.1), []
    rowwise = F.softmax_nll(logits, LABELS, temperature=given["temperature"], reduction="none")
    yield "rows", (rowwise * torch.arange(6)).sum(), []


def results(given, weight, bias, logits) -> dict[str, torch.Tensor]:
    found = {}
    for name, loss, own in losses(given, weight, bias, logits):
        leaves = {**given, "weight": weight, "bias": bias, "logits": logits}
        for leaf in leaves.values():
            leaf.grad = None
        loss.backward()
        found[name] = loss.detach()
        for key, leaf in [*leaves.items(), *((f"own{i}", p) for i, p in enumerate(own))]:
            if leaf.grad is not None:
                slope = leaf.grad
                found[f"{name} by {key}"] = slope.full_tensor() if isinstance(slope, DTensor) else slope.clone()
    return found


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
        given = tokens()
        spread = {
            name: distribute_tensor(given[name].detach(), mesh, [Shard(axis)]).requires_grad_()
            for name, axis in (("weight", 0), ("bias", 0), ("logits", 1))
        }
        found["spread"] = results(given, **spread)
        found["refused"] = refusals(mesh)
        torch.save(found, f"{folder}/{rank}.pt")
        # Cycles hold gloo's threads: a process that ends with them, or before its peer is done, may abort.
        gc.collect()
        dist.barrier()
    finally:
        dist.destroy_process_group()


def refusals(mesh) -> list[str]:
    logits = torch.randn(6, CLASSES)
    whole, by_class, by_row = (distribute_tensor(logits, mesh, [how]) for how in (Replicate(), Shard(1), Shard(0)))
    soft = logits.softmax(1)
    calls = [
        lambda: F.softmax_nll(by_row, LABELS, temperature=1.0),
        lambda: F.softmax_nll(by_class, LABELS, temperature=1.0, weight=torch.ones(CLASSES)),
        lambda: F.softmax_nll(by_class, soft, temperature=1.0),
        lambda: fully_shard(likely.NormalLoss(), mesh=mesh),
    ]
    said = []
    for call in calls:
        with pytest.raises(ValueError, match=r"\w") as caught:
            call()
        said.append(str(caught.value))
    torch.testing.assert_close(
        F.softmax_nll(whole, LABELS, temperature=1.0), F.softmax_nll(logits, LABELS, temperature=1.0)
    )
    return said


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


def test_a_vocabulary_spread_over_processes(found):
    given = tokens()
    expected = results(given, given["weight"], given["bias"], given["logits"])
    for rank in range(WORLD):
        spread = found[rank]["spread"]
        assert spread.keys() == expected.keys()
        for name, value in expected.items():
            torch.testing.assert_close(spread[name], value, rtol=1e-4, atol=1e-5, msg=lambda m, n=name: f"{n}: {m}")


def test_what_is_refused(found):
    by_row, weights, soft, scalar = found[0]["refused"]
    assert "spread it over its class axis, Shard(1)" in by_row
    assert "no class weights" in weights
    assert "take class numbers" in soft
    assert "scalar" in scalar  # torch's own: use likely.Global(1)
