"""The softmax operators and what is built on them, on the CPU, whose plain code says what the GPU computes."""

import pytest
import torch
from torch.library import opcheck

import likely
from likely import _kernels as kernels, functional as F
from pairwise import together

options = together("smoothing", [0.0, 0.1])
temperatures = pytest.mark.parametrize("one", [True, False], ids=["one", "a row"])
both_temperatures = together("one", [True, False], ids=["one", "a row"])


def draw(rows=6, classes=11, *, one=False, dtype=torch.float64):
    logits = torch.randn(rows, classes, dtype=dtype, requires_grad=True)
    target = torch.randint(0, classes, (rows,))
    target[1] = -100
    temperature = (torch.rand(() if one else rows, dtype=dtype) + 0.5).requires_grad_()
    return logits, target, temperature


@options
@both_temperatures
@together("reduction", ["mean", "sum", "none"])
def test_value_and_gradients(smoothing, one, reduction):
    logits, target, temperature = draw(one=one)
    expected = F.softmax_nll(logits, target, temperature=temperature, label_smoothing=smoothing, reduction=reduction)
    leaves, weight = (logits, temperature), torch.randn_like(expected)
    gradients = torch.autograd.grad(expected, leaves, weight)
    got = kernels.softmax_nll(
        logits * 1,
        target,
        temperature,
        ignore_index=-100,
        smoothing=smoothing,
        reduction=reduction,
    )
    torch.testing.assert_close(got, expected, rtol=1e-6, atol=1e-6)
    for a, b in zip(torch.autograd.grad(got, leaves, weight), gradients, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-6, atol=1e-6)


def test_a_class_ruled_out():
    logits, target, temperature = draw()
    with torch.no_grad():
        logits[0, (target[0] + 1) % 11] = -torch.inf
    rows = {"ignore_index": -100, "smoothing": 0.0, "reduction": "mean"}
    got = torch.autograd.grad(kernels.softmax_nll(logits, target, temperature, **rows), (logits, temperature))
    expected = torch.autograd.grad(F.softmax_nll(logits, target, temperature=temperature), (logits, temperature))
    for a, b in zip(got, expected, strict=True):
        assert a.isfinite().all()
        torch.testing.assert_close(a, b, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("reduction", ["mean", "none"])
def test_gradients_of_gradients_are_the_plain_ones(reduction):
    logits, target, temperature = draw()

    def twice(loss):
        first = torch.autograd.grad(loss.sum(), (logits, temperature), create_graph=True)
        return torch.autograd.grad(sum(g.square().sum() for g in first), (logits, temperature))

    rows = {"ignore_index": -100, "smoothing": 0.1, "reduction": reduction}
    got = twice(kernels.softmax_nll(logits, target, temperature, **rows))
    plain = F.softmax_nll(logits, target, temperature=temperature, label_smoothing=0.1, reduction=reduction)
    for a, b in zip(got, twice(plain), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-7)


@temperatures
def test_opcheck(one):
    logits, target, temperature = draw(dtype=torch.float32, one=one)
    factor = torch.tensor(0.2)
    rows = (target, temperature.detach(), -100, 0.1)
    for learning in (True, False):
        opcheck(torch.ops.likely.softmax_sum_, (logits.detach().clone(), *rows, factor, learning))


@options
@both_temperatures
@together("chunk", [1, 4, 100])
@together("reduction", ["mean", "sum"])
def test_linear_softmax_is_the_softmax_of_a_linear_layer(smoothing, one, chunk, reduction):
    hidden = torch.randn(2, 5, 4, dtype=torch.float64, requires_grad=True)
    weight = torch.randn(9, 4, dtype=torch.float64, requires_grad=True)
    bias = torch.randn(9, dtype=torch.float64, requires_grad=True)
    target = torch.randint(0, 9, (2, 5))
    target[0, 0] = -100
    temperature = (torch.rand(() if one else (2, 5), dtype=torch.float64) + 0.5).requires_grad_()
    leaves = (hidden, weight, bias, temperature)
    settings = {"label_smoothing": smoothing, "reduction": reduction}
    got = F.linear_softmax_nll(hidden, weight, target, temperature, bias=bias, chunk=chunk, **settings)
    rows = (hidden @ weight.T + bias).flatten(0, 1)
    flat = temperature if one else temperature.flatten()
    expected = F.softmax_nll(rows, target.flatten(), temperature=flat, **settings)
    torch.testing.assert_close(got, expected, rtol=1e-6, atol=1e-6)
    for a, b in zip(torch.autograd.grad(3 * got, leaves), torch.autograd.grad(3 * expected, leaves), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-6, atol=1e-6)


def test_linear_softmax_computes_only_what_learns():
    hidden, weight, target = torch.randn(5, 4, requires_grad=True), torch.randn(9, 4), torch.randint(0, 9, (5,))
    loss = F.linear_softmax_nll(hidden, weight, target)
    loss.backward(retain_graph=True)
    assert weight.grad is None
    with pytest.raises(RuntimeError, match="keeps no graph"):
        loss.backward()
    with torch.no_grad():
        torch.testing.assert_close(F.linear_softmax_nll(hidden, weight, target), loss.detach())


def test_linear_softmax_under_autocast():
    hidden, weight, target = torch.randn(5, 4, requires_grad=True), torch.randn(9, 4), torch.randint(0, 9, (5,))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = F.linear_softmax_nll(hidden, weight, target)
    loss.backward()
    assert loss.dtype == hidden.grad.dtype == torch.float32
    torch.testing.assert_close(loss, F.linear_softmax_nll(hidden, weight, target), rtol=2e-2, atol=2e-2)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"weight": torch.zeros(9, 3)}, "as nn.Linear's"),
        ({"target": torch.zeros(4, dtype=torch.long)}, "without its last axis"),
        ({"target": torch.full((5,), 9)}, "classes 0 to 8"),
        ({"temperature": torch.ones(3)}, "one value per token"),
        ({"temperature": -1.0}, "must be > 0"),
        ({"reduction": "none"}, "softmax_nll's"),
    ],
)
def test_linear_softmax_says_what_is_wrong(change, message):
    given = {"hidden": torch.zeros(5, 4), "weight": torch.zeros(9, 4), "target": torch.zeros(5, dtype=torch.long)}
    with pytest.raises(ValueError, match=message):
        F.linear_softmax_nll(**(given | change))


def test_token_temperature_finds_the_noisy_tokens():
    """Half the tokens follow from the state, half are drawn at random: those should run hot."""
    states = torch.randn(64, 9, 8)
    output = torch.nn.Linear(8, 20, bias=False)
    with torch.no_grad():
        output.weight.mul_(20)
        tokens = torch.zeros(64, 9, dtype=torch.long)
        tokens[:, 1:] = (states[:, :-1] @ output.weight.T).argmax(-1)
        noisy = states[:, :-1, 0] > 0
        tokens[:, 1:][noisy] = torch.randint(0, 20, (int(noisy.sum()),))
    head = likely.TokenTemperature(8)
    assert torch.equal(head.temperature(states), torch.ones(64, 9))
    before = head(states, output.weight, tokens).item()
    optimizer = torch.optim.Adam(head.parameters(), lr=0.05)
    for _ in range(100):
        optimizer.zero_grad()
        loss = head(states, output.weight.detach(), tokens)
        loss.backward()
        optimizer.step()
    head.eval()
    temperature = head.temperature(states)[:, :-1]
    assert loss.item() < 0.7 * before
    assert temperature[noisy].mean() > 2 * temperature[~noisy].mean()
    with pytest.raises(ValueError, match="give token ids"):
        head(states, output.weight, tokens[:, 1:])
