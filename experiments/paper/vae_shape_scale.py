"""Figure 11: the shape and scale that an autoencoder predicts for every pixel of a validation picture.

Faces may not be passed on, so what is kept are maps of the likelihood and numbers: inputs are drawn where the data is,
reconstructions where the network has just been trained.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pandas as pd
import torch
from matplotlib.figure import Figure
from numpy.typing import NDArray

from experiments.data import has_faces, load_faces
from experiments.entries.cores import one_thread
from experiments.entries.drawing import HEAT, styled, to_svg
from experiments.entries.entry import Context, Result
from experiments.entries.parts import Picture, Table
from experiments.paper import vae
from experiments.paper._comparison import mean_and_spread
from experiments.paper._stored import OUTPUTS, stored, train_and_keep, trains
from experiments.paper._vae import CHUNK, Recipe, Training, values
from experiments.paper._vision import digits

Array = NDArray[np.float64]
Pixels = NDArray[np.uint8]
PARTS = ("shape α", "scale σ")
PAPER = ((1.8, 3.0), (0.20, 0.43))
SHOWN, SEEDS = 4, 5  # pictures; networks
QUANTILES = (0.05, 0.5, 0.95)


class Found(NamedTuple):
    """Of shape and scale: the maps of the pictures shown, and what all validation pictures have in common."""

    maps: NDArray[np.float16]  # (parts, pictures, height, width), means over channels, of the first seed
    quantiles: Array  # (seeds, parts, quantiles)
    inside: Array  # (seeds, parts): the share of pixels in the paper's range
    varies: Array  # (seeds, parts): the share of the variance that is between pictures at one place, not between places
    doubt: Array  # (seeds, parts): the rank correlation with the absolute error of the pixel


class Faces(NamedTuple):
    """What may be drawn but not kept."""

    inputs: Pixels
    reconstructions: Array | None


@one_thread()
def run(context: Context) -> Result:
    """Train autoencoders and look at their maps, or at those that were kept."""
    name = "vae_shape_scale"
    drawn: Faces | None = None
    small = False
    if context.data is not None and trains(context, "faces"):
        found, drawn = look(*vae.faces(context.data), vae.FULL.paper, context)
        about = "On validation faces of CelebA."
    elif not context.quick and (OUTPUTS / f"{name}.npz").is_file():
        kept = stored(name)
        found, about = Found(**kept.arrays), f"{kept.made} On validation faces of CelebA."
        if context.data is not None and has_faces(context.data):
            drawn = Faces(load_faces("validation", context.data, rows=SHOWN).pixels, None)
    else:
        pixels, small = digits().pixels, True
        recipe = vae.QUICK.paper._replace(steps=400, scale=0.25)
        found, drawn = look(pixels[:1200], pixels[1200:], recipe, context)
        about = "On scikit-learn's digits instead of CelebA."
    notes = describe(found, small)
    return Result(
        "not judged",
        f"{about} {notes}",
        tables=(Table(summarise(found), _caption(len(found.quantiles), small)),),
        pictures=(picture(found, drawn),),
    )


def look(trained: Pixels, validated: Pixels, recipe: Recipe, context: Context) -> tuple[Found, Faces]:
    """Train from several seeds, and see what is predicted for the validation pictures."""
    seeds = [context.seed + seed for seed in range(3 if context.quick else SEEDS)]
    looks = [context.once((seed,), one_look, trained, validated, recipe, seed) for seed in context.track(seeds)]
    maps, *numbers, reconstructions = zip(*looks, strict=True)
    return Found(maps[0], *map(np.stack, numbers)), Faces(validated[:SHOWN], reconstructions[0])


@torch.no_grad()
def one_look(trained: Pixels, validated: Pixels, recipe: Recipe, seed: int) -> tuple[NDArray[np.floating], ...]:
    """Of one autoencoder: what :class:`Found` has of every seed, and reconstructions of the pictures shown."""
    with torch.enable_grad():
        training = Training(trained, vae.BEST, recipe, seed).finish()
    seen, errors, shown = [], [], None
    for some in torch.from_numpy(validated).to(training.pixels.device).split(CHUNK):
        reconstruction, maps = training(training.encode(some).mean)
        seen.append(torch.stack(training.reconstruction.shape_and_scale(maps)).cpu().numpy())
        errors.append((reconstruction - values(some)).abs().cpu().numpy())
        shown = reconstruction[:SHOWN].permute(0, 2, 3, 1).cpu().numpy() if shown is None else shown
    assert shown is not None
    parts, error = np.concatenate(seen, axis=1), np.concatenate(errors)
    return (
        parts[:, :SHOWN].mean(2).astype(np.float16),
        np.quantile(parts, QUANTILES, axis=(1, 2, 3, 4)).T,
        np.array([np.mean((low <= part) & (part <= high)) for part, (low, high) in zip(parts, PAPER, strict=True)]),
        np.array([part.var(0).mean() / part.var() for part in parts]),
        np.array([_rank_correlation(part, error) for part in parts]),
        shown,
    )


def _rank_correlation(one: NDArray[np.floating], other: NDArray[np.floating]) -> float:
    """Spearman's, over at most a million pixels."""
    from scipy.stats import spearmanr

    every = max(1, one.size // 1_000_000)
    return float(spearmanr(one.ravel()[::every], other.ravel()[::every]).statistic)


def summarise(found: Found) -> pd.DataFrame:
    """A line for each of the two: means over seeds, ± standard deviations."""
    columns = [f"{quantile:.0%}" for quantile in QUANTILES]
    quantiles = [[mean_and_spread(own, 2) for own in part.T] for part in found.quantiles.swapaxes(0, 1)]
    frame = pd.DataFrame(quantiles, index=pd.Index(PARTS, name="predicted"), columns=columns)
    frame["paper's range"] = [f"{low:.2f} to {high:.2f}" for low, high in PAPER]
    frame["in it"] = [mean_and_spread(100 * share, 0) + " %" for share in found.inside.T]
    frame["between pictures"] = [mean_and_spread(100 * share, 0) + " %" for share in found.varies.T]
    frame["with the error"] = [mean_and_spread(own, 2) for own in found.doubt.T]
    return frame


def _caption(seeds: int, small: bool) -> str:
    return (
        f"Means over {seeds} seeds ± their standard deviation. Quantiles over all pixels, channels and validation "
        "pictures; the share of them in the paper's range"
        + (", which is for faces" if small else "")
        + "; the share of the variance that is between pictures at one place rather than between places; the rank "
        "correlation with the absolute error of the reconstruction."
    )


def describe(found: Found, small: bool) -> str:
    """How maps vary with the picture, and in which range; the latter for faces only."""
    alpha, scale = (f"{low:.2f} to {high:.2f}" for low, *_, high in found.quantiles.mean(0))
    ranges, between = (" and ".join(f"{share:.0%}" for share in own.mean(0)) for own in (found.inside, found.varies))
    return (
        f"Nine tenths of the shapes are in {alpha}, of the scales in {scale}"
        + ("" if small else f"; in the paper's ranges are {ranges}")
        + f". Of their variance {between} is between pictures, the rest between places that are alike in all of them. "
        f"The scale ranks pixels as their error does with a correlation of {mean_and_spread(found.doubt[:, 1], 2)}: it "
        "marks what is hard to reconstruct."
    )


@styled
def picture(found: Found, faces: Faces | None) -> Picture:
    """A line for each picture: what is known of it, then its maps."""
    known: dict[str, NDArray[np.floating] | Pixels] = {}
    if faces is not None:
        known["input"] = faces.inputs
        if faces.reconstructions is not None:
            known["reconstruction"] = faces.reconstructions.clip(0, 1)
    columns = [*known, *PARTS]
    rows = found.maps.shape[1]
    figure = Figure(figsize=(1.9 * len(columns) + 0.6, 1.75 * rows + 0.3), layout="constrained")
    grid = figure.subplots(rows, len(columns), squeeze=False)
    for axes, title in zip(grid[0], columns, strict=True):
        axes.set_title(title)
    for column, pictures in enumerate(known.values()):
        for axes, one in zip(grid[:, column], pictures, strict=True):
            axes.imshow(one.squeeze(), cmap="gray", vmin=0, vmax=255 if one.dtype == np.uint8 else 1)
    for part, maps in enumerate(found.maps.astype(np.float32)):
        low, high = np.quantile(maps, [0.01, 0.99])
        own = grid[:, len(known) + part]
        drawn = [axes.imshow(one, cmap=HEAT, vmin=low, vmax=high) for axes, one in zip(own, maps, strict=True)]
        figure.colorbar(drawn[0], ax=list(own), shrink=0.6, aspect=30)
    for axes in grid.flat:
        axes.set(xticks=[], yticks=[])
        axes.grid(False)
        axes.spines[:].set_visible(False)
    return Picture(
        to_svg(figure),
        f"{rows} validation pictures in lines; the columns are {', '.join(columns)}.",
        "Shape and scale, of the first seed, are means over the channels of a pixel; each has one range of colours for "
        "all pictures."
        + ("" if "reconstruction" in known else " Faces may not be passed on: they are drawn where the data is."),
        wide=bool(known),
    )


def main() -> None:
    """Train on the faces in LIKELY_DATA and keep what draws the figure."""
    train_and_keep("vae_shape_scale", lambda context, data: look(*vae.faces(data), vae.FULL.paper, context)[0])


if __name__ == "__main__":
    main()
