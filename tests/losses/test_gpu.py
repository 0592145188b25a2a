"""What only a CUDA device can show. Run there: pytest -m gpu"""

import pytest
import torch

import likely
from likelihoods import LIKELIHOODS, axes
from pairwise import together

# Torch calls its debug mode a prototype, each time it is switched on.
pytestmark = [pytest.mark.gpu, pytest.mark.filterwarnings("ignore:Synchronization debug mode")]


@pytest.fixture
def no_waiting():
    torch.cuda.set_sync_debug_mode("error")
    yield
    torch.cuda.set_sync_debug_mode("default")


@together("likelihood", LIKELIHOODS, ids=str)
def test_agrees_with_the_cpu(likelihood):
    prediction, target = likelihood.draw(64, 5, dtype=torch.float32)
    here = likelihood.loss()
    there = likelihood.loss().cuda()
    leaf, far = prediction.clone().requires_grad_(), prediction.cuda().requires_grad_()
    expected, got = here(leaf, target), there(far, target.cuda())
    expected.backward()
    got.backward()
    torch.testing.assert_close(got.cpu(), expected, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(far.grad.cpu(), leaf.grad, rtol=1e-4, atol=1e-6)
    for p, q in zip(here.parameters(), there.parameters(), strict=True):
        torch.testing.assert_close(q.grad.cpu(), p.grad, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("kind", ["global", "data", "predicted"])
@pytest.mark.parametrize("likelihood", [c for c in LIKELIHOODS if c.phi], ids=str)
def test_a_step_never_waits_for_the_device(likelihood, kind, request):
    make = {
        "global": likely.Global,
        "data": lambda shape: likely.Data(100, shape),
        "predicted": lambda shape: likely.Predicted(7, shape, hidden=(6,)),
    }[kind]
    loss_fn = likelihood.loss(**{name: make(axes(value)) for name, value in likelihood.phi.items()}).cuda()
    prediction, target = (t.cuda() for t in likelihood.draw(64, 5, dtype=torch.float32))
    prediction.requires_grad_()
    features, index = torch.randn(64, 7, device="cuda"), torch.randint(0, 100, (64,), device="cuda")
    loss_fn(prediction, target, features=features, index=index).backward()  # tables of constants travel once
    request.getfixturevalue("no_waiting")
    for _ in range(3):
        loss_fn(prediction, target, features=features, index=index).backward()


def test_a_loss_left_on_the_cpu_still_works():
    loss_fn = likely.RobustLoss()
    loss_fn(torch.zeros(4, device="cuda"), torch.ones(4, device="cuda")).backward()
    assert loss_fn.scale.raw.grad.device.type == "cpu"


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")
@together("likelihood", LIKELIHOODS, ids=str)
def test_compiles_with_inductor(likelihood):
    prediction, target = (t.cuda() for t in likelihood.draw(64, 5, dtype=torch.float32))
    loss_fn = likelihood.loss().cuda()
    torch._dynamo.reset()
    compiled = torch.compile(loss_fn, fullgraph=True)
    torch.testing.assert_close(compiled(prediction, target), loss_fn(prediction, target), rtol=1e-5, atol=1e-5)


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")
def test_two_losses_compile_in_one_process():
    """A number that differs between them would be an input of the second graph, from the memory of the host."""
    torch._dynamo.reset()
    prediction, target = torch.randn(2, 64, 3, device="cuda")
    for loss in (likely.NormalLoss, likely.StudentTLoss):
        loss_fn = loss().cuda()
        started = torch.compile(loss_fn, fullgraph=True)(prediction.requires_grad_(), target)
        torch.testing.assert_close(started, loss_fn(prediction, target), rtol=1e-5, atol=1e-5)


def test_samples_on_the_device():
    d = likely.distributions.Robust(torch.tensor([0.5, 2.5], device="cuda", requires_grad=True), 0.0, 1.0)
    x = d.rsample((1000,))
    assert x.is_cuda
    x.sum().backward()
    torch.testing.assert_close(d.cdf(d.icdf(torch.tensor(0.9, device="cuda"))), torch.full((2,), 0.9, device="cuda"))


@pytest.mark.parametrize("kind", ["NormalPrior", "LaplacePrior", "SpikeSlabPrior"])
def test_a_prior_never_waits_for_the_device(kind, request):
    model = torch.nn.Linear(7, 3).cuda()
    prior = getattr(likely.priors, kind)(model)
    request.getfixturevalue("no_waiting")
    prior().backward()


@pytest.mark.parametrize("kind", ["LinearTemperature", "FeatureTemperature", "DeepTemperature", "VectorScaling"])
def test_calibrators_agree_with_the_cpu(kind):
    random = torch.Generator().manual_seed(0)
    y = torch.randint(0, 3, (1000,), generator=random)
    features = torch.randn(1000, 200, generator=random)
    noise = torch.randn(1000, 3, generator=random) * features[:, :1].exp()
    logits = 3 * torch.nn.functional.one_hot(y, 3) + noise
    own = features if kind in ("FeatureTemperature", "DeepTemperature") else None
    make = getattr(likely.calibration, kind)
    here = make().fit(logits, y, own).predict_proba(logits, own)
    far = None if own is None else own.cuda()
    there = make().fit(logits.cuda(), y.cuda(), far).predict_proba(logits.cuda(), far)
    assert there.is_cuda
    torch.testing.assert_close(there.cpu(), here, rtol=1e-4, atol=1e-5)
