"""``likely.from_torch`` against the originals, on the inputs with which torch tests them."""

import copy
import math

import pytest
import torch
from tests.losses.torch_inputs import DTYPES, LOSSES, cases
from torch import nn

import likely
from pairwise import together

HELD = {nn.PoissonNLLLoss: {"dispersion": 0.0}} | {
    kind: {"temperature": 1.0} for kind in (nn.CrossEntropyLoss, nn.NLLLoss, nn.BCEWithLogitsLoss, nn.BCELoss)
}
# Where a converted loss differs, and why; docs/torch-losses.md has the same list.
ALL_IGNORED = "the mean over no label at all is 0; torch's is NaN"
STIRLING = "log y! is exact; torch approximates it by Stirling's formula"


def reason(original: nn.Module, args: tuple) -> str | None:
    if getattr(original, "full", False) and isinstance(original, nn.PoissonNLLLoss):
        return STIRLING
    hard = isinstance(original, nn.CrossEntropyLoss | nn.NLLLoss) and not args[1].is_floating_point()
    if hard and original.reduction == "mean" and bool((args[1] == original.ignore_index).all()):
        return ALL_IGNORED
    return None


def results(loss: nn.Module, args: tuple, *, log_softmax: bool) -> tuple[torch.Tensor, list[torch.Tensor]]:
    """The loss and the gradients of whatever was given with one; those of NLLLoss before the log-softmax."""
    args = tuple(a.detach().clone().requires_grad_(a.requires_grad) for a in args)
    prediction = args[0].log_softmax(1) if log_softmax else args[0]
    value = loss(prediction, *args[1:])
    leaves = [a for a in args if a.requires_grad]
    return value.detach(), list(torch.autograd.grad(value.sum(), leaves))


def wide(thing):
    """A loss, or what it is called with, in float32 where it is in half precision."""
    if isinstance(thing, nn.Module):
        return copy.deepcopy(thing).float()
    return tuple(a.float().detach().requires_grad_(a.requires_grad) if a.is_floating_point() else a for a in thing)


@pytest.mark.filterwarnings("ignore:.*look like probabilities")  # torch draws its logits from 0 to 1
@together("held", [True, False], ids=["held", "free"])
@together("dtype", DTYPES, ids=str)
@together("kind", LOSSES, ids=lambda kind: kind.__name__)
def test_equals_the_original_on_torchs_own_inputs(kind, dtype, held):
    count = 0
    for description, original, args in cases(kind, dtype):
        count += 1
        parameters = HELD.get(kind, {"scale": 1.0})
        if not held and kind is not nn.PoissonNLLLoss:
            parameters = {name: likely.Global(init=value) for name, value in parameters.items()}
        loss_fn = likely.from_torch(original, **parameters)
        log_softmax = kind is nn.NLLLoss
        got, slopes = results(loss_fn, args, log_softmax=log_softmax)
        if dtype.itemsize < 4:
            # Computed in float32, so compared with the original in float32 of the same numbers.
            assert got.dtype == torch.float32
            expected, gradients = results(wide(original), wide(args), log_softmax=log_softmax)
            gradients = [g.to(dtype) for g in gradients]
        else:
            expected, gradients = results(original, args, log_softmax=log_softmax)
        why = reason(original, args)
        if why == ALL_IGNORED:
            assert got == 0, description
            assert not slopes[0].any(), description
            continue
        if why == STIRLING:
            exact = -torch.distributions.Poisson(
                args[0].detach().exp() if original.log_input else args[0].detach(), validate_args=False
            ).log_prob(args[1])
            expected = exact.mean().to(got.dtype)
        # The reference itself is rounded to half precision there: Poisson's rates, the log-probabilities of NLLLoss.
        rounded = {"rtol": 2e-2, "atol": 1e-2} if (why or log_softmax) and dtype.itemsize < 4 else {}
        torch.testing.assert_close(got, expected, msg=lambda m, d=description: f"{d}: {m}", **rounded)
        for slope, gradient in zip(slopes, gradients, strict=True):
            rounded = {"rtol": 1e-2, "atol": 1e-3} if dtype.itemsize < 4 else {}
            torch.testing.assert_close(slope, gradient, msg=lambda m, d=description: f"{d}: {m}", **rounded)
    assert count >= 4


def test_the_parameter_is_free_and_learns():
    torch.manual_seed(0)
    target = 3 * torch.randn(500)
    loss_fn = likely.from_torch(nn.MSELoss())
    optimizer = torch.optim.Adam(loss_fn.parameters(), lr=0.1)
    for _ in range(200):
        optimizer.zero_grad()
        loss_fn(torch.zeros(500), target).backward()
        optimizer.step()
    assert loss_fn.scale.value.item() == pytest.approx(target.square().mean().sqrt().item(), rel=1e-2)
    assert likely.from_torch(nn.MSELoss(), full=True)(torch.zeros(2), torch.zeros(2)).item() == pytest.approx(
        math.log(2 * math.pi)
    )


def test_a_poisson_loss_becomes_one_with_a_dispersion():
    assert isinstance(likely.from_torch(nn.PoissonNLLLoss()), likely.NegativeBinomialLoss)
    near = likely.from_torch(nn.PoissonNLLLoss(), dispersion=1e-6)
    x, y = torch.randn(20, dtype=torch.float64), torch.arange(20.0, dtype=torch.float64)
    torch.testing.assert_close(near(x, y), nn.PoissonNLLLoss()(x, y), rtol=1e-3, atol=1e-3)
    zero = likely.from_torch(nn.PoissonNLLLoss(log_input=False), dispersion=0)
    assert zero(torch.zeros(1), torch.ones(1)).item() == pytest.approx(-math.log(1e-8))


def test_options_are_carried_over():
    w = torch.rand(3)
    soft = likely.from_torch(nn.CrossEntropyLoss(w, ignore_index=2, label_smoothing=0.1, reduction="sum"))
    assert (soft.ignore_index, soft.label_smoothing, soft.reduction) == (2, 0.1, "sum")
    assert list(soft.state_dict()) == ["weight", "temperature.raw"]
    binary = likely.from_torch(nn.BCEWithLogitsLoss(pos_weight=w), temperature=likely.Predicted(4, (3,)))
    assert binary.pos_weight is w or torch.equal(binary.pos_weight, w)
    x, y, h = torch.randn(5, 3), torch.randint(0, 2, (5, 3)).float(), torch.randn(5, 4)
    assert binary(x, y, features=h).isfinite()
    assert isinstance(likely.from_torch(nn.SmoothL1Loss(beta=0.0)), likely.LaplaceLoss)
    smooth = nn.SmoothL1Loss(beta=0.3)
    torch.testing.assert_close(likely.from_torch(smooth, scale=1.0)(x, y), smooth(x, y))
    huber = nn.HuberLoss(delta=0.3)
    torch.testing.assert_close(likely.from_torch(huber, scale=1.0)(x, y), huber(x, y))


def test_what_is_refused():
    class Own(nn.MSELoss):
        pass

    for loss, said in [
        (nn.CTCLoss(), "got CTCLoss"),
        (Own(), "a subclass of MSELoss"),
        (nn.MSELoss, "make an instance"),
    ]:
        with pytest.raises(TypeError, match=said):
            likely.from_torch(loss)
    with pytest.raises(TypeError, match="NormalLoss has no parameter temperature; it has scale"):
        likely.from_torch(nn.MSELoss(), temperature=1.0)
