"""What the benchmark of losses compares is the same loss, and its verdict follows from the numbers."""

import pytest
import torch

from experiments.benchmarks import _large_losses, _textbook
from experiments.benchmarks._turns import step
from likely import functional as F


@pytest.mark.parametrize("way", [_textbook.published_nll, _textbook.robust_nll])
def test_every_way_computes_the_same_loss(way):
    x, y, alpha, scale = _large_losses.images((200,), "cpu")
    mine = F.robust_nll(x, y, alpha=alpha, scale=scale)
    theirs = way(x, y, alpha, scale)
    torch.testing.assert_close(mine, theirs, rtol=1e-4, atol=1e-4)
    for a, b in zip(torch.autograd.grad(mine, (x, scale)), torch.autograd.grad(theirs, (x, scale)), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-2, atol=1e-5)


def test_a_step_starts_from_no_gradient():
    x = torch.ones(3, requires_grad=True)
    work = step(lambda: x.square().sum(), x)
    work()
    work()
    assert torch.equal(x.grad, 2 * torch.ones(3))
