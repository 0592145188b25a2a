"""Two and four processes learn what one learns on the joined batch, to the bit, with a copy or a part each."""

import gc
from pathlib import Path

import pytest
import torch
from torch import distributed as dist, multiprocessing as mp

import likely
from likely.row_store import RowStore

pytestmark = [pytest.mark.heavy, pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")]

ROWS, SHARE, STEPS = 23, 8, 12  # 23 rows: the last process has fewer
KINDS = {
    "copies": {},
    "parts": {"sharded": True},
    "parts in bfloat16": {"sharded": True, "dtype": torch.bfloat16},
    "copies in bfloat16": {"dtype": torch.bfloat16},
    "parts on the host": {"sharded": True, "store": "host"},
    "parts in files": {"sharded": True, "store": "file"},
    "copies on the host": {"store": "host"},
}


def build(kind, folder):
    options = dict(KINDS[kind])
    if options.get("store") == "file":
        options["store"] = folder / f"{kind}.table"
    return RowStore(torch.tensor([0.5, -1.0]).expand(ROWS, 2), weight_decay=0.01, **options)


def train(table, world, rank=None):
    """Rows in several processes' batches at once; the loss is a mean, as DDP assumes."""
    generator = torch.Generator().manual_seed(0)
    for _ in range(STEPS):
        index = torch.randint(0, ROWS, (world * SHARE,), generator=generator)
        target = torch.randn(world * SHARE, 2, generator=generator)
        if rank is not None:
            index, target = (t[rank * SHARE : (rank + 1) * SHARE] for t in (index, target))
        (table(index) - target).square().sum(1).mean().backward()


def uneven(table, world, rank):
    """A process without rows of its own still serves the others."""
    index = torch.arange(rank * 3)
    table(index).sum().backward()


def worker(rank, world, folder):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/meet", rank=rank, world_size=world)
    try:
        for kind in KINDS:
            table = build(kind, folder)
            train(table, world, rank)
            if not KINDS[kind].get("store"):
                uneven(table, world, rank)
            torch.save((table.rows, table.mean_square), folder / f"{kind}{rank}.pt")
        few = RowStore(torch.zeros(()).expand(5), sharded=True, store=folder / "few.table", optimizer="sgd", lr=world)
        few(torch.tensor([rank])).sum().backward()
        torch.save(few.rows, folder / f"few{rank}.pt")
        gc.collect()
        dist.barrier()
    finally:
        dist.destroy_process_group()


@pytest.fixture(scope="module", params=[2, 4])
def trained(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("processes")
    mp.start_processes(worker, args=(request.param, folder), nprocs=request.param, start_method="fork")
    return request.param, folder


@pytest.mark.parametrize("kind", KINDS)
def test_the_rows_of_several_processes_are_those_of_one(kind, trained, tmp_path):
    world, folder = trained
    parts = [torch.load(folder / f"{kind}{rank}.pt") for rank in range(world)]
    alone = build(kind, tmp_path)
    train(alone, world)
    if not KINDS[kind].get("store"):
        for_all = torch.cat([torch.arange(rank * 3) for rank in range(world)])
        (table_sum := alone(for_all).sum() / world).backward()
        assert table_sum.isfinite()
    if KINDS[kind].get("sharded"):
        rows, squares = (torch.cat(column) for column in zip(*parts, strict=True))
        assert max(len(part[0]) for part in parts) == -(-ROWS // world)
    else:
        assert all(torch.equal(parts[0][k], part[k]) for part in parts for k in (0, 1))
        rows, squares = parts[0]
    assert torch.equal(rows, alone.rows)
    assert torch.equal(squares, alone.mean_square)


def test_each_process_has_a_file_of_its_own(trained):
    world, folder = trained
    assert {p.name for p in Path(folder).glob("parts in files.table*")} == {
        f"parts in files.table.{r}-of-{world}" for r in range(world)
    }


def test_a_process_may_have_no_rows(trained):
    world, folder = trained
    parts = [torch.load(folder / f"few{rank}.pt") for rank in range(world)]
    assert [len(part) for part in parts] == {2: [3, 2], 4: [2, 2, 1, 0]}[world]
    assert torch.cat(parts).tolist() == [-1.0] * world + [0.0] * (5 - world)


def test_parts_are_not_begun_anew_by_another_number_of_processes(trained):
    _, folder = trained
    with pytest.raises(ValueError, match=r"there is no parts in files.table, but .*0-of-\d, .*as many processes"):
        build("parts in files", folder)


def test_without_other_processes_a_sharded_table_is_whole():
    data = likely.Data(5, init=1.0, constraint=likely.constraints.Exp(), sharded=True, fallback="init")
    data(index=torch.tensor([4])).sum().backward()
    assert data.value.shape == (5,)
    assert data.eval()().item() == 1
