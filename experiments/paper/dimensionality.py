"""Figure 3: one image loss, its scale as one number, one per channel, or one per pixel and channel.

A still camera takes photographs of one scene: the sea moves, the sun flickers, the blue channel is noisy, the hill is
still. The prediction is the scene; what the loss believes of the error depends on how many scales it has.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import pandas as pd
import torch
from matplotlib.figure import Figure
from torch import Tensor

from experiments.entries.cores import one_thread
from experiments.entries.drawing import HEAT, INK, MUTED, styled, to_svg
from experiments.entries.entry import Context, Result
from experiments.entries.parts import Picture, Table
from experiments.paper._comparison import mean_over_seeds, spread_over_seeds
from experiments.paper._fit import descend
from experiments.paper.conditioning import learned_numbers
from experiments.paper.grid import grid_figure
from likely import paper
from likely.functional import normal_nll
from likely.losses import NormalLoss
from likely.parameters import Data, Global, Parameter, Predicted

SIZE = 32
SHAPES: dict[str, tuple[int, ...]] = {"one": (), "one per channel": (3, 1, 1), "one per pixel": (3, SIZE, SIZE)}
CHANNELS = ("red", "green", "blue")


@one_thread()
def run(context: Context) -> Result:
    """Learn a global scale of each shape and compare their likelihoods on photographs not seen, several times over."""
    count, seeds = (40, 2) if context.quick else (200, 10)
    scene, noise = still_scene()
    found = [study(scene, noise, count, seed) for seed in context.track(range(context.seed, context.seed + seeds))]
    (photographs, scales, _, true), tables = found[0], [table for _, _, table, _ in found]
    table = mean_over_seeds(tables)
    return Result(
        "not judged",
        describe(table),
        tables=(
            Table(
                table,
                f"NLL per pixel and channel, in nats. With the scales that made the photographs it is {true:.3f}. "
                f"{spread_over_seeds(tables)}",
                {"NLL seen": "lower", "NLL unseen": "lower"},
            ),
            Table(count_table(), f"Numbers to learn for n = 1000 pictures of 3 × {SIZE} × {SIZE} and d = 16 features."),
        ),
        pictures=(
            _photographs(scene, photographs),
            *(_maps(name, scales) for name in SHAPES),
            _grid(),
        ),
    )


def study(scene: Tensor, noise: Tensor, count: int, seed: int) -> tuple[Tensor, dict[str, Tensor], pd.DataFrame, float]:
    """Photographs of a seed, the scales learned from half of them, the table, and the NLL of the true scales."""
    rng = torch.Generator().manual_seed(seed)
    photographs = scene + noise * torch.randn(2 * count, 3, SIZE, SIZE, generator=rng)
    seen, unseen = photographs[:count], photographs[count:]
    scales, rows = {}, {}
    for name, shape in SHAPES.items():
        scale = Global(shape, **paper.SCALE)
        loss_fn = NormalLoss(scale)
        on_seen = descend(loss_fn, scene.expand_as(seen), seen.double())
        with torch.no_grad():
            on_unseen = loss_fn(scene.expand_as(unseen).double(), unseen.double()).item()
        scales[name] = scale.value.detach().expand(3, SIZE, SIZE).float()
        rows[name] = (math.prod(shape), on_seen, on_unseen, unseen.shape[0])
    true = normal_nll(scene.expand_as(unseen), unseen, scale=noise).item()
    table = pd.DataFrame.from_dict(rows, orient="index", columns=["|φ|", "NLL seen", "NLL unseen", "photographs"])
    table.insert(3, "above the true", table["NLL unseen"] - true)
    table.index.name = "scales"
    return photographs, scales, table, true


def describe(table: pd.DataFrame) -> str:
    """The NLL of unseen photographs with each number of scales."""
    unseen = table.loc[list(SHAPES), "NLL unseen"]
    words = ", ".join(f"{value:.3f} with {name}" for name, value in unseen.items())
    return (
        f"The same prediction, the same error, three likelihoods: on unseen photographs the NLL is {words}. Only a "
        "scale per pixel can be large on the moving sea and small on the still hill."
    )


def still_scene() -> tuple[Tensor, Tensor]:
    """A colour picture in [0, 1] and how much each of its pixels varies from photograph to photograph."""
    y, x = torch.meshgrid(torch.linspace(0, 1, SIZE), torch.linspace(0, 1, SIZE), indexing="ij")
    sun = ((x - 0.68) ** 2 + (y - 0.3) ** 2).sqrt() < 0.13
    hill = y > 0.62 - 0.34 * torch.exp(-(((x - 0.2) / 0.2) ** 2)) - 0.12 * torch.exp(-(((x - 0.52) / 0.14) ** 2))
    sea = y > 0.66

    def colour(red: Tensor | float, green: Tensor | float, blue: Tensor | float) -> Tensor:
        return torch.stack([torch.as_tensor(c).expand(SIZE, SIZE) for c in (red, green, blue)])

    scene = colour(0.98 - 0.25 * (1 - y), 0.55 + 0.25 * y, 0.42 + 0.3 * (1 - y))
    scene = torch.where(sun, colour(1.0, 0.93, 0.62), scene)
    scene = torch.where(hill, colour(0.2, 0.27, 0.33), scene)
    scene = torch.where(sea, colour(0.16 + 0.3 * (1 - y), 0.4 + 0.2 * (1 - y), 0.52), scene)
    noise = torch.where(sea, 0.05 + 0.14 * (y - 0.66) / 0.34, torch.where(sun & ~hill, 0.12, 0.025))
    return scene, noise * torch.tensor([1.0, 0.8, 1.5])[:, None, None]


def count_table(n: int = 1000, d: int = 16) -> pd.DataFrame:
    """How many numbers each cell of the grid learns, counted on the modules themselves."""
    kinds: dict[str, Mapping[str, Parameter]] = {
        "global": {name: Global(shape, **paper.SCALE) for name, shape in SHAPES.items()},
        "data": {name: Data(n, shape, **paper.SCALE) for name, shape in SHAPES.items()},
        "predicted": {name: Predicted(d, shape, spatial=True, **paper.SCALE) for name, shape in SHAPES.items()},
    }
    counted = {kind: {name: learned_numbers(p) for name, p in cells.items()} for kind, cells in kinds.items()}
    frame = pd.DataFrame.from_dict(counted, orient="index")
    frame.index.name = "conditioning"
    return frame


@styled
def _photographs(scene: Tensor, photographs: Tensor) -> Picture:
    figure = Figure(figsize=(4.6, 1.75), layout="constrained")
    shown = [("the prediction", scene), ("a photograph", photographs[0]), ("another", photographs[1])]
    for axes, (title, image) in zip(figure.subplots(1, 3), shown, strict=True):
        axes.imshow(image.clamp(0, 1).permute(1, 2, 0).numpy(), interpolation="none")
        axes.set_title(title, fontweight="normal", fontsize=9, loc="center")
        axes.axis("off")
    return Picture(
        to_svg(figure),
        "A sunset over the sea with a hill, and two noisy photographs of it.",
        "The sea moves, the sun flickers, the hill is still, and blue is the noisiest channel.",
    )


@styled
def _maps(name: str, scales: Mapping[str, Tensor]) -> Picture:
    low, high = (float(scales["one per pixel"].quantile(q)) for q in (0.01, 0.99))
    figure = Figure(figsize=(4.6, 1.75), layout="constrained")
    panels = figure.subplots(1, 3)
    for axes, channel, values in zip(panels, CHANNELS, scales[name], strict=True):
        image = axes.imshow(values.numpy(), cmap=HEAT, vmin=low, vmax=high, interpolation="none")
        axes.set_title(channel, fontweight="normal", fontsize=9, loc="center", color=INK)
        axes.axis("off")
    bar = figure.colorbar(image, ax=panels, shrink=0.75, pad=0.02)
    bar.outline.set_visible(False)
    bar.ax.set_ylabel("scale", color=MUTED)
    count = {"one": "1", "one per channel": "C = 3", "one per pixel": f"C × H × W = {3 * SIZE**2}"}[name]
    code = f"likely.Global({SHAPES[name] or ''})"
    return Picture(
        to_svg(figure),
        f"The learned scales of the three channels as heat maps, {name}.",
        f"|φ| = {count}: `NormalLoss({code})`.",
    )


@styled
def _grid() -> Picture:
    return Picture(
        to_svg(grid_figure()),
        "A grid of three conditionings by three dimensionalities; each cell shows the learned scales as heat maps and "
        "the code that builds them.",
        "Conditioning × dimensionality. Every cell is fitted to the same pictures, whose prediction is a blurred copy: "
        "a scale is large where the blur loses an edge.",
        wide=True,
    )
