"""A batch that is refused, or not finite, leaves every loss and parameter exactly as it was."""

import copy

import pytest
import torch
from torch import nn

import likely
from likelihoods import LIKELIHOODS, Likelihood, axes
from likely._standardize import Standardize
from pairwise import together

learned = together("likelihood", [c for c in LIKELIHOODS if c.phi], ids=str)
ROWS, CLASSES, WIDTH = 6, 3, 4

KINDS = {
    "fixed": lambda value: likely.Fixed(value),
    "global": lambda value: likely.Global(axes(value), init=value),
    "data": lambda value: likely.Data(ROWS, axes(value), init=value),
    "predicted": lambda value: likely.Predicted(WIDTH, axes(value), init=value, hidden=(3,)),
}
NAN, INF = float("nan"), float("inf")


def batch(likelihood: Likelihood) -> dict[str, torch.Tensor]:
    prediction, target = likelihood.draw(ROWS, CLASSES, dtype=torch.float32)
    return {
        "prediction": prediction,
        "target": target,
        "features": torch.randn(ROWS, WIDTH),
        "index": torch.arange(ROWS),
    }


def spoilt(given: dict[str, torch.Tensor]) -> dict[str, dict[str, torch.Tensor]]:
    """The same batch with one thing wrong, by what is wrong."""

    def features(value):
        wrong = given["features"].clone()
        wrong[2, 1] = value
        return wrong

    changes = {
        "NaN features": {"features": features(NAN)},
        "infinite features": {"features": features(INF)},
        "features of another width": {"features": torch.randn(ROWS, WIDTH + 1)},
        "features of another batch": {"features": torch.randn(ROWS + 1, WIDTH)},
        "index beyond the rows": {"index": torch.arange(1, ROWS + 1)},
        "index of another length": {"index": torch.arange(ROWS - 1)},
        "target of another shape": {"target": given["target"][:-1]},
        "complex target": {"target": given["target"] + 0j},
        "target out of range": {"target": given["target"] - 100},
        "integer prediction": {"prediction": given["prediction"].long()},
        "NaN prediction": {"prediction": given["prediction"] * NAN},
        "weights of another shape": {"sample_weight": torch.ones(ROWS + 1)},
        "negative weights": {"sample_weight": -torch.ones(ROWS)},
    }
    return {wrong: {**given, **change} for wrong, change in changes.items()}


def same(left: dict[str, torch.Tensor], right: dict[str, torch.Tensor]) -> bool:
    return left.keys() == right.keys() and all(torch.equal(left[name], right[name]) for name in left)


def use(loss_fn: nn.Module, given: dict[str, torch.Tensor]) -> bool:
    """Whether the batch was taken, and not refused."""
    try:
        loss_fn(**given)
    except (ValueError, TypeError, IndexError, RuntimeError):
        return False
    return True


@learned
@together("kind", KINDS)
def test_a_bad_batch_leaves_the_loss_as_it_was(likelihood, kind):
    loss_fn = likelihood.loss(**{name: KINDS[kind](value) for name, value in likelihood.phi.items()})
    good = batch(likelihood)
    assert use(loss_fn, good)
    before = copy.deepcopy(loss_fn.state_dict())
    for wrong, bad in spoilt(good).items():
        if not use(loss_fn, bad) or "features" in wrong:
            assert same(loss_fn.state_dict(), before), wrong
        loss_fn.load_state_dict(before)
    assert loss_fn(**good).isfinite().all()


@pytest.mark.parametrize("value", [NAN, INF, -INF, 1e30])
def test_features_that_are_not_finite_are_not_taken_into_the_moments(value):
    """Where no value is looked at, as on a GPU, nothing is raised, and the moments are as they were all the same."""
    loss_fn = likely.NormalLoss(likely.Predicted(2), validate_args=False)
    x, y, h = torch.zeros(8), torch.ones(8), torch.randn(8, 2)
    loss_fn(x, y, features=h)
    before = copy.deepcopy(loss_fn.state_dict())
    h[3, 0] = value
    loss_fn(x, y, features=h)
    assert same(loss_fn.state_dict(), before)


def test_a_first_batch_that_is_bad_does_not_count_as_one():
    clean, poisoned = Standardize(2), Standardize(2)
    poisoned(torch.full((4, 2), NAN))
    for batch in torch.randn(3, 5, 2).unbind():
        torch.testing.assert_close(poisoned(batch), clean(batch), rtol=0, atol=0)
    assert poisoned.batches == 3


def test_a_network_of_the_users_own_keeps_its_statistics_too():
    net = nn.Sequential(nn.BatchNorm1d(4), nn.Linear(4, 1))
    loss_fn = likely.LaplaceLoss(likely.Predicted(None, net=net, normalize=False))
    before = copy.deepcopy(loss_fn.state_dict())
    with pytest.raises(ValueError, match="scale holds NaN"):
        loss_fn(torch.zeros(5), torch.ones(5), features=torch.full((5, 4), NAN))
    with pytest.raises(ValueError, match="check features"):
        loss_fn(torch.zeros(4), torch.ones(4), features=torch.randn(5, 4))
    assert same(loss_fn.state_dict(), before)


def test_a_parameter_by_itself_is_unchanged_by_a_network_of_the_wrong_size():
    parameter = likely.Predicted(4, net=nn.Linear(4, 2), init=1.0, constraint=likely.constraints.Exp())
    before = copy.deepcopy(parameter.state_dict())
    with pytest.raises(ValueError, match="net returned shape"):
        parameter(torch.randn(5, 4))
    assert same(parameter.state_dict(), before)


def test_one_task_that_refuses_leaves_the_others_as_they_were():
    losses = {"a": likely.NormalLoss(likely.Predicted(4)), "b": likely.SoftmaxLoss(likely.Predicted(4))}
    loss_fn = likely.MultiTaskLoss(losses)
    before = copy.deepcopy(loss_fn.state_dict())
    predictions, h = {"a": torch.zeros(5), "b": torch.zeros(5, 3)}, torch.randn(5, 4)
    with pytest.raises(ValueError, match="class 9"):
        loss_fn(predictions, {"a": torch.ones(5), "b": torch.full((5,), 9)}, features=h)
    assert same(loss_fn.state_dict(), before)
    loss_fn(predictions, {"a": torch.ones(5), "b": torch.full((5,), 2)}, features=h)
    assert not same(loss_fn.state_dict(), before)


def test_tokens_out_of_range_leave_the_head_as_it_was():
    head, output = likely.TokenTemperature(8), nn.Linear(8, 20)
    before = copy.deepcopy(head.state_dict())
    with pytest.raises(ValueError, match="class"):
        head(torch.randn(2, 5, 8), output.weight, torch.full((2, 5), 20))
    assert same(head.state_dict(), before)


def test_a_distribution_of_wrong_features_leaves_the_loss_as_it_was():
    loss_fn = likely.NormalLoss(likely.Predicted(4))
    before = copy.deepcopy(loss_fn.state_dict())
    x = torch.zeros(5)
    with pytest.raises(ValueError, match="check features"):
        loss_fn.distribution(x, features=torch.randn(6, 4))
    assert same(loss_fn.state_dict(), before)
