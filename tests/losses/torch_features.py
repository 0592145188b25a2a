"""What a loss is put through by torch's machinery, each against plain eager code; one function per feature."""

import copy
import warnings
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.func import functional_call, grad, hessian, vmap
from torch.utils.checkpoint import checkpoint

import likely

LOSSES = {
    "Normal": likely.NormalLoss,
    "Laplace": likely.LaplaceLoss,
    "Student-t": likely.StudentTLoss,
    "Softmax": likely.SoftmaxLoss,
    "Bernoulli": likely.BernoulliLoss,
    "Robust": likely.RobustLoss,
}
ROWS, OUTPUTS, WIDTH = 6, 3, 4
KINDS: dict[str, Callable[[], likely.parameters.Parameter]] = {
    "Fixed": lambda: likely.Fixed(1.5),
    "Global": lambda: likely.Global(init=1.5),
    "Predicted": lambda: likely.Predicted(WIDTH, init=1.5),
    "Data": lambda: likely.Data(ROWS, init=1.5, lr=0.1, fallback="mean", optimizer="sgd", clip=None),
}


def make(loss: str, kind: str, **options) -> likely.LikelihoodLoss:
    kindly = LOSSES[loss]
    return kindly(**{name: KINDS[kind]() for name in kindly.slots}, **options)


class Batch:
    """Inputs, targets, row numbers and a model; the same for every loss of a kind of target."""

    def __init__(self, loss: str) -> None:
        generator = torch.Generator().manual_seed(0)
        self.x = torch.randn(ROWS, WIDTH, generator=generator)
        self.prediction = torch.randn(ROWS, OUTPUTS, generator=generator)
        real = torch.randn(ROWS, OUTPUTS, generator=generator)
        hard = torch.randint(0, OUTPUTS, (ROWS,), generator=generator)
        self.target = hard if loss == "Softmax" else (real > 0).float() if loss == "Bernoulli" else real
        self.index = torch.arange(ROWS)


class Wired(nn.Module):
    """A model and its loss as one module."""

    def __init__(self, loss: str, kind: str, **options) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.model, self.loss_fn = nn.Linear(WIDTH, OUTPUTS), make(loss, kind, **options)

    def forward(self, x: Tensor, y: Tensor, index: Tensor) -> Tensor:
        return self.loss_fn(self.model(x), y, features=x, index=index)


class All(nn.Module):
    """Every loss with a Predicted parameter, and the normal with every kind: what takes long to make is made once."""

    def __init__(self) -> None:
        super().__init__()
        cells = [(loss, kind) for loss in LOSSES for kind in KINDS if loss == "Normal" or kind == "Predicted"]
        self.names = [f"{loss}, {kind}" for loss, kind in cells]
        self.wired = nn.ModuleList(Wired(loss, kind).eval() for loss, kind in cells)

    def forward(self, x: Tensor, real: Tensor, binary: Tensor, hard: Tensor, index: Tensor) -> Tensor:
        target = {likely.SoftmaxLoss: hard, likely.BernoulliLoss: binary}
        return torch.stack([wired(x, target.get(type(wired.loss_fn), real), index) for wired in self.wired])


def all_inputs() -> tuple[Tensor, ...]:
    b, binary, hard = (Batch(loss) for loss in ("Normal", "Bernoulli", "Softmax"))
    return b.x, b.target, binary.target, hard.target, b.index


def near(got, expected, tolerance: float = 1e-5) -> None:
    torch.testing.assert_close(got, expected, rtol=tolerance, atol=tolerance)


def slopes(module: nn.Module) -> dict[str, Tensor]:
    return {name: p.grad for name, p in module.named_parameters() if p.grad is not None}


def settled(module: nn.Module, kind: str) -> nn.Module:
    """In evaluation mode, but for rows of their own, which exist in training only."""
    return module.train(kind == "Data")


def rows_of(loss_fn: nn.Module) -> list[Tensor]:
    return [p.table.rows.clone() for p in loss_fn.modules() if isinstance(p, likely.Data)]


def with_vmap(loss: str, kind: str) -> None:
    """A loss per row by ``vmap`` is that of a loop."""
    b, loss_fn = Batch(loss), settled(make(loss, kind), kind)

    def one(prediction, y, x, row):
        return loss_fn(prediction[None], y[None], features=x[None], index=row[None])

    got = vmap(one)(b.prediction, b.target, b.x, b.index)
    rows = zip(b.prediction, b.target, b.x, b.index, strict=True)
    near(got, torch.stack([one(*row) for row in rows]))


def with_grad(loss: str, kind: str) -> None:
    """``torch.func.grad`` by the prediction is autograd's."""
    b, loss_fn = Batch(loss), settled(make(loss, kind), kind)
    leaf = b.prediction.clone().requires_grad_()
    (expected,) = torch.autograd.grad(loss_fn(leaf, b.target, features=b.x, index=b.index), leaf)
    near(grad(lambda p: loss_fn(p, b.target, features=b.x, index=b.index))(b.prediction), expected)


def with_hessian(loss: str, kind: str) -> None:
    """``torch.func.hessian`` by the prediction is autograd's."""
    b, loss_fn = Batch(loss), settled(make(loss, kind), kind)

    def of(p):
        return loss_fn(p, b.target, features=b.x, index=b.index)

    near(hessian(of)(b.prediction), torch.autograd.functional.hessian(of, b.prediction), 1e-4)


def with_functional_call(loss: str, kind: str) -> None:
    """A model and a loss with other parameters give what they give when those are loaded."""
    b, wired = Batch(loss), settled(Wired(loss, kind), kind)
    other = {name: p.detach() + 0.1 for name, p in wired.named_parameters()}
    got = functional_call(wired, other, (b.x, b.target, b.index))
    wired.load_state_dict(other, strict=False)
    near(got, wired(b.x, b.target, b.index))


def with_trace(loss: str, kind: str) -> None:
    """A traced module gives the loss of other inputs."""
    b, wired = Batch(loss), settled(Wired(loss, kind), kind)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        traced = torch.jit.trace(wired, (b.x, b.target, b.index), check_trace=False)
    near(traced(b.x + 1, b.target, b.index), wired(b.x + 1, b.target, b.index))


def with_autocast(loss: str, kind: str) -> None:
    """Under autocast the model runs in bfloat16; the loss is a float32 that is close, and so are gradients."""
    b, plain = Batch(loss), Wired(loss, kind)
    cast = copy.deepcopy(plain)
    expected = plain(b.x, b.target, b.index)
    expected.backward()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        got = cast(b.x, b.target, b.index)
    got.backward()
    assert got.dtype == torch.float32
    near(got, expected, 0.03)
    for name, slope in slopes(cast).items():
        near(slope, slopes(plain)[name], 0.05)


def with_grad_scaler(loss: str, kind: str) -> None:
    """A step through a ``GradScaler`` is the step without one."""
    b, plain = Batch(loss), Wired(loss, kind)
    scaled = copy.deepcopy(plain)
    optimizers = [torch.optim.SGD(m.parameters(), lr=0.1) for m in (plain, scaled)]
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
    plain(b.x, b.target, b.index).backward()
    optimizers[0].step()
    scaler.scale(scaled(b.x, b.target, b.index)).backward()
    scaler.step(optimizers[1])
    scaler.update()
    for got, expected in zip(scaled.parameters(), plain.parameters(), strict=True):
        near(got, expected)


def with_checkpointing(loss: str, kind: str) -> None:
    """Gradients are those of a pass that keeps its activations, and so is what two passes leave behind."""
    b, plain = Batch(loss), Wired(loss, kind)
    again = copy.deepcopy(plain)
    for x in (b.x, 3 * b.x + 1):
        (2 * plain(x, b.target, b.index)).backward()
        checkpoint(lambda *batch: 2 * again(*batch), x, b.target, b.index, use_reentrant=False).backward()
        near(slopes(again), slopes(plain))
        near(rows_of(again), rows_of(plain))
        near(dict(again.named_buffers()), dict(plain.named_buffers()))


def with_accumulation(loss: str, kind: str) -> None:
    """Two halves of a batch leave the gradients of the whole."""
    b, whole = Batch(loss), Wired(loss, kind, reduction="sum")
    parts = copy.deepcopy(whole)
    for module in (whole, parts):  # standardised by moments that stand still, as after training
        module(b.x, b.target, b.index)
        settled(module, kind)
    whole(b.x, b.target, b.index).backward()
    for rows in (slice(0, ROWS // 2), slice(ROWS // 2, None)):
        parts(b.x[rows], b.target[rows], b.index[rows]).backward()
    near(slopes(parts), slopes(whole))
    near(rows_of(parts), rows_of(whole))


FEATURES = {
    "vmap": with_vmap,
    "grad": with_grad,
    "hessian": with_hessian,
    "functional_call": with_functional_call,
    "jit.trace": with_trace,
    "autocast": with_autocast,
    "GradScaler": with_grad_scaler,
    "checkpointing": with_checkpointing,
    "accumulation": with_accumulation,
}
