"""The fused path of a loss gives what its functional form gives, and gives way to it wherever somebody looks on."""

import copy
import math
import pickle

import pytest
import torch
from torch import Tensor, nn

import likely
from likely._kernels import Layout, _native, available, layout_of
from likely.likelihoods._fused import FusedPath
from pairwise import together

pytestmark = pytest.mark.skipif(_native.library() is None, reason="installed without a C++ compiler")

SCALES = (likely.NormalLoss, likely.LaplaceLoss, likely.StudentTLoss, likely.RobustLoss)
LOSSES = (*SCALES, likely.BernoulliLoss, likely.SoftmaxLoss)
DEVICES = ("cpu", pytest.param("cuda", marks=pytest.mark.gpu))


def long_way(loss_fn: likely.LikelihoodLoss) -> likely.LikelihoodLoss:
    """A copy that is of another class, as a user's own, and so goes the long way."""
    other = copy.deepcopy(loss_fn)
    other.__class__ = type("Own", (type(loss_fn),), {})
    return other


def made(loss: type, kind: str, rows: int, columns: int, **options: object) -> likely.LikelihoodLoss:
    parameter: object = {
        "fixed": 0.7,
        "global": likely.Global(),
        "columns": likely.Global(() if loss is likely.SoftmaxLoss else (columns,)),
        "predicted": likely.Predicted(3),
        "as they are": likely.Predicted(3, normalize=False),
        "data": likely.Data(rows, optimizer="sgd", clip=None),
    }[kind]
    first = "temperature" if "temperature" in loss.slots else "scale"  # type: ignore[attr-defined]
    return loss(**{first: parameter}, **options)


def batch(loss: type, rows: int, columns: int, device: str = "cpu") -> tuple[Tensor, Tensor, dict[str, Tensor]]:
    draw = torch.Generator().manual_seed(rows)
    prediction = 2 * torch.randn(rows, columns, generator=draw)
    target = torch.rand(rows, columns, generator=draw)
    if loss is likely.SoftmaxLoss:
        target = torch.randint(columns, (rows,), generator=draw)
    more = {"features": torch.randn(rows, 3, generator=draw), "index": torch.arange(rows)}
    return prediction.to(device), target.to(device), {name: value.to(device) for name, value in more.items()}


def outcome(
    loss_fn: likely.LikelihoodLoss, prediction: Tensor, target: Tensor, more: dict[str, Tensor]
) -> list[Tensor]:
    """The loss, all gradients, and what was learned from the batch."""
    prediction = prediction.clone().requires_grad_()
    features = more["features"].clone().requires_grad_()
    loss = loss_fn(prediction, target, **{**more, "features": features})
    (2.5 * loss).backward()
    gradients = [t.grad for t in (prediction, features, *loss_fn.parameters()) if t.grad is not None]
    return [loss.detach(), *gradients, *(b.float() for b in loss_fn.buffers())]


def assert_same(
    loss_fn: likely.LikelihoodLoss, prediction: Tensor, target: Tensor, more: dict[str, Tensor], rtol: float = 2e-5
) -> None:
    """Loss, gradients and what is learned are those of the long way."""
    other = long_way(loss_fn)  # before anything is learned
    theirs = outcome(other, prediction, target, more)
    assert not was_fused(other)
    for ours, own in zip(outcome(loss_fn, prediction, target, more), theirs, strict=True):
        assert bool(ours.isfinite().all())
        torch.testing.assert_close(ours, own, rtol=rtol, atol=2e-6 * max(1.0, *own.abs().flatten().tolist(), 0.0))


def was_fused(loss_fn: likely.LikelihoodLoss) -> bool:
    _, job = loss_fn._fused_path.last
    return job is not None


@pytest.mark.parametrize("device", DEVICES)
@together("kind", ["fixed", "global", "columns", "predicted", "as they are", "data"])
@together("loss", LOSSES)
@together(("rows", "columns"), [(1, 1), (3, 2), (7, 10), (300, 5)])
def test_as_the_long_way(loss: type, kind: str, rows: int, columns: int, device: str) -> None:
    loss_fn = made(loss, kind, rows, columns).to(device)
    assert_same(loss_fn, *batch(loss, rows, columns, device))
    assert was_fused(loss_fn) or (device == "cuda" and kind == "predicted")


@together("loss", LOSSES)
@together("kind", ["global", "columns", "data"])
def test_many_threads(loss: type, kind: str) -> None:
    rows, before = 30_001, torch.get_num_threads()
    loss_fn = made(loss, kind, rows, 10)
    torch.set_num_threads(3)
    try:
        assert_same(loss_fn, *batch(loss, rows, 10), rtol=5e-5)
    finally:
        torch.set_num_threads(before)
    assert was_fused(loss_fn)


@together(
    "options",
    [{"reduction": "sum"}, {"multiplier": 3.0}, {"full": False}, {"reduction": "sum", "multiplier": 0.5}],
)
@together("loss", LOSSES)
def test_options(loss: type, options: dict[str, object]) -> None:
    assert_same(made(loss, "global", 40, 6, **options), *batch(loss, 40, 6))


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("options", [{"label_smoothing": 0.2}, {"ignore_index": 1}, {"reduction": "sum"}])
def test_options_of_softmax(options: dict[str, object], device: str) -> None:
    loss_fn = made(likely.SoftmaxLoss, "data", 50, 4, **options).to(device)
    logits, target, more = batch(likely.SoftmaxLoss, 50, 4, device)
    logits[3, (target[3] + 1) % 4] = -math.inf if "label_smoothing" not in options else -30.0
    assert_same(loss_fn, logits, target, more)
    assert was_fused(loss_fn)


@pytest.mark.parametrize("shape", [(), (5,), (3, 1, 1), (4, 5), (3, 4, 5), (1, 5)])
def test_every_layout_of_a_picture(shape: tuple[int, ...]) -> None:
    loss_fn = likely.NormalLoss(scale=likely.Global(shape, init=1.5))
    draw = torch.Generator().manual_seed(0)
    x, y = torch.randn(6, 3, 4, 5, generator=draw), torch.randn(6, 3, 4, 5, generator=draw)
    more = {"features": torch.zeros(0)}
    assert_same(loss_fn, x, y, more)
    assert was_fused(loss_fn)


def test_a_layout_that_no_kernel_reads_goes_the_long_way() -> None:
    assert layout_of((3, 1, 5), (3, 4, 5), None) is None
    assert layout_of((4, 1), (4, 10), None) == Layout(10, 4)
    loss_fn = likely.NormalLoss(scale=likely.Global((3, 1, 5)))
    assert loss_fn(torch.zeros(2, 3, 4, 5), torch.zeros(2, 3, 4, 5)).item() == pytest.approx(0.918938533)
    assert not was_fused(loss_fn)


@together("kind", ["global", "predicted"])
@together("loss", LOSSES)
def test_gradients_of_gradients(loss: type, kind: str) -> None:
    loss_fn = made(loss, kind, 5, 4)
    prediction, target, more = batch(loss, 5, 4)

    def curvature(of: likely.LikelihoodLoss) -> list[Tensor]:
        x = prediction.clone().requires_grad_()
        leaves = [x, *of.parameters()]
        slopes = torch.autograd.grad(of(x, target, **more), leaves, create_graph=True)
        return list(torch.autograd.grad(sum(s.square().sum() for s in slopes), leaves))

    for a, b in zip(curvature(loss_fn), curvature(long_way(loss_fn)), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-3, atol=1e-5)


def test_a_graph_that_is_kept() -> None:
    loss_fn = likely.NormalLoss(scale=likely.Predicted(3))
    prediction, target, more = batch(likely.NormalLoss, 9, 2)
    prediction.requires_grad_()
    loss = loss_fn(prediction, target, **more)
    loss.backward(retain_graph=True)
    first = prediction.grad.clone()  # type: ignore[union-attr]
    loss.backward()
    torch.testing.assert_close(prediction.grad, 2 * first)


@pytest.mark.parametrize(
    ("loss", "spoil", "said"),
    [
        (likely.SoftmaxLoss, 17, "target holds class"),
        (likely.SoftmaxLoss, -1, "target holds class"),
        (likely.BernoulliLoss, 1.5, r"target must lie in \[0, 1\]"),
        (likely.BernoulliLoss, math.nan, "target holds NaN"),
    ],
)
def test_a_wrong_target_is_refused_and_nothing_learned(loss: type, spoil: float, said: str) -> None:
    loss_fn = made(loss, "predicted", 8, 4)
    prediction, target, more = batch(loss, 8, 4)
    loss_fn(prediction, target, **more)
    before = {name: value.clone() for name, value in loss_fn.state_dict().items()}
    target[2] = spoil
    with pytest.raises(ValueError, match=said):
        loss_fn(prediction, target, **more)
    for name, value in loss_fn.state_dict().items():
        assert torch.equal(value, before[name]), name


def test_a_wrong_parameter_is_refused() -> None:
    loss_fn = likely.SoftmaxLoss(temperature=2.0)
    loss_fn.temperature.value.fill_(-1.0)
    with pytest.raises(ValueError, match="temperature must be > 0"):
        loss_fn(torch.zeros(3, 2), torch.tensor([0, 1, 1]))


def test_what_changes_after_the_first_call_is_seen() -> None:
    loss_fn = likely.NormalLoss(1.0)
    x, y = torch.zeros(4), torch.full((4,), 2.0)
    mean = loss_fn(x, y)
    loss_fn.reduction = "sum"
    torch.testing.assert_close(loss_fn(x, y), 4 * mean)
    loss_fn.multiplier = 2.0
    torch.testing.assert_close(loss_fn(x, y), 8 * mean)
    loss_fn.double()
    assert loss_fn(x.double(), y.double()).dtype == torch.float64
    assert loss_fn(x[:2], y[:2]).item() == pytest.approx(4 * mean.item())


def test_hooks_are_called() -> None:
    seen: list[str] = []
    loss_fn = likely.NormalLoss(scale=likely.Predicted(3))
    loss_fn.scale.register_forward_hook(lambda *_: seen.append("parameter"))
    loss_fn(torch.zeros(4), torch.zeros(4), features=torch.randn(4, 3))
    loss_fn = likely.NormalLoss(scale=likely.Predicted(3))
    loss_fn.scale.net[0].register_forward_hook(lambda *_: seen.append("layer"))
    loss_fn(torch.zeros(4), torch.zeros(4), features=torch.randn(4, 3))
    assert seen == ["parameter", "layer"]


def test_a_users_own_class_is_asked() -> None:
    class Doubled(likely.NormalLoss):
        def _nll(self, *args: object, **options: object) -> Tensor:
            return 2 * super()._nll(*args, **options)  # type: ignore[arg-type]

    x, y = torch.zeros(3), torch.ones(3)
    torch.testing.assert_close(Doubled()(x, y), 2 * likely.NormalLoss()(x, y))


def test_copies_begin_anew() -> None:
    loss_fn = likely.NormalLoss()
    loss_fn(torch.zeros(3), torch.ones(3))
    assert was_fused(loss_fn)
    for other in (copy.deepcopy(loss_fn), pickle.loads(pickle.dumps(loss_fn))):
        assert isinstance(other._fused_path, FusedPath)
        assert not was_fused(other)
        assert other(torch.zeros(3), torch.ones(3)) == loss_fn(torch.zeros(3), torch.ones(3))


def test_a_batch_of_gradients() -> None:
    x = torch.randn(4, requires_grad=True)
    loss = likely.NormalLoss()(x, torch.zeros(4))
    (slope,) = torch.autograd.grad(loss, x, retain_graph=True)
    (both,) = torch.autograd.grad(loss, x, torch.tensor([1.0, -3.0]), is_grads_batched=True)
    torch.testing.assert_close(both, torch.stack([slope, -3 * slope]))


def test_views_are_read_right() -> None:
    x, y = torch.randn(6, 4).T, torch.randn(4, 6)
    torch.testing.assert_close(likely.NormalLoss()(x, y), likely.NormalLoss()(x.contiguous(), y))
    minus = torch.complex(x.contiguous(), x.contiguous()).conj().imag  # a view that is negative without being so stored
    torch.testing.assert_close(likely.NormalLoss()(minus, y), likely.NormalLoss()(-x, y))


def test_a_guard_looks_on_the_short_way_too() -> None:
    loss_fn = likely.NormalLoss(scale=likely.Global(**{**likely.paper.SCALE, "init": 0.0144}))
    x = torch.zeros(4, requires_grad=True)
    for _ in range(99):
        loss_fn(x, torch.zeros(4))
    with pytest.warns(UserWarning, match="lies at the floor"):
        loss_fn(x, torch.zeros(4))
    assert was_fused(loss_fn)


def test_features_of_a_sequence() -> None:
    loss_fn = likely.NormalLoss(scale=likely.Predicted(3, (2,)))
    draw = torch.Generator().manual_seed(1)
    x, y = torch.randn(4, 5, 2, generator=draw), torch.randn(4, 5, 2, generator=draw)
    more = {"features": torch.randn(4, 5, 3, generator=draw)}
    assert_same(loss_fn, x, y, more)
    assert was_fused(loss_fn)


def test_a_layer_of_the_users_own() -> None:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(3, 1))
    loss_fn = likely.NormalLoss(scale=likely.Predicted(3, net=net, init=2.0))
    assert_same(loss_fn, *batch(likely.NormalLoss, 6, 2))


def test_available() -> None:
    assert available(torch.zeros(1))
    assert not available(torch.zeros(1, device="meta"))
