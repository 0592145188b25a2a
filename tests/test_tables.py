import io
import pickle

import pytest
import torch

import likely
from likely.tables import Table


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


@pytest.mark.parametrize("kind", ["rmsprop", "adagrad", "sgd"])
@pytest.mark.parametrize("shape", [(), (3,), (2, 2, 2)])
@pytest.mark.parametrize("options", [{}, {"clip": 0.5}, {"weight_decay": 0.1}, {"clip": 2.0, "weight_decay": 0.3}])
def test_steps_as_the_plain_loop_does(kind, shape, options):
    start = torch.randn(6, *shape, dtype=torch.float64)
    table = Table(start, optimizer=kind, lr=0.1, **{"clip": None, **options})
    history = []
    for _ in range(5):
        index = torch.randint(0, 5, (7,))  # row 5 is never seen
        grad = torch.randn(7, *shape, dtype=torch.float64)
        history.append((index, grad))
        (table(index) * grad).sum().backward()
    torch.testing.assert_close(table.rows, reference(kind, start, history, 0.1, **options))
    assert torch.equal(table.rows[5], start[5])


def test_unseen_rows_stay_to_the_bit_and_bad_gradients_move_nothing():
    start = torch.randn(100)
    table = Table(start)
    (table(torch.tensor([3, 7])) * torch.tensor([torch.nan, 1.0])).sum().backward()
    moved = (table.rows != start).nonzero().flatten()
    assert moved.tolist() == [7]
    assert table.rows.isfinite().all()


def test_the_first_step_has_the_length_of_the_learning_rate():
    table = Table(torch.zeros(2), lr=0.25, clip=None)
    (table(torch.tensor([0, 1])) * torch.tensor([1e-4, -1e4])).sum().backward()
    torch.testing.assert_close(table.rows, torch.tensor([-0.25, 0.25]), rtol=1e-3, atol=0)


def test_reading_without_gradients_changes_nothing():
    table = Table(torch.zeros(3))
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


@pytest.mark.parametrize("options", [{"optimizer": "adam"}, {"lr": 0.0}, {"decay": 1.0}, {"clip": -1.0}])
def test_refuses_nonsense(options):
    with pytest.raises(ValueError, match=next(iter(options))):
        Table(torch.zeros(3), **options)
