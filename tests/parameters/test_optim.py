import warnings

import pytest
import torch
from torch import nn

import likely


def test_param_groups():
    model, loss_fn = nn.Linear(3, 1), likely.RobustLoss()
    model.bias.requires_grad_(False)
    first, second = likely.param_groups(model, loss_fn, lr=1e-3, weight_decay=0.01, betas=(0.9, 0.99))
    assert (first["lr"], first["weight_decay"], len(first["params"])) == (1e-3, 0.01, 1)
    assert (second["weight_decay"], len(second["params"]), second["betas"]) == (0.0, 2, (0.9, 0.99))
    assert second["lr"] == pytest.approx(1e-2)
    rates = {lr: likely.param_groups(model, loss_fn, lr=lr)[1]["lr"] for lr in (1e-3, 1e-2, 0.1)}
    assert rates == pytest.approx({1e-3: 1e-2, 1e-2: 0.02, 0.1: 0.1})
    assert likely.param_groups(model, loss_fn, lr=1e-3, multiplier=0.1)[1]["lr"] == pytest.approx(1e-4)
    assert likely.param_groups(model, likely.SoftmaxLoss(), lr=1e-3)[1]["lr"] == pytest.approx(1e-3)
    whole = likely.Supervised(model, loss_fn)
    groups = likely.param_groups(whole, loss_fn, lr=0.1)
    assert [len(g["params"]) for g in groups] == [1, 2]
    torch.optim.AdamW(groups)
    assert len(likely.param_groups(model, likely.NormalLoss(scale=1.0), lr=0.1)) == 1
    assert len(likely.param_groups(model.parameters(), loss_fn, lr=0.1)) == 2


def test_the_level_of_predicted_values_learns_at_the_models_rate_and_the_rest_at_one_for_its_width():
    model = nn.Linear(3, 1)
    narrow = likely.param_groups(model, likely.NormalLoss(likely.Predicted(4)), lr=1e-3)
    assert [(g["lr"], len(g["params"])) for g in narrow] == [(1e-3, 2), (1e-3, 2)]
    wide = likely.param_groups(model, likely.NormalLoss(likely.Predicted(64, hidden=(5,))), lr=1e-3)
    assert [(g["lr"], len(g["params"])) for g in wide] == [(1e-3, 2), (9.375e-5, 3), (1e-3, 1)]
    own = likely.NormalLoss(likely.Predicted(64, net=nn.Linear(64, 1)))
    assert [g["lr"] for g in likely.param_groups(model, own, lr=1e-3)] == [1e-3, 9.375e-5]


def test_clipping_acts_before_the_step_and_ends_on_request():
    loss_fn = likely.NormalLoss(likely.Global(init=1.0))
    optimizer = torch.optim.SGD(loss_fn.parameters(), lr=1.0)
    handle = likely.clip_gradients(optimizer, loss_fn, max_norm=0.5)
    loss_fn(torch.zeros(1), torch.full((1,), 1e3)).backward()
    optimizer.step()
    assert loss_fn.scale.raw.item() == pytest.approx(0.5)
    handle.remove()
    optimizer.step()
    assert loss_fn.scale.raw.item() == pytest.approx(1.0)


def test_gradients_of_the_likelihood_are_clipped_to_a_norm_of_one_by_default():
    for target, norm in ((1e3, 1.0), (1.5, 1.25)):  # in the logarithm of the scale the slope is 1 - z²
        loss_fn = likely.NormalLoss(likely.Global(init=1.0, constraint=likely.constraints.Exp()))
        optimizer = torch.optim.SGD(loss_fn.parameters(), lr=1.0)
        likely.clip_gradients(optimizer, loss_fn)
        loss_fn(torch.zeros(1), torch.full((1,), target)).backward()
        assert loss_fn.scale.raw.grad.item() == pytest.approx(1 - target**2)
        optimizer.step()
        assert loss_fn.scale.raw.item() == pytest.approx(min(norm, 1.0), rel=1e-5)


def test_a_shared_parameter_outside_of_a_loss_learns_at_the_models_rate():
    class Weighted(nn.Module):
        def __init__(self):
            super().__init__()
            self.balance = likely.Global(init=1.0, constraint=likely.constraints.Exp())

    groups = likely.param_groups(nn.Linear(3, 1), Weighted(), lr=1e-3)
    assert [(group["name"], group["lr"]) for group in groups] == [("model", 1e-3), ("likelihood", 1e-3)]


class TwoHeads(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.head = nn.Linear(3, 6), nn.Linear(6, 2)

    def forward(self, x):
        features = self.body(x).relu()
        return self.head(features), features


def test_supervised_finds_the_features():
    x, y = torch.randn(5, 3), torch.randn(5, 2)
    model = TwoHeads()
    loss_fn = likely.NormalLoss(scale=likely.Predicted(6, normalize=False))
    prediction, features = model(x)
    expected = loss_fn(prediction, y, features=features)
    torch.testing.assert_close(likely.Supervised(model, loss_fn)(x, y), expected)

    plain = nn.Sequential(model.body, nn.ReLU(), model.head)
    torch.testing.assert_close(likely.Supervised(plain, loss_fn, features="1")(x, y), expected)

    on_input = likely.NormalLoss(scale=likely.Predicted(3, normalize=False))
    torch.testing.assert_close(
        likely.Supervised(plain, on_input, features="input")(x, y), on_input(prediction, y, features=x)
    )
    with pytest.raises(ValueError, match=r"\(prediction, features\)"):
        likely.Supervised(plain, loss_fn)(x, y)
    with pytest.raises(ValueError, match="no submodule 'nowhere'"):
        likely.Supervised(plain, loss_fn, features="nowhere")


def test_supervised_passes_index_and_weight_on():
    x, y, index = torch.randn(4, 3), torch.randn(4, 1), torch.tensor([0, 3, 5, 7])
    step = likely.Supervised(nn.Linear(3, 1), likely.NormalLoss(scale=likely.Data(8)))
    weight = torch.tensor([1.0, 0.0, 0.0, 0.0])
    loss = step(x, y, index=index, sample_weight=weight)
    torch.testing.assert_close(loss, step.loss_fn(step.model(x), y, index=index, sample_weight=weight))
    loss.backward()


def train(model, loss_fn, parameters, steps=40, accumulate=1):
    optimizer = torch.optim.SGD(parameters, lr=0.01)
    x, y = torch.randn(16, 3), torch.randn(16, 1)
    for step in range(steps):
        loss_fn(model(x), y).backward()
        if step % accumulate == accumulate - 1:
            optimizer.step()
            optimizer.zero_grad()


def test_a_forgotten_parameter_is_noticed_once():
    model, loss_fn = nn.Linear(3, 1), likely.NormalLoss()
    with pytest.warns(UserWarning, match=r"scale\.raw.*param_groups") as caught:
        train(model, loss_fn, model.parameters())
    assert len(caught) == 1
    assert caught[0].filename == __file__


def test_a_forgotten_parameter_is_noticed_without_a_model():
    loss_fn = likely.NormalLoss()

    def passes():
        for _ in range(40):
            loss_fn(torch.zeros(3), torch.ones(3)).backward()

    with pytest.warns(UserWarning, match="param_groups"):
        passes()


@pytest.mark.parametrize("accumulate", [1, 20])
def test_no_false_alarm(accumulate):
    model, loss_fn = nn.Linear(3, 1), likely.NormalLoss()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        train(model, loss_fn, likely.param_groups(model, loss_fn, lr=0.01), accumulate=accumulate)
        train(model, likely.NormalLoss(scale=1.0), model.parameters())
        frozen = likely.NormalLoss()
        frozen.requires_grad_(False)
        train(model, frozen, model.parameters())


def test_an_optimizer_that_writes_to_data_is_not_accused():
    model, loss_fn = nn.Linear(3, 1), likely.NormalLoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(40):
            loss_fn(model(torch.randn(4, 3)), torch.zeros(4, 1)).backward()
            optimizer.step()
            loss_fn.scale.raw.data -= 0.01 * loss_fn.scale.raw.grad


def test_a_model_may_return_more_than_a_prediction_and_features():
    class Three(nn.Module):
        def forward(self, x):
            return x, x, x

    both = likely.Supervised(Three(), likely.NormalLoss())
    prediction, features = both.predict(torch.zeros(2, 1))
    assert len(prediction) == 3
    assert features is None
