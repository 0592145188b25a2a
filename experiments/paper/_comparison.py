"""Methods compared on the same splits of the same sets: paired differences, and how often they are clear."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from numpy.typing import ArrayLike, NDArray

from experiments.entries.drawing import MUTED, PALETTE, styled, to_svg
from experiments.entries.parts import Picture

# For each method: (splits, measures), NaN where it has no such measure.
Scores = Mapping[str, NDArray[np.float64]]


@dataclass(frozen=True)
class Difference:
    """A mean over splits and its standard error."""

    mean: float
    error: float

    @property
    def sign(self) -> int:
        """-1 or 1 where the mean is more than two standard errors from zero, else 0."""
        return int(np.sign(self.mean)) if math.isinf(self.mean) or abs(self.mean) > 2 * self.error else 0

    def __str__(self) -> str:
        if math.isnan(self.mean):
            return "–"
        # Two digits of the error, within reason.
        places = 4 if not 0 < self.error < math.inf else min(max(1 - math.floor(math.log10(self.error)), 1), 4)
        return f"{self.mean:+z.{places}f} ± {self.error:.{places}f}".replace("-", "−").replace("inf", "∞")


def mean_and_spread(values: NDArray[np.float64], digits: int) -> str:
    """A mean over seeds ± the standard deviation.

    >>> mean_and_spread(np.array([-0.5, -0.7]), 2)
    '−0.60 ± 0.14'
    """
    return f"{values.mean():.{digits}f} ± {values.std(ddof=1):.{digits}f}".replace("-", "−")


def spread_over_seeds(tables: Sequence[pd.DataFrame]) -> str:
    """How far the tables of several seeds are apart, in words.

    >>> spread_over_seeds([pd.DataFrame({"error": [1.0, 2.0]}), pd.DataFrame({"error": [1.0, 4.0]})])
    'Means over 2 seeds, whose standard deviation is 0.707 at the median and 1.414 at most.'
    """
    found = np.stack([table.select_dtypes("float") for table in tables]).std(axis=0, ddof=1)
    middle, most = np.nanmedian(found), np.nanmax(found)
    deviation = f"whose standard deviation is {middle:.3f} at the median and {most:.3f} at most"
    return f"Means over {len(tables)} seeds, {deviation}."


def mean_over_seeds(tables: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """The first table, with means in place of its floats; all else must be the same in every seed."""
    numbers = list(tables[0].select_dtypes("float"))
    assert all(table.drop(columns=numbers).equals(tables[0].drop(columns=numbers)) for table in tables)
    return tables[0].assign(**{column: sum(table[column] for table in tables) / len(tables) for column in numbers})


def paired(ours: ArrayLike, theirs: ArrayLike, *, test_per_train: float) -> Difference:
    """The mean of ours - theirs over splits, with the corrected error of Nadeau and Bengio (2003).

    Splits of one set overlap, so their spread alone understates the error: its square is the variance over splits
    times 1/k + test rows / training rows. For independent sets ``test_per_train`` is 0 and it is the usual one.

    >>> print(paired([1.0, 2.0, 3.0], [0.0, 0.0, 0.0], test_per_train=0))
    +2.00 ± 0.58
    """
    found: NDArray[np.float64] = np.asarray(ours, dtype=float) - np.asarray(theirs, dtype=float)
    if not np.isfinite(found).all():
        return Difference(float(found.mean()), math.inf)
    return Difference(float(found.mean()), float(found.std(ddof=1)) * math.sqrt(1 / len(found) + test_per_train))


@dataclass(frozen=True)
class Comparison:
    """Scores of methods on sets, lower being better, and the method the others are held against."""

    scores: Mapping[str, Scores]
    measures: tuple[str, ...]
    baseline: str
    test_per_train: float
    order: tuple[str, ...]

    @property
    def methods(self) -> list[str]:
        """Every method some set has, in order."""
        return [method for method in self.order if any(method in own for own in self.scores.values())]

    def difference(self, name: str, ours: str, theirs: str, measure: str) -> Difference:
        """Ours less theirs on one set; NaN where the set lacks one of them."""
        own, which = self.scores[name], self.measures.index(measure)
        if ours not in own or theirs not in own:
            return Difference(math.nan, math.nan)
        return paired(own[ours][:, which], own[theirs][:, which], test_per_train=self.test_per_train)

    def differences(self, ours: str, theirs: str, measure: str) -> list[Difference]:
        """Ours less theirs on every set that has both."""
        every = (self.difference(name, ours, theirs, measure) for name in self.scores)
        return [one for one in every if not math.isnan(one.mean)]

    def signs(self, ours: str, theirs: str, measure: str) -> list[int]:
        """On every set that has both: -1 where ours is clearly lower, 1 where clearly higher, else 0."""
        return [one.sign for one in self.differences(ours, theirs, measure)]

    def means(self, measure: str, index: str, methods: Iterable[str] | None = None) -> pd.DataFrame:
        """The mean over splits, a row for each set and a column for each method that has the measure."""
        which = self.measures.index(measure)
        rows = {name: {m: v[:, which].mean() for m, v in own.items()} for name, own in self.scores.items()}
        columns = [method for method in self.methods if methods is None or method in methods]
        table = pd.DataFrame.from_dict(rows, orient="index", columns=columns).dropna(axis="columns", how="all")
        table.index.name = index
        return table

    def spread(self, measure: str, methods: Iterable[str]) -> str:
        """How far splits of one set are apart, in words."""
        which, wanted = self.measures.index(measure), list(methods)
        every = [v[:, which].std(ddof=1) for own in self.scores.values() for m, v in own.items() if m in wanted]
        found = np.array([value for value in every if math.isfinite(value)])
        return f"Over splits the standard deviation is {np.median(found):.4f} at the median, {found.max():.4f} at most."

    def against_baseline(self, measure: str, index: str, methods: Iterable[str]) -> pd.DataFrame:
        """Methods less the baseline, with the standard error, as words."""
        shown = [m for m in methods if self.differences(m, self.baseline, measure)]
        rows = {name: {m: str(self.difference(name, m, self.baseline, measure)) for m in shown} for name in self.scores}
        table = pd.DataFrame.from_dict(rows, orient="index")
        table.index.name = index
        return table

    def records(self, ours: Iterable[str], rivals: Iterable[str]) -> pd.DataFrame:
        """On how many sets ours is clearly better – neither – clearly worse than each rival."""
        rivals = list(rivals)
        table = pd.DataFrame(
            {f"{o}, {m}": {r: _record(self.signs(o, r, m)) for r in rivals} for o in ours for m in self.measures}
        )
        table.index.name = "against"
        return table

    def differences_and_records(self, ours: Iterable[str], rivals: Iterable[str]) -> pd.DataFrame:
        """For each of ours and each rival: the mean difference over sets, and on how many it is clear."""
        rows: dict[tuple[str, str], dict[str, str]] = {}
        for own, rival in product(ours, rivals):
            row = rows[own, rival] = {}
            for measure in self.measures:
                every = self.differences(own, rival, measure)
                signs = [one.sign for one in every]
                mean = np.mean([one.mean for one in every]) if every else math.nan
                row[f"{measure}, mean difference"] = f"{mean:+z.4f}".replace("-", "−") if every else "–"
                row[f"{measure}, record"] = _record(signs)
        table = pd.DataFrame.from_dict(rows, orient="index")
        table.index = pd.MultiIndex.from_tuples(rows, names=["ours", "against"])
        return table

    @styled
    def picture(self, measure: str, colours: Mapping[str, str]) -> Picture:
        """The differences to the baseline of the methods named, with two standard errors."""
        figure = Figure(figsize=(9.4, 1.6 + 0.42 * len(self.scores)), layout="constrained")
        axes = figure.subplots()
        shown = [method for method in colours if self.differences(method, self.baseline, measure)]
        for method, height in zip(shown, np.linspace(0.3, -0.3, len(shown)), strict=True):
            gaps = [self.difference(name, method, self.baseline, measure) for name in self.scores]
            axes.errorbar(
                [gap.mean for gap in gaps],
                [height - place for place in range(len(gaps))],
                xerr=[2 * gap.error for gap in gaps],
                color=PALETTE[colours[method]][0],
                label=method,
                fmt="o",
                markersize=4,
                linewidth=1.4,
            )
        axes.axvline(0, color=MUTED, linewidth=1.2)
        axes.set_ylim(0.5 - len(self.scores), 0.5)
        axes.set_yticks([-place for place in range(len(self.scores))], list(self.scores))
        axes.set_title(f"{measure} less that of {self.baseline}")
        axes.set_xlabel(f"difference of {measure}: left of the line is better than {self.baseline}")
        figure.legend(loc="outside lower center", ncols=len(shown), columnspacing=1.2, handlelength=1.2)
        return Picture(
            to_svg(figure),
            f"Differences of {measure} to {self.baseline} on each set, with error bars, for {', '.join(shown)}.",
            f"{measure}: mean paired difference to {self.baseline} over splits, and two standard errors.",
            wide=True,
        )


def _record(signs: Sequence[int]) -> str:
    """How many are clearly better – neither – clearly worse."""
    return f"{signs.count(-1)} – {signs.count(0)} – {signs.count(1)}" if signs else "–"


def beside_paper(means: pd.DataFrame, paper: Mapping[str, Mapping[str, float]], label: str) -> pd.DataFrame:
    """Under the row of each set the paper has, the paper's own values."""
    rows = {}
    for name, own in means.iterrows():
        rows[str(name), "here"] = own
        if str(name) in paper:
            rows[str(name), "paper"] = pd.Series(paper[str(name)]).reindex(means.columns)
    table = pd.DataFrame.from_dict(rows, orient="index")
    table.index = pd.MultiIndex.from_tuples(rows, names=[means.index.name, label])
    return table
