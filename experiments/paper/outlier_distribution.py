"""Figure 6: the AUC of every detector of Table 3 on every set."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from experiments.entries.drawing import INK, MUTED, PALETTE, styled, to_svg
from experiments.entries.entry import Context, Result
from experiments.entries.parts import Picture, Table
from experiments.paper.outlier_detection import AE_S, PAPER, PCA_S, letter_all, over_seeds, score_all
from experiments.paper.outlier_letter import AS_READ

OURS = (PCA_S, AE_S)


def run(context: Context) -> Result:
    """Score every set with every detector, and draw how the AUC is spread."""
    scores = score_all(context, backwards=True)
    auc = scores.pivot_table(index="set", columns="method", values="AUC")
    auc = auc[auc.median().sort_values().index]
    notes = describe(auc, letter_all(context))
    return Result(
        "not judged",
        notes,
        tables=(
            Table(auc.describe().T.drop(columns="count"), _caption(scores, len(auc))),
            Table(auc, "AUC of every detector on every set, mean over seeds where it draws.", {tuple(auc): "higher"}),
        ),
        pictures=(picture(auc),),
    )


def _caption(scores: pd.DataFrame, sets: int) -> str:
    drawn = over_seeds(scores)
    seeds = scores.groupby("method")["seed"].nunique()
    counts = " or ".join(str(count) for count in sorted({*seeds[seeds > 1]}))
    return (
        f"AUC over {sets} sets, mean over {counts} seeds where a detector draws; over seeds the "
        f"standard deviation of the median is at most {drawn.max():.3f} ({drawn.idxmax()})."
    )


def describe(auc: pd.DataFrame, every: pd.DataFrame) -> str:
    """Median and lower quartile beside those of the middle one of the others, from every start."""
    others = auc[[name for name in PAPER if name in auc and name not in OURS]]
    if not len(others.columns):
        return "PyOD is not installed, so there is nothing to compete with."
    read = every[every["reading"] == AS_READ]
    starts = read.groupby(["model", "start", "components", "set"])["AUC"].mean().groupby(level=[0, 1, 2])
    words = []
    for name in OURS:
        for level, what in ((0.5, "median"), (0.25, "lower quartile")):
            own, middle = starts.quantile(level).loc[name], others.quantile(level).median()
            words.append(
                f"{what} of {name} {auc[name].quantile(level):.3f} ({own.min():.3f} to {own.max():.3f} from the starts "
                f"that the paper may mean), of the middle one of the others {middle:.3f}"
            )
    return f"Over {len(auc)} sets, PCA+S and AE+S to the letter: {'; '.join(words)}."


@styled
def picture(auc: pd.DataFrame) -> Picture:
    """A box for each detector, the paper's two in colour, with a dot for each set."""
    figure = Figure(figsize=(9.4, 1.2 + 0.34 * auc.shape[1]), layout="constrained")
    axes = figure.subplots()
    rng = np.random.default_rng(0)
    for place, name in enumerate(auc):
        colour = PALETTE["violet" if name in OURS else "blue" if name not in PAPER else "muted"][0]
        values = auc[name].dropna().to_numpy()
        axes.boxplot(
            values,
            positions=[place],
            orientation="horizontal",
            widths=0.6,
            whis=(0, 100),
            boxprops={"color": colour},
            whiskerprops={"color": colour},
            capprops={"color": colour},
            medianprops={"color": INK, "linewidth": 1.6},
        )
        axes.plot(values, place + rng.uniform(-0.18, 0.18, len(values)), "o", color=colour, markersize=2.5, alpha=0.7)
    axes.axvline(0.5, color=MUTED, linewidth=0.8, linestyle=":")
    axes.set_yticks(range(auc.shape[1]), list(auc))
    axes.set_xlabel("AUC: one half is chance")
    axes.set_title(f"AUC over {len(auc)} outlier sets, by median")
    return Picture(
        to_svg(figure),
        f"Box plots of AUC over {len(auc)} sets for {', '.join(map(str, auc))}, in the order of their medians.",
        "The paper's two in violet, other detectors of this package in blue, PyOD's in grey. Each dot is a set.",
        wide=True,
    )
