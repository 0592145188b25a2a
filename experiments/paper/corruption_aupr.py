"""Figure 8: the temperature as a detector of corrupted CIFAR-10 rows, by data (DT) and by model temperatures (MT).

The paper names neither its corruptions nor their share. Here a fifth of the rows is corrupted, in one of three ways:
another label, noise over the image, or a blurred image. Beside the temperatures stand what needs none, and two
controls: data temperatures that learn ten times faster, which should do well if slowness is what ails DT; and predicted
temperatures that are all one at first, which should do as well as MT if MT find what they have learned.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import torch
from matplotlib.figure import Figure

from experiments.data import Images, load_images
from experiments.entries.cores import one_thread
from experiments.entries.drawing import MUTED, PALETTE, styled, to_svg
from experiments.entries.entry import Context, Result
from experiments.entries.parts import Picture, Table
from experiments.paper._comparison import Difference, mean_and_spread, paired
from experiments.paper._corruption import (
    CALM,
    DETECTORS,
    DOUBT,
    DT,
    FAST,
    HEAT,
    KINDS,
    MT,
    NETWORKS,
    NLL,
    PLAIN,
    SHARE,
    Effort,
    Found,
    everything,
)
from experiments.paper._stored import stored, train_and_keep, trains
from experiments.paper._vision import Recipe, digits

QUICK = Effort(2, 400, (1, 2, 4), Recipe((12, 24), 4, 64, 1e-2))
FULL = Effort(5, 6000, (1, 3, 6), Recipe((32, 64, 128, 256), 6, 128, 3e-3))
ON_GPU = Effort(5, 50_000, (1, 4, 12), Recipe((64, 128, 256, 256), 12, 512, 3e-3, residual=True))
FRESH = 2000  # rows that no network was trained on
Detector = tuple[str, str]
TEMPERATURES = {MT: ("violet", "-"), CALM: ("violet", ":"), DT: ("blue", "-"), FAST: ("blue", ":")}
DRAWN = {  # detector: colour and line
    **{(network, HEAT): look for network, look in TEMPERATURES.items()},
    (DT, DOUBT): ("gold", "--"),
    (PLAIN, NLL): ("green", "--"),
}


@one_thread()
def run(context: Context) -> Result:
    """Train every network on every kind of corruption, or draw what was kept of that."""
    if context.quick:
        about = "On scikit-learn's digits instead of CIFAR-10."
        found = everything(*_digits(), QUICK, context)
    elif trains(context, "cifar10"):
        found = everything(*_cifar(context.data), ON_GPU, context)
        about = f"On {found.rows:,} CIFAR-10 images."
    else:
        kept = stored("corruption_aupr")
        found = Found(**kept.arrays)
        about = f"{kept.made} On {found.rows:,} CIFAR-10 images, seeds 0 to {found.aupr.shape[2] - 1}."
    notes = describe(found)
    return Result(
        "not judged",
        f"{about} {notes}",
        tables=(
            Table(
                summarise(found),
                f"Area under the precision-recall curve after {found.looks[-1]} epochs, where {SHARE:.0%} of the rows "
                f"are corrupted (chance is {SHARE:g}); mean ± standard deviation over {found.aupr.shape[2]} seeds, "
                "each with its own rows, corruptions and weights. The NLL ranks as cleanlab's self-confidence does. "
                "The paper shows a curve but prints no numbers, and names neither corruptions nor their share.",
            ),
            Table(
                pd.DataFrame(differences(found)).T.rename_axis("difference").map(str),
                "Differences of AUPR between two detectors, paired by seed, ± standard error. The first three rows are "
                "the paper's claims; a difference of more than two standard errors is called clear.",
            ),
            Table(
                elsewhere(found),
                "The same detectors on fresh rows that were corrupted alike; data temperatures have no score there. "
                "Accuracy is on fresh clean rows.",
            ),
        ),
        pictures=(_curves(found), _moved(found)),
    )


def summarise(found: Found) -> pd.DataFrame:
    """A row for each detector."""
    last = found.aupr[:, :, :, -1]
    cells = {kind: [mean_and_spread(last[k, d], 3) for d in range(len(DETECTORS))] for k, kind in enumerate(KINDS)}
    index = pd.MultiIndex.from_tuples(DETECTORS, names=["network", "detector"])
    return pd.DataFrame(cells, index=index)


def elsewhere(found: Found) -> pd.DataFrame:
    """The detectors that fresh rows have, and every network's accuracy."""
    rows = {
        names: [mean_and_spread(found.unseen[k, d], 3) for k in range(len(KINDS))]
        for d, names in enumerate(DETECTORS)
        if np.isfinite(found.unseen[:, d]).all()
    }
    rows |= {
        (network, "accuracy"): [mean_and_spread(found.accuracy[k, n], 3) for k in range(len(KINDS))]
        for n, network in enumerate(NETWORKS)
    }
    index = pd.MultiIndex.from_tuples(rows, names=["network", "on fresh rows"])
    return pd.DataFrame(list(rows.values()), index=index, columns=list(KINDS))


def differences(found: Found) -> dict[str, dict[str, Difference]]:
    """The claims, then what they must be held against, for every kind of corruption."""
    return {
        "MT above chance": _against(found, (MT, HEAT), None),
        "MT above DT": _against(found, (MT, HEAT), (DT, HEAT)),
        "DT's network above DT": _against(found, (DT, DOUBT), (DT, HEAT)),
        "DT ten times faster above DT": _against(found, (FAST, HEAT), (DT, HEAT)),
        "MT above MT that is one at first": _against(found, (MT, HEAT), (CALM, HEAT)),
        "plain NLL above MT": _against(found, (PLAIN, NLL), (MT, HEAT)),
    }


def describe(found: Found) -> str:
    """Where temperatures clearly find corruptions, and where others find more, by paired differences over seeds."""
    every = differences(found)
    clear = {name: [kind for kind, one in own.items() if one.sign > 0] for name, own in every.items()}
    finds, ahead, moved, _, started, rival = (", ".join(kinds) or "nowhere" for kinds in clear.values())
    gain = max(one.mean for one in every["DT ten times faster above DT"].values())
    return (
        f"Predicted temperatures (MT) find corrupted rows clearly better than chance: {finds}; better than data "
        f"temperatures (DT): {ahead}. Where the network trained with DT finds more by its own confidence than by DT: "
        f"{moved}. Slowness is the paper's reason; DT that learn ten times faster gain "
        f"{gain:+.3f} at most. MT begin with random weights, as in the paper, and find more than MT that are all one "
        f"at first: {started}. The NLL of a network without any temperature finds more than MT: {rival}."
    )


def _against(found: Found, ours: Detector, theirs: Detector | None) -> dict[str, Difference]:
    last = found.aupr[:, :, :, -1]
    own = last[:, DETECTORS.index(ours)]
    other = np.full_like(own, SHARE) if theirs is None else last[:, DETECTORS.index(theirs)]
    return {kind: paired(own[k], other[k], test_per_train=0) for k, kind in enumerate(KINDS)}


@styled
def _curves(found: Found) -> Picture:
    figure = Figure(figsize=(9.4, 3.6), layout="constrained")
    for kind, (name, axes) in enumerate(zip(KINDS, figure.subplots(1, len(KINDS), sharey=True), strict=True)):
        for detector, (colour, style) in DRAWN.items():
            values = found.aupr[kind, DETECTORS.index(detector)]
            own = {"color": PALETTE[colour][0], "linestyle": style}
            axes.plot(found.looks, values.mean(0), label=": ".join(detector), **own)
            axes.fill_between(found.looks, values.min(0), values.max(0), color=own["color"], alpha=0.15, linewidth=0)
        axes.axhline(SHARE, color=MUTED, linewidth=1)
        axes.set(title=name, xlabel="epoch", ylim=(0, 1.02), xticks=found.looks)
    figure.axes[0].set_ylabel("AUPR")
    handles, labels = figure.axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=3, columnspacing=1.2)
    return Picture(
        to_svg(figure),
        "The area under the precision-recall curve against the epoch, a panel for each kind of corruption and a line "
        "for each detector.",
        "Mean and range over seeds; the grey line is chance. Dashed lines are what a network says without its "
        "temperature.",
        wide=True,
    )


@styled
def _moved(found: Found) -> Picture:
    figure = Figure(figsize=(9.4, 2.8), layout="constrained")
    for kind, (name, axes) in enumerate(zip(KINDS, figure.subplots(1, len(KINDS), sharey=True), strict=True)):
        for network, (colour, style) in TEMPERATURES.items():
            values = found.spread[kind, NETWORKS.index(network)]
            axes.plot(found.looks, values.mean(0), color=PALETTE[colour][0], linestyle=style, label=network)
        axes.set(title=name, xlabel="epoch", xticks=found.looks)
    figure.axes[0].set_ylabel("sd of log temperature")
    handles, labels = figure.axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=4)
    return Picture(
        to_svg(figure),
        "The spread of the log temperatures against the epoch for predicted and data temperatures.",
        "How far apart the temperatures of rows are. DT start at one, all of them; MT start from random weights, as in "
        "the paper.",
        wide=True,
    )


def _digits() -> tuple[Images, Images]:
    images, rows = digits(), np.arange(1797)
    return images.select(rows[:1200]), images.select(rows[1200:])


def _cifar(data: Path | None) -> tuple[Images, Images]:
    return load_images("cifar10", "train", data), load_images("cifar10", "test", data).select(np.arange(FRESH))


def main() -> None:
    """Train on the pictures in LIKELY_DATA and keep what draws the figure."""
    effort = ON_GPU if torch.cuda.is_available() else FULL
    train_and_keep("corruption_aupr", lambda context, data: everything(*_cifar(data), effort, context))


if __name__ == "__main__":
    main()
