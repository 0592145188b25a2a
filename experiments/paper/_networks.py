"""Networks for small pictures: ResNet, DenseNet, and a residual network short enough to train by the dozen."""

from __future__ import annotations

from itertools import pairwise
from typing import Literal, NamedTuple

import torch
from torch import Tensor, nn

from experiments.data import Images

SAMPLE = 1000  # pictures that the mean and deviation of a channel are taken from


class Body(NamedTuple):
    """What turns pictures into features, and how many features."""

    layers: nn.Module
    width: int


class Classifier(nn.Module):
    """From bytes (rows, height, width, channels) to logits and the features they are linear in.

    >>> from experiments.paper._networks import Classifier, short_resnet
    >>> from experiments.paper._vision import digits
    >>> network = Classifier(digits(), short_resnet((8, 16), channels=1))
    >>> logits, features = network(torch.from_numpy(digits().pixels[:3]))
    >>> tuple(logits.shape), tuple(features.shape)
    ((3, 10), (3, 16))
    """

    mean: Tensor
    deviation: Tensor

    def __init__(self, images: Images, body: Body) -> None:
        super().__init__()
        seen = torch.from_numpy(images.pixels[:: max(1, len(images.pixels) // SAMPLE)]).float()
        self.register_buffer("mean", seen.mean((0, 1, 2)))
        self.register_buffer("deviation", seen.std((0, 1, 2)).clamp(min=1.0))
        self.body = body.layers
        self.head: nn.Module = nn.Linear(body.width, images.n_classes)
        self.to(memory_format=torch.channels_last)  # type: ignore[call-overload]

    def forward(self, pixels: Tensor) -> tuple[Tensor, Tensor]:
        # Channels come last in the bytes, and stay last in memory.
        features = self.body(((pixels.float() - self.mean) / self.deviation).permute(0, 3, 1, 2))
        return self.head(features), features


def resnet(depths: tuple[int, ...] = (3, 4, 6, 3), width: int = 64, channels: int = 3) -> Body:
    """He et al.'s network of bottlenecks, ResNet-50 as it stands, with the stride in the 3 × 3 convolution.

    The stem is that of large pictures, as in the paper, whose networks are Keras's own: 32 × 32 pixels become 8 × 8.
    """
    layers: list[nn.Module] = _stem(channels, width)
    have = width
    for stage, depth in enumerate(depths):
        inner = width * 2**stage
        for place in range(depth):
            layers.append(Bottleneck(have, inner, stride=2 if stage and not place else 1))
            have = 4 * inner
    return _finished(layers, have, "fan_out")


class Bottleneck(nn.Module):
    """1 × 1, 3 × 3, 1 × 1, and what came in."""

    def __init__(self, have: int, inner: int, stride: int) -> None:
        super().__init__()
        give = 4 * inner
        self.body = nn.Sequential(
            *_normed(have, inner, 1),
            nn.ReLU(inplace=True),
            *_normed(inner, inner, 3, stride),
            nn.ReLU(inplace=True),
            *_normed(inner, give, 1),
        )
        same = have == give and stride == 1
        self.way = nn.Identity() if same else nn.Sequential(*_normed(have, give, 1, stride))

    def forward(self, x: Tensor) -> Tensor:
        return nn.functional.relu(self.body(x) + self.way(x))


def densenet(depths: tuple[int, ...] = (6, 12, 24, 16), growth: int = 32, channels: int = 3) -> Body:
    """Huang et al.'s network, DenseNet-121 as it stands: every layer reads all that came before it in its block."""
    have = 2 * growth
    layers: list[nn.Module] = _stem(channels, have)
    for stage, depth in enumerate(depths):
        if stage:
            layers += [nn.BatchNorm2d(have), nn.ReLU(inplace=True), nn.Conv2d(have, have // 2, 1, bias=False)]
            layers.append(nn.AvgPool2d(2, ceil_mode=True))  # which leaves a single pixel alone
            have //= 2
        for _ in range(depth):
            layers.append(DenseLayer(have, growth))
            have += growth
    return _finished([*layers, nn.BatchNorm2d(have), nn.ReLU(inplace=True)], have, "fan_in")


class DenseLayer(nn.Module):
    """What came in, and ``growth`` channels made of it."""

    def __init__(self, have: int, growth: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.BatchNorm2d(have),
            nn.ReLU(inplace=True),
            *_normed(have, 4 * growth, 1),
            nn.ReLU(inplace=True),
            nn.Conv2d(4 * growth, growth, 3, padding=1, bias=False),
        )

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([x, self.body(x)], 1)


def short_resnet(widths: tuple[int, ...] = (64, 128, 256, 512), channels: int = 3) -> Body:
    """Nine layers: a convolution for each width, pooled but for the first; the second and the last add a pair."""
    layers = [*_normed(channels, widths[0], 3), nn.ReLU(inplace=True)]
    for place, (have, give) in enumerate(pairwise(widths), start=1):
        layers += [*_normed(have, give, 3), nn.ReLU(inplace=True), nn.MaxPool2d(2)]
        if place in (1, len(widths) - 1):
            layers.append(Pair(give))
    return _finished(layers, widths[-1], "fan_out")


class Pair(nn.Module):
    """What came in, and two convolutions of it."""

    def __init__(self, width: int) -> None:
        super().__init__()
        first, second = ((*_normed(width, width, 3), nn.ReLU(inplace=True)) for _ in range(2))
        self.body = nn.Sequential(*first, *second)

    def forward(self, x: Tensor) -> Tensor:
        made: Tensor = self.body(x)
        return x + made


def _stem(channels: int, width: int) -> list[nn.Module]:
    return [*_normed(channels, width, 7, 2), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, padding=1)]


def _normed(have: int, give: int, side: int, stride: int = 1) -> list[nn.Module]:
    return [nn.Conv2d(have, give, side, stride, padding=side // 2, bias=False), nn.BatchNorm2d(give)]


def _finished(layers: list[nn.Module], width: int, mode: Literal["fan_in", "fan_out"]) -> Body:
    """Averaged over places, and with He's start."""
    body = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten())
    for module in body.modules():
        if isinstance(module, nn.Conv2d):
            nn.init.kaiming_normal_(module.weight, mode=mode, nonlinearity="relu")
    return Body(body, width)
