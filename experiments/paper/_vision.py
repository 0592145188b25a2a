"""A small convolutional network for small pictures, trained under a softmax whose temperature may learn."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.datasets import load_digits
from torch import Tensor, nn

from experiments.data import Images
from likely import paper
from likely._solvers.training import train
from likely.losses import SoftmaxLoss
from likely.optim import Supervised, clip_gradients, param_groups
from likely.parameters import Data, Parameter, Predicted

CHUNK = 1000  # pictures judged at once


class Recipe(NamedTuple):
    """How a network is made and trained."""

    widths: tuple[int, ...]  # channels after each block, which halves the sides
    epochs: int
    batch: int
    rate: float  # the highest, of one cycle
    standardised: bool = False  # logits, over the classes: then only the temperature can say how sure a row is
    residual: bool = False  # a short residual network of these widths (`_residual`)


class Said(NamedTuple):
    """What a network says of pictures; the temperature is None for data parameters, which new pictures do not have."""

    logits: Tensor
    features: Tensor
    temperature: Tensor | None

    @property
    def tempered(self) -> Tensor:
        """The logits that the softmax is taken of."""
        return self.logits if self.temperature is None else self.logits / self.temperature[:, None]


class Network(nn.Module):
    """From bytes (rows, height, width, channels) to logits and the features they are linear in."""

    mean: Tensor
    deviation: Tensor

    def __init__(self, images: Images, widths: tuple[int, ...], standardised: bool = False) -> None:
        super().__init__()
        self.size = images.size
        seen = torch.from_numpy(images.pixels[:CHUNK]).float()
        self.register_buffer("mean", seen.mean((0, 1, 2)))
        self.register_buffer("deviation", seen.std((0, 1, 2)).clamp(min=1.0))
        blocks, channels = [], images.size[2]
        for width in widths:
            # Pooling first leaves a quarter of the pixels to normalise.
            convolution = nn.Conv2d(channels, width, 3, padding=1, bias=False)
            blocks += [convolution, nn.MaxPool2d(2), nn.BatchNorm2d(width), nn.ReLU()]
            channels = width
        self.body = nn.Sequential(*blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten())
        self.head: nn.Module = nn.Linear(channels, images.n_classes)
        if standardised:
            self.head = nn.Sequential(self.head, nn.LayerNorm(images.n_classes, elementwise_affine=False))
        self.to(memory_format=torch.channels_last)  # type: ignore[call-overload]

    def forward(self, pixels: Tensor) -> tuple[Tensor, Tensor]:
        if tuple(pixels.shape[1:]) != self.size or pixels.dtype != torch.uint8:
            raise ValueError(
                f"the network was made for bytes (uint8) of the shape (rows, {', '.join(map(str, self.size))}), "
                f"got {pixels.dtype} of {tuple(pixels.shape)}"
            )
        features = self.body(((pixels.float() - self.mean) / self.deviation).permute(0, 3, 1, 2))
        return self.head(features), features


def train_network(
    images: Images,
    temperature: Parameter,
    recipe: Recipe,
    seed: int,
    look: Callable[[Supervised], None] = lambda _: None,
) -> Supervised:
    """Train a network with the temperature, at the paper's tenth of the rate; ``look`` is called after every epoch."""
    torch.manual_seed(seed)
    place = device()
    model = Supervised(Network(images, recipe.widths, recipe.standardised), SoftmaxLoss(temperature)).to(place)
    pixels, labels = torch.from_numpy(images.pixels).to(place), torch.from_numpy(images.labels).to(place)
    batches = -(-len(labels) // recipe.batch)
    groups = param_groups(model.model, model.loss_fn, recipe.rate, multiplier=paper.MULTIPLIER, weight_decay=0.01)
    optimizer = torch.optim.AdamW(groups, fused=True)
    clip_gradients(optimizer, model.loss_fn)
    rates = [group["lr"] for group in optimizer.param_groups]
    cycle = torch.optim.lr_scheduler.OneCycleLR(optimizer, rates, total_steps=recipe.epochs * batches + 1)
    optimizer.register_step_post_hook(lambda *_: cycle.step())

    def loss(step: int) -> Tensor:
        epoch, batch = divmod(step, batches)
        order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(seed + 1_000_003 * epoch))
        rows = order[batch * recipe.batch : (batch + 1) * recipe.batch].to(place)
        model.train()
        with half(place):
            value: Tensor = model(pixels[rows], labels[rows], index=rows)
        return value

    train(
        loss,
        model,
        optimizer,
        max_steps=recipe.epochs * batches,
        every=batches,
        seed=seed,
        callbacks=[lambda _: look(model.eval())],
    )
    return model.eval()


@torch.no_grad()
def say(model: Supervised, pixels: NDArray[np.uint8]) -> Said:
    """What the network says of pictures, in evaluation and in full precision."""
    place = next(model.parameters()).device
    temperature: Any = model.loss_fn.temperature
    parts = [model.eval().predict(some.to(place)) for some in torch.from_numpy(pixels).split(CHUNK)]
    logits, features = (torch.cat(own) for own in zip(*parts, strict=True))
    unknown = isinstance(temperature, Data) and temperature.fallback is None
    known = None if unknown else temperature(features=features).expand(len(features)).cpu()
    return Said(logits.cpu(), features.cpu(), known)


def predicted_temperature(features: int) -> Predicted:
    """The paper's, which starts at one. As ``init`` is left open, the loss draws its weights, after the network's."""
    return Predicted(features, constraint=paper.TEMPERATURE["constraint"], **paper.NETWORK)


def learn_afterwards(said: Said, labels: NDArray[np.int64], seed: int) -> Predicted:
    """A temperature predicted from the features of a network that stays as it is."""
    temperature, target = Predicted(said.features.shape[1], **paper.TEMPERATURE), torch.from_numpy(labels)
    loss_fn = SoftmaxLoss(temperature)
    optimizer = torch.optim.Adam(loss_fn.parameters(), lr=0.01)
    train(lambda _: loss_fn(said.logits, target, features=said.features), loss_fn, optimizer, max_steps=200, seed=seed)
    return temperature.eval()


def device() -> torch.device:
    """A GPU where there is one."""
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


def half(place: torch.device) -> AbstractContextManager[None]:
    """Sixteen bits where the hardware multiplies them faster, which a CPU does with Intel's tiles (AMX)."""
    tiles = getattr(torch.cpu, "_is_amx_tile_supported", bool)
    return torch.autocast(place.type, torch.bfloat16, enabled=place.type == "cuda" or tiles())


def digits() -> Images:
    """scikit-learn's digits, which come with it: 8 × 8 pixels, grey."""
    pixels, labels = load_digits(return_X_y=True)
    return Images("digits", (pixels.reshape(-1, 8, 8, 1) * (255 / 16)).astype(np.uint8), labels.astype(np.int64))
