"""A convolutional variational autoencoder of pictures whose reconstruction is judged by the robust likelihood."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.distributions.transforms import Transform

from likely.constraints import Interval, ShiftedSoftplus
from likely.losses import LikelihoodLoss, NormalLoss, RobustLoss
from likely.optim import clip_gradients, param_groups
from likely.parameters import Data, Fixed, Global, Parameter, Predicted
from likely.reproduce._graphed import Plan, Step, make_optimizer, moved, take_steps
from likely.reproduce._vision import device

Size = tuple[int, int, int]  # height, width, channels
FLOOR = 1e-8  # of the scale, as in the paper
SOFTPLUS = ShiftedSoftplus(FLOOR * math.log(2) / (1 - FLOOR))
CHUNK = 500  # pictures judged at once


class Recipe(NamedTuple):
    """How a network is made and trained. The defaults of the second half are the paper's."""

    widths: tuple[int, ...]  # channels of the maps, each half as wide and high as the one before
    code: int
    steps: int
    batch: int
    rate: float
    multiplier: float = 0.1  # of the rate, for the likelihood's parameters
    scale: float = 1.0  # where the likelihood's scale starts
    isolated: bool = False  # the gradient of predicted parameters stops at the hidden layer they are read from
    mirror: bool = False  # half the pictures of a batch, chosen at random
    anneal: bool = False  # the rate falls to zero along a cosine; otherwise it stays


class Likelihood(NamedTuple):
    """Who the parameters of the robust likelihood depend on, and how many there are."""

    conditioning: str  # "Fixed", which is the normal likelihood, "Global", "Data" or "Predicted"
    dimension: str = "1"

    def shape(self, size: Size) -> tuple[int, ...]:
        """Of one parameter of a picture."""
        height, width, channels = size
        return {"1": (), "C": (channels, 1, 1), "H×W×C": (channels, height, width)}[self.dimension]


class Judged(NamedTuple):
    """Means over pictures: the squared error, summed over all values from 0 to 1 of a picture, and what explains it."""

    drawn: float  # the error of a reconstruction from a draw of the code
    at_mean: float  # … from the code's mean
    kl: float
    alpha: float
    scale: float


class Autoencoder(nn.Module):
    """From bytes (rows, height, width, channels) to a reconstruction, the maps of its likelihood, and the code's KL."""

    def __init__(self, size: Size, widths: tuple[int, ...], code: int) -> None:
        super().__init__()
        height, width, channels = self.size = size
        shrink = 2 ** len(widths)
        if height % shrink or width % shrink:
            raise ValueError(f"{len(widths)} halvings need sides that are multiples of {shrink}, got {height}×{width}")
        inner = (widths[-1], height // shrink, width // shrink)
        down = [_block(nn.Conv2d(*pair, 4, 2, 1, bias=False)) for pair in pairwise((channels, *widths))]
        up = [_block(nn.ConvTranspose2d(*pair, 4, 2, 1, bias=False)) for pair in pairwise((*widths[::-1], widths[0]))]
        last = _block(nn.Conv2d(widths[0], widths[0], 3, 1, 1, bias=False))
        self.encoder = nn.Sequential(*down, nn.Flatten(), nn.Linear(math.prod(inner), 2 * code))
        self.decoder = nn.Sequential(nn.Linear(code, math.prod(inner)), nn.Unflatten(1, inner), *up, last)
        self.output = nn.Conv2d(widths[0], channels, 1)
        self.to(memory_format=torch.channels_last)  # type: ignore[call-overload]

    def forward(
        self, pixels: Tensor, maps: nn.Conv2d | None, *, isolated: bool = False, draw: bool = True
    ) -> tuple[Tensor, Tensor, Tensor]:
        if tuple(pixels.shape[1:]) != self.size or pixels.dtype != torch.uint8:
            raise ValueError(
                f"the autoencoder was made for bytes (uint8) of the shape (rows, {', '.join(map(str, self.size))}), "
                f"got {pixels.dtype} of {tuple(pixels.shape)}"
            )
        mean, log_variance = self.encoder(values(pixels) - 0.5).float().chunk(2, dim=1)
        noise = (log_variance / 2).exp() * torch.randn_like(mean) if draw else 0.0
        kl = (mean.square() + log_variance.exp() - 1 - log_variance).sum(1) / 2
        hidden = self.decoder(mean + noise)
        if maps is None:
            reconstruction, found = self.output(hidden), hidden[:, :0]
        elif isolated:
            reconstruction, found = self.output(hidden), maps(hidden.detach())
        else:
            # The last hidden layer is the largest there is: read once for both, it makes the maps cost next to nothing.
            weight, bias = (torch.cat(pair) for pair in zip(self.output.parameters(), maps.parameters(), strict=True))
            output = nn.functional.conv2d(hidden, weight, bias).float()
            reconstruction, found = output.split([self.output.out_channels, maps.out_channels], dim=1)
        return reconstruction + 0.5, found, kl


def _block(convolution: nn.Conv2d | nn.ConvTranspose2d) -> nn.Sequential:
    return nn.Sequential(convolution, nn.BatchNorm2d(convolution.out_channels), nn.ReLU())


def values(pixels: Tensor) -> Tensor:
    """Bytes (rows, height, width, channels) as numbers from 0 to 1, channels first."""
    return pixels.permute(0, 3, 1, 2).float() / 255


class Reconstruction(nn.Module):
    """The likelihood of a reconstruction, with its parameters."""

    def __init__(self, likelihood: Likelihood, size: Size, rows: int, recipe: Recipe) -> None:
        super().__init__()
        conditioning, shape = likelihood.conditioning, likelihood.shape(size)
        outputs, self.maps = math.prod(shape[:1]), None
        if conditioning == "Predicted":
            self.maps = nn.Conv2d(recipe.widths[0], 2 * outputs, 1)
            # All pixels start alike: one that began near the scale's floor would have a gradient that drowns the rest.
            for weights in self.maps.parameters():
                nn.init.zeros_(weights)

        def parameter(part: int, init: float, constraint: Transform) -> Parameter:
            start: dict[str, Any] = {"init": init, "constraint": constraint}
            if conditioning == "Predicted":
                return Predicted(None, shape, net=_Half(part, outputs), normalize=False, spatial=True, **start)
            if conditioning == "Data":
                return Data(rows, shape, lr=recipe.rate * recipe.multiplier, fallback="mean", **start)
            return Global(shape, **start)

        self.loss_fn: LikelihoodLoss
        if conditioning == "Fixed":
            self.loss_fn = NormalLoss(recipe.scale, reduction="sum")
        else:
            alpha, scale = parameter(0, 2.0, Interval(0, 3)), parameter(1, recipe.scale, SOFTPLUS)
            self.loss_fn = RobustLoss(alpha, scale, reduction="sum")

    def forward(self, reconstruction: Tensor, target: Tensor, maps: Tensor, index: Tensor) -> Tensor:
        loss: Tensor = self.loss_fn(reconstruction, target, features=maps, index=index)
        return loss / len(target)

    @torch.no_grad()
    def shape_and_scale(self, maps: Tensor) -> tuple[Tensor, Tensor]:
        """Both parameters of every picture, in evaluation; those of data parameters are means over the rows."""
        alpha, scale = getattr(self.loss_fn, "alpha", Fixed(2.0).to(maps.device)), self.loss_fn.scale
        assert isinstance(scale, Parameter)
        return alpha(features=maps), scale(features=maps)


class _Half(nn.Module):
    """One parameter's half of the channels, which are last."""

    def __init__(self, part: int, channels: int) -> None:
        super().__init__()
        self.part, self.channels = part, channels

    def forward(self, maps: Tensor) -> Tensor:
        return maps[..., self.part * self.channels : (self.part + 1) * self.channels]


def make_plan(rows: int, recipe: Recipe, seed: int) -> Plan:
    """Of every step the rows, drawn with replacement, which of them are mirrored, and the rate."""
    draw, shape = torch.Generator().manual_seed(seed), (recipe.steps, recipe.batch)
    fall = (1 + torch.cos(math.pi * torch.arange(recipe.steps) / recipe.steps)) / 2
    return Plan(
        torch.randint(rows, shape, generator=draw),
        None,
        torch.rand(shape, generator=draw) < 0.5 if recipe.mirror else None,
        fall if recipe.anneal else torch.ones(recipe.steps),
    )


class Training(nn.Module):
    """A network, the likelihood of its reconstructions, and the optimizer of both."""

    def __init__(self, pixels: NDArray[np.uint8], likelihood: Likelihood, recipe: Recipe, seed: int) -> None:
        super().__init__()
        torch.manual_seed(seed)
        self.recipe, self.seed, place = recipe, seed, device()
        size = (pixels.shape[1], pixels.shape[2], pixels.shape[3])
        self.model = Autoencoder(size, recipe.widths, recipe.code).to(place)
        self.reconstruction = Reconstruction(likelihood, size, len(pixels), recipe).to(place)
        self.pixels = torch.from_numpy(pixels).to(place)
        groups = param_groups(self.model, self.reconstruction, recipe.rate, multiplier=recipe.multiplier)
        self.optimizer = make_optimizer(torch.optim.Adam, groups)
        clip_gradients(self.optimizer, self.reconstruction)
        self.step = Step(self, self.optimizer, make_plan(len(pixels), recipe, seed), self.loss)

    @property
    def kept(self) -> int:
        """Bytes of the likelihood's parameters and of their optimizer's state: Adam's two moments, or the table's."""
        learned = sum(3 * p.numel() * p.element_size() for p in self.reconstruction.parameters())
        return learned + sum(b.numel() * b.element_size() for b in self.reconstruction.buffers())

    def forward(self, pixels: Tensor, draw: bool = True) -> tuple[Tensor, Tensor, Tensor]:
        """Reconstructions, the maps of their likelihood, and the KL of their codes."""
        maps, isolated = self.reconstruction.maps, self.recipe.isolated
        found: tuple[Tensor, Tensor, Tensor] = self.model(pixels, maps, isolated=isolated, draw=draw)
        return found

    def loss(self, rows: Tensor, shift: Tensor | None = None, mirror: Tensor | None = None) -> Tensor:
        """The negative evidence bound of a batch, in nats a picture."""
        pixels = moved(self.pixels, rows, shift, mirror)
        reconstruction, maps, kl = self(pixels)
        nll: Tensor = self.reconstruction(reconstruction, values(pixels), maps, rows)
        bound: Tensor = nll + kl.mean()
        return bound

    def take(self, steps: int) -> None:
        """Take so many steps."""
        torch.manual_seed(self.seed + 1_000_003 * self.step.taken)
        take_steps(self.step, every=self.recipe.steps, until=self.step.taken + steps)
        self.step.value.item()  # which waits for the device

    def finish(self) -> Training:
        """Train to the end of the recipe."""
        self.take(self.recipe.steps)
        del self.step  # whose graph holds the device's memory
        return self.eval()

    @torch.no_grad()
    def judge(self, pixels: NDArray[np.uint8]) -> Judged:
        """How well pictures are reconstructed, in full precision."""
        parts = []
        for some in torch.from_numpy(pixels).to(self.pixels.device).split(CHUNK):
            drawn, _, kl = self(some)
            at_mean, maps, _ = self(some, draw=False)
            errors = ((own - values(some)).square().sum((1, 2, 3)) for own in (drawn, at_mean))
            found = (*errors, kl, *self.reconstruction.shape_and_scale(maps))
            parts.append([len(some) * float(own.mean()) for own in found])
        return Judged(*(np.sum(parts, axis=0) / len(pixels)).tolist())
