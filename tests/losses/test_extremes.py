"""No rows, no axes, and numbers at the ends of their range."""

import itertools

import pytest
import torch

import likely
from likelihoods import LIKELIHOODS, Likelihood, axes, full
from likely import functional as F
from likely.parameters import Fixed
from pairwise import together

every = together("likelihood", LIKELIHOODS, ids=str)


@every
@together("reduction", ["mean", "sum", "none"])
def test_no_rows_are_what_torch_makes_of_them(likelihood: Likelihood, reduction):
    """The mean of nothing is NaN, its sum zero; and nothing is learned from it."""
    prediction, target = likelihood.draw(4, 3, dtype=torch.float32)
    prediction = prediction[:0].clone().requires_grad_()
    phi = {name: likely.Predicted(5, axes(value), init=value) for name, value in likelihood.phi.items()}
    for loss_fn in (likelihood.loss(reduction=reduction), likelihood.loss(**phi, reduction=reduction)):
        before = {k: v.clone() for k, v in loss_fn.state_dict().items()}
        loss = loss_fn(prediction, target[:0], features=torch.zeros(0, 5))
        if reduction == "none":
            assert loss.shape == target[:0].shape
        else:
            assert loss.isnan() if reduction == "mean" else loss == 0
        loss.sum().backward()
        assert prediction.grad.shape == prediction.shape
        assert all(torch.equal(before[k], v) for k, v in loss_fn.state_dict().items())


def test_no_tokens():
    hidden, weight = torch.zeros(0, 4), torch.zeros(9, 4, requires_grad=True)
    assert F.linear_softmax_nll(hidden, weight, torch.zeros(0, dtype=torch.long)).isnan()
    assert F.linear_softmax_nll(hidden, weight, torch.zeros(0, dtype=torch.long), reduction="sum") == 0


@every
@together("reduction", ["mean", "sum", "none"])
def test_one_example_without_a_batch(likelihood: Likelihood, reduction):
    prediction, target = likelihood.draw(1, 3, dtype=torch.float32)
    prediction, target = (
        (prediction[0], target[0]) if likelihood.support == "class" else (prediction[0, 0], target[0, 0])
    )
    loss_fn = likelihood.loss(reduction=reduction)
    one = loss_fn(prediction.requires_grad_(), target)
    assert one.shape == ()
    torch.testing.assert_close(one, loss_fn(prediction[None], target[None]).squeeze())
    one.backward()
    assert prediction.grad.isfinite().all()


EXTREMES = {  # of inputs; and of parameters, with whose inverse square inputs can be multiplied
    torch.float32: ((0.0, 1e-38, 1e-30, 1e-4, 1.0, 1e4, 1e19, 1e30), (1e-15, 1e-9, 1e9, 1e15)),
    torch.float64: ((0.0, 1e-300, 1e-155, 1e-4, 1.0, 1e4, 1e155, 1e300), (1e-150, 1e-30, 1e30, 1e150)),
}
MODERATE = (0.0, 1e-4, 1.0, 1e4)
SPREADS = ("scale", "temperature", "dispersion", "concentration")


@every
@together("dtype", EXTREMES)
@together("fused", [True, False], ids=["mean", "none"])
def test_no_finite_input_gives_nan(likelihood: Likelihood, dtype, fused):
    """Neither a loss nor a gradient; infinity where the true one overflows is no error."""
    inputs, spreads = EXTREMES[dtype]
    pairs = [*itertools.product(inputs, MODERATE[1:]), *itertools.product(MODERATE, spreads)]
    for x, spread in [*pairs, *((-size, spread) for size, spread in pairs)]:
        prediction = torch.tensor([x, 0.0, 1.0][: 2 + (likelihood.support == "class")], dtype=dtype).requires_grad_()
        targets = {"count": [3.0, 0.0], "positive": [3.0, 1e-3], "unit": [0.3, 0.01]}
        target = (
            torch.tensor(1)
            if likelihood.support == "class"
            else torch.tensor(targets.get(likelihood.support, [1.0, 0.0]), dtype=dtype)
        )
        phi = {k: full((), spread if k in SPREADS else v, dtype).requires_grad_() for k, v in likelihood.phi.items()}
        nll = likelihood.nll(prediction, target, **phi, reduction="mean" if fused else "none")
        leaves = [prediction, *phi.values()]
        grads = torch.autograd.grad(nll.sum(), leaves)
        for name, value in zip(["loss", "prediction", *phi], (nll, *grads), strict=True):
            assert not value.isnan().any(), (name, x, spread)


@together("form", ["poisson_nll", "negative_binomial_nll", "zero_inflated_poisson_nll", "beta_nll"])
def test_predictions_up_to_the_largest_float_have_finite_losses_and_gradients(form):
    parameters = {
        "poisson_nll": {},
        "negative_binomial_nll": {"dispersion": 0.5},
        "zero_inflated_poisson_nll": {"inflation": 0.2},
        "beta_nll": {"concentration": 3.0},
    }[form]
    for size, sign in itertools.product((1.0, 90.0, 1e10, 5e35, 3e38), (1, -1)):
        for target in (0.3, 0.9) if form == "beta_nll" else (0.0, 3.0, 1000.0):
            x = torch.tensor(sign * size, requires_grad=True)
            loss = getattr(F, form)(x, torch.tensor(target), **parameters)
            (slope,) = torch.autograd.grad(loss, x)
            assert loss.isfinite(), (size, sign, target)
            assert slope.isfinite(), (size, sign, target)


COUNTED = [
    (likely.PoissonLoss, {}),
    (likely.NegativeBinomialLoss, {"dispersion": Fixed(0.2)}),
    (likely.ZeroInflatedPoissonLoss, {"inflation": Fixed(0.1)}),
    (likely.ZeroInflatedNegativeBinomialLoss, {"dispersion": Fixed(0.2), "inflation": Fixed(0.1)}),
]


@pytest.mark.parametrize(("kind", "parameters"), COUNTED)
def test_large_counts_lose_no_digits_in_single_precision(kind, parameters):
    # Their terms are up to 1e8 times as large as their difference.
    mean = torch.tensor([1e3, 1e4, 1e5, 1e6, 1e7, 1e8])
    found, slopes = {}, {}
    for dtype in (torch.float32, torch.float64):
        log_mean = mean.log().to(dtype).requires_grad_()  # the same numbers in both
        found[dtype] = kind(**parameters, reduction="none").to(dtype)(log_mean, (1.01 * mean).round().to(dtype))
        slopes[dtype] = torch.autograd.grad(found[dtype].sum(), log_mean)[0]
    assert found[torch.float32].dtype == torch.float32
    torch.testing.assert_close(found[torch.float32].double(), found[torch.float64], rtol=1e-5, atol=0)
    torch.testing.assert_close(slopes[torch.float32].double(), slopes[torch.float64], rtol=1e-4, atol=0)
