"""What only a CUDA device can show of tables. Run there: pytest -m gpu"""

import subprocess
import sys

import pytest
import torch

from likely.row_store import RowStore
from pairwise import together

# Torch calls its debug mode a prototype, each time it is switched on.
pytestmark = [pytest.mark.gpu, pytest.mark.filterwarnings("ignore:Synchronization debug mode")]


def build(store, tmp_path, **options):
    where = tmp_path / "rows.table" if store == "file" else store
    return RowStore(torch.zeros(4).expand(50, 4), store=where, **options).cuda()


def train(table, batches, to="cpu"):
    for index in batches:
        rows = table(index.to(to))
        assert rows.is_cuda
        (rows - torch.arange(len(index), device="cuda")[:, None]).square().sum().backward()


@pytest.mark.parametrize("store", ["host", "file"])
@pytest.mark.parametrize("to", ["cpu", "cuda"])
def test_rows_elsewhere_learn_what_rows_on_the_device_learn(store, to, tmp_path):
    batches = [torch.randperm(50)[:30] for _ in range(20)]
    expected, found = build("device", tmp_path), build(store, tmp_path)
    train(expected, batches)
    train(found, batches, to)
    assert not found.rows.is_cuda
    torch.testing.assert_close(found.rows, expected.rows.cpu(), rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(found.mean_square, expected.mean_square.cpu(), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("store", ["device", "host", "file"])
def test_rows_in_bfloat16_learn_on_a_device(store, tmp_path):
    table, exact = build(store, tmp_path, dtype=torch.bfloat16), build("device", tmp_path)
    for batch in [torch.randint(0, 50, (30,)) for _ in range(20)]:
        for each in (table, exact):
            (each(batch) - 1).square().sum().backward()
    torch.testing.assert_close(table.rows.float().cpu(), exact.rows.cpu(), rtol=0.05, atol=0.05)


def test_a_step_of_rows_on_the_device_never_waits_for_it(tmp_path):
    for dtype in (torch.float32, torch.bfloat16):
        table, index = build("device", tmp_path, dtype=dtype), torch.randint(0, 50, (30,), device="cuda")
        train(table, [index], to="cuda")
        torch.cuda.set_sync_debug_mode("error")
        try:
            train(table, [index], to="cuda")
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


@together("optimizer", ["rmsprop", "adagrad", "sgd"])
@together("clip", [1.0, None])
@together(
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
    """With two rows each has 150,000 places, with as many rows as places most occur once."""
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
