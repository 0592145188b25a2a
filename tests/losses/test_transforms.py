"""torch.func, forward-mode differentiation, batches of gradients and tracing, against loops and reverse mode."""

import pytest
import torch
from torch import nn
from torch.autograd import forward_ad
from torch.func import functional_call, grad, hessian, jacfwd, jacrev, jvp, vmap

import likely
from likelihoods import LIKELIHOODS, Likelihood, axes, full
from likely import _kernels as kernels, functional as F
from pairwise import together

# Forward mode loads derivatives that torch itself still writes in TorchScript.
pytestmark = pytest.mark.filterwarnings("ignore:`torch.jit.(script|trace|trace_method)` is deprecated")
every = together("likelihood", LIKELIHOODS, ids=str)
dtypes = pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
in_both_dtypes = together("dtype", [torch.float32, torch.float64])
ROWS, CLASSES, WIDTH = 4, 3, 5
KINDS = {
    "fixed": lambda value: likely.Fixed(value),
    "global": lambda value: likely.Global(axes(value), init=value),
    "predicted": lambda value: likely.Predicted(WIDTH, axes(value), init=value),
}
kinds = together("kind", KINDS)


def make(likelihood: Likelihood, kind: str, **options) -> likely.LikelihoodLoss:
    return likelihood.loss(**{name: KINDS[kind](value) for name, value in likelihood.phi.items()}, **options)


def inputs_of(likelihood: Likelihood, dtype: torch.dtype):
    """A batch, and the parameters' values as tensors; away from the kinks, where there is no derivative."""
    prediction, target = likelihood.draw(ROWS, CLASSES, dtype=dtype)
    phi = [full((ROWS,), v, dtype) for v in likelihood.phi.values()]
    phi = [p + 0.1 * torch.rand(ROWS, *(1,) * (p.ndim - 1)) for p in phi]
    return prediction, target, [p.to(dtype) for p in phi]


def near(got, expected):
    tolerance = 2e-4 if expected.dtype == torch.float32 else 1e-9
    torch.testing.assert_close(got, expected, rtol=tolerance, atol=tolerance)


def nll_of(likelihood: Likelihood):
    names = list(likelihood.phi)
    return lambda x, y, *phi: likelihood.nll(x, y, **dict(zip(names, phi, strict=True)))


@every
@in_both_dtypes
def test_vmap_of_a_functional_form_is_a_loop(likelihood, dtype):
    nll, (prediction, target, phi) = nll_of(likelihood), inputs_of(likelihood, dtype)
    rows = list(zip(prediction, target, *phi, strict=True))
    near(vmap(nll)(prediction, target, *phi), torch.stack([nll(*row) for row in rows]))
    # With parameters that are not batched as well.
    first = [p[0] for p in phi]
    axes = (0, 0, *(None for _ in phi))
    near(
        vmap(nll, in_dims=axes)(prediction, target, *first),
        torch.stack([nll(x, y, *first) for x, y in zip(prediction, target, strict=True)]),
    )


@every
@in_both_dtypes
def test_derivatives_of_a_functional_form(likelihood, dtype):
    """grad, jacrev, jacfwd, jvp and vmap(grad) against autograd; hessian against gradients of gradients."""
    nll, (prediction, target, phi) = nll_of(likelihood), inputs_of(likelihood, dtype)

    def f(x, *values):
        return nll(x, target[0], *values)

    places = tuple(range(1 + len(phi)))
    leaves = [t.clone().requires_grad_() for t in (prediction[0], *(p[0] for p in phi))]
    plain = [t.detach() for t in leaves]
    expected = torch.autograd.grad(f(*leaves), leaves, create_graph=True)
    for transform in (grad, jacrev, jacfwd):
        for got, slope in zip(transform(f, argnums=places)(*plain), expected, strict=True):
            near(got, slope.detach())
    tangents = [torch.randn_like(t) for t in plain]
    value, tangent = jvp(f, tuple(plain), tuple(tangents))
    near(value, f(*plain))
    near(tangent, sum((g * t).sum() for g, t in zip(expected, tangents, strict=True)).detach())
    blocks = hessian(f, argnums=places)(*plain)
    for row, slope in zip(blocks, expected, strict=True):
        for k, block in enumerate(row):
            flat = slope.reshape(-1)
            twice = [
                torch.autograd.grad(s, leaves[k], retain_graph=True, allow_unused=True, materialize_grads=True)[0]
                for s in flat
            ]
            near(block, torch.stack(twice).reshape(block.shape))
    by_row = vmap(grad(nll))(prediction, target, *phi)
    for row in range(ROWS):
        leaf = prediction[row].clone().requires_grad_()
        near(by_row[row], torch.autograd.grad(nll(leaf, target[row], *(p[row] for p in phi)), leaf)[0])


@every
@in_both_dtypes
def test_forward_mode_differentiation(likelihood, dtype):
    nll, (prediction, target, phi) = nll_of(likelihood), inputs_of(likelihood, dtype)
    phi = [p[:1] for p in phi]
    leaves = [t.clone().requires_grad_() for t in (prediction, *phi)]
    slopes = torch.autograd.grad(nll(leaves[0], target, *leaves[1:]), leaves)
    tangents = [torch.randn_like(t) for t in leaves]
    with forward_ad.dual_level():
        x, *values = (forward_ad.make_dual(t.detach(), v) for t, v in zip(leaves, tangents, strict=True))
        tangent = forward_ad.unpack_dual(nll(x, target, *values)).tangent
    near(tangent, sum((g * t).sum() for g, t in zip(slopes, tangents, strict=True)))


class Wired(nn.Module):
    """A model with its loss: the loss of a batch as a function of the parameters of both."""

    def __init__(self, likelihood: Likelihood, kind: str) -> None:
        super().__init__()
        self.model, self.loss_fn = nn.Linear(WIDTH, CLASSES), make(likelihood, kind)

    def forward(self, x, y):
        return self.loss_fn(self.model(x), y, features=x)

    def of_row(self, weights, x, y):
        return functional_call(self, weights, (x.unsqueeze(0), y.unsqueeze(0)))


@every
@kinds
def test_gradients_per_sample_through_model_and_loss(likelihood, kind):
    """In training mode: a transform leaves the running statistics alone, so that every row sees the same."""
    wired = Wired(likelihood, kind)
    weights = {name: p.detach() for name, p in wired.named_parameters()}
    x, (_, target) = torch.randn(ROWS, WIDTH), likelihood.draw(ROWS, CLASSES, dtype=torch.float32)
    before = {k: v.clone() for k, v in wired.state_dict().items()}
    got = vmap(grad(wired.of_row), in_dims=(None, 0, 0))(weights, x, target)
    values = vmap(wired.of_row, in_dims=(None, 0, 0))(weights, x, target)
    assert all(torch.equal(before[k], v) for k, v in wired.state_dict().items())
    wired.eval()
    for row in range(ROWS):
        leaves = {k: v.clone().requires_grad_() for k, v in weights.items()}
        loss = wired.of_row(leaves, x[row], target[row])
        near(values[row], loss.detach())
        for name, slope in zip(leaves, torch.autograd.grad(loss, leaves.values()), strict=True):
            near(got[name][row], slope)
    wired.train()(x, target).backward()  # what a transform leaves behind must not trouble the calls after it


@every
@kinds
def test_hessian_of_everything_through_the_loss(likelihood, kind):
    wired = Wired(likelihood, kind).double().eval()
    weights = {name: p.detach() for name, p in wired.named_parameters()}
    names = [name for name in weights if "weight" not in name]
    x, (_, target) = torch.randn(WIDTH, dtype=torch.float64), likelihood.draw(ROWS, CLASSES)
    sizes = [weights[name].numel() for name in names]

    def of(flat):
        parts = {n: p.reshape(weights[n].shape) for n, p in zip(names, flat.split(sizes), strict=True)}
        return wired.of_row({**weights, **parts}, x, target[0])

    flat = torch.cat([weights[name].reshape(-1) for name in names])
    expected = torch.autograd.functional.hessian(of, flat)
    for second in (hessian(of), jacfwd(jacfwd(of)), jacrev(jacrev(of)), jacrev(jacfwd(of))):
        near(second(flat), expected)


@every
@in_both_dtypes
@together("reduction", ["mean", "sum", "none"])
@together("again", [False, True], ids=["once", "create_graph"])
def test_gradients_in_batches(likelihood, dtype, reduction, again):
    prediction, target, phi = inputs_of(likelihood, dtype)
    leaves = [prediction.requires_grad_(), *(p[:1].clone().requires_grad_() for p in phi)]
    value = likelihood.nll(
        prediction, target, **dict(zip(likelihood.phi, leaves[1:], strict=True)), reduction=reduction
    )
    several = torch.randn(3, *value.shape, dtype=value.dtype)
    got = torch.autograd.grad(value, leaves, several, retain_graph=True, is_grads_batched=True, create_graph=again)
    for k, one in enumerate(several):
        for slope, expected in zip(got, torch.autograd.grad(value, leaves, one, retain_graph=True), strict=True):
            near(slope[k].detach(), expected)


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_gradients_in_batches_through_the_softmax_kernel(reduction):
    logits, temperature = torch.randn(5, 7, requires_grad=True), torch.ones(5, requires_grad=True)
    target = torch.randint(0, 7, (5,))
    value = kernels.softmax_nll(logits, target, temperature, ignore_index=-100, smoothing=0.1, reduction=reduction)
    several = torch.randn(3, *value.shape)
    got = torch.autograd.grad(value, (logits, temperature), several, retain_graph=True, is_grads_batched=True)
    for k, one in enumerate(several):
        for slope, expected in zip(
            got, torch.autograd.grad(value, (logits, temperature), one, retain_graph=True), strict=True
        ):
            near(slope[k], expected)


@dtypes
def test_transforms_of_a_linear_layers_softmax(dtype):
    hidden, weight, bias = torch.randn(4, 5, dtype=dtype), torch.randn(7, 5, dtype=dtype), torch.randn(7, dtype=dtype)
    target, temperature = torch.tensor([0, 3, 6, -100]), torch.rand(4, dtype=dtype) + 0.5

    def nll(h, w, b, t, y=target):
        return F.linear_softmax_nll(h, w, y, t, bias=b)

    inputs = (hidden, weight, bias, temperature)
    leaves = [t.clone().requires_grad_() for t in inputs]
    expected = torch.autograd.grad(nll(*leaves), leaves)
    for transform in (grad, jacrev, jacfwd):
        for got, slope in zip(transform(nll, argnums=(0, 1, 2, 3))(*inputs), expected, strict=True):
            near(got, slope)
    by_row = vmap(grad(nll), in_dims=(0, None, None, 0, 0))(hidden, weight, bias, temperature, target)
    for row in range(4):
        leaf = hidden[row].clone().requires_grad_()
        value = nll(leaf, weight, bias, temperature[row], target[row])
        near(by_row[row], torch.autograd.grad(value, leaf)[0])


@pytest.mark.parametrize("transform", [grad, jacfwd, hessian])
def test_transforms_of_what_the_robust_likelihood_is_made_of(transform):
    alphas = torch.tensor([0.0, 0.4, 1.0, 1.7, 2.5, 3.0, 9.0], dtype=torch.float64)

    def expected(f, alpha):
        leaf = alpha.clone().requires_grad_()
        (first,) = torch.autograd.grad(f(leaf), leaf, create_graph=True)
        return torch.autograd.grad(first, leaf)[0] if transform is hessian else first.detach()

    for f in (F.robust_log_partition, lambda a: F.robust_rho(torch.tensor(1.3, dtype=torch.float64), alpha=a)):
        near(vmap(transform(f))(alphas), torch.stack([expected(f, a) for a in alphas]))


@pytest.mark.filterwarnings("ignore::torch.jit.TracerWarning")
@every
@kinds
def test_tracing_sees_the_formula(likelihood, kind):
    loss_fn = make(likelihood, kind).eval()
    features = torch.randn(ROWS, WIDTH)

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.loss_fn = loss_fn

        def forward(self, x, y, h):
            return self.loss_fn(x, y, features=h)

    first, second = (likelihood.draw(ROWS, CLASSES, dtype=torch.float32) for _ in range(2))
    traced = torch.jit.trace(Model(), (*first, features), check_trace=False)
    near(traced(*second, features + 1), loss_fn(*second, features=features + 1))


@together(
    "module",
    [
        *(c.loss() for c in LIKELIHOODS),
        likely.MultiTaskLoss({"a": likely.NormalLoss()}),
        likely.TokenTemperature(4),
        likely.Fixed(1.0),
        nn.Sequential(nn.Linear(2, 2), likely.NormalLoss()),
    ],
    ids=lambda module: type(module).__name__,
)
def test_scripting_is_refused_and_the_remedy_named(module):
    with pytest.raises(TypeError, match=r"torch\.jit\.script cannot compile .*torch\.jit\.trace"):
        torch.jit.script(module)
