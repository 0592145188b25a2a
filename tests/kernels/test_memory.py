"""What a loss's step allocates beside the gradients: docs/kernels.md states it."""

import pytest
import torch
from torch.profiler import ProfilerActivity, profile

import likely
from likely._kernels import _native
from pairwise import together

pytestmark = pytest.mark.skipif(_native.library() is None, reason="installed without a C++ compiler")
ROWS, COLUMNS, WIDTH = 4000, 10, 8
LOSSES = {
    likely.NormalLoss: ["scale"],
    likely.LaplaceLoss: ["scale"],
    likely.StudentTLoss: ["df", "scale"],
    likely.RobustLoss: ["alpha", "scale"],
    likely.BernoulliLoss: ["temperature"],
    likely.SoftmaxLoss: ["temperature"],
}
PARAMETERS = {
    "Global": lambda: likely.Global(init=1.2),
    "Predicted": lambda: likely.Predicted(WIDTH, init=1.2, normalize=False),
    "Data": lambda: likely.Data(ROWS, init=1.2),
}


@together("made", LOSSES, ids=[made.__name__ for made in LOSSES])
@together("kind", PARAMETERS)
def test_memory_beyond_inputs_and_gradients(made, kind):
    names = LOSSES[made]
    loss_fn = made(**{name: PARAMETERS[kind]() for name in names})
    prediction = torch.randn(ROWS, COLUMNS, requires_grad=True)
    target = torch.randint(0, 2, (ROWS,) if made is likely.SoftmaxLoss else (ROWS, COLUMNS))
    target = target if made is likely.SoftmaxLoss else target.float()
    features = torch.randn(ROWS, WIDTH, requires_grad=True)
    rest = {"Global": {}, "Predicted": {"features": features}, "Data": {"index": torch.randperm(ROWS)}}[kind]
    leaves = [prediction, features, *loss_fn.parameters()]

    def step():
        for leaf in leaves:
            leaf.grad = None
        loss_fn(prediction, target, **rest).backward()

    step()
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as seen:
        step()
    allocated = sum(max(0, event.self_cpu_memory_usage) for event in seen.events())
    gradients = sum(leaf.grad.nbytes for leaf in leaves if leaf.grad is not None)
    # Per row and parameter the raw value and its slope; features of two parameters have two gradients, which are added.
    per_row = {"Global": 0, "Predicted": 2 * len(names) + WIDTH * (len(names) - 1), "Data": 2 * len(names)}[kind]
    assert allocated - gradients <= 4 * ROWS * per_row + 100
