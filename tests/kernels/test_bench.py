"""What `likely bench losses` compares is the same loss, and its verdict follows from the numbers."""

import torch

from likely import functional as F
from likely.bench import _textbook, losses


def test_the_textbook_computes_the_same_loss():
    x, y, alpha, scale = losses.images((200,), "cpu")
    mine = F.robust_nll(x, y, alpha=alpha, scale=scale)
    theirs = _textbook.robust_nll(x, y, alpha, scale)
    torch.testing.assert_close(mine, theirs, rtol=1e-4, atol=1e-4)
    for a, b in zip(torch.autograd.grad(mine, (x, scale)), torch.autograd.grad(theirs, (x, scale)), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-2, atol=1e-5)


def test_bars():
    assert losses.Bar("", "", 1.0, 1.1).met
    assert not losses.Bar("", "", 1.2, 1.1).met
    assert losses.Bar("", "", 3.0, 2.0, lower=False).met
    assert not losses.Bar("", "", 1.9, 2.0, lower=False).met


def test_a_step_starts_from_no_gradient():
    x = torch.ones(3, requires_grad=True)
    work = losses.step(lambda: x.square().sum(), x)
    work()
    work()
    assert torch.equal(x.grad, 2 * torch.ones(3))
