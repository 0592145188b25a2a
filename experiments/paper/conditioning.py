"""Figure 2: one classifier, its temperature conditioned on nothing, on the row number, or on the image.

A network trained on clean digits meets rows some of which are badly cropped and some of which carry a wrong label.
Its logits stay as they are; only the temperature learns, once for each kind of parameter.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray
from scipy.ndimage import shift
from sklearn.datasets import load_digits
from sklearn.metrics import roc_auc_score
from torch import Tensor, nn

from experiments.entries.cores import one_thread
from experiments.entries.drawing import INK, MUTED, PALETTE, styled, to_svg
from experiments.entries.entry import Context, Result
from experiments.entries.parts import Picture, Table
from experiments.paper._comparison import mean_over_seeds, spread_over_seeds
from likely import paper
from likely.losses import SoftmaxLoss
from likely.parameters import Data, Global, Parameter, Predicted

TRAINED, FITTED = 400, 1000  # rows for the classifier, then for the temperatures; the others are the unseen ones
CLEAN, CROPPED, MISLABELLED = range(3)
COLOURS = {name: PALETTE[colour][0] for name, colour in (("global", "gold"), ("data", "blue"), ("predicted", "violet"))}
LABELS, CROPS, UNSEEN = "wrong labels", "badly cropped", "badly cropped, unseen"


@dataclass(frozen=True)
class Rows:
    """Digits that the classifier was not trained on: the first FITTED have a temperature to learn."""

    images: Tensor
    logits: Tensor
    labels: Tensor
    truth: Tensor
    kind: NDArray[np.int64]


@one_thread()
def run(context: Context) -> Result:
    """Learn one temperature of each kind and ask each of them about the spoiled rows, several times over."""
    seeds, epochs = (2, 20) if context.quick else (10, 60)
    found = [study(seed, epochs) for seed in context.track(range(context.seed, context.seed + seeds))]
    (rows, values, _), tables = found[0], [table for *_, table in found]
    table = mean_over_seeds(tables)
    return Result(
        "not judged",
        f"One temperature serves all rows ({values['global'][0]:.2f}). A temperature for each row singles out the "
        f"wrong labels (AUC {table.loc['data', LABELS]:.2f}), whatever the image looks like. One computed from the "
        "image singles out the badly cropped ones, in rows it has never seen too "
        f"(AUC {table.loc['predicted', UNSEEN]:.2f}), and can say little of a wrong label under a clean image "
        f"(AUC {table.loc['predicted', LABELS]:.2f}).",
        tables=(
            Table(
                table,
                "How well each temperature ranks the spoiled rows above the clean ones (AUC; 0.5 is chance), how many "
                "numbers are learned, and what the loss says of rows outside the training set. "
                f"{spread_over_seeds(tables)}",
                dict.fromkeys((LABELS, CROPS, UNSEEN), "higher"),
                digits=2,
            ),
        ),
        pictures=(_examples(rows, values), _spread(rows, values)),
    )


def study(seed: int, epochs: int) -> tuple[Rows, dict[str, NDArray[np.float64]], pd.DataFrame]:
    """The rows of a seed, the temperatures that were learned for them, and how well each kind ranks the spoiled."""
    rows = spoiled_digits(seed)
    temperatures: dict[str, Parameter] = {
        "global": Global(**paper.TEMPERATURE),
        "data": Data(FITTED, **paper.TEMPERATURE),
        "predicted": Predicted(64, **paper.TEMPERATURE, **paper.NETWORK),
    }
    losses = {name: SoftmaxLoss(temperature) for name, temperature in temperatures.items()}
    for loss_fn in losses.values():
        fit(loss_fn, rows, epochs)
    values = {name: learned(temperature, rows) for name, temperature in temperatures.items()}
    table = pd.DataFrame([describe(losses[name], temperatures[name], values[name], rows) for name in losses])
    table.index = pd.Index(list(losses), name="temperature")
    return rows, values, table


def spoiled_digits(seed: int) -> Rows:
    """Digits and a classifier's logits for them; after its training rows 15% are badly cropped and 10% mislabelled."""
    rng = np.random.default_rng(seed)
    pixels, digits = load_digits(return_X_y=True)
    order = rng.permutation(len(digits))
    pixels, truth = pixels[order] / 16, digits[order]
    kind = rng.choice([CLEAN, CROPPED, MISLABELLED], size=len(truth), p=[0.75, 0.15, 0.1])
    kind[:TRAINED] = CLEAN
    kind[TRAINED + FITTED :][kind[TRAINED + FITTED :] == MISLABELLED] = CLEAN
    for row in np.flatnonzero(kind == CROPPED):
        down, right = rng.choice([-2, 2]), rng.choice([-3, 3])
        pixels[row] = shift(pixels[row].reshape(8, 8), (down, right), order=0).ravel()
    labels = np.where(kind == MISLABELLED, (truth + rng.integers(1, 10, len(truth))) % 10, truth)
    images = torch.tensor(pixels, dtype=torch.float32)
    rest = slice(TRAINED, None)
    logits = train_classifier(images[:TRAINED], torch.tensor(truth[:TRAINED]))(images[rest]).detach()
    return Rows(images[rest], logits, torch.tensor(labels[rest]), torch.tensor(truth[rest]), kind[rest])


def train_classifier(images: Tensor, labels: Tensor) -> nn.Module:
    """A small network, trained in full batches."""
    model = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for _ in range(300):
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(images), labels).backward()
        optimizer.step()
    return model


def fit(loss_fn: SoftmaxLoss, rows: Rows, epochs: int) -> None:
    """Learn the temperature on the first FITTED rows; a Data parameter steps by itself during `backward`."""
    own = list(loss_fn.parameters())
    optimizer = torch.optim.Adam(own, lr=0.01, weight_decay=1e-3) if own else None
    for _ in range(epochs):
        for batch in torch.randperm(FITTED).split(50):
            loss_fn.zero_grad()
            loss_fn(rows.logits[batch], rows.labels[batch], features=rows.images[batch], index=batch).backward()
            if optimizer:
                optimizer.step()


@torch.no_grad()
def learned(temperature: Parameter, rows: Rows) -> NDArray[np.float64]:
    """The temperature of every row, NaN where there is none."""
    if isinstance(temperature, Data):
        known = temperature(index=torch.arange(FITTED)).double().numpy()
        return np.concatenate([known, np.full(len(rows.kind) - FITTED, np.nan)])
    temperature.eval()
    found: Tensor = temperature(features=rows.images)
    return found.double().expand(len(rows.kind)).numpy()


def describe(
    loss_fn: SoftmaxLoss, temperature: Parameter, values: NDArray[np.float64], rows: Rows
) -> dict[str, object]:
    """One row of the table."""
    seen, unseen = slice(None, FITTED), slice(FITTED, None)

    def auc(kind: int, where: slice) -> float:
        compared = np.isin(rows.kind[where], [CLEAN, kind]) & np.isfinite(values[where])
        if not compared.any():
            return float("nan")
        return float(roc_auc_score(rows.kind[where][compared] == kind, values[where][compared]))

    return {
        "learned": learned_numbers(temperature),
        LABELS: auc(MISLABELLED, seen),
        CROPS: auc(CROPPED, seen),
        UNSEEN: auc(CROPPED, unseen),
        "at test time": at_test_time(loss_fn, rows),
    }


def learned_numbers(parameter: Parameter) -> int:
    """How many numbers a parameter learns: its rows for Data, its weights for the others."""
    if isinstance(parameter, Data):
        return parameter.value.numel()
    return sum(weight.numel() for weight in parameter.parameters())


def at_test_time(loss_fn: SoftmaxLoss, rows: Rows) -> str:
    """Whether the loss is defined for rows outside the training set."""
    loss_fn.eval()
    try:
        loss_fn(rows.logits[FITTED:], rows.labels[FITTED:], features=rows.images[FITTED:])
    except (RuntimeError, ValueError):
        return "refused"
    return "defined"


def _chosen(rows: Rows, temperatures: Mapping[str, NDArray[np.float64]]) -> list[tuple[int, str]]:
    """A few rows to look at: typical ones, at the median of the temperature that has most to say about their kind."""

    def typical(kind: int, by: str, where: slice, count: int) -> list[int]:
        members = np.flatnonzero(rows.kind[where] == kind) + (where.start or 0)
        ordered = members[np.argsort(temperatures[by][members], kind="stable")]
        middle = len(ordered) // 2
        return [int(row) for row in ordered[middle : middle + count]]

    seen, unseen = slice(0, FITTED), slice(FITTED, None)
    chosen = [(row, "clean") for row in typical(CLEAN, "predicted", seen, 2)]
    chosen += [(row, "badly cropped") for row in typical(CROPPED, "predicted", seen, 2)]
    chosen += [(row, f"labelled {int(rows.labels[row])}") for row in typical(MISLABELLED, "data", seen, 2)]
    chosen += [(row, "unseen, clean") for row in typical(CLEAN, "predicted", unseen, 1)]
    return chosen + [(row, "unseen, cropped") for row in typical(CROPPED, "predicted", unseen, 1)]


@styled
def _examples(rows: Rows, temperatures: Mapping[str, NDArray[np.float64]]) -> Picture:
    chosen = _chosen(rows, temperatures)
    figure = Figure(figsize=(4.6, 4.6), layout="constrained")
    grid = figure.add_gridspec(1, 2, width_ratios=[1, 1.9])
    left, right = figure.add_subplot(grid[0]), figure.add_subplot(grid[1])
    for place, (row, words) in enumerate(chosen):
        image, extent = rows.images[row].reshape(8, 8).numpy(), (0, 0.86, place + 0.86, place)
        left.imshow(image, cmap="gray", vmin=0, vmax=1, extent=extent, aspect="auto", interpolation="none")
        left.text(1.0, place + 0.45, words.replace(", ", ",\n"), va="center", fontsize=8)
    top = max(np.nanmax([values[row] for row, _ in chosen]) for values in temperatures.values())
    for column, (name, values) in enumerate(temperatures.items()):
        right.text(column, -0.15, name, color=COLOURS[name], fontsize=8.5, fontweight="bold", va="bottom")
        for place, (row, _) in enumerate(chosen):
            _bar(right, column, place, float(values[row]), top, COLOURS[name])
    left.set(xlim=(0, 2.2), ylim=(len(chosen), -0.35))
    right.set(xlim=(0, 3), ylim=(len(chosen), -0.35))
    left.axis("off")
    right.axis("off")
    return Picture(
        to_svg(figure),
        "Eight digits with bars for their temperatures. The global bars are all alike, the data bars are long for "
        "wrong labels, the predicted bars for badly cropped images; unseen rows have no data temperature.",
        "Typical rows and their three temperatures. A row outside the training set has no row number, hence no data "
        "temperature.",
    )


def _bar(axes: Axes, column: int, place: int, value: float, top: float, colour: str) -> None:
    middle = place + 0.43
    if np.isnan(value):
        axes.text(column, middle, "undefined", va="center", fontsize=7.5, color=MUTED, style="italic")
        return
    length = 0.62 * value / top
    axes.barh(middle, length, left=column, height=0.34, color=colour)
    axes.text(column + length + 0.03, middle, f"{value:.1f}", va="center", fontsize=7.5, color=INK)


@styled
def _spread(rows: Rows, temperatures: Mapping[str, NDArray[np.float64]]) -> Picture:
    figure = Figure(figsize=(4.6, 4.6), layout="constrained")
    upper, lower = figure.subplots(2, 1)
    seen, unseen = slice(0, FITTED), slice(FITTED, None)
    trained = [("clean", CLEAN, seen), ("badly cropped", CROPPED, seen), ("wrong label", MISLABELLED, seen)]
    others = [("unseen, clean", CLEAN, unseen), ("unseen, cropped", CROPPED, unseen)]
    jitter = np.random.default_rng(0)
    for axes, name, groups in ((upper, "data", trained), (lower, "predicted", trained + others)):
        for place, (_, kind, where) in enumerate(groups):
            values = temperatures[name][where][rows.kind[where] == kind]
            dots = values[:100]
            height = place + jitter.uniform(-0.3, 0.3, len(dots))
            axes.plot(dots, height, "o", markersize=2.4, color=COLOURS[name], alpha=0.45, markeredgewidth=0)
            axes.plot([np.median(values)] * 2, [place - 0.38, place + 0.38], color=INK, linewidth=1.4)
        axes.axvline(temperatures["global"][0], color=COLOURS["global"], linestyle="--", linewidth=1.2)
        axes.set_yticks(range(len(groups)), [words for words, _, _ in groups])
        axes.set_ylim(len(groups) - 0.5, -0.5)
        axes.grid(axis="y", visible=False)
        axes.set_title(f"{name} temperature", color=COLOURS[name])
    lower.set_xlabel("temperature (dashed: the global one)")
    return Picture(
        to_svg(figure),
        "Strips of temperatures. Data temperatures are highest for wrong labels, predicted ones for badly cropped "
        "images, seen or unseen.",
        "Up to a hundred rows of each kind. The bar marks the median, the dashed line the one global temperature.",
    )
