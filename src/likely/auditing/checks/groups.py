"""Groups of rows on which a model fails: leaves of a small tree whose held-out loss is above the rest."""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scipy.stats import ttest_ind
from sklearn.tree import DecisionTreeRegressor

from likely._numerics.significance import SURE, holm
from likely._page import Table
from likely._typing import Array, Mask, Places
from likely.auditing.columns.kinds import Columns, as_numbers
from likely.auditing.results.finding import Finding, number
from likely.auditing.sample import Sample

MAX_ROWS = 50_000
_CONDITIONS = 2  # of a group: the depth of the tree
_LEVELS = 15  # of a category, the most frequent, that are conditions
_FEWEST = 30  # rows of a half that make a group
_WORSE = 1.2  # times the loss of the rest that is called failing


class Group(NamedTuple):
    """Rows that meet one or two conditions, and the loss there."""

    where: str
    rows: int
    loss: float
    error: float
    rest: float
    p_value: float

    @property
    def times(self) -> float:
        """The loss there in units of that elsewhere."""
        return self.loss / max(self.rest, 1e-300)


class Split(NamedTuple):
    """A column of the tree's table: a number, or whether a column has a level, or no value."""

    column: str
    level: str | None = None

    def words(self, low: float, high: float) -> str:
        """The condition that the value is above ``low`` and not above ``high``."""
        if self.level is not None:
            return f"{self.column} {'≠' if low == -np.inf else '='} {self.level}"
        from_, to = number(low), number(high)
        if high == np.inf:
            return f"{self.column} > {from_}"
        return f"{self.column} ≤ {to}" if low == -np.inf else f"{from_} < {self.column} ≤ {to}"


def groups_of(sample: Sample, finding: Finding) -> Finding | None:
    """Report groups on which out-of-fold predictions of the target fail, from what judged the target."""
    columns, target = sample.columns, str(sample.target)
    if not finding.judged:
        return None
    if sample.task == "classification":
        loss, what = finding.scores["label_nll"][: len(sample)], f"the log-loss of {target}"
    elif columns.kinds[target] == "number":
        expected = finding.scores["expected"][: len(sample)]
        loss, what = np.abs(columns.typed[target].to_numpy(np.float64) - expected), f"the error of {target}"
    else:
        return None
    rows = np.flatnonzero(np.isfinite(loss))
    return failing_groups(columns, {target}, rows, loss[rows], what)


def failing_groups(columns: Columns, leave_out: set[str], rows: Places, loss: Array, what: str) -> Finding | None:
    """Report groups of rows in which predictions of held-out rows are worse than elsewhere.

    Groups are picked on one half of the rows and measured on the other.
    """
    some = np.random.RandomState(0).permutation(len(rows))[:MAX_ROWS]
    if len(some) < 4 * _FEWEST:
        return None
    splits = list(_splits(columns, leave_out, rows[some]))
    if not splits:
        return None
    names, parts = zip(*splits, strict=True)
    groups = worst_groups(np.column_stack(parts), names, loss[some], len(rows) / len(some))
    failing = [group for group in groups if group.p_value < SURE and group.times > _WORSE]
    frame = pd.DataFrame(
        {
            "rows": [group.rows for group in groups],
            "there": [f"{number(group.loss)} ± {number(float(f'{group.error:.1g}'))}" for group in groups],
            "elsewhere": [number(group.rest) for group in groups],
            "p, corrected": [f"{group.p_value:.2g}" for group in groups],
        },
        index=pd.Index([group.where for group in groups], name="where"),
    )
    more = f"more than {_WORSE:g} times that of the other rows"
    told = f"No group stands out: nowhere is {what} clearly (p < {SURE:g}) {more}."
    if failing:
        worst, others = failing[0], len(failing) - 1
        told = f"Where {worst.where}, {what} is {worst.times:.1f} times that of the other rows ({worst.rows:,} rows)."
        told += f" {others} more stand{'s' if others == 1 else ''} out." if others else ""
    caption = f"{what[0].upper()}{what[1:]}, on rows that were not used to choose the groups."
    return Finding(
        "groups",
        "Groups on which predictions fail",
        told,
        numbers={"groups": [group._asdict() for group in failing]},
        tables=(Table(frame, caption),) if groups else (),
        found=bool(failing),
    )


def _splits(columns: Columns, leave_out: set[str], rows: Places) -> Iterator[tuple[Split, Array | Mask]]:
    """What conditions can name: numbers, frequent levels of categories, and whether a value is missing."""
    for name in columns.named("number", "category", but=leave_out):
        values, levels = as_numbers(columns.typed[name].iloc[rows])
        missing = np.isnan(values)
        for code, level in enumerate((levels or [])[:_LEVELS]):
            yield Split(name, level=level), values == code
        if missing.any():
            yield Split(name, level="missing"), missing
        if levels is None and not missing.all():
            yield Split(name), np.where(missing, np.nanmedian(values), values)


def worst_groups(X: Array, splits: Sequence[Split], loss: Array, share: float = 1.0) -> list[Group]:
    """Grow a tree on the first half of the rows, and measure its leaves on the second.

    There are ``share`` times as many rows as are given.

    >>> rng = np.random.default_rng(0)
    >>> town, age = rng.integers(0, 3, 2000), rng.uniform(size=2000)
    >>> loss = rng.exponential(size=2000) * np.where((town == 1) & (age > 0.6), 3, 1)
    >>> X = np.column_stack([town == 0, town == 1, age])
    >>> worst_groups(X, [Split("town", level="A"), Split("town", level="B"), Split("age")], loss)[0].where
    'age > 0.6019 and town = B'
    """
    half = len(loss) // 2
    capped = np.minimum(loss, np.quantile(loss, 0.99))  # beyond the cap one row speaks for no group
    tree = DecisionTreeRegressor(max_depth=_CONDITIONS, min_samples_leaf=_FEWEST, random_state=0)
    leaf = tree.fit(X[:half], capped[:half]).apply(X)
    groups = []
    for node in np.unique(leaf):
        ends = _ends(tree, X[leaf == node][:1].astype(np.float32))
        inside = leaf[half:] == node
        if not ends or min(inside.sum(), (~inside).sum()) < _FEWEST // 2:
            continue
        there, elsewhere = loss[half:][inside], loss[half:][~inside]
        test = ttest_ind(capped[half:][inside], capped[half:][~inside], equal_var=False, alternative="greater")
        where = " and ".join(splits[column].words(*bounds) for column, bounds in ends.items())
        mean, error = float(there.mean()), float(there.std() / np.sqrt(len(there)))
        rows = share * int((leaf == node).sum())
        groups.append(Group(where, round(rows), mean, error, float(elsewhere.mean()), float(test.pvalue)))
    corrected = holm([group.p_value for group in groups])
    groups = [group._replace(p_value=float(p)) for group, p in zip(groups, corrected, strict=True)]
    return sorted(groups, key=lambda group: -group.times)


def _ends(tree: DecisionTreeRegressor, row: Any) -> dict[int, tuple[float, float]]:
    """Between which ends the columns of all rows lie that are in the leaf of one."""
    ends = dict[int, tuple[float, float]]()
    for node in tree.decision_path(row).indices[:-1]:
        column, cut = int(tree.tree_.feature[node]), float(tree.tree_.threshold[node])
        low, high = ends.get(column, (-np.inf, np.inf))
        ends[column] = (low, cut) if row[0, column] <= cut else (cut, high)
    return ends
