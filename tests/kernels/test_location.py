"""The compiled CPU kernels against the plain formulas in float64."""

import pytest
import torch
from torch.fx.experimental.proxy_tensor import make_fx
from torch.library import opcheck

from kernels.cases import KINDS, assert_close, draw, in_double, reduced
from likely import _kernels as kernels, functional as F
from likely._kernels import _native
from likely.likelihoods._form import HALF_LOG_2PI
from pairwise import together

pytestmark = pytest.mark.skipif(_native.library() is None, reason="installed without a C++ compiler")
every = pytest.mark.parametrize("kind", KINDS)
of_every_kind = together("kind", KINDS)
nll = kernels.location_nll


@of_every_kind
@together("n", [1, 5, 16, 777, 70001])
@together("reduction", ["mean", "sum", "none"])
@together("parameters", ["one", "each", "mixed"])
def test_value_and_gradients(kind, n, reduction, parameters):
    inputs = draw(kind, n, scales=1 if parameters == "one" else n, shapes=n if parameters == "each" else 1)
    got = nll(kind, *inputs, constant=0.0, reduction=reduction)
    weight = torch.randn_like(got)
    value, gradients = in_double(KINDS[kind], inputs, reduction, weight)
    assert_close(got.detach(), value, of=1e-5)
    for mine, theirs in zip(torch.autograd.grad(got, inputs, weight), gradients, strict=True):
        assert mine.shape == theirs.shape
        assert_close(mine, theirs, of=2e-4)


@every
def test_a_graph_can_be_kept(kind):
    inputs = draw(kind, 100, scales=100, shapes=100)
    loss = nll(kind, *inputs, constant=0.0, reduction="mean")
    first = torch.autograd.grad(loss, inputs, torch.tensor(3.0), retain_graph=True)
    kept = [g.clone() for g in first]
    second = torch.autograd.grad(loss, inputs, torch.tensor(6.0))
    for a, b in zip(kept, second, strict=True):
        torch.testing.assert_close(2 * a, b)


@of_every_kind
@together("reduction", ["mean", "none"])
def test_gradients_of_gradients_are_the_plain_ones(kind, reduction):
    inputs = draw(kind, 50, scales=50, shapes=50)

    def twice(value):
        first = torch.autograd.grad(value.sum(), inputs, create_graph=True)
        return torch.autograd.grad(sum(g.square().sum() for g in first), inputs)

    plain = reduced(KINDS[kind](*inputs), reduction)
    for a, b in zip(twice(nll(kind, *inputs, constant=0.0, reduction=reduction)), twice(plain), strict=True):
        torch.testing.assert_close(a, b)


@every
def test_only_what_learns_gets_a_gradient(kind):
    inputs = [t.detach() for t in draw(kind, 30, scales=30, shapes=1)]
    inputs[2].requires_grad_()
    nll(kind, *inputs, constant=0.0, reduction="mean").backward()
    assert inputs[2].grad is not None
    assert all(t.grad is None for k, t in enumerate(inputs) if k != 2)
    with torch.no_grad():
        assert not nll(kind, *inputs, constant=0.0, reduction="mean").requires_grad


@pytest.mark.parametrize("shape", [(3, 1, 1), (4, 3, 1, 5), (1, 1), (5,)])
def test_parameters_of_any_shape(shape):
    prediction, target = torch.randn(4, 3, 2, 5, requires_grad=True), torch.randn(4, 3, 2, 5)
    alpha, scale = (torch.rand(shape) + 0.5 for _ in range(2))
    leaves = [prediction, alpha.requires_grad_(), scale.requires_grad_()]
    got = F.robust_nll(prediction, target, alpha=alpha, scale=scale)
    expected = kernels.PLAIN["robust"](prediction, target, scale, alpha).mean()
    torch.testing.assert_close(got, expected)
    for a, b in zip(torch.autograd.grad(got, leaves), torch.autograd.grad(expected, leaves), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-6)


def test_strides_and_a_target_that_learns():
    prediction, target = torch.randn(6, 8, requires_grad=True), torch.randn(8, 6, requires_grad=True)
    leaves = [prediction, target]
    got = F.normal_nll(prediction.T[::2], target[::2], scale=0.7)
    expected = kernels.PLAIN["normal"](prediction.T[::2], target[::2], torch.tensor(0.7)).mean() + HALF_LOG_2PI
    torch.testing.assert_close(got, expected)
    for a, b in zip(torch.autograd.grad(got, leaves), torch.autograd.grad(expected, leaves), strict=True):
        torch.testing.assert_close(a, b)


def test_threads_share_the_work():
    threads = torch.get_num_threads()
    inputs = draw("robust", 300_001, scales=300_001, shapes=1)
    try:
        results = []
        for n in (1, 3):
            torch.set_num_threads(n)
            loss = nll("robust", *inputs, constant=0.0, reduction="mean")
            results.append([loss, *torch.autograd.grad(loss, inputs)])
    finally:
        torch.set_num_threads(threads)
    for a, b in zip(*results, strict=True):
        torch.testing.assert_close(a, b)


def test_an_empty_batch_and_double_precision_keep_the_plain_path():
    assert not kernels.applies(torch.empty(0))
    assert not kernels.applies(torch.zeros(3, dtype=torch.float64))
    assert kernels.applies(torch.zeros(3))
    assert F.normal_nll(torch.empty(0), torch.empty(0), scale=1.0, reduction="sum") == 0


@every
def test_broken_numbers_stay_visible(kind):
    for position, value in [(0, float("nan")), (2, -1.0), (2, float("nan"))]:
        inputs = [t.detach() for t in draw(kind, 20, scales=20, shapes=20)]
        inputs[position][3] = value
        each = nll(kind, *inputs, constant=0.0, reduction="none")
        assert each[3].isnan()
        assert not each[:3].isnan().any()


@every
def test_opcheck(kind):
    inputs = draw(kind, 40, scales=40, shapes=1)
    wanted = [True] * (len(inputs) - 1)
    opcheck(torch.ops.likely.location_sum, (kind, inputs, 0.5, 0.1, wanted))


def test_autocast_changes_nothing():
    x, y = torch.randn(50), torch.randn(50)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        inside = F.robust_nll(x, y, alpha=1.3, scale=0.8)
    assert inside.dtype == torch.float32
    torch.testing.assert_close(inside, F.robust_nll(x, y, alpha=1.3, scale=0.8))


BAD = [("normal", "scale", 0.0), ("laplace", "scale", -1.0), ("student_t", "df", -3.0), ("student_t", "df", 0.0)]
BAD += [
    ("robust", "alpha", -0.1),
    ("robust", "scale", 0.0),
    ("robust", "scale", torch.nan),
    ("robust", "alpha", torch.nan),
]


@together("reduction", ["mean", "sum", "none"])
@together(("kind", "name", "value"), BAD)
def test_a_parameter_out_of_range_is_named_wherever_it_stands(kind, name, value, reduction):
    """Sums are looked at first, and parameters only if a sum is not finite: so every bad one must show there."""
    nll = getattr(F, f"{kind}_nll")
    others = {"scale"} | {"student_t": {"df"}, "robust": {"alpha"}}.get(kind, set())
    for position in (0, 16, 36):
        parameters = {other: torch.ones(37) for other in others}
        parameters[name][position] = value
        with pytest.raises(ValueError, match=f"{name} (must be|holds NaN)"):
            nll(torch.randn(37), torch.randn(37), reduction=reduction, **parameters)
        assert not nll(torch.randn(37), torch.randn(37), validate_args=False, **parameters).isfinite()


def test_a_loss_that_overflows_is_no_error():
    far = torch.tensor([1e30, 0.0])
    assert F.normal_nll(torch.zeros(2), far, scale=torch.ones(2)).item() == torch.inf


@pytest.mark.parametrize("alpha", [0.0, 0.5, 1.0, 1.5, 1.999])
def test_slopes_of_far_residuals(alpha):
    inputs = [torch.tensor([1e8, -1e16, 1e19, 3e34]), torch.zeros(4), torch.full((4,), 0.7), torch.full((4,), alpha)]
    leaves = [t.requires_grad_() for t in inputs]
    doubles = [t.detach().double().requires_grad_() for t in inputs]
    got = torch.autograd.grad(F.robust_nll(*leaves[:2], scale=leaves[2], alpha=leaves[3], reduction="sum"), leaves[0])[
        0
    ]
    expected = torch.autograd.grad(KINDS["robust"](*doubles).sum(), doubles[0])[0]
    fits = expected.abs() < 1e38
    torch.testing.assert_close(got[fits].double(), expected[fits], rtol=2e-5, atol=1e-37)


def test_a_tracer_sees_the_formula():
    """Past the dispatcher goes only who is not watched: a graph with nothing but its buffers would be wrong."""
    inputs = [t.detach() for t in draw("normal", 40, scales=40, shapes=1)]

    def loss(prediction, target, scale):
        return F.normal_nll(prediction, target, scale=scale, validate_args=False)

    traced = make_fx(loss)(*inputs)
    others = [t + 1 for t in inputs]
    torch.testing.assert_close(traced(*others), loss(*others))


@pytest.mark.filterwarnings("ignore:`torch.jit.trace` is deprecated", "ignore::torch.jit.TracerWarning")
def test_torchscript_sees_the_formula():
    inputs = [t.detach() for t in draw("normal", 40, scales=40, shapes=1)]

    def loss(prediction, target, scale):
        return F.normal_nll(prediction, target, scale=scale)

    traced = torch.jit.trace(loss, inputs, check_trace=False)
    others = [t + 1 for t in inputs]
    torch.testing.assert_close(traced(*others), loss(*others))


@pytest.mark.parametrize("reduction", ["mean", "none"])
def test_gradients_may_come_in_batches_and_as_zeros_without_storage(reduction):
    inputs = draw("normal", 30, scales=30, shapes=1)
    got = nll("normal", *inputs, constant=0.0, reduction=reduction)
    plain = reduced(KINDS["normal"](*inputs), reduction)
    if reduction == "none":
        several = torch.randn(4, 30)
        found, expected = (
            torch.autograd.grad(v, inputs, several, retain_graph=True, is_grads_batched=True) for v in (got, plain)
        )
        for mine, theirs in zip(found, expected, strict=True):
            torch.testing.assert_close(mine, theirs)
    for mine in torch.autograd.grad(got, inputs, torch._efficientzerotensor(got.shape)):
        assert not mine.any()


def test_a_negative_view_is_read_as_what_it_shows():
    negative = torch.arange(1.0, 4.0).add(1j).conj().imag  # −1, its memory 1
    got = F.normal_nll(negative, torch.zeros(3), scale=torch.ones(3), reduction="none", full=False)
    torch.testing.assert_close(got, torch.full((3,), 0.5))
    got = F.laplace_nll(negative, torch.ones(3), scale=torch.ones(3), reduction="sum", full=False)
    torch.testing.assert_close(got, torch.tensor(6.0))
