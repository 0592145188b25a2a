"""Losses and parameters as modules: copies, dtypes, compilation, threads."""

import copy
import pickle
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

import likely
from likelihoods import LIKELIHOODS, Likelihood, axes
from pairwise import together

every = pytest.mark.parametrize("likelihood", LIKELIHOODS, ids=str)
of_every_likelihood = together("likelihood", LIKELIHOODS, ids=str)
ROWS, CLASSES, WIDTH = 6, 3, 4
KINDS = {
    "fixed": lambda value: likely.Fixed(value),
    "global": lambda value: likely.Global(axes(value), init=value),
    "data": lambda value: likely.Data(ROWS, axes(value), init=value),
    "predicted": lambda value: likely.Predicted(WIDTH, axes(value), init=value),
}
kinds = together("kind", KINDS)


def make(likelihood: Likelihood, kind: str, **options) -> likely.LikelihoodLoss:
    return likelihood.loss(**{name: KINDS[kind](value) for name, value in likelihood.phi.items()}, **options)


def batch(likelihood: Likelihood, dtype: torch.dtype = torch.float32) -> dict[str, torch.Tensor]:
    prediction, target = likelihood.draw(ROWS, CLASSES, dtype=dtype)
    features = torch.randn(ROWS, WIDTH, dtype=dtype)
    return {"prediction": prediction, "target": target, "features": features, "index": torch.arange(ROWS)}


@of_every_likelihood
@kinds
def test_copies_give_the_same(likelihood, kind):
    loss_fn, given = make(likelihood, kind), batch(likelihood)
    loss_fn(**given)
    twins = [pickle.loads(pickle.dumps(loss_fn)), copy.deepcopy(loss_fn), make(likelihood, kind)]
    twins[-1].load_state_dict(loss_fn.state_dict())
    expected = loss_fn(**given)
    for twin in twins:
        assert torch.equal(twin(**given), expected)
        assert repr(twin) == repr(loss_fn)


@of_every_likelihood
@together("kind", ["fixed", "global", "predicted"])
@together("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_a_module_in_another_dtype(likelihood, kind, dtype):
    loss_fn, given = make(likelihood, kind), batch(likelihood)
    expected = loss_fn(**given)
    there = copy.deepcopy(loss_fn).eval().to(dtype)
    if kind != "predicted" or dtype == torch.float64:
        for data in (torch.float32, dtype):
            cast = {k: v.to(data) if v.is_floating_point() else v for k, v in given.items()}
            if kind == "predicted" and data != dtype:
                continue
            torch.testing.assert_close(there(**cast).double(), expected.double(), rtol=0.03, atol=0.03)
    back = there.float().train()
    assert all(v.dtype == torch.float32 for v in back.state_dict().values() if v.is_floating_point())


@pytest.mark.filterwarnings("ignore:.*should not be instantiated:DeprecationWarning")
@pytest.mark.parametrize("likelihood", [c for c in LIKELIHOODS if c.name in ("laplace", "robust", "softmax")], ids=str)
@pytest.mark.parametrize("kind", ["fixed", "predicted"])
def test_compiles_as_one_graph_whatever_it_depends_on(likelihood, kind):
    """In training mode, where the running statistics of features move as they do without the compiler."""
    loss_fn, given = make(likelihood, kind), batch(likelihood)
    del given["index"]
    twin = copy.deepcopy(loss_fn)
    torch._dynamo.reset()
    compiled = torch.compile(twin, fullgraph=True, backend="aot_eager")
    for _ in range(2):
        torch.testing.assert_close(compiled(**given), loss_fn(**given), rtol=1e-5, atol=1e-6)
    for name, value in loss_fn.state_dict().items():
        torch.testing.assert_close(twin.state_dict()[name], value)


@every
def test_threads_get_what_a_single_one_gets(likelihood):
    loss_fn = make(likelihood, "global")

    def step(given):
        leaf = given["prediction"].clone().requires_grad_()
        loss = loss_fn(leaf, given["target"])
        return loss.detach(), torch.autograd.grad(loss, [leaf, *loss_fn.parameters()])

    batches = [batch(likelihood) for _ in range(16)]
    with ThreadPoolExecutor(4) as pool:
        for (loss, grads), given in zip(pool.map(step, batches), batches, strict=True):
            alone, slopes = step(given)
            assert torch.equal(loss, alone)
            assert all(torch.equal(a, b) for a, b in zip(grads, slopes, strict=True))
