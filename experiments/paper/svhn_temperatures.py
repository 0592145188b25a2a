"""Figure 5: the SVHN digits with the lowest and the highest predicted temperature.

The network learns the temperature as it learns to classify, and is asked about digits it has not seen. Whether the hot
ones are hard and blurry is measured: by the network's mistakes, and by what can be computed from a picture. Two other
ways to a temperature stand beside it: from logits that are standardised, so that the temperature alone can say how sure
a row is; and learned afterwards, on held-out rows, for a network that is left as it is.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray
from scipy.ndimage import laplace
from scipy.stats import spearmanr
from sklearn.metrics import roc_auc_score

from experiments.data import Images, list_images, load_images
from experiments.entries.cores import one_thread
from experiments.entries.drawing import INK, MUTED, PALETTE, styled, to_svg
from experiments.entries.entry import Context, Result
from experiments.entries.parts import Picture, Table
from experiments.paper._comparison import Difference, mean_and_spread, paired
from experiments.paper._residual import train_any
from experiments.paper._stored import stored, train_and_keep, trains
from experiments.paper._vision import Recipe, digits, learn_afterwards, predicted_temperature, say
from likely.parameters import Fixed

Array = NDArray[np.float64]
TOGETHER, LEVEL, AFTER = DESIGNS = ("with the network", "logits standardised", "afterwards")
SHOWN = {TOGETHER: "with the network", LEVEL: "with the network, whose logits are standardised"}
HEAT, DOUBT = SCORES = ("temperature", "1 − confidence")
MISTAKES = "mistakes, AUC"
HELD_OUT = 0.2  # of the training photographs, for the temperature learned afterwards
ACROSS, DOWN = 14, 3  # pictures of a sheet: so many rows of the lowest, and of the highest


class Effort(NamedTuple):
    """How many networks of each design, and how they are trained."""

    seeds: int
    recipe: Recipe


QUICK = Effort(3, Recipe((16, 32), 6, 64, 1e-2))
FULL = Effort(3, Recipe((32, 64, 128, 256), 5, 128, 3e-3))
ON_GPU = Effort(5, Recipe((64, 128, 256, 256), 24, 512, 3e-3, residual=True))


class Found(NamedTuple):
    """For every design, how its scores agree with what is known of the rows, and the rows of the first seed."""

    agreement: Array  # (designs, scores, seeds, measures)
    temperature: NDArray[np.float16]  # (designs, rows)
    said: NDArray[np.uint8]  # (designs, rows), the class
    labels: NDArray[np.uint8]


@one_thread()
def run(context: Context) -> Result:
    """Ask the networks about unseen digits, and show the extremes where there are pictures to show."""
    found, fresh, about = source(context)
    notes = describe(found)
    sheets = () if fresh is None else tuple(_sheet(fresh, found, design) for design in SHOWN)
    return Result(
        "not judged",
        f"{about} {notes}",
        tables=(
            Table(
                summarise(found),
                "Digits that the networks have not seen. How well a score finds the network's mistakes (AUC; 0.5 is "
                "chance) and its rank correlation with how blurred, small, pale and dark a picture is; mean ± standard "
                f"deviation over {found.agreement.shape[2]} seeds. Blurred: weak edges for its contrast. Small: few "
                "pixels before it was resized. The paper prints pictures but no numbers.",
            ),
        ),
        pictures=(*sheets, _histograms(found)),
    )


def source(context: Context) -> tuple[Found, Images | None, str]:
    """What the networks say, trained now or before; the digits they were asked about, where they are here; in words."""
    if context.quick:
        images = digits()
        train, fresh = images.select(np.arange(1200)), images.select(np.arange(1200, 1797))
        return everything(train, fresh, QUICK, context), fresh, "On scikit-learn's digits instead of SVHN."
    here = context.data is not None and "svhn" in list_images(context.data)
    pictures = load_images("svhn", "test", context.data) if here else None
    if pictures is not None and trains(context, "svhn"):
        found = everything(load_images("svhn", "train", context.data), pictures, ON_GPU, context)
        return found, pictures, f"On {len(pictures.labels):,} test digits of SVHN."
    kept = stored("svhn_temperatures")
    found = Found(**kept.arrays)
    if pictures is not None and not np.array_equal(pictures.labels, found.labels):
        raise ValueError("these SVHN test digits are not those of the stored outputs: their labels differ")
    about = f"{kept.made} On {len(found.labels):,} test digits of SVHN, seeds 0 to {found.agreement.shape[2] - 1}."
    return found, pictures, about if here else f"{about} The pictures are shown where `LIKELY_DATA` holds them."


def everything(images: Images, fresh: Images, effort: Effort, context: Context) -> Found:
    """All designs and seeds."""
    known = properties(fresh)
    agreement = np.empty((len(DESIGNS), len(SCORES), effort.seeds, 1 + len(known)))
    first: dict[str, tuple[Array, Array]] = {}
    for design, seed in context.track([(design, seed) for design in DESIGNS for seed in range(effort.seeds)]):
        heat, doubt, classes = context.once(
            (design, seed), ask, design, images, fresh, effort.recipe, context.seed + seed
        )
        wrong = classes != fresh.labels
        for place, score in enumerate((heat, doubt)):
            correlations = [spearmanr(score, values).statistic for values in known.values()]
            agreement[DESIGNS.index(design), place, seed] = [roc_auc_score(wrong, score), *correlations]
        first.setdefault(design, (heat, classes))
    heats, said = (np.stack(own) for own in zip(*(first[design] for design in DESIGNS), strict=True))
    return Found(agreement, heats.astype(np.float16), said.astype(np.uint8), fresh.labels.astype(np.uint8))


def ask(design: str, images: Images, fresh: Images, recipe: Recipe, seed: int) -> tuple[Array, Array, Array]:
    """The temperature, the doubt that remains with it, and the class of every fresh row."""
    if design != AFTER:
        temperature = predicted_temperature(recipe.widths[-1])
        network = train_any(images, temperature, recipe._replace(standardised=design == LEVEL), seed)
        said = say(network, fresh.pixels)
        heat = said.temperature
        assert heat is not None
    else:
        seen = split(images)
        held_out = images.select(~seen)
        network = train_any(images.select(seen), Fixed(1.0), recipe, seed)
        temperature = learn_afterwards(say(network, held_out.pixels), held_out.labels, seed)
        said = say(network, fresh.pixels)
        with torch.no_grad():
            heat = temperature(features=said.features)
    doubt = 1 - (said.logits / heat[:, None]).softmax(1).amax(1)
    return heat.numpy(), doubt.numpy(), said.logits.argmax(1).numpy()


def split(images: Images) -> NDArray[np.bool_]:
    """The rows to train on. Digits of one photograph overlap, so they stay together."""
    group = images.facts.get("photo", np.arange(len(images.labels)))
    return np.asarray(group <= np.quantile(group, 1 - HELD_OUT))


def properties(images: Images) -> dict[str, Array]:
    """What can be computed from a picture; higher is worse."""
    grey = images.pixels.astype(np.float64).mean(3)
    contrast = grey.std((1, 2))
    edges = np.array([laplace(picture).std() for picture in grey])
    found = {"blurred": -edges / np.maximum(contrast, 1.0)}
    if "side" in images.facts:
        found["small"] = -images.facts["side"].astype(np.float64)
    return {**found, "pale": -contrast, "dark": -grey.mean((1, 2))}


def summarise(found: Found) -> pd.DataFrame:
    """A row for each design and score."""
    columns = [MISTAKES, "blurred", *(["small"] if found.agreement.shape[-1] == 5 else []), "pale", "dark"]
    rows = {
        (design, score): [mean_and_spread(values, 2) for values in found.agreement[d, s].T]
        for d, design in enumerate(DESIGNS)
        for s, score in enumerate(SCORES)
    }
    index = pd.MultiIndex.from_tuples(rows, names=["learned", "score"])
    return pd.DataFrame(list(rows.values()), index=index, columns=columns)


def describe(found: Found) -> str:
    """What each way of learning a temperature marks, and why one learned with the network is low for hard digits."""
    hard = _from(found.agreement[DESIGNS.index(TOGETHER), 0, :, 0], 0.5)
    accuracy = (found.said[0] == found.labels).mean()
    sentences = [
        f"The first network is right about {accuracy:.1%}. The paper does not say how its temperature was learned, so "
        f"three ways: {_listed(found)}."
    ]
    if hard.sign < 0:
        sentences.append(
            "Learned with the network the temperature is lowest, not highest, for the hard digits: the network says "
            "its doubt with small logits, and wherever the label has the largest logit the gradient cools. The "
            "confidence, logits and temperature together, finds the mistakes (AUC "
            f"{found.agreement[0, 1, :, 0].mean():.2f}). In the formula the paper prints τ multiplies the logits: read "
            "so, these digits are the ones with the highest τ."
        )
    return " ".join(sentences)


def _from(values: Array, chance: float) -> Difference:
    return paired(values, np.full_like(values, chance), test_per_train=0)


def _listed(found: Found) -> str:
    """What each temperature finds, by its means over seeds."""
    means = found.agreement[:, 0].mean(1)
    return "; ".join(
        f"{design}, it finds mistakes with an AUC of {means[d, 0]:.2f} and has a rank correlation of {means[d, 1]:.2f} "
        "with blur"
        for d, design in enumerate(DESIGNS)
    )


@styled
def _sheet(images: Images, found: Found, design: str) -> Picture:
    place = DESIGNS.index(design)
    order = np.argsort(found.temperature[place], kind="stable")
    count = ACROSS * DOWN
    figure = Figure(figsize=(9.4, 5.2), layout="constrained")
    ends = {"lowest": order[:count], "highest": order[::-1][:count]}
    for axes, (name, rows) in zip(figure.subplots(2, 1), ends.items(), strict=True):
        _tiles(axes, images.pixels[rows], images.labels[rows], found.said[place][rows])
        low, high = np.sort(found.temperature[place][rows])[[0, -1]]
        mistaken = (found.said[place][rows] != found.labels[rows]).sum()
        axes.set_title(f"The {name} temperatures, {low:.2f} to {high:.2f}: {mistaken} of {count} mistaken")
    return Picture(
        to_svg(figure),
        f"Digits with the {count} lowest and the {count} highest temperatures.",
        f"Temperature of the first network, learned {SHOWN[design]}. Under each digit its label; in red, after an "
        "arrow, what the network says where that differs.",
        wide=True,
    )


def _tiles(axes: Axes, pixels: NDArray[np.uint8], labels: NDArray[Any], said: NDArray[Any]) -> None:
    height, width = pixels.shape[1:3]
    down, right = height + height // 3, width + width // 8
    canvas = np.zeros((DOWN * down, ACROSS * right, 4), np.uint8)
    for number, picture in enumerate(pixels):
        top, left = number // ACROSS * down, number % ACROSS * right
        canvas[top : top + height, left : left + width, :3] = picture
        canvas[top : top + height, left : left + width, 3] = 255
        same = labels[number] == said[number]
        words = f"{labels[number]}" if same else f"{labels[number]} → {said[number]}"
        colour = MUTED if same else PALETTE["red"][0]
        axes.text(
            left + width / 2, top + (height + down) / 2, words, ha="center", va="center", fontsize=7, color=colour
        )
    axes.imshow(canvas, interpolation="none")
    axes.axis("off")


@styled
def _histograms(found: Found) -> Picture:
    figure = Figure(figsize=(9.4, 2.9), layout="constrained")
    for place, (design, axes) in enumerate(zip(DESIGNS, figure.subplots(1, len(DESIGNS)), strict=True)):
        heat = np.log2(found.temperature[place].astype(np.float64))
        right = found.said[place] == found.labels
        bins = np.linspace(heat.min(), heat.max() + 1e-6, 40).tolist()
        for rows, name, colour in ((right, "right", INK), (~right, "mistaken", PALETTE["red"][0])):
            axes.hist(heat[rows], bins, density=True, histtype="step", color=colour, label=name, linewidth=1.5)
        axes.set(title=design, xlabel="log₂ temperature", yticks=[])
        axes.xaxis.set_major_locator(MaxNLocator(5))
    handles, labels = figure.axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=2)
    return Picture(
        to_svg(figure),
        "Histograms of the temperature of digits that the network classifies rightly and of those it mistakes.",
        "The temperature of digits the first network gets right and of those it mistakes, each drawn to area one.",
        wide=True,
    )


def main() -> None:
    """Train on the digits in LIKELY_DATA and keep what draws the figure, which is no picture."""

    def train(context: Context, data: Path) -> Found:
        effort = ON_GPU if torch.cuda.is_available() else FULL
        return everything(load_images("svhn", "train", data), load_images("svhn", "test", data), effort, context)

    train_and_keep("svhn_temperatures", train)


if __name__ == "__main__":
    main()
