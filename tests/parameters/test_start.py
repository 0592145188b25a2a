"""One line, and it learns: parameters start from the first batch, in any unit, and are told or set if they lag."""

import copy
import math
import warnings

import numpy as np
import pytest
import torch
from scipy import optimize
from sklearn.datasets import load_diabetes
from torch import nn

import likely
from likelihoods import LIKELIHOODS
from likely.integrations.monitor import LikelihoodMonitor
from likely.likelihoods import LIKELIHOODS as REGISTRY
from pairwise import together

UNITS = (1e-3, 1.0, 1e3)
LOCATIONS = [
    likely.NormalLoss,
    likely.LaplaceLoss,
    likely.StudentTLoss,
    likely.SkewStudentTLoss,
    likely.RobustLoss,
    likely.HuberLoss,
    likely.LogisticLoss,
    likely.AsymmetricLaplaceLoss,
]


def table(unit=1.0):
    """Disease progression, from 25 to 346, in its own unit and others."""
    x, y = load_diabetes(return_X_y=True)
    return torch.tensor(x, dtype=torch.float32) * 20, torch.tensor(y, dtype=torch.float32)[:, None] * unit


def trained(loss_fn, unit=1.0, optimizer=torch.optim.Adam, lr=0.02, steps=400, **extras):
    """A linear model whose outputs are in the unit of the target, and its mean loss at the end."""
    torch.manual_seed(0)
    x, y = table(unit)
    model = nn.Linear(10, 1)
    groups = likely.param_groups(model, loss_fn, lr=lr)
    optimizer = optimizer(groups, lr=lr)
    generator = torch.Generator().manual_seed(0)
    for _ in range(steps):
        rows = torch.randint(len(x), (64,), generator=generator)
        optimizer.zero_grad()
        features = {"features": x[rows]} if extras else {}
        loss_fn(model(x[rows]) * y.std() + y.mean(), y[rows], **features).backward()
        optimizer.step()
    with torch.no_grad():
        prediction = model(x) * y.std() + y.mean()
        features = {"features": x} if extras else {}
        nll = -loss_fn.eval().distribution(prediction, **features).log_prob(y).mean().item() - math.log(unit)
    return prediction, y, nll


def momentum(groups, lr):
    return torch.optim.SGD(groups, lr=lr, momentum=0.9)


@pytest.mark.parametrize("optimizer", [torch.optim.Adam, torch.optim.AdamW, torch.optim.Adagrad, momentum])
def test_the_scale_is_that_of_the_errors_in_any_unit_and_with_any_optimizer(optimizer):
    lr = {torch.optim.Adagrad: 0.1, momentum: 0.002}.get(optimizer, 0.02)
    found = []
    for unit in UNITS:
        loss_fn = likely.NormalLoss()
        prediction, y, nll = trained(loss_fn, unit, optimizer, lr)
        assert loss_fn.scale.value.item() == pytest.approx((prediction - y).square().mean().sqrt().item(), rel=0.05)
        found.append(nll)
    assert max(found) - min(found) < 0.01
    assert max(found) < 5.5  # one scale about the mean alone has 5.76


@pytest.mark.parametrize("loss", LOCATIONS)
def test_every_likelihood_of_a_real_number_learns_in_any_unit(loss):
    found = [trained(loss(), unit)[2] for unit in (UNITS[0], UNITS[-1])]
    assert max(found) - min(found) < 0.01
    assert max(found) < 5.5


def test_a_predicted_scale_learns_in_any_unit():
    found = [trained(likely.NormalLoss(likely.Predicted(10)), unit, features=True)[2] for unit in UNITS]
    assert max(found) - min(found) < 0.02
    assert max(found) < 5.5


def test_lbfgs_finds_the_same_scale():
    x, y = table()
    model, loss_fn = nn.Linear(10, 1), likely.NormalLoss()
    optimizer = torch.optim.LBFGS([*model.parameters(), *loss_fn.parameters()], line_search_fn="strong_wolfe")

    def closure():
        optimizer.zero_grad()
        loss = loss_fn(model(x) * y.std() + y.mean(), y)
        loss.backward()
        return loss

    for _ in range(5):
        optimizer.step(closure)
    error = (model(x) * y.std() + y.mean() - y).square().mean().sqrt().item()
    assert loss_fn.scale.value.item() == pytest.approx(error, rel=0.01)


# The start


def batch(rows=200, unit=100.0, targets=3):
    generator = torch.Generator().manual_seed(1)
    units = unit ** torch.arange(targets, dtype=torch.float32)
    return torch.zeros(rows, targets), torch.randn(rows, targets, generator=generator) * units


@together("loss", LOCATIONS)
def test_the_start_has_nearly_the_highest_likelihood_of_all_scales(loss):
    x, y = batch(2000, targets=1)
    loss_fn = loss()
    started = loss_fn(x, y).item()
    best = min(loss(scale=loss_fn.scale.value.detach() * factor)(x, y).item() for factor in np.geomspace(0.5, 2, 41))
    assert started - best < 0.02


def test_each_target_starts_in_its_own_unit_and_few_rows_are_pulled_together():
    x, y = batch()
    per_target, one = likely.NormalLoss(likely.Global((3,))), likely.NormalLoss()
    for loss_fn in (per_target, one):
        loss_fn(x, y)
    own = y.square().mean(0).sqrt()
    torch.testing.assert_close(per_target.scale.value.detach(), own, rtol=0.1, atol=0)
    torch.testing.assert_close(one.scale.value.detach(), y.square().mean().sqrt())
    # A row counts a third beside the two that the mean of the logarithms stands for.
    first = likely.NormalLoss(likely.Global((3,)))
    first(torch.zeros(1, 3), torch.tensor([[1.0, 8.0, 64.0]]))
    torch.testing.assert_close(first.scale.value.detach(), torch.tensor([4.0, 8.0, 16.0]))
    single = likely.NormalLoss(likely.Global((3,)))
    single(x[:1], torch.tensor([[1.0, 1.0, 0.0]]))
    torch.testing.assert_close(single.scale.value.detach(), torch.ones(3))


@pytest.mark.parametrize(
    "scale",
    [
        lambda: likely.Global((3,)),
        lambda: likely.Predicted(4, (3,)),
        lambda: likely.Predicted(4, (3,), hidden=(5,)),
        lambda: likely.Predicted(4, (3,), net=nn.Linear(4, 3)),
        lambda: likely.Data(200, (3,)),
    ],
)
def test_all_kinds_start_at_the_same_values_and_once(scale):
    x, y = batch()
    loss_fn = likely.NormalLoss(scale())
    if isinstance(loss_fn.scale, likely.Predicted):
        for last in loss_fn.scale.net.modules():
            if isinstance(last, nn.Linear) and not loss_fn.scale.has_own_net:
                nn.init.zeros_(last.weight)
                nn.init.zeros_(last.bias)
    extras = {"features": torch.randn(200, 4), "index": torch.arange(200)}
    loss_fn(x, y, **extras)
    expected = likely.NormalLoss(likely.Global((3,)))
    expected(x, y)
    value = loss_fn.scale(features=extras["features"], index=extras["index"])
    torch.testing.assert_close(value.expand(200, 3), expected.scale.value.expand(200, 3))
    before = copy.deepcopy(loss_fn.state_dict())
    loss_fn(x, 7 * y, **extras)
    assert all(torch.equal(before[k], v) for k, v in loss_fn.state_dict().items() if "normalizer" not in k)


def test_a_loaded_state_is_not_started_again_and_an_unused_one_is():
    x, y = batch(targets=1)
    first = likely.NormalLoss()
    unused = copy.deepcopy(first.state_dict())
    first(x, y)
    second = likely.NormalLoss()
    second.load_state_dict(first.state_dict())
    second(x, 9 * y)
    assert torch.equal(second.scale.raw, first.scale.raw)
    second.load_state_dict(unused)  # as before each fold of a cross-validation
    second(x, 9 * y)
    torch.testing.assert_close(second.scale.value, 9 * first.scale.value)
    older = likely.NormalLoss()
    older.load_state_dict({"scale.raw": torch.tensor(0.5)})  # of a parameter whose initial value was given
    older(x, y)
    assert older.scale.raw.item() == 0.5


def test_given_initial_values_stay():
    x, y = batch(targets=1)
    loss_fn = likely.StudentTLoss(scale=likely.Global(init=2.0))
    loss_fn(x, y)
    loss_fn.start(x, y)
    assert loss_fn.scale.value.item() == pytest.approx(2.0)
    fixed = likely.NormalLoss(scale=2.0)
    fixed.start(x, y)
    assert fixed.scale.value == 2.0


def test_a_loss_that_was_started_or_calibrated_does_not_start_again():
    x, y = batch(targets=1)
    for loss_fn in (likely.NormalLoss(), likely.StudentTLoss(), likely.NormalLoss(likely.Data(200))):
        loss_fn.start(x, y)
        before = copy.deepcopy(loss_fn.state_dict())
        loss_fn(x, 7 * y, index=torch.arange(200))
        assert all(torch.equal(before[name], value) for name, value in loss_fn.state_dict().items())
    calibrated = likely.NormalLoss()
    calibrated.calibrate([(x, y)])
    calibrated(x, 7 * y)
    assert calibrated.scale.value.item() == pytest.approx(y.square().mean().sqrt().item(), rel=1e-6)


def test_the_concentration_of_shares_starts_at_their_variance():
    """About a mean of m it is m (1 - m) / (φ + 1)."""
    mean, away = torch.tensor([0.5, 0.2, 0.2, 0.6]), torch.tensor([0.1, -0.05, 0.1, -0.2])
    loss_fn = likely.BetaLoss()
    loss_fn.start(mean.logit(), mean + away)
    ratio = away.square().mean() / (mean * (1 - mean)).mean()
    assert loss_fn.concentration.value.item() == pytest.approx(1 / ratio.item() - 1, rel=1e-5)


def test_only_training_starts():
    x, y = batch(targets=1)
    loss_fn = likely.NormalLoss()
    with torch.no_grad():
        loss_fn(x, y)
    loss_fn.eval()(x, y)
    torch.func.grad(lambda x: loss_fn(x, y))(x)
    assert loss_fn.scale.value == 1.0
    loss_fn.train()(x, y)
    assert loss_fn.scale.value.item() == pytest.approx(y.square().mean().sqrt().item())


def test_a_batch_that_is_refused_or_has_no_errors_starts_nothing():
    x, y = batch(targets=1)
    loss_fn = likely.NormalLoss(likely.Predicted(4))
    before = copy.deepcopy(loss_fn.state_dict())
    with pytest.raises(ValueError, match="features"):
        loss_fn(x, y)
    plain = likely.NormalLoss()
    plain(y, y)
    plain(torch.full_like(y, math.nan), y)
    assert all(torch.equal(before[k], v) for k, v in loss_fn.state_dict().items())
    plain(x, y)
    torch.testing.assert_close(plain.scale.value.detach(), y.square().mean().sqrt())


def test_weights_count_rows_and_those_of_weight_zero_do_not_take_part():
    x, y = batch(4, targets=1)
    weighted, counted = likely.NormalLoss(), likely.NormalLoss()
    y[3] = math.nan
    weighted(x, y, sample_weight=torch.tensor([1.0, 2.0, 1.0, 0.0]))
    counted(x, torch.stack([y[0], y[1], y[1], y[2]]))
    torch.testing.assert_close(weighted.scale.value, counted.scale.value)


@together("likelihood", LIKELIHOODS, ids=str)
def test_the_start_of_every_likelihood_is_no_worse_than_a_constant(likelihood):
    prediction, target = likelihood.draw(500, 2, dtype=torch.float32)
    ours = likelihood.loss()
    if not any(slot.start for slot in ours.slots.values()):
        return
    given = {name: likely.Global(init=slot.init) for name, slot in ours.slots.items() if slot.start}
    assert ours(prediction, target).item() <= likelihood.loss(**given)(prediction, target).item() + 0.05


@together("likelihood", [row for row in LIKELIHOODS if row.name in REGISTRY and REGISTRY[row.name].start], ids=str)
def test_a_network_starts_at_one_number_per_target(likelihood):
    _, target = likelihood.draw(50, 3)
    for y in (target, target[:, 0]):
        value = np.asarray(REGISTRY[likelihood.name].start(y.numpy(), np.ones(50)))
        assert value.shape == y.shape[1:]
        assert np.isfinite(value).all()


def test_compiled_losses_start_as_others_do():
    x, y = batch()
    loss_fn, twin = likely.NormalLoss(likely.Global((3,))), likely.NormalLoss(likely.Global((3,)))
    compiled = torch.compile(twin, fullgraph=True, backend="aot_eager")
    for _ in range(2):
        torch.testing.assert_close(compiled(x, y), loss_fn(x, y))
    assert torch.equal(twin.scale.raw, loss_fn.scale.raw)
    assert twin.scale.started


def test_extremes_are_finite():
    for unit in (1e-30, 1e30):
        for loss in LOCATIONS:
            loss_fn, x = loss(), torch.zeros(50, requires_grad=True)
            value = loss_fn(x, torch.randn(50) * unit)
            value.backward()
            assert value.isfinite()
            assert x.grad.isfinite().all()


# Set exactly, or told


def test_calibrate_sets_closed_forms():
    x, y = batch(targets=1)
    halves = [(x[:50], y[:50]), (x[50:], y[50:])]
    normal, laplace = likely.NormalLoss(likely.Global(init=1e6)), likely.LaplaceLoss()
    for loss_fn in (normal, laplace):
        loss_fn.calibrate(halves)
    assert normal.scale.value.item() == pytest.approx(y.square().mean().sqrt().item(), rel=1e-6)
    assert laplace.scale.value.item() == pytest.approx(y.abs().mean().item(), rel=1e-6)
    with pytest.raises(ValueError, match="calibrate needs batches"):
        normal.calibrate([])


def test_calibrate_finds_the_temperature_that_scipy_finds():
    generator = torch.Generator().manual_seed(0)
    logits = 40 * torch.randn(300, 5, generator=generator)
    labels = torch.distributions.Categorical(logits=logits / 20).sample()
    loss_fn = likely.SoftmaxLoss()
    with torch.no_grad():
        loss_fn.calibrate([{"prediction": logits, "target": labels}])
    best = optimize.minimize_scalar(
        lambda t: nn.functional.cross_entropy(logits.double() / math.exp(t), labels).item(), bounds=(0, 6)
    )
    assert loss_fn.temperature.value.item() == pytest.approx(math.exp(best.x), rel=1e-3)


def warned(loss_fn, lr, steps):
    x, y = batch(targets=1)
    optimizer = torch.optim.SGD(loss_fn.parameters(), lr=lr)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(steps):
            optimizer.zero_grad()
            loss_fn(x, y).backward()
            optimizer.step()
    return [str(w.message) for w in caught]


def test_a_scale_that_lags_is_told_once_with_the_remedy():
    (message,) = warned(likely.NormalLoss(likely.Global(init=500.0)), 1e-6, 2500)
    assert message.startswith("scale of NormalLoss is still too large for the errors of the model after 2000 steps")
    assert "calibrate" in message
    assert warned(likely.NormalLoss(), 0.1, 2500) == []


def test_a_monitor_tells_of_a_scale_that_lags_where_the_loss_does_not_look():
    loss_fn = likely.NormalLoss(likely.Global(init=500.0), validate_args=False)  # as on a GPU
    assert warned(loss_fn, 1e-6, 2500) == []
    x, y = batch(targets=1)
    with LikelihoodMonitor(loss_fn, every_n_steps=1) as monitor:
        loss_fn(x, y)
        with pytest.warns(UserWarning, match="still too large for the errors of the model after 2501 steps"):
            monitor.step()
        loss_fn(x, y)
        monitor.step()  # once


@pytest.mark.parametrize(
    ("loss_fn", "inputs", "message"),
    [
        (likely.SoftmaxLoss(), (torch.rand(8, 3).softmax(1), torch.zeros(8, dtype=torch.long)), "sum to 1 in each row"),
        (likely.BernoulliLoss(), (torch.rand(64), torch.ones(64)), "all from 0 to 1: give logits"),
        (likely.NormalLoss(likely.Global((8,))), (torch.zeros(8), torch.ones(8)), "a place in the batch"),
    ],
)
def test_mistakes_that_compute_are_told_at_the_first_batch(loss_fn, inputs, message):
    with pytest.warns(UserWarning, match=message):
        loss_fn(*inputs)
    loss_fn(*inputs)  # once


# Rows of weight zero


@together("junk", [math.nan, math.inf])
@together("kind", ["global", "predicted", "data"])
@together("likelihood", LIKELIHOODS, ids=str)
def test_nothing_of_a_row_of_weight_zero_reaches_the_loss_or_a_gradient(likelihood, kind, junk):
    prediction, target = likelihood.draw(6, 3, dtype=torch.float32)
    made = {"global": likely.Global, "predicted": lambda s, init: likely.Predicted(4, s, init=init)}
    made["data"] = lambda s, init: likely.Data(6, s, init=init)
    shapes = {name: torch.as_tensor(value).shape for name, value in likelihood.phi.items()}
    phi = {name: made[kind](shapes[name], init=value) for name, value in likelihood.phi.items()}
    loss_fn, features = likelihood.loss(**phi), torch.randn(6, 4)
    prediction = prediction.clone()
    prediction[2], features[5] = junk, junk
    if target.is_floating_point():
        target = target.clone()
        target[5] = junk
    prediction.requires_grad_()
    weight = torch.tensor([1.0, 2.0, 0.0, 1.0, 1.0, 0.0])
    loss = loss_fn(prediction, target, features=features, index=torch.arange(6), sample_weight=weight)
    loss.backward()
    assert loss.isfinite()
    assert prediction.grad.isfinite().all()
    assert not prediction.grad[weight == 0].any()
    assert all(p.grad is None or p.grad.isfinite().all() for p in loss_fn.parameters())
    assert all(value.isfinite().all() for value in loss_fn.state_dict().values())


def test_a_task_of_squared_error_starts_at_its_root_only_in_training():
    loss_fn = likely.MultiTaskLoss({"a": nn.MSELoss()})
    prediction, target = torch.zeros(4, requires_grad=True), torch.full((4,), 30.0)
    loss_fn.eval()
    loss_fn({"a": prediction}, {"a": target})
    [scale] = (module for module in loss_fn.modules() if isinstance(module, likely.Global))
    assert not scale.started
    loss_fn.train()
    loss_fn({"a": prediction}, {"a": target})
    assert scale.value.item() == pytest.approx(30.0)


def test_tasks_are_calibrated_together():
    loss_fn = likely.MultiTaskLoss({"depth": nn.MSELoss(), "speed": likely.NormalLoss()})

    def batch(depth: float, speed: float, rows: int) -> tuple[dict[str, torch.Tensor], dict[str, torch.Tensor]]:
        zeros = {"depth": torch.zeros(rows), "speed": torch.zeros(rows)}
        return zeros, {"depth": torch.full((rows,), depth), "speed": torch.full((rows,), speed)}

    loss_fn.calibrate([batch(300.0, 0.02, 4)])
    depth, speed = (loss_fn.losses[name].scale for name in ("depth", "speed"))
    assert depth.value.item() == pytest.approx(300)
    assert speed.value.item() == pytest.approx(0.02)
    loss_fn.calibrate([batch(300.0, 0.02, 3), batch(100.0, 0.06, 1)])
    assert depth.value.item() == pytest.approx((7 * 1e4) ** 0.5)
    assert speed.value.item() == pytest.approx((12e-4) ** 0.5)


def test_the_shape_of_rho_starts_between_cauchy_and_normal_and_its_scale_is_unbiased_there():
    torch.manual_seed(0)
    noise = likely.distributions.Robust(alpha=1.0, loc=0.0, scale=2000.0).sample((20_000,))
    loss_fn = likely.RobustLoss()
    loss_fn.start(torch.zeros(20_000), noise)
    assert loss_fn.alpha.value.item() == pytest.approx(1.0)
    assert loss_fn.scale.value.item() == pytest.approx(2000, rel=0.03)
