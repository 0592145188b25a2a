"""How rows move, the same wherever they are kept."""

import copy
import io
import pickle

import pytest
import torch

import likely
from likely.row_store import RowStore, _store
from pairwise import together

STORES = ("device", "host", "file")


def keep(store, path):
    """Where a table is kept, as its argument ``store``."""
    return path / "rows.table" if store == "file" else store


def reference(kind, rows, history, lr, decay=0.9, eps=1e-8, clip=None, weight_decay=0.0):
    """A loop over rows that nobody could misread."""
    rows, square = rows.clone(), [0.0] * len(rows)
    for index, grad in history:
        total = {}
        for i, g in zip(index.tolist(), grad, strict=True):
            total[i] = total.get(i, 0) + g
        for i, g in total.items():
            if not g.isfinite().all():
                continue
            if clip is not None and g.norm() > clip:
                g = g * clip / g.norm()
            mean_square = g.square().mean().item()
            if kind == "rmsprop" and mean_square:
                square[i] = mean_square if square[i] == 0 else decay * square[i] + (1 - decay) * mean_square
            if kind == "adagrad":
                square[i] += mean_square
            length = 1 if kind == "sgd" or not mean_square else square[i] ** 0.5 + eps
            rows[i] = rows[i] - lr * (g / length + weight_decay * rows[i])
    return rows


@together("store", STORES)
@together("kind", ["rmsprop", "adagrad", "sgd"])
@together("shape", [(), (3,), (2, 2, 2)])
@together("options", [{}, {"clip": 0.5}, {"weight_decay": 0.1}, {"clip": 2.0, "weight_decay": 0.3}])
def test_steps_as_the_plain_loop_does(kind, shape, options, store, tmp_path):
    start = torch.randn(shape, dtype=torch.float64).expand(6, *shape)
    table = RowStore(start, store=keep(store, tmp_path), optimizer=kind, lr=0.1, **{"clip": None, **options})
    history = []
    for _ in range(5):
        index = torch.randint(0, 5, (7,))  # row 5 is never seen
        grad = torch.randn(7, *shape, dtype=torch.float64)
        history.append((index, grad))
        (table(index) * grad).sum().backward()
    torch.testing.assert_close(table.rows, reference(kind, start, history, 0.1, **options))
    assert torch.equal(table.rows[5], start[5])


@pytest.mark.parametrize("kind", ["rmsprop", "adagrad", "sgd"])
@pytest.mark.parametrize("shape", [(), (3, 2), (5, 7)])
@pytest.mark.parametrize("store", ["device", "host"])
def test_compiled_code_and_torch_step_alike(kind, shape, store, monkeypatch):
    tables = []
    for native in (True, False):
        if not native:
            monkeypatch.setattr(_store, "library", lambda: None)
        torch.manual_seed(1)
        table = RowStore(torch.randn(20, *shape), store=store, optimizer=kind, clip=0.7, weight_decay=0.1)
        for _ in range(10):
            sizes = torch.tensor([0.0, 1.0, 1e-20, 1e18, torch.nan, torch.inf]).repeat(3)
            grad = sizes.view(-1, *[1] * len(shape)) * torch.randn(18, *shape)
            table.step(torch.randint(0, 20, (18,)), grad)
        tables.append(table)
    compiled, plain = tables
    torch.testing.assert_close(plain.rows, compiled.rows, rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(plain.mean_square, compiled.mean_square, rtol=1e-5, atol=0)


@pytest.mark.skipif(_store.library() is None, reason="installed without a C++ compiler")
@pytest.mark.parametrize("width", [1, 7, 8, 1000])
def test_compiled_code_bears_gradients_of_any_size(width):
    """Their squares overflow float32: torch leaves such a row where it is, unless it is one number."""
    table = RowStore(torch.zeros(3, width), lr=1.0)
    table.step(torch.tensor([2]), torch.full((1, width), 3e38))
    torch.testing.assert_close(table.rows[2], torch.full((width,), -1.0))
    assert torch.equal(table.rows[:2], torch.zeros(2, width))


def test_unseen_rows_stay_to_the_bit_and_bad_gradients_move_nothing():
    start = torch.randn(100)
    table = RowStore(start)
    (table(torch.tensor([3, 7])) * torch.tensor([torch.nan, 1.0])).sum().backward()
    moved = (table.rows != start).nonzero().flatten()
    assert moved.tolist() == [7]
    assert table.rows.isfinite().all()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_every_store_moves_rows_to_the_same_bits(dtype, tmp_path):
    row = torch.randn(3, 2)
    tables = [
        RowStore(row.expand(20, 3, 2), store=keep(store, tmp_path), dtype=dtype, weight_decay=0.01) for store in STORES
    ]
    for _ in range(8):
        index, grad = torch.randint(0, 20, (12,)), torch.randn(12, 3, 2)
        for table in tables:
            (table(index) * grad).sum().backward()
    first, *others = tables
    assert first.rows.dtype == dtype
    assert first.mean_square.dtype == torch.float32
    for other in others:
        assert torch.equal(first.rows, other.rows)
        assert torch.equal(first.mean_square, other.mean_square)


@pytest.mark.parametrize("store", STORES)
def test_rows_used_twice_before_backward_take_both_steps(store, tmp_path):
    """Two losses may share a parameter: each of their steps starts where the other ended."""
    table = RowStore(torch.zeros(()).expand(5), store=keep(store, tmp_path), optimizer="sgd", lr=1.0, clip=None)
    (2 * table(torch.tensor([1, 2])).sum() + 3 * table(torch.tensor([2, 3])).sum()).backward()
    assert table.rows.tolist() == [0, -2, -5, -3, 0]
    index = torch.tensor([1, 2])
    loss = table(index).sum()
    loss.backward(retain_graph=True)
    index.fill_(4)  # the caller's to reuse, though rows may still be on their way to the store
    assert table.rows.tolist() == [0, -3, -6, -3, 0]


def test_the_first_step_has_the_length_of_the_learning_rate():
    table = RowStore(torch.zeros(2), lr=0.25, clip=None)
    (table(torch.tensor([0, 1])) * torch.tensor([1e-4, -1e4])).sum().backward()
    torch.testing.assert_close(table.rows, torch.tensor([-0.25, 0.25]), rtol=1e-3, atol=0)


@pytest.mark.parametrize("store", STORES)
def test_reading_without_gradients_changes_nothing(store, tmp_path):
    table = RowStore(torch.zeros(()).expand(3), store=keep(store, tmp_path))
    with torch.no_grad():
        assert not table(torch.tensor([1])).requires_grad
    rows = table(torch.tensor([1, 2]))
    torch.autograd.grad(rows.sum(), rows)
    assert not table.rows.any()
    table(torch.empty(0, dtype=torch.long)).sum().backward()
    assert not table.rows.any()


def test_state_dict_pickle_and_checkpoint():
    loss_fn = likely.SoftmaxLoss(temperature=likely.Data(5))
    assert set(loss_fn.state_dict()) == {"temperature.table.rows", "temperature.table.mean_square"}
    assert not list(loss_fn.parameters())
    loss_fn(torch.randn(3, 4), torch.tensor([0, 1, 2]), index=torch.tensor([0, 2, 4])).backward()
    buffer = io.BytesIO()
    torch.save(loss_fn.state_dict(), buffer)
    buffer.seek(0)
    fresh = likely.SoftmaxLoss(temperature=likely.Data(5))
    fresh.load_state_dict(torch.load(buffer))
    assert torch.equal(fresh.temperature.value, loss_fn.temperature.value)
    assert torch.equal(pickle.loads(pickle.dumps(loss_fn)).temperature.value, loss_fn.temperature.value)


def test_data_temperatures_find_flipped_labels():
    """What they are for: after a few epochs the mislabelled rows are the hot ones."""
    torch.manual_seed(0)
    x = torch.randn(400, 2)
    clean = (x[:, 0] + x[:, 1] > 0).long()
    flipped = torch.rand(400) < 0.1
    labels = torch.where(flipped, 1 - clean, clean)
    model, loss_fn = torch.nn.Linear(2, 2), likely.SoftmaxLoss(temperature=likely.Data(400))
    optimizer = torch.optim.Adam(likely.param_groups(model, loss_fn, lr=0.05))
    for _ in range(30):
        for index in torch.randperm(400).split(50):
            optimizer.zero_grad()
            loss_fn(model(x[index]), labels[index], index=index).backward()
            optimizer.step()
    hottest = loss_fn.temperature.value.topk(int(flipped.sum())).indices
    assert flipped[hottest].float().mean() > 0.85


@pytest.mark.parametrize("store", ["device", "host"])
def test_copies_of_a_table_are_independent(store):
    table = RowStore(torch.zeros(4), store=store, lr=0.5)
    table(torch.tensor([1])).sum().backward()
    for twin in (copy.deepcopy(table), pickle.loads(pickle.dumps(table))):
        twin(torch.tensor([2])).sum().backward()
        assert table.rows.tolist() == [0, -0.5, 0, 0]
        assert twin.rows.tolist() == [0, -0.5, -0.5, 0]
        twin.load_state_dict(table.state_dict())
        assert torch.equal(twin.rows, table.rows)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64])
def test_a_module_turned_to_another_dtype_goes_on(dtype):
    table = RowStore(torch.zeros(4, 2), lr=0.5).to(dtype)
    table(torch.tensor([1, 1, 2])).sum().backward()
    assert table.rows.dtype == dtype
    torch.testing.assert_close(table.rows[1:3].float(), torch.full((2, 2), -0.5), rtol=1e-2, atol=0)


def test_rows_on_the_host_stay_there():
    table = RowStore(torch.zeros(4), store="host")
    table.to("meta")
    assert table.rows.device.type == table.mean_square.device.type == "cpu"
    assert table.step_number.device.type == "meta"
    assert RowStore(torch.zeros(4)).to("meta").rows.device.type == "meta"


@pytest.mark.parametrize("store", STORES)
def test_data_in_any_store(store, tmp_path):
    where = keep(store, tmp_path)
    scale = likely.Data(6, (2,), init=2.0, store=where, dtype=torch.bfloat16, fallback="mean", lr=0.1)
    loss_fn = likely.NormalLoss(scale=scale)
    for _ in range(5):
        loss_fn(torch.zeros(2, 2), torch.full((2, 2), 9.0), index=torch.tensor([1, 4])).backward()
    value = scale.value
    assert value.dtype == torch.float32
    torch.testing.assert_close(value[0], torch.tensor([2.0, 2.0]), rtol=1e-2, atol=0)
    assert (value[[1, 4]] > 2.2).all()
    torch.testing.assert_close(loss_fn.eval().scale(), value.mean(0))
    table = {f"scale.table.{n}" for n in ("rows", "mean_square")} if store != "file" else set()
    assert set(loss_fn.state_dict()) == {"scale.started"} | table


@together("store", STORES)
@together(
    ("index", "error", "message"),
    [
        (torch.tensor([2, 7]), IndexError, "from 2 to 7.*rows 0 to 5"),
        (torch.tensor([-1]), IndexError, "from -1 to -1"),
        (torch.tensor([1.0]), TypeError, "integer tensor.*float32"),
        (torch.tensor([True]), TypeError, "integer tensor.*bool"),
        ([1, 2], TypeError, "integer tensor.*list"),
        (torch.tensor([[1, 2]]), ValueError, "one dimension"),
        (None, ValueError, "IndexedDataset"),
    ],
    ids=str,
)
def test_refuses_a_wrong_index(store, index, error, message, tmp_path):
    table = RowStore(torch.ones(()).expand(6), store=keep(store, tmp_path))
    with pytest.raises(error, match=message):
        table(index)
    assert table.rows.tolist() == [1] * 6


@pytest.mark.parametrize("store", STORES)
@pytest.mark.parametrize("shape", [(), (4,)])
def test_a_step_by_hand_refuses_what_is_no_row(store, shape, tmp_path):
    table = RowStore(torch.zeros(shape).expand(5, *shape), store=keep(store, tmp_path))
    for index in (-1, 5, 10**12):
        with pytest.raises(IndexError, match="rows 0 to 4"):
            table.step(torch.tensor([0, index]), torch.ones(2, *shape))
    for wrong in ((1, *shape), (3, *shape), (2, 3), ()):
        with pytest.raises(ValueError, match="grad must have the shape"):
            table.step(torch.tensor([0, 1]), torch.ones(wrong))
    assert not table.rows.any()


def test_an_index_that_nobody_looked_at_moves_no_memory_of_others():
    table = RowStore(torch.zeros(5), validate_args=False)
    with pytest.raises(IndexError):
        table.step(torch.tensor([0, 5]), torch.ones(2))
    assert not table.rows.any()


def test_refuses_a_mean_over_rows_it_has_not():
    with pytest.raises(ValueError, match="sharded"):
        likely.Data(6, sharded=True, fallback="mean")


def test_repr_says_where_rows_are(tmp_path):
    assert repr(RowStore(torch.zeros(4, 2))) == "RowStore((4, 2), optimizer='rmsprop', lr=0.1)"
    assert repr(RowStore(torch.zeros(4), store="host")).endswith("store='host')")
    assert "rows.table" in repr(RowStore(torch.zeros(()).expand(4), store=keep("file", tmp_path)))


@pytest.mark.parametrize(
    "options",
    [{"optimizer": "adam"}, {"lr": 0.0}, {"decay": 1.0}, {"clip": -1.0}, {"eps": 0.0}, {"weight_decay": -0.1}],
)
def test_refuses_nonsense(options):
    with pytest.raises(ValueError, match=next(iter(options))):
        RowStore(torch.zeros(3), **options)
