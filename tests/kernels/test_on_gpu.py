"""The kernels where they run. On a machine with a CUDA device: pytest -m gpu"""

import pytest
import torch
from torch.library import opcheck

import likely
from kernels.cases import KINDS, assert_close, draw, in_double
from likely import _kernels as kernels, functional as F
from pairwise import together

pytestmark = pytest.mark.gpu
TOLERANCE = {torch.float32: 2e-5, torch.float16: 3e-3, torch.bfloat16: 2e-2}
every = pytest.mark.parametrize("kind", KINDS)
of_every_kind = together("kind", KINDS)
dtypes = together("dtype", TOLERANCE, ids=str)


@of_every_kind
@dtypes
@together("n", [1, 777, 100_003])
@together("reduction", ["mean", "none"])
@together("one", [True, False])
def test_location(kind, dtype, n, reduction, one):
    size = 1 if one else n
    inputs = draw(kind, n, scales=size, shapes=size, dtype=dtype, device="cuda")
    got = kernels.location_nll(kind, *inputs, constant=0.0, reduction=reduction)
    weight = torch.rand_like(got)
    value, gradients = in_double(KINDS[kind], inputs, reduction, weight)
    assert_close(got.detach(), value, of=2e-5)
    for mine, theirs, leaf in zip(torch.autograd.grad(got, inputs, weight), gradients, inputs, strict=True):
        assert mine.dtype == leaf.dtype
        if leaf.dtype == torch.float32:
            assert_close(mine, theirs, of=2e-4)
        else:  # whose small and large numbers are rounded to zero and infinity
            torch.testing.assert_close(mine, theirs.to(leaf.dtype), rtol=TOLERANCE[leaf.dtype], atol=2e-7)


@pytest.mark.parametrize("kind", ["normal", "softmax"])
def test_small_gradients_in_half_precision_outlive_a_scaled_loss(kind):
    """1 / 100,000 of a gradient is no float16; scaled by 65536, as GradScaler does, it is."""
    if kind == "normal":
        x = torch.randn(100_000, device="cuda").half().requires_grad_()
        loss = F.normal_nll(x, torch.zeros_like(x), scale=1.0)
        expected = x.double() / 100_000
    else:
        x = torch.randn(1000, 300, device="cuda").half().requires_grad_()
        target = torch.zeros(1000, dtype=torch.long, device="cuda")
        loss = F.softmax_nll(x, target, temperature=1.0)
        label = torch.nn.functional.one_hot(target, 300)
        expected = (x.double().softmax(1) - label) / 1000
    (got,) = torch.autograd.grad(65536 * loss, x)
    torch.testing.assert_close(got.double() / 65536, expected.detach(), rtol=2e-3, atol=1e-12)


@dtypes
@together("classes", [257, 32000, 50257])
@together("smoothing", [0.0, 0.1])
@together("reduction", ["mean", "none"])
def test_softmax(dtype, classes, smoothing, reduction):
    logits = (4 * torch.randn(5, classes, device="cuda")).to(dtype).requires_grad_()
    target = torch.randint(0, classes, (5,), device="cuda")
    target[1] = -100
    temperature = (torch.rand(5, device="cuda") + 0.5).requires_grad_()
    settings = {"label_smoothing": smoothing, "reduction": reduction}
    got = F.softmax_nll(logits, target, temperature=temperature, **settings)
    exact = [t.detach().double().requires_grad_() for t in (logits, temperature)]
    expected = F.softmax_nll(exact[0], target, temperature=exact[1], **settings)
    torch.testing.assert_close(got.double(), expected, rtol=1e-5, atol=1e-5)
    weight = torch.rand_like(got)
    d_logits, d_temperature = torch.autograd.grad(got, (logits, temperature), weight)
    exact_logits, exact_temperature = torch.autograd.grad(expected, exact, weight.double())
    assert (d_logits.double() - exact_logits).norm() <= TOLERANCE[dtype] * exact_logits.norm()
    torch.testing.assert_close(d_temperature.double(), exact_temperature, rtol=1e-4, atol=1e-6)


def test_linear_softmax():
    hidden = torch.randn(300, 64, device="cuda", requires_grad=True)
    weight = torch.randn(5000, 64, device="cuda", requires_grad=True)
    target = torch.randint(0, 5000, (300,), device="cuda")
    temperature = (torch.rand(300, device="cuda") + 0.5).requires_grad_()
    leaves = (hidden, weight, temperature)
    got = F.linear_softmax_nll(hidden, weight, target, temperature, chunk=128)
    exact = [t.detach().double().requires_grad_() for t in leaves]
    expected = F.softmax_nll(exact[0] @ exact[1].T, target, temperature=exact[2])
    torch.testing.assert_close(got.double(), expected, rtol=1e-5, atol=1e-5)
    for a, b in zip(torch.autograd.grad(got, leaves), torch.autograd.grad(expected, exact), strict=True):
        assert (a.double() - b).norm() <= 1e-3 * b.norm()


def test_more_elements_than_an_int_counts():
    n = 2**31 + 12345
    prediction = torch.zeros(n, device="cuda", dtype=torch.bfloat16, requires_grad=True)
    target = torch.zeros_like(prediction, requires_grad=False)
    target[-1], target[2**31 - 1] = 3.0, 2.0
    scale = torch.ones((), device="cuda", requires_grad=True)
    loss = F.normal_nll(prediction, target, scale=scale, reduction="sum", full=False)
    loss.backward()
    assert loss.item() == 0.5 * (9 + 4)
    assert prediction.grad[-1].item() == -3
    assert prediction.grad[2**31 - 1].item() == -2
    assert prediction.grad.count_nonzero() == 2
    assert scale.grad.item() == pytest.approx(n - 13, rel=1e-6)


def test_more_logits_than_an_int_counts():
    rows, classes = 17000, 128256
    logits = torch.zeros(rows, classes, device="cuda", dtype=torch.bfloat16, requires_grad=True)
    target = torch.full((rows,), classes - 1, device="cuda")
    loss = F.softmax_nll(logits, target, temperature=1.0, reduction="sum")
    loss.backward()
    assert loss.item() == pytest.approx(rows * torch.tensor(classes).log().item(), rel=1e-5)
    assert (logits.grad[:, -1] == -1).all()


@every
def test_opcheck(kind):
    inputs = draw(kind, 40, scales=40, shapes=1, device="cuda")
    opcheck(torch.ops.likely.location_sum, (kind, inputs, 0.5, 0.1, [True] * (len(inputs) - 1)))


def test_opcheck_softmax():
    logits = torch.randn(4, 300, device="cuda")
    rows = (torch.randint(0, 300, (4,), device="cuda"), torch.rand(4, device="cuda") + 0.5, -100, 0.1)
    factor = torch.tensor(0.25, device="cuda")
    opcheck(torch.ops.likely.softmax_sum_, (logits, *rows, factor, True))


def test_results_are_the_same_from_run_to_run():
    inputs = draw("robust", 1_000_003, scales=1, shapes=1, device="cuda")
    runs = []
    for _ in range(3):
        loss = kernels.location_nll("robust", *inputs, constant=0.0, reduction="mean")
        runs.append([loss, *torch.autograd.grad(loss, inputs)])
    for other in runs[1:]:
        assert all(torch.equal(a, b) for a, b in zip(runs[0], other, strict=True))


@pytest.mark.filterwarnings("ignore:Synchronization debug mode")
def test_no_step_waits_for_the_device():
    logits = torch.randn(64, 1000, device="cuda", requires_grad=True)
    target = torch.randint(0, 1000, (64,), device="cuda")
    hidden, weight = torch.randn(64, 8, device="cuda", requires_grad=True), torch.randn(1000, 8, device="cuda")
    x, y = torch.randn(500, device="cuda", requires_grad=True), torch.randn(500, device="cuda")

    def steps():
        F.softmax_nll(logits, target, temperature=1.5).backward()
        F.linear_softmax_nll(hidden, weight, target, 1.5).backward()
        F.robust_nll(x, y, alpha=1.3, scale=0.8).backward()

    steps()
    torch.cuda.set_sync_debug_mode("error")
    try:
        steps()
    finally:
        torch.cuda.set_sync_debug_mode("default")


@together("rows", [10, 1000, 20_000])
@together("kind", ["Global", "Predicted", "Data"])
@together(
    "made",
    [
        likely.NormalLoss,
        likely.LaplaceLoss,
        likely.StudentTLoss,
        likely.RobustLoss,
        likely.SoftmaxLoss,
        likely.BernoulliLoss,
    ],
)
def test_a_step_is_captured_in_a_cuda_graph(made, kind, rows):
    """What a replay computes is what the step computes without a graph."""
    parameter = {
        "Global": likely.Global,
        "Predicted": lambda: likely.Predicted(8, normalize=False),
        "Data": lambda: likely.Data(rows, lr=1e-6),
    }[kind]
    loss_fn = made(**{name: parameter() for name in made.slots}).cuda()
    x = torch.randn(rows, 10, device="cuda", requires_grad=True)
    y = torch.randint(0, 10, (rows,), device="cuda")
    y = y if made is likely.SoftmaxLoss else torch.rand(rows, 10, device="cuda").round()
    how = {"Predicted": {"features": torch.randn(rows, 8, device="cuda")}}.get(kind, {})
    how = {"index": torch.randperm(rows, device="cuda")} if kind == "Data" else how

    def step():
        x.grad = None
        loss = loss_fn(x, y, **how)
        loss.backward()
        return loss.detach()

    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            expected, slopes = step(), x.grad.clone()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        found = step()
    graph.replay()
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(x.grad, slopes, rtol=1e-3, atol=1e-6)
