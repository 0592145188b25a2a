"""Networks whose training step is timed with the plain loss and with a parameter for every row or pixel."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from itertools import pairwise

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

import likely
from experiments.paper._graphed import captured, make_optimizer
from likely import Data, RobustLoss, SoftmaxLoss

Array = NDArray[np.float64]

SIZE, BATCH = 64, 128
FACES = 162_770  # CelebA's training set
SOME = 16_000  # of them, where every pixel has parameters: a step costs the same with ten times as many
NETWORKS: Mapping[str, Mapping[str, float]] = {
    "VAE": {"a parameter a row": 1.05, "a parameter a pixel": 1.10},
    "ResNet": {"a parameter a row": 1.05},
}


class VAE(nn.Module):
    """Four convolutions down to 64 numbers and four up again, for images of 64×64."""

    def __init__(self, width: int) -> None:
        super().__init__()
        widths = list(pairwise((3, width, 2 * width, 4 * width, 8 * width)))
        down = [(nn.Conv2d(a, b, 4, 2, 1), nn.ReLU()) for a, b in widths]
        up = [(nn.ReLU(), nn.ConvTranspose2d(b, a, 4, 2, 1)) for a, b in widths]
        inner = 8 * width * 16
        self.encode = nn.Sequential(*(layer for pair in down for layer in pair), nn.Flatten(), nn.Linear(inner, 128))
        self.widen = nn.Sequential(nn.Linear(64, inner), nn.Unflatten(1, (8 * width, 4, 4)))
        self.decode = nn.Sequential(*(layer for pair in reversed(up) for layer in pair))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """The reconstruction, and the divergence from the prior."""
        mean, log_scale = self.encode(x).chunk(2, 1)
        code = mean + log_scale.exp() * torch.randn_like(mean)
        divergence = 0.5 * (mean.square() + (2 * log_scale).exp() - 1 - 2 * log_scale).sum(1).mean()
        return self.decode(self.widen(code)), divergence


class Block(nn.Module):
    """Two convolutions and the way around them."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.inner = nn.Sequential(
            nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False),
            nn.BatchNorm2d(outputs),
            nn.ReLU(),
            nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False),
            nn.BatchNorm2d(outputs),
        )
        same = inputs == outputs and stride == 1
        self.around = nn.Identity() if same else nn.Conv2d(inputs, outputs, 1, stride, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """Both ways, added."""
        return torch.relu(self.inner(x) + self.around(x))


def resnet(width: int) -> nn.Sequential:
    """ResNet-18 for small images, ten classes."""
    start = nn.Conv2d(3, width, 3, 1, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU()
    blocks = [Block(width, width, 1), Block(width, width, 1)]
    for wide in (width, 2 * width, 4 * width):
        blocks += [Block(wide, 2 * wide, 2), Block(2 * wide, 2 * wide, 1)]
    return nn.Sequential(*start, *blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8 * width, 10))


def losses_of(network: str, rows: int) -> dict[str, nn.Module]:
    """The plain loss and ours, by the names the bars have."""
    if network == "ResNet":
        return {"plain": nn.CrossEntropyLoss(), "a parameter a row": SoftmaxLoss(temperature=Data(rows))}
    some, pixels = min(rows, SOME), (3, SIZE, SIZE)
    return {
        "plain": nn.MSELoss(),
        "a parameter a row": RobustLoss(alpha=Data(rows), scale=Data(rows)),
        "a parameter a pixel": RobustLoss(alpha=Data(some, pixels), scale=Data(some, pixels)),
    }


def seconds_of_steps(
    network: str,
    *,
    graph: bool = False,
    rows: int = FACES,
    batch: int = BATCH,
    width: int = 64,
    device: str = "cuda",
    repeats: int = 100,
) -> dict[str, Array]:
    """Seconds of whole training steps, by the clock on the wall, of every loss in turns.

    With ``graph`` a step is one CUDA graph; without, the host launches its kernels one by one.
    """
    losses = losses_of(network, rows)
    works = {name: _work(network, loss_fn, rows, batch, width, device) for name, loss_fn in losses.items()}
    if graph:
        works = {name: captured(work) for name, work in works.items()}
    taken: dict[str, list[float]] = {name: [] for name in works}
    for _ in range(10 + repeats):
        for name, work in works.items():
            taken[name].append(_seconds(work, device))
    return {name: np.array(seconds[10:]) for name, seconds in taken.items()}


def _work(network: str, loss_fn: nn.Module, rows: int, batch: int, width: int, device: str) -> Callable[[], None]:
    """Forward, backward and the optimizer, on images and rows that are on the device."""
    x = torch.rand(batch, 3, SIZE, SIZE, device=device)
    labels, index = (
        torch.randint(0, 10, (batch,), device=device),
        torch.randint(0, min(rows, SOME), (batch,), device=device),
    )
    model, loss_fn = (resnet(width) if network == "ResNet" else VAE(width)).to(device), loss_fn.to(device)
    chosen = {"index": index} if isinstance(loss_fn, likely.LikelihoodLoss) else {}
    optimizer = make_optimizer(torch.optim.AdamW, likely.param_groups(model, loss_fn, lr=1e-4))

    def work() -> None:
        optimizer.zero_grad()
        if network == "ResNet":
            loss = loss_fn(model(x), labels, **chosen)
        else:
            image, divergence = model(x)
            loss = loss_fn(image, x, **chosen) + 1e-3 * divergence
        loss.backward()
        optimizer.step()

    return work


def _seconds(work: Callable[[], None], device: str) -> float:
    wait = torch.cuda.synchronize if device == "cuda" else (lambda: None)
    wait()
    start = time.perf_counter()
    work()
    wait()
    return time.perf_counter() - start
