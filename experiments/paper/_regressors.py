"""Many small regressors at once: the paper's network with one hidden layer, one copy for each split or seed."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from likely.constraints import ShiftedSoftplus
from likely.functional import normal_nll

OFFSET, RATE = 0.01, 1e-3  # the paper's, for scales


class Regressors(nn.Module):
    """Independent networks with a hidden ReLU layer; each gives a mean and a scale, its own global one or predicted."""

    def __init__(self, copies: int, inputs: int, width: int, *, predicted: bool, generator: torch.Generator) -> None:
        super().__init__()

        def glorot(rows: int, columns: int) -> nn.Parameter:
            bound = math.sqrt(6 / (rows + columns))
            return nn.Parameter((2 * torch.rand(copies, rows, columns, generator=generator) - 1) * bound)

        self.constraint = ShiftedSoftplus(OFFSET)
        self.hidden, self.hidden_bias = glorot(inputs, width), nn.Parameter(torch.zeros(copies, 1, width))
        self.mean, self.mean_bias = glorot(width, 1), nn.Parameter(torch.zeros(copies, 1))
        self.scale = glorot(width, 1) if predicted else None
        self.scale_bias = nn.Parameter(torch.zeros(copies, 1))  # the constraint maps 0 to a scale of 1

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Means and scales of inputs of shape (copies, rows, inputs)."""
        features = torch.relu(torch.baddbmm(self.hidden_bias, x, self.hidden))
        raw = self.scale_bias if self.scale is None else (features @ self.scale)[..., 0] + self.scale_bias
        mean = (features @ self.mean)[..., 0] + self.mean_bias
        return mean, self.constraint(raw).expand_as(mean)


def train(networks: Regressors, x: Tensor, y: Tensor, steps: int, rate: float = RATE) -> Regressors:
    """Adam on the NLL of all rows, as the paper does."""
    optimizer = torch.optim.Adam(networks.parameters(), lr=rate, fused=True)
    for _ in range(steps):
        optimizer.zero_grad()
        mean, scale = networks(x)
        normal_nll(mean, y, scale=scale, validate_args=False).backward()
        optimizer.step()
    return networks


@torch.no_grad()
def predict(networks: Regressors, x: Tensor) -> tuple[Tensor, Tensor]:
    """Means and scales without a gradient, in double."""
    mean, scale = networks(x)
    return mean.double(), scale.double()
