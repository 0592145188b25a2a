import copy
import pickle

import pytest
import torch
from torch import nn

import likely
from likely._standardize import Standardize
from likely.constraints import Exp, Interval
from pairwise import together

SHAPES = [(), (3, 1, 1), (3, 4, 4), (1, 4, 4), (4, 4)]


@together("init", [0.05, 1.0, 7.5, 1e4])
@together("kind", ["global", "data", "predicted"])
def test_starts_at_the_value_named(kind, init):
    make = {
        "global": lambda: likely.Global(init=init),
        "data": lambda: likely.Data(10, init=init),
        "predicted": lambda: likely.Predicted(5, init=init, weights="zero"),
    }[kind]
    loss_fn = likely.NormalLoss(scale=make(), reduction="none")
    d = loss_fn.distribution(torch.zeros(4), features=torch.randn(4, 5), index=torch.arange(4))
    torch.testing.assert_close(d.scale, torch.full((4,), init), rtol=1e-5, atol=0)


@together("shape", SHAPES)
@together("kind", ["fixed", "global", "data", "predicted", "spatial"])
def test_the_grid_of_conditioning_and_dimensionality(kind, shape):
    parameter = {
        "fixed": lambda: likely.Fixed(torch.full(shape, 1.5)),
        "global": lambda: likely.Global(shape),
        "data": lambda: likely.Data(10, shape),
        "predicted": lambda: likely.Predicted(5, shape, hidden=(6,)),
        "spatial": lambda: likely.Predicted(5, shape, spatial=True),
    }[kind]()
    features = torch.randn(2, 5, 4, 4) if kind == "spatial" else torch.randn(2, 5)
    loss_fn = likely.NormalLoss(scale=parameter, reduction="none")
    prediction, target = torch.zeros(2, 3, 4, 4, requires_grad=True), torch.randn(2, 3, 4, 4)
    nll = loss_fn(prediction, target, features=features, index=torch.tensor([3, 7]))
    assert nll.shape == target.shape
    nll.sum().backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in loss_fn.parameters())


def test_one_value_a_row_pairs_rows_not_columns():
    """The classic trap: a (B,) scale against a (B, B) prediction."""
    loss_fn = likely.NormalLoss(scale=likely.Data(3), reduction="none")
    with torch.no_grad():
        loss_fn.scale.table.rows.copy_(loss_fn.scale.constraint.inv(torch.tensor([1.0, 2.0, 4.0])))
    d = loss_fn.distribution(torch.zeros(3, 3), index=torch.tensor([2, 1, 0]))
    torch.testing.assert_close(d.scale, torch.tensor([[4.0], [2.0], [1.0]]).expand(3, 3))


def test_a_fixed_value_without_a_number_is_one():
    torch.testing.assert_close(likely.Fixed().value, torch.tensor(1.0))


def test_predicted_on_sequences():
    loss_fn = likely.NormalLoss(scale=likely.Predicted(5, (2,)), reduction="none")
    assert loss_fn(torch.zeros(4, 7, 2), torch.zeros(4, 7, 2), features=torch.randn(4, 7, 5)).shape == (4, 7, 2)


def test_the_spatial_network_is_a_1x1_convolution():
    parameter = likely.Predicted(5, (3, 4, 6), spatial=True, normalize=False, init=1.0, constraint=Exp())
    features = torch.randn(2, 5, 4, 6)
    linear = parameter.net[0]
    expected = nn.functional.conv2d(features, linear.weight[:, :, None, None], linear.bias).exp()
    torch.testing.assert_close(parameter(features), expected)


@pytest.mark.parametrize(("shape", "axes"), [((), (1, 2, 3)), ((3, 1, 1), (2, 3)), ((3, 4, 1), (3,))])
def test_spatial_averages_over_the_axes_left_out(shape, axes):
    parameter = likely.Predicted(5, shape, spatial=True, normalize=False, init=1.0, constraint=Exp())
    features = torch.randn(2, 5, 4, 4)
    linear = parameter.net[0]
    raw = nn.functional.conv2d(features, linear.weight[:, :, None, None], linear.bias)
    expected = raw.mean(axes, keepdim=bool(shape)).exp()
    torch.testing.assert_close(parameter(features), expected)


def test_isolated_stops_the_gradient_at_the_features():
    features = torch.randn(4, 5, requires_grad=True)
    for isolated in (False, True):
        loss_fn = likely.NormalLoss(scale=likely.Predicted(5, isolated=isolated, weights="glorot"))
        loss_fn(torch.zeros(4), torch.ones(4), features=features).backward()
        reached = features.grad is not None and bool(features.grad.any())
        assert reached == (not isolated)
        features.grad = None


def test_a_net_of_the_users_own():
    net = nn.Sequential(nn.Linear(5, 8), nn.Tanh(), nn.Linear(8, 2))
    nn.init.zeros_(net[-1].weight)
    nn.init.zeros_(net[-1].bias)
    loss_fn = likely.NormalLoss(scale=likely.Predicted(None, (2,), net=net, normalize=False, init=3.0))
    d = loss_fn.distribution(torch.zeros(4, 2), features=torch.randn(4, 5))
    torch.testing.assert_close(d.scale, torch.full((4, 2), 3.0))
    assert len(list(loss_fn.parameters())) == 4
    assert set(pickle.loads(pickle.dumps(loss_fn)).state_dict()) == set(loss_fn.state_dict())


@pytest.mark.parametrize("weights", ["glorot", "zero"])
def test_the_last_bias_is_the_inverse_constraint(weights):
    parameter = likely.Predicted(5, (2,), hidden=(4,), weights=weights, init=[0.5, 2.0], constraint=Exp())
    torch.testing.assert_close(parameter.net[-1].bias.detach(), torch.tensor([0.5, 2.0]).log())
    assert bool(parameter.net[-1].weight.any()) == (weights != "zero")


def test_a_shared_parameter_is_one_parameter():
    scale = likely.Global()
    tasks = likely.MultiTaskLoss({"a": likely.NormalLoss(scale), "b": likely.LaplaceLoss(scale)})
    assert len(list(tasks.parameters())) == 1


def test_alpha_keeps_to_its_interval_and_reaches_it():
    alpha = likely.Global(init=0.5, constraint=Interval(0, 2))
    loss_fn = likely.RobustLoss(alpha=alpha)
    with torch.no_grad():
        alpha.raw.fill_(1e4)
    assert loss_fn.alpha.value.item() == 2


def test_autocast_leaves_phi_in_float32():
    loss_fn = likely.NormalLoss(scale=likely.Predicted(5, hidden=(4,)))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        features = nn.Linear(3, 5)(torch.randn(4, 3))
        assert features.dtype == torch.bfloat16
        assert loss_fn.distribution(torch.zeros(4), features=features).scale.dtype == torch.float32


def test_evaluation_of_data():
    strict, mean, init = (
        likely.NormalLoss(scale=likely.Data(4, init=2.0, fallback=f)).eval() for f in (None, "mean", "init")
    )
    with pytest.raises(RuntimeError, match="fallback='mean'"):
        strict(torch.zeros(2), torch.zeros(2), index=torch.tensor([0, 1]))
    for loss_fn in (mean, init):
        with torch.no_grad():
            loss_fn.scale.table.rows.add_(1)
    assert mean.distribution(torch.zeros(2)).scale.mean().item() == pytest.approx(mean.scale.value.mean().item())
    assert init.distribution(torch.zeros(2)).scale.tolist() == pytest.approx([2.0, 2.0])


class TestStandardize:
    def test_matches_the_moments_of_all_it_saw(self):
        data = 5 + 3 * torch.randn(40, 2)
        layer = Standardize(2)
        for batch in data.split(10):
            layer(batch)
        torch.testing.assert_close(layer.mean, data.mean(0))
        torch.testing.assert_close(layer.var, data.var(0, unbiased=False))

    def test_training_and_evaluation_agree_and_constants_survive(self):
        data = torch.stack([torch.full((9,), 7.0), 1e6 + torch.arange(9.0)], 1)
        layer = Standardize(2)
        trained = layer(data)
        torch.testing.assert_close(layer.eval()(data), trained)
        assert not trained[:, 0].any()
        torch.testing.assert_close(trained[:, 1].std(unbiased=False), torch.tensor(1.0))

    def test_one_row_is_enough(self):
        assert Standardize(3)(torch.randn(1, 3)).isfinite().all()


def test_indexed_dataset():
    rows = likely.IndexedDataset([{"x": 1}, {"x": 2}])
    assert rows[-1] == {"x": 2, "index": 1}
    assert likely.IndexedDataset([[1, 2]])[0] == (1, 2, 0)
    assert likely.IndexedDataset([5, 6])[1] == (6, 1)
    with pytest.raises(TypeError, match="slice"):
        likely.IndexedDataset([5, 6])[0:1]
    assert len(rows) == 2
    loader = torch.utils.data.DataLoader(likely.IndexedDataset(torch.arange(6.0)), batch_size=4)
    value, index = next(iter(loader))
    torch.testing.assert_close(value, index.float())
    with pytest.raises(ValueError, match="'index' already"):
        likely.IndexedDataset([{"index": 3}])[0]
    with pytest.raises(TypeError, match="map-style"):
        likely.IndexedDataset(iter([1, 2]))


@pytest.mark.parametrize("parameter", [likely.Global(), likely.Data(4), likely.Predicted(3, hidden=(2,))])
def test_unsettled_parameters_copy_and_say_what_they_lack(parameter):
    twin = copy.deepcopy(parameter)
    with pytest.raises(RuntimeError, match="pass it to a loss"):
        twin(features=torch.randn(2, 3), index=torch.tensor([0]))
    assert likely.NormalLoss(scale=twin).scale is twin


def test_one_training_row_is_enough_for_data_parameters():
    loss_fn = likely.NormalLoss(scale=likely.Data(1))
    assert loss_fn(torch.zeros(1), torch.ones(1), index=torch.tensor([0])).isfinite()
    with pytest.raises(ValueError, match="positive integer"):
        likely.Data(0)


def test_a_feature_far_from_all_that_was_seen_says_no_more_than_one_at_five_deviations():
    torch.manual_seed(0)
    scale = likely.Predicted(3)
    loss_fn = likely.NormalLoss(scale)
    features = torch.randn(500, 3) * torch.tensor([1.0, 1e-3, 1e4])
    prediction, target = torch.zeros(500), torch.randn(500)
    loss_fn(prediction, target, features=features).backward()
    nn.init.constant_(scale.net[-1].weight, 1.0)
    loss_fn.eval()
    mean, deviation = features.mean(0), features.std(0, correction=0)
    for far in (50.0, -1e6):
        rows = torch.stack([mean + far * deviation, mean + 5 * deviation * (1 if far > 0 else -1)]).requires_grad_()
        by_kernel = loss_fn(torch.zeros(2), torch.ones(2), features=rows)
        by_module = scale(rows)
        torch.testing.assert_close(by_module[0], by_module[1], rtol=1e-5, atol=0)
        expected = likely.functional.normal_nll(torch.zeros(2), torch.ones(2), scale=by_module)
        torch.testing.assert_close(by_kernel, expected, rtol=1e-5, atol=1e-6)
        (slope,) = torch.autograd.grad(by_kernel, rows)
        assert not slope[0].any()


@together("double", ["features", "features and prediction", "loss", "net"])
def test_features_are_read_in_the_precision_of_the_network(double):
    net = nn.Linear(3, 1) if double == "net" else None
    loss_fn = likely.NormalLoss(likely.Predicted(3, net=net))
    x, y, h = torch.zeros(5), torch.arange(5.0), torch.randn(5, 3)
    expected = loss_fn(x, y, features=h)
    if double == "loss":
        loss_fn.double()
    else:
        h, x = h.double(), x.double() if "prediction" in double else x
    torch.testing.assert_close(loss_fn(x, y, features=h), expected, check_dtype=False)
