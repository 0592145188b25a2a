"""The contract: every likelihood × every property."""

import copy
import inspect
import math
import pickle

import numpy as np
import pytest
import torch
from scipy import integrate, optimize

import likely
from likelihoods import LIKELIHOODS, Likelihood, axes, full
from likely import functional as F
from pairwise import together
from quadrature import integral

every = together("likelihood", LIKELIHOODS, ids=str)
real = together("likelihood", [c for c in LIKELIHOODS if c.support == "real"], ids=str)
positive = pytest.mark.parametrize("likelihood", [c for c in LIKELIHOODS if c.support == "positive"], ids=str)
learned = together("likelihood", [c for c in LIKELIHOODS if c.phi], ids=str)


def elementwise(likelihood: Likelihood, *args, **phi):
    return likelihood.nll(*args, **phi, reduction="none")


def as_double(value: float) -> torch.Tensor:
    return torch.tensor(value, dtype=torch.float64)


@real
def test_the_density_integrates_to_one(likelihood):
    def density(y: torch.Tensor) -> torch.Tensor:
        return torch.exp(-elementwise(likelihood, as_double(0.3).expand_as(y), y, **likelihood.phi))

    # x = 0.3 + sinh(v): heavy tails become exponential ones.
    total = integral(lambda v: density(0.3 + v.sinh()) * v.cosh(), -25, 25)
    assert total == pytest.approx(1, abs=1e-7)


@positive
def test_the_density_of_positive_targets_integrates_to_one(likelihood):
    def density(log_y: torch.Tensor) -> torch.Tensor:
        prediction = as_double(0.3).expand_as(log_y)
        return torch.exp(log_y - elementwise(likelihood, prediction, log_y.exp(), **likelihood.phi))

    total = integral(density, -40, 12)
    assert total == pytest.approx(1, abs=1e-7)


@pytest.mark.parametrize("likelihood", [c for c in LIKELIHOODS if c.support == "count"], ids=str)
def test_the_probabilities_of_counts_sum_to_one(likelihood):
    counts = torch.arange(4000, dtype=torch.float64)
    total = torch.exp(-elementwise(likelihood, as_double(1.1), counts, **likelihood.phi)).sum()
    assert total.item() == pytest.approx(1, abs=1e-12)


@pytest.mark.parametrize("likelihood", [c for c in LIKELIHOODS if c.support in ("unit", "angle")], ids=str)
def test_the_density_on_an_interval_integrates_to_one(likelihood):
    low, high = {"unit": (0.0, 1.0), "angle": (-math.pi, math.pi)}[likelihood.support]

    def density(y: float) -> float:
        return math.exp(-elementwise(likelihood, as_double(0.3), as_double(y), **likelihood.phi).item())

    total, _ = integrate.quad(density, low, high, limit=400, epsabs=1e-10)
    assert total == pytest.approx(1, abs=1e-9)


@pytest.mark.parametrize("likelihood", [c for c in LIKELIHOODS if c.support == "ordered"], ids=str)
def test_the_probabilities_of_ordered_classes_sum_to_one(likelihood):
    classes = torch.arange(len(likelihood.phi["cutpoints"]) + 1)
    prediction = torch.linspace(-50, 50, 21, dtype=torch.float64)[:, None].expand(-1, len(classes))
    total = torch.exp(-elementwise(likelihood, prediction, classes.expand(21, -1), **likelihood.phi)).sum(1)
    torch.testing.assert_close(total, torch.ones_like(total), rtol=1e-14, atol=0)


def test_the_probabilities_of_classes_sum_to_one():
    logits = torch.randn(1, 7, dtype=torch.float64).expand(7, 7)
    total = torch.exp(-F.softmax_nll(logits, torch.arange(7), temperature=0.4, reduction="none")).sum()
    assert total.item() == pytest.approx(1, abs=1e-12)


@together("likelihood", [c for c in LIKELIHOODS if c.reference], ids=str)
def test_equals_torch_distributions(likelihood):
    prediction, target = likelihood.draw(50, 3)
    expected = -likelihood.reference(prediction, **likelihood.phi).log_prob(target)
    torch.testing.assert_close(
        elementwise(likelihood, prediction, target, **likelihood.phi), expected, rtol=1e-6, atol=1e-6
    )


@every
def test_loss_distribution_is_the_same_density(likelihood):
    prediction, target = likelihood.draw(20, 3)
    loss_fn = likelihood.loss(**likelihood.phi, reduction="none")
    expected = -loss_fn.distribution(prediction).log_prob(target)
    torch.testing.assert_close(loss_fn(prediction, target), expected, rtol=1e-5, atol=1e-5)


@every
def test_gradients_and_their_gradients(likelihood):
    prediction, target = likelihood.draw(4, 3)
    phi = [full((), v).requires_grad_() for v in likelihood.phi.values()]

    def nll(x, *values):
        return elementwise(likelihood, x, target, **dict(zip(likelihood.phi, values, strict=True)))

    assert torch.autograd.gradcheck(nll, (prediction.requires_grad_(), *phi))
    assert torch.autograd.gradgradcheck(nll, (prediction, *phi))


@every
def test_works_under_functional_transforms(likelihood):
    prediction, target = likelihood.draw(4, 3)
    names = list(likelihood.phi)

    def nll(x, y, *values):
        return likelihood.nll(x, y, **dict(zip(names, values, strict=True)), validate_args=False)

    phi = [full((4,), v) for v in likelihood.phi.values()]
    got = torch.func.vmap(torch.func.grad(nll))(prediction, target, *phi)
    for row in range(4):
        leaf = prediction[row].clone().requires_grad_()
        (expected,) = torch.autograd.grad(nll(leaf, target[row], *(p[row] for p in phi)), leaf)
        torch.testing.assert_close(got[row], expected)


@every
def test_the_slope_falls_towards_the_target(likelihood):
    """The paper: reducing the error always reduces the NLL."""
    if likelihood.support == "real":
        size = torch.linspace(0, 20, 200, dtype=torch.float64)
        nll = elementwise(likelihood, torch.zeros_like(size), size, **likelihood.phi)
        assert (nll.diff() > 0).all()
    elif likelihood.support == "angle":
        turn = torch.linspace(0, math.pi, 200, dtype=torch.float64)
        nll = elementwise(likelihood, torch.ones_like(turn), 1 + turn, **likelihood.phi)
        assert (nll.diff() > 0).all()
        torch.testing.assert_close(elementwise(likelihood, torch.ones_like(turn), 1 - turn, **likelihood.phi), nll)
    elif likelihood.support in ("unit", "ordered"):
        x = torch.linspace(-12, 12, 301, dtype=torch.float64)
        for y in (0.2, 0.9) if likelihood.support == "unit" else range(4):
            falls = elementwise(likelihood, x, torch.full_like(x, y), **likelihood.phi).diff() < 0
            assert (falls.int().diff() <= 0).all()  # down to one best prediction, and up again
            assert falls[0] > falls[-1] or y in (0, 3)
    elif likelihood.support in ("binary", "class"):
        logit = torch.linspace(-20, 20, 200, dtype=torch.float64)
        stack = logit if likelihood.support == "binary" else torch.stack([torch.zeros_like(logit), logit], 1)
        labels = torch.ones(200, dtype=torch.float64 if likelihood.support == "binary" else torch.long)
        assert (elementwise(likelihood, stack, labels, **likelihood.phi).diff() < 0).all()
    elif likelihood.support == "count":
        rates = torch.linspace(-3, 5, 200, dtype=torch.float64)
        nll = elementwise(likelihood, rates, torch.full_like(rates, 3), **likelihood.phi)
        assert rates[nll.argmin()].exp().item() == pytest.approx(3, rel=0.05)


def test_the_appendix_gradient_of_the_variance_with_its_sign_turned():
    """Errata: what the paper prints is the gradient of the log-likelihood."""
    residual, variance = as_double(1.3), as_double(0.8).requires_grad_()
    F.normal_nll(as_double(0.0), residual, scale=variance.sqrt()).backward()
    printed = (-1 + residual.square() / variance) / (2 * variance)
    torch.testing.assert_close(variance.grad, -printed.detach())


def test_the_appendix_gradient_of_the_inverse_temperature():
    """Errata: the paper's τ multiplies the logits; ours divides them."""
    logits, tau = torch.randn(1, 5, dtype=torch.float64), as_double(0.6).requires_grad_()
    F.softmax_nll(logits, torch.tensor([2]), temperature=1 / tau).backward()
    expected = -logits[0, 2] + (logits[0] * torch.softmax(logits[0] * tau.detach(), 0)).sum()
    torch.testing.assert_close(tau.grad, expected)


@pytest.mark.parametrize("likelihood", [c for c in LIKELIHOODS if c.best], ids=str)
def test_the_best_constant_scale_is_the_closed_form(likelihood):
    residual = torch.randn(200, dtype=torch.float64) * 3
    loss_fn = likelihood.loss().double()
    optimizer = torch.optim.LBFGS(
        loss_fn.parameters(), max_iter=100, line_search_fn="strong_wolfe", tolerance_grad=1e-10
    )

    def closure():
        optimizer.zero_grad()
        loss = loss_fn(torch.zeros_like(residual), residual)
        loss.backward()
        return loss

    optimizer.step(closure)
    assert loss_fn.scale.value.item() == pytest.approx(likelihood.best(residual), rel=1e-5)


@real
def test_the_best_scale_makes_the_score_vanish(likelihood):
    """For z = r/σ, d/dσ is zero where the mean of z·ψ(z) is one: the closed form of every scale family."""
    residual = torch.randn(300, dtype=torch.float64) * 2
    rest = {k: v for k, v in likelihood.phi.items() if k != "scale"}

    def nll(log_scale: float) -> float:
        return likelihood.nll(torch.zeros_like(residual), residual, scale=math.exp(log_scale), **rest).item()

    best = math.exp(optimize.minimize_scalar(nll, bracket=(-1, 1), tol=1e-12).x)
    z = (residual / best).requires_grad_()
    (score,) = torch.autograd.grad(likelihood.nll(torch.zeros_like(z), z, scale=1.0, **rest, reduction="sum"), z)
    assert (z * score).mean().item() == pytest.approx(1, abs=1e-5)


@together("likelihood", [c for c in LIKELIHOODS if c.plain], ids=str)
def test_at_one_it_is_the_familiar_loss(likelihood):
    prediction, target = likelihood.draw(30, 4)
    phi = {k: {"delta": 1.345, "quantile": 0.3}.get(k, 1.0) for k in likelihood.phi}
    gap = elementwise(likelihood, prediction, target, **phi) - likelihood.plain(prediction, target)
    torch.testing.assert_close(gap, gap.mean().expand_as(gap), rtol=0, atol=1e-12)


@pytest.mark.parametrize("z", [0.0, 1e-3, 1.0, 30.0])
def test_limits(z):
    x, y = as_double(0.0), as_double(z)
    normal = F.normal_nll(x, y, scale=1.5).item()
    assert F.robust_nll(x, y, alpha=2.0, scale=1.5).item() == pytest.approx(normal, rel=1e-14)
    assert F.student_t_nll(x, y, df=1e12, scale=1.5).item() == pytest.approx(normal, rel=1e-8)
    assert F.huber_nll(x, y, delta=1e3, scale=1.5).item() == pytest.approx(normal, rel=1e-12)
    cauchy = -torch.distributions.Cauchy(x, as_double(1.5 * math.sqrt(2))).log_prob(y).item()
    assert F.robust_nll(x, y, alpha=0.0, scale=1.5).item() == pytest.approx(cauchy, rel=1e-14)
    assert F.student_t_nll(x, y, df=1.0, scale=1.5 * math.sqrt(2)).item() == pytest.approx(cauchy, rel=1e-12)
    laplace = F.laplace_nll(x, y, scale=1.5).item()
    assert F.huber_nll(x, y, delta=1e-4, scale=1.5e-4).item() == pytest.approx(laplace, rel=1e-3)


def test_a_count_without_dispersion_is_poisson():
    prediction, target = torch.linspace(-3, 6, 40), torch.arange(40.0)
    poisson = F.poisson_nll(prediction, target, reduction="none")
    torch.testing.assert_close(
        F.negative_binomial_nll(prediction, target, dispersion=1e-12, reduction="none"), poisson, rtol=2e-5, atol=2e-5
    )


@learned
def test_broadcasts_over_every_shape(likelihood):
    shape = (2, 3, 4, 5)
    prediction, target = likelihood.draw(*shape)
    outer = target.shape
    expected = elementwise(likelihood, prediction, target, **likelihood.phi)
    assert expected.shape == outer
    for kept in np.ndindex(*(2,) * len(outer)):
        sizes = [n if keep else 1 for n, keep in zip(outer, kept, strict=True)]
        phi = {k: full(sizes, v) for k, v in likelihood.phi.items()}
        torch.testing.assert_close(elementwise(likelihood, prediction, target, **phi), expected)


@every
@together("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_dtypes(likelihood, dtype):
    prediction, target = likelihood.draw(6, 3)
    prediction = prediction.to(dtype)
    target = target.to(dtype) if target.is_floating_point() else target
    got = likelihood.nll(prediction, target, **likelihood.phi)
    assert got.dtype == (torch.float64 if dtype == torch.float64 else torch.float32)
    wide = target.double() if target.is_floating_point() else target
    assert got.item() == pytest.approx(likelihood.nll(prediction.double(), wide, **likelihood.phi).item(), rel=1e-5)
    loss_fn = likelihood.loss()
    loss = loss_fn(prediction.requires_grad_(), target)
    loss.backward()
    assert prediction.grad.dtype == dtype
    assert prediction.grad.isfinite().all()
    assert all(p.dtype == torch.float32 for p in loss_fn.parameters())


@every
@together("reduction", ["mean", "sum", "none"])
def test_reductions_and_weights(likelihood, reduction):
    prediction, target = likelihood.draw(6, 3)
    weight = torch.tensor([1.0, 0.0, 2.0, 1.0, 0.0, 0.5], dtype=torch.float64)
    each = elementwise(likelihood, prediction, target, **likelihood.phi)
    loss_fn = likelihood.loss(**likelihood.phi, reduction=reduction)
    reduce = {"mean": torch.mean, "sum": torch.sum, "none": lambda x: x}[reduction]
    torch.testing.assert_close(loss_fn(prediction, target), reduce(each))
    torch.testing.assert_close(likelihood.nll(prediction, target, **likelihood.phi, reduction=reduction), reduce(each))
    wide = weight.reshape(6, *(1,) * (each.ndim - 1)).expand_as(each)
    weighted = {"mean": (each * wide).sum() / wide.sum(), "sum": (each * wide).sum(), "none": each * wide}[reduction]
    torch.testing.assert_close(loss_fn(prediction, target, sample_weight=weight), weighted)
    nothing = loss_fn(prediction, target, sample_weight=torch.zeros(6, dtype=torch.float64))
    assert (nothing == 0).all()


@together(
    "likelihood", [c for c in LIKELIHOODS if c.support in ("real", "count", "positive", "angle", "unit")], ids=str
)
def test_full_differs_from_the_papers_form_by_a_constant(likelihood):
    prediction, target = likelihood.draw(20, 3)
    gap = likelihood.loss(**likelihood.phi, reduction="none")(prediction, target) - likelihood.loss(
        **likelihood.phi, reduction="none", full=False
    )(prediction, target)
    if likelihood.support == "count":
        gap = gap - torch.lgamma(target + 1)
    if likelihood.support == "positive":
        gap = gap - target.log()
    if likelihood.support == "unit":
        gap = gap - (target * (1 - target)).log()
    torch.testing.assert_close(gap, gap.flatten()[0].expand_as(gap))


class EveryLoss(torch.nn.Module):
    """All losses in one module: what the compiler needs to begin with is then paid once."""

    def __init__(self, rows: list[Likelihood]) -> None:
        super().__init__()
        self.losses = torch.nn.ModuleList(row.loss() for row in rows)

    def forward(self, *batches):
        return [loss_fn(*batch) for loss_fn, batch in zip(self.losses, batches, strict=True)]


# The compiler instantiates autograd functions itself and is warned for it by torch.
@pytest.mark.filterwarnings("ignore:.*should not be instantiated:DeprecationWarning")
@pytest.mark.parametrize("half", [0, 1], ids=["first half", "second half"])
def test_every_loss_compiles_as_one_graph(half):
    """Without a break; values and gradients are those without the compiler."""
    rows = list({row.loss: row for row in LIKELIHOODS}.values())[half::2]
    batches = [row.draw(6, 3, dtype=torch.float32) for row in rows]
    together, predictions = EveryLoss(rows), [prediction.requires_grad_() for prediction, _ in batches]
    torch._dynamo.reset()
    compiled = torch.compile(together, fullgraph=True, backend="aot_eager")
    found, expected = compiled(*batches), together(*batches)
    leaves = {f"{row}'s prediction": prediction for row, prediction in zip(rows, predictions, strict=True)}
    for row, loss_fn in zip(rows, together.losses, strict=True):
        leaves |= {f"{row}'s {name}": parameter for name, parameter in loss_fn.named_parameters()}
    slopes = [torch.autograd.grad(sum(losses), leaves.values()) for losses in (found, expected)]
    names = [*map(str, rows), *leaves]
    for name, got, wanted in zip(names, [*found, *slopes[0]], [*expected, *slopes[1]], strict=True):
        torch.testing.assert_close(got, wanted, rtol=1e-5, atol=1e-6, msg=lambda words, name=name: f"{name}: {words}")


@learned
def test_state_dict_pickle_and_deepcopy(likelihood):
    loss_fn = likelihood.loss(**{k: likely.Global(axes(v), init=v) for k, v in likelihood.phi.items()})
    from_data = [name for name, slot in loss_fn.slots.items() if slot.start]
    keys = [f"{name}.raw" for name in likelihood.phi] + [f"{name}.started" for name in from_data]
    assert sorted(loss_fn.state_dict()) == sorted(keys)
    prediction, target = likelihood.draw(5, 3)
    expected = loss_fn(prediction, target)
    for twin in (pickle.loads(pickle.dumps(loss_fn)), copy.deepcopy(loss_fn)):
        assert torch.equal(twin(prediction, target), expected)
        assert repr(twin) == repr(loss_fn)
    fresh = likelihood.loss(**{k: likely.Global(axes(v)) for k, v in likelihood.phi.items()})
    fresh.load_state_dict(loss_fn.state_dict())
    assert torch.equal(fresh(prediction, target), expected)


@real
@together("dtype", [torch.float32, torch.bfloat16])
def test_no_nan_for_any_finite_input(likelihood, dtype):
    for size in (0.0, 1e-38, 1e-20, 1e-4, 1.0, 1e4, 1e19, 1e30):
        for scale in (1e-4, 1.0, 1e4):
            target = torch.tensor(size, dtype=dtype).requires_grad_()
            phi = {k: torch.tensor(scale if k == "scale" else v).requires_grad_() for k, v in likelihood.phi.items()}
            nll = elementwise(likelihood, torch.zeros_like(target), target, **phi)
            grads = torch.autograd.grad(nll, [target, *phi.values()])
            assert not any(g.isnan() for g in (nll, *grads)), (size, scale)


@positive
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_no_nan_for_any_positive_target(likelihood, dtype):
    for size in (1e-38, 1e-20, 1e-4, 1.0, 1e4, 1e19, 1e38):
        for predicted in (-1e4, -80.0, 0.0, 80.0, 1e4):
            for value in (1e-4, 1.0, 1e4):
                target = torch.tensor(size, dtype=dtype).requires_grad_()
                prediction = torch.tensor(predicted, dtype=dtype).requires_grad_()
                phi = {k: torch.tensor(value).requires_grad_() for k in likelihood.phi}
                nll = elementwise(likelihood, prediction, target, **phi)
                grads = torch.autograd.grad(nll, [prediction, target, *phi.values()])
                assert not any(g.isnan() for g in (nll, *grads)), (size, predicted, value)


@every
def test_the_signature_names_every_keyword(likelihood):
    keywords = inspect.signature(likelihood.nll).parameters
    assert all(p.kind is not p.VAR_KEYWORD for p in keywords.values())
    assert keywords.keys() >= {*likelihood.phi, "target", "reduction", "validate_args"}
    assert keywords["reduction"].default == "mean"
    assert keywords["validate_args"].default is None


@every
def test_a_keyword_too_many_or_too_few_is_refused(likelihood):
    x, y = likelihood.draw(4, 3)
    phi = {name: full((), value) for name, value in likelihood.phi.items()}
    with pytest.raises(TypeError, match="colour"):
        likelihood.nll(x, y, **phi, colour=1.0)
    for name in phi:
        if inspect.signature(likelihood.nll).parameters[name].default is inspect.Parameter.empty:
            with pytest.raises(TypeError, match=name):
                likelihood.nll(x, y, **{other: value for other, value in phi.items() if other != name})
