"""A convolutional variational autoencoder of pictures whose reconstruction is judged by the robust likelihood."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.distributions.transforms import Transform

from experiments.paper._graphed import Plan, Step, make_optimizer, moved, take_steps
from experiments.paper._vision import device, half
from likely.constraints import Interval, ShiftedSoftplus
from likely.losses import LikelihoodLoss, NormalLoss, RobustLoss
from likely.optim import clip_gradients, param_groups
from likely.parameters import Data, Global, Parameter, Predicted

Size = tuple[int, int, int]  # height, width, channels
FLOOR = 1e-8  # of the scale, as in the paper
SOFTPLUS = ShiftedSoftplus(FLOOR * math.log(2) / (1 - FLOOR))
CHUNK = 500  # pictures judged at once
REFINEMENT = 0.05  # the rate at which Adam moves the code of a new picture


class Recipe(NamedTuple):
    """How a network is made and trained. The defaults of the second half are the paper's."""

    widths: tuple[int, ...]  # channels of the maps, each half as wide and high as the one before
    code: int
    steps: int
    batch: int
    rate: float  # at the start: it falls to zero along a cosine
    multiplier: float = 0.1  # of the rate, for the likelihood's parameters
    scale: float = 1.0  # where the likelihood's scale starts
    mirror: bool = False  # half the pictures of a batch, chosen at random
    refined: int = 0  # steps by which the code of a new picture climbs its bound from where the encoder puts it


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


class Code(NamedTuple):
    """Independent normals, one for each number of the code of a picture."""

    mean: Tensor
    log_variance: Tensor

    def draw(self) -> Tensor:
        """A code."""
        return self.mean + (self.log_variance / 2).exp() * torch.randn_like(self.mean)

    @property
    def kl(self) -> Tensor:
        """The divergence from the standard normal, in nats a picture."""
        return (self.mean.square() + self.log_variance.exp() - 1 - self.log_variance).sum(1) / 2


class Autoencoder(nn.Module):
    """From bytes (rows, height, width, channels) to codes, and from those to pictures with maps of their likelihood."""

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
        self.output = nn.Linear(widths[0], channels)  # of every pixel: a 1 × 1 convolution
        self.to(memory_format=torch.channels_last)  # type: ignore[call-overload]

    def forward(self, pixels: Tensor) -> Code:
        """The codes of pictures."""
        if tuple(pixels.shape[1:]) != self.size or pixels.dtype != torch.uint8:
            raise ValueError(
                f"the autoencoder was made for bytes (uint8) of the shape (rows, {', '.join(map(str, self.size))}), "
                f"got {pixels.dtype} of {tuple(pixels.shape)}"
            )
        return Code(*self.encoder(values(pixels) - 0.5).float().chunk(2, dim=1))

    def decode(self, code: Tensor, maps: nn.ModuleDict) -> tuple[Tensor, dict[str, Tensor]]:
        """The picture, and what each of the maps reads off the last hidden layer."""
        picture, *found = read_together(self.decoder(code), [self.output, *maps.values()])  # type: ignore[list-item]
        return picture + 0.5, dict(zip(maps, found, strict=True))


def read_together(hidden: Tensor, layers: Sequence[nn.Linear]) -> list[Tensor]:
    """What each layer makes of every pixel of ``hidden``, which is the largest there is and is read once for all.

    Rows of zeros bring the weights to a multiple of eight, which tensor cores multiply several times faster.
    """
    sizes = [layer.out_features for layer in layers]
    unused = -sum(sizes) % 8
    weight = torch.cat([*(layer.weight for layer in layers), layers[0].weight.new_zeros(unused, hidden.shape[1])])
    bias = torch.cat([*(layer.bias for layer in layers), layers[0].bias.new_zeros(unused)])
    output = nn.functional.linear(hidden.permute(0, 2, 3, 1), weight, bias)
    return [part.permute(0, 3, 1, 2) for part in _Parts.apply(output, sizes)]


class _Parts(torch.autograd.Function):
    """Some of the last axis each, in single precision. The way back through torch.split takes three times as long."""

    @staticmethod
    def forward(ctx: Any, whole: Tensor, sizes: list[int]) -> tuple[Tensor, ...]:
        ctx.sizes, ctx.shape, ctx.dtype = sizes, whole.shape, whole.dtype
        return tuple(part.to(torch.float32, copy=True) for part in whole[..., : sum(sizes)].split(sizes, dim=-1))

    @staticmethod
    def backward(ctx: Any, *slopes: Tensor) -> tuple[Tensor, None]:
        whole = slopes[0].new_zeros(ctx.shape, dtype=ctx.dtype)
        for part, slope in zip(whole[..., : sum(ctx.sizes)].split(ctx.sizes, dim=-1), slopes, strict=True):
            part.copy_(slope)
        return whole, None


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
        self.maps = nn.ModuleDict()  # what predicted parameters are read off the last hidden layer by

        def parameter(name: str, init: float, constraint: Transform) -> Parameter:
            start: dict[str, Any] = {"init": init, "constraint": constraint}
            if conditioning == "Predicted":
                self.maps[name] = layer = nn.Linear(recipe.widths[0], math.prod(shape[:1]))
                # Pixels start alike: one that began near the scale's floor would have a gradient that drowns the rest.
                nn.init.zeros_(layer.weight)
                # The start is in the bias, where it costs nothing: what the layer says is all there is.
                nn.init.constant_(layer.bias, float(constraint.inv(torch.tensor(init))))
                start["init"] = float(constraint(torch.zeros(())))
                return Predicted(None, shape, net=nn.Identity(), normalize=False, spatial=True, **start)
            if conditioning == "Data":
                return Data(rows, shape, lr=recipe.rate * recipe.multiplier, fallback="mean", **start)
            return Global(shape, **start)

        self.loss_fn: LikelihoodLoss
        if conditioning == "Fixed":
            self.loss_fn = NormalLoss(recipe.scale, reduction="sum")
        else:
            alpha, scale = parameter("alpha", 2.0, Interval(0, 3)), parameter("scale", recipe.scale, SOFTPLUS)
            self.loss_fn = RobustLoss(alpha, scale, reduction="sum")

    def forward(
        self, reconstruction: Tensor, target: Tensor, maps: dict[str, Tensor], index: Tensor | None = None
    ) -> Tensor:
        """The NLL of a picture, summed over its values, in the mean."""
        loss: Tensor = self.loss_fn(reconstruction, target, features=maps, index=index)
        return loss / len(target)

    @torch.no_grad()
    def shape_and_scale(self, maps: dict[str, Tensor]) -> tuple[Tensor, Tensor]:
        """Both parameters of every picture, in evaluation; those of data parameters are means over the rows."""
        found = {name: getattr(self.loss_fn, name)(features=maps.get(name)) for name in self.loss_fn.slots}
        return found.get("alpha", torch.full_like(found["scale"], 2.0)), found["scale"]


def make_plan(rows: int, recipe: Recipe, seed: int) -> Plan:
    """Of every step the rows, drawn with replacement, which of them are mirrored, and the rate."""
    draw, shape = torch.Generator().manual_seed(seed), (recipe.steps, recipe.batch)
    fall = (1 + torch.cos(math.pi * torch.arange(recipe.steps) / recipe.steps)) / 2
    return Plan(
        torch.randint(rows, shape, generator=draw),
        None,
        torch.rand(shape, generator=draw) < 0.5 if recipe.mirror else None,
        fall,
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

    def forward(self, code: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
        """Reconstructions, and the maps of their likelihood."""
        return self.model.decode(code, self.reconstruction.maps)

    def loss(self, rows: Tensor, shift: Tensor | None = None, mirror: Tensor | None = None) -> Tensor:
        """The negative evidence bound of a batch, in nats a picture."""
        pixels = moved(self.pixels, rows, shift, mirror)
        return self.bound(self.model(pixels), values(pixels), rows)

    def bound(self, code: Code, target: Tensor, rows: Tensor | None = None) -> Tensor:
        """… of pictures with these codes."""
        reconstruction, maps = self(code.draw())
        nll: Tensor = self.reconstruction(reconstruction, target, maps, rows)
        return nll + code.kl.mean()

    def encode(self, pixels: Tensor) -> Code:
        """The codes of pictures, in evaluation, refined where the recipe says so.

        What a network says of pictures it has not learned from is not the best there is; each bound is climbed on.
        """
        with torch.no_grad():
            code = self.model(pixels)
        parts = [part.requires_grad_() for part in code]
        optimizer, target = torch.optim.Adam(parts, lr=REFINEMENT), values(pixels)
        with torch.enable_grad(), half(pixels.device):
            for _ in range(self.recipe.refined):
                bounds = len(pixels) * self.bound(code, target)
                for part, gradient in zip(parts, torch.autograd.grad(bounds, parts), strict=True):
                    part.grad = gradient
                optimizer.step()
        return Code(*(part.detach() for part in parts))

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
            code = self.encode(some)
            drawn, (at_mean, maps) = self(code.draw())[0], self(code.mean)
            errors = ((own - values(some)).square().sum((1, 2, 3)) for own in (drawn, at_mean))
            found = (*errors, code.kl, *self.reconstruction.shape_and_scale(maps))
            parts.append([len(some) * float(own.mean()) for own in found])
        return Judged(*(np.sum(parts, axis=0) / len(pixels)).tolist())
