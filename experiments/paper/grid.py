"""The conditioning × dimensionality grid, in one picture: each cell fitted, drawn, and with the code that builds it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure
from torch import Tensor
from torch.nn import functional as F

from experiments.entries.cores import one_thread
from experiments.entries.drawing import HEAT, INK, LINE, MUTED, styled
from likely import paper
from likely.losses import NormalLoss
from likely.parameters import Data, Global, Parameter, Predicted

PICTURES, CHANNELS, SIZE = 24, 3, 14
SHOWN = (2, 7, 11)  # the rows of the data set that are drawn
Shape = tuple[int, ...]


@dataclass(frozen=True)
class Column:
    """A dimensionality: how many φ one picture has."""

    title: str
    code: str
    shape: Shape


@dataclass(frozen=True)
class Row:
    """A conditioning: on what φ depends, the code for each column, and how many numbers it learns there."""

    title: str
    words: str
    make: Callable[[Shape, int], Parameter]
    code: tuple[str, str, str]
    learns: tuple[str, str, str]


COLUMNS = (
    Column("one value", "()", ()),
    Column("one per channel", "(C, 1, 1)", (CHANNELS, 1, 1)),
    Column("one per pixel", "(C, H, W)", (CHANNELS, SIZE, SIZE)),
)
INDENT = "\n" + 4 * "\N{NO-BREAK SPACE}"  # SVG drops plain spaces at the start of a line
ROWS = (
    Row(
        "Global",
        "the same for every row\n(Fixed: and not learned)",
        lambda shape, features: Global(shape, **paper.SCALE),
        ("likely.Global()", "likely.Global((C, 1, 1))", "likely.Global((C, H, W))"),
        ("1", "C", "C·H·W"),
    ),
    Row(
        "Data",
        "looked up by row number,\nin training only",
        lambda shape, features: Data(PICTURES, shape, **paper.SCALE),
        ("likely.Data(n)", "likely.Data(n, (C, 1, 1))", "likely.Data(n, (C, H, W))"),
        ("n", "n·C", "n·C·H·W"),
    ),
    Row(
        "Predicted",
        "computed from the input,\nin training and testing",
        lambda shape, features: Predicted(features, shape, spatial=True, **paper.SCALE, **paper.NETWORK),
        (
            f"likely.Predicted(d,{INDENT}spatial=True)",
            f"likely.Predicted(d, (C, 1, 1),{INDENT}spatial=True)",
            f"likely.Predicted(d, (C, H, W),{INDENT}spatial=True)",
        ),
        ("d + 1", "C·(d + 1)", "C·(d + 1)"),
    ),
)


def pictures() -> Tensor:
    """Discs and bars of random place, size and colour: (PICTURES, CHANNELS, SIZE, SIZE) in [0, 1]."""
    draw = torch.Generator().manual_seed(3)
    y, x = torch.meshgrid(torch.arange(SIZE) + 0.5, torch.arange(SIZE) + 0.5, indexing="ij")
    made = []
    for _ in range(PICTURES):
        a, b, size, tilt, *colours = torch.rand(4 + 3 * CHANNELS, generator=draw).tolist()
        ground, disc, bar = torch.tensor(colours).reshape(3, CHANNELS, 1, 1)
        image = ground.expand(CHANNELS, SIZE, SIZE) * 0.6 + 0.35
        along = (x / SIZE - a) * (tilt - 0.5) + (y / SIZE - b) * 0.8
        image = torch.where(along.abs() < 0.1, bar, image)
        squared_distance = (x - SIZE * (0.25 + 0.5 * a)) ** 2 + (y - SIZE * (0.25 + 0.5 * b)) ** 2
        made.append(torch.where(squared_distance < (SIZE * (0.16 + 0.16 * size)) ** 2, disc, image))
    return torch.stack(made)


def edges(images: Tensor) -> Tensor:
    """Features such as a decoder's last layer could have: how much each channel changes around each pixel, in logs."""
    padded = F.pad(images, (2, 2, 2, 2), mode="replicate")
    near = F.max_pool2d(padded, 3, 1) + F.max_pool2d(-padded, 3, 1)
    far = F.max_pool2d(padded, 5, 1) + F.max_pool2d(-padded, 5, 1)
    return torch.cat([near[:, :, 1:-1, 1:-1], far], dim=1).add(0.02).log()


@one_thread()
def learned_scales() -> tuple[Tensor, list[list[Tensor]]]:
    """The pictures, and the scales that each cell of the grid learns when their prediction is a blurred copy.

    The settings are the paper's: where nothing is blurred the error is zero, and so would be a scale without a floor.
    """
    images = pictures()
    blurred = F.avg_pool2d(F.pad(images, (2, 2, 2, 2), mode="replicate"), 5, 1)
    features, index = edges(images), torch.arange(PICTURES)
    cells = []
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        for row in ROWS:
            parameters = [row.make(column.shape, features.shape[1]) for column in COLUMNS]
            for parameter in parameters:
                _fit(NormalLoss(parameter), blurred, images, features, index)
            with torch.no_grad():
                cells.append([parameter(features=features, index=index) for parameter in parameters])
    return images, cells


def _fit(loss_fn: NormalLoss, prediction: Tensor, target: Tensor, features: Tensor, index: Tensor) -> None:
    """Learn the scale; a Data parameter steps by itself during `backward`."""
    own = list(loss_fn.parameters())
    optimizer = torch.optim.Adam(own, lr=0.1) if own else None
    for _ in range(150):
        loss_fn.zero_grad()
        loss_fn(prediction, target, features=features, index=index).backward()
        if optimizer:
            optimizer.step()


LEFT, STEP, LINE_HEIGHT = 5.75, 4.25, 1.1  # in the units of the drawing: a map is one unit wide


@styled
def grid_figure() -> Figure:
    """Draw the grid.

    >>> grid_figure().get_size_inches().tolist()
    [9.2, 6.9]
    """
    images, cells = learned_scales()
    figure = Figure(figsize=(9.2, 6.9))
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set(xlim=(0, 18.4), ylim=(13.8, 0))
    axes.axis("off")
    norm = LogNorm(0.02, 0.5)
    for place, column in enumerate(COLUMNS):
        axes.text(LEFT + place * STEP, 0.75, column.title, fontsize=11.5, fontweight="bold")
        axes.text(LEFT + place * STEP, 1.25, f"shape {column.code}", fontsize=9, color=MUTED, family="monospace")
    top = 1.95
    for row, values in zip(ROWS, cells, strict=True):
        top = _draw_row(axes, row, values, images, top, norm)
    place_of_bar = figure.add_axes((0.035, 0.125, 0.16, 0.016))
    bar = figure.colorbar(ScalarMappable(norm, HEAT), cax=place_of_bar, orientation="horizontal")
    bar.outline.set_visible(False)
    bar.set_ticks([0.02, 0.1, 0.5], labels=["0.02", "0.1", "0.5"])
    bar.ax.minorticks_off()
    bar.ax.set_title("the scale learned", fontsize=8.5, fontweight="normal", color=MUTED)
    return figure


def _draw_row(axes: Axes, row: Row, values: list[Tensor], images: Tensor, top: float, norm: LogNorm) -> float:
    """Draw one conditioning below `top` and return where the next begins."""
    shown = SHOWN if values[0].ndim else SHOWN[:1]  # a global φ has no axis for the rows
    axes.plot([0.45, 17.95], [top - 0.3, top - 0.3], color=LINE, linewidth=0.8)
    axes.text(0.45, top + 0.4, row.title, fontsize=11.5, fontweight="bold")
    axes.text(0.45, top + 0.75, row.words, fontsize=9, color=MUTED, va="top", linespacing=1.4)
    for line, picture in enumerate(shown):
        y = top + LINE_HEIGHT * line
        if values[0].ndim:
            _tile(axes, images[picture].permute(1, 2, 0), LEFT - 1.5, y, 1.0)
        for place, (column, value) in enumerate(zip(COLUMNS, values, strict=True)):
            one = value[picture] if values[0].ndim else value
            _cell(axes, one.reshape(column.shape or (1, 1, 1)), LEFT + place * STEP, y, norm)
    below = top + LINE_HEIGHT * len(shown) + 0.1
    for place, (code, learns) in enumerate(zip(row.code, row.learns, strict=True)):
        x = LEFT + place * STEP
        axes.text(x, below, code, fontsize=8, family="monospace", color=INK, va="top", linespacing=1.35)
        lines = 0.42 * (1 + code.count("\n"))
        axes.text(x, below + lines, f"learns {learns}", fontsize=8.5, color=MUTED, va="top")
    return below + 0.42 * (1 + max(code.count("\n") for code in row.code)) + 0.95


def _cell(axes: Axes, value: Tensor, x: float, y: float, norm: LogNorm) -> None:
    """One picture's φ, a channel after the other: a small square for a number, a map for a number a pixel."""
    for channel, values in enumerate(value):
        size = 1.0 if values.numel() > 1 else 0.5
        _tile(axes, values, x + LINE_HEIGHT * channel, y + (1 - size) / 2, size, norm)


def _tile(axes: Axes, image: Tensor, x: float, y: float, size: float, norm: LogNorm | None = None) -> None:
    extent = (x, x + size, y + size, y)
    axes.imshow(image.numpy(), extent=extent, cmap=HEAT, norm=norm, interpolation="none", aspect="auto", zorder=2)
