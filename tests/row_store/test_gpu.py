"""What only a CUDA device can show of tables. Run there: pytest -m gpu"""

import subprocess
import sys

import pytest
import torch

from likely.row_store import RowStore

# Torch calls its debug mode a prototype, each time it is switched on.
pytestmark = [pytest.mark.gpu, pytest.mark.filterwarnings("ignore:Synchronization debug mode")]


def build(store, tmp_path, **options):
    where = tmp_path / "rows.table" if store == "file" else store
    return RowStore(torch.zeros(4).expand(50, 4), store=where, **options).cuda()


def train(table, batches, ahead=False, to="cpu"):
    waiting = []
    for index in [*batches, None]:
        if ahead and index is not None:
            table.prefetch(index)
        for old in waiting:
            rows = table(old.to(to))
            assert rows.is_cuda
            (rows - torch.arange(len(old), device="cuda")[:, None]).square().sum().backward()
        waiting = [] if index is None else [index]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("store", ["host", "file"])
@pytest.mark.parametrize("ahead", [True, False])
@pytest.mark.parametrize("to", ["cpu", "cuda"])
def test_rows_elsewhere_learn_what_rows_on_the_device_learn(store, ahead, to, dtype, tmp_path):
    batches = [torch.randperm(50)[:30] for _ in range(20)]  # no index twice, so that sums have one order
    expected, found = build("device", tmp_path, dtype=dtype), build(store, tmp_path, dtype=dtype)
    train(expected, batches)
    train(found, batches, ahead, to)
    assert not found.rows.is_cuda
    assert torch.equal(found.rows, expected.rows.cpu())
    assert torch.equal(found.mean_square, expected.mean_square.cpu())


def test_a_step_with_rows_on_the_host_never_waits_for_the_device(tmp_path):
    table = build("host", tmp_path)
    batches = [torch.randperm(50)[:30] for _ in range(6)]
    train(table, batches, ahead=True)
    torch.cuda.set_sync_debug_mode("error")
    try:
        train(table, batches, ahead=True)
    finally:
        torch.cuda.set_sync_debug_mode("default")


@pytest.mark.parametrize("number", [-1, 50])
def test_an_index_that_is_no_row_ends_the_program_with_a_word(number):
    code = (
        "import torch; from likely.row_store import RowStore; t = RowStore(torch.zeros(50)).cuda();"
        f"t(torch.tensor([{number}], device='cuda')); torch.cuda.synchronize()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode
    assert "outside the 50 rows" in done.stderr + done.stdout


def test_saves_and_loads(tmp_path):
    table = build("device", tmp_path)
    train(table, [torch.arange(9)])
    table.save(tmp_path / "saved")
    other = build("device", tmp_path)
    other.load(tmp_path / "saved")
    assert torch.equal(other.rows, table.rows)


@pytest.mark.parametrize("optimizer", ["rmsprop", "adagrad", "sgd"])
@pytest.mark.parametrize("clip", [1.0, None])
@pytest.mark.parametrize(
    ("shape", "batch"),
    [((), 1), ((), 37), ((3, 700), 1), ((3, 700), 37), ((), 9000), ((3,), 9000), ((10, 10), 9000), ((200,), 9000)],
)
def test_a_step_is_the_cpus(optimizer, shape, clip, batch):
    tables = [
        RowStore(torch.zeros(shape).expand(50, *shape), optimizer=optimizer, clip=clip, weight_decay=0.1) for _ in "ab"
    ]
    tables[1].cuda()
    for _ in range(3):
        index, grad = torch.randint(0, 50, (batch,)), torch.randn(batch, *shape)
        grad[index == 3] = torch.nan
        for table in tables:
            place = table.rows.device
            table.step(index.to(place), grad.to(place))
    for own, other in zip(*([t.rows, t.mean_square] for t in tables), strict=True):
        torch.testing.assert_close(other.cpu(), own, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("shape", [(), (3,)])
@pytest.mark.parametrize("n", [2, 1000, 300_000])
def test_a_step_of_many_rows_is_the_cpus_and_waits_for_nothing(shape, n):
    """With two rows each fills hundreds of tiles, with as many rows as places most occur once."""
    tables = [RowStore(torch.zeros(n, *shape)) for _ in "ab"]
    tables[1].cuda()
    for _ in range(2):
        index, grad = torch.randint(0, n, (300_000,)), torch.randn(300_000, *shape) / 300_000**0.5
        tables[0].step(index, grad)
        here = index.cuda(), grad.cuda()
        torch.cuda.set_sync_debug_mode("error")
        try:
            tables[1].step(*here)
        finally:
            torch.cuda.set_sync_debug_mode("default")
    for own, other in zip(*([t.rows, t.mean_square] for t in tables), strict=True):
        torch.testing.assert_close(other.cpu(), own, rtol=1e-3, atol=1e-4)
    again = RowStore(torch.zeros(n, *shape)).cuda(), RowStore(torch.zeros(n, *shape)).cuda()
    for table in again:
        table.step(*here)
    assert torch.equal(again[0].rows, again[1].rows)
