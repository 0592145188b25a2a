"""Inputs for every fused location likelihood, and the plain formula that must give the same."""

import torch
from torch import Tensor

from likely import _kernels as kernels, likelihoods

assert likelihoods.LIKELIHOODS  # whose files leave their formulas in PLAIN
KINDS = {
    "normal": kernels.PLAIN["normal"],
    "laplace": kernels.PLAIN["laplace"],
    "student_t": kernels.PLAIN["student_t"],
    "robust": kernels.PLAIN["robust"],
}
SHAPED = ("student_t", "robust")


def draw(kind: str, n: int, *, scales: int, shapes: int, dtype=torch.float32, device="cpu") -> list[Tensor]:
    """Prediction, target, scale and, where there is one, the shape; residuals from tiny to huge."""
    prediction = torch.randn(n, device=device) * 10 ** torch.empty(n, device=device).uniform_(-3, 2)
    target, scale = torch.randn(n, device=device), torch.rand(scales, device=device) + 0.3
    inputs = [prediction.to(dtype), target.to(dtype), scale]
    if kind in SHAPED:
        shape = 4 * torch.rand(shapes, device=device) + 0.05
        if shapes > 4:
            shape[:4] = torch.tensor([1.0, 3.0, 30.0, 0.05])
        inputs.append(shape)
    return [t.requires_grad_() for t in inputs]


def reduced(nll: Tensor, reduction: str) -> Tensor:
    return {"mean": nll.mean, "sum": nll.sum, "none": lambda: nll}[reduction]()


def in_double(plain, inputs: list[Tensor], reduction: str, weight: Tensor) -> tuple[Tensor, list[Tensor]]:
    """The reference's value and gradients."""
    leaves = [t.detach().double().requires_grad_() for t in inputs]
    value = reduced(plain(*leaves), reduction)
    return value.detach(), list(torch.autograd.grad(value, leaves, weight.double()))


def assert_close(got: Tensor, expected: Tensor, *, of: float) -> None:
    """Within ``of`` relative to the size of each number plus that of a usual one."""
    size = expected.abs() + expected.abs().median()
    assert ((got.double() - expected).abs() <= of * size + 1e-12).all()
