"""Groups of rows on which a model fails: one or two conditions on columns, and a held-out loss above the rest."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.stats import ttest_ind

from likely._page import Table
from likely._typing import Array
from likely.auditing._columns import Columns, as_numbers
from likely.auditing._finding import Finding, are_years, number
from likely.auditing.checks._many import SURE, holm

_ROWS = 50_000
_CONDITIONS = 400
_LEVELS = 15  # of a category, the most frequent, that are conditions
_CUTS = (0.1, 0.25, 0.5, 0.75, 0.9)  # quantiles at which numbers are cut
_SHARE, _FEWEST = 0.02, 30  # of the rows, and rows of a half, that make a group
_CANDIDATES = 8  # groups picked on one half of the rows and measured on the other
_OVERLAP = 0.5  # of a group's rows: a later group that shares more with an earlier one is the same
_BETTER = 1.1  # times the excess of its parts that two conditions together must have
_WORSE = 1.2  # times the loss of the rest that is called failing


class Group(NamedTuple):
    """Rows that meet one or two conditions, and the loss there."""

    where: str
    rows: int
    loss: float
    error: float
    rest: float
    p_value: float


def groups_of(columns: Columns, target: str, findings: Iterable[Finding]) -> Finding | None:
    """Report groups on which out-of-fold predictions of the target fail, from what judged the target."""
    for finding in findings:
        if not finding.judged:
            continue
        if "label_nll" in finding.scores:
            loss, what = np.asarray(finding.scores["label_nll"], np.float64), f"the log-loss of {target}"
        elif "expected" in finding.scores and columns.kinds[target] == "number":
            expected = np.asarray(finding.scores["expected"], np.float64)
            loss, what = np.abs(columns.typed[target].to_numpy(np.float64) - expected), f"the error of {target}"
        else:
            continue
        rows = np.flatnonzero(np.isfinite(loss))
        return failing_groups(columns, {target}, rows, loss[rows], what)
    return None


def failing_groups(
    columns: Columns, leave_out: set[str], rows: NDArray[np.int64], loss: Array, what: str
) -> Finding | None:
    """Report groups of rows in which predictions of held-out rows are worse than elsewhere.

    Groups are picked on one half of the rows and measured on the other.
    """
    some = np.random.RandomState(0).permutation(len(rows))[:_ROWS]
    if len(some) < 4 * _FEWEST:
        return None
    masks, words = conditions(columns, leave_out, rows[some], loss[some])
    if not words:
        return None
    groups = worst_groups(masks, words, loss[some])
    failing = [group for group in groups if group.p_value < SURE and group.loss > _WORSE * group.rest]
    share = len(rows) / len(some)
    frame = pd.DataFrame(
        {
            "rows": [round(group.rows * share) for group in groups],
            "there": [f"{number(group.loss)} ± {number(float(f'{group.error:.1g}'))}" for group in groups],
            "elsewhere": [number(group.rest) for group in groups],
            "p, corrected": [f"{group.p_value:.2g}" for group in groups],
        },
        index=pd.Index([group.where for group in groups], name="where"),
    )
    return Finding(
        "groups",
        "Groups on which predictions fail",
        f"Where {failing[0].where}, {what} is {failing[0].loss / max(failing[0].rest, 1e-300):.1f} times that of the "
        f"other rows ({round(failing[0].rows * share):,} rows)."
        + ("" if len(failing) < 2 else f" {len(failing) - 1} more stand{'s' if len(failing) == 2 else ''} out.")
        if failing
        else f"No group of one or two columns stands out: nowhere is {what} clearly (p < {SURE:g}) more than "
        f"{_WORSE:g} times that of the other rows.",
        numbers={
            "groups": [
                {
                    "where": group.where,
                    "rows": round(group.rows * share),
                    "loss": round(group.loss, 6),
                    "error": round(group.error, 6),
                    "rest": round(group.rest, 6),
                    "p_value": group.p_value,
                }
                for group in failing
            ]
        },
        tables=(Table(frame, f"{what[0].upper()}{what[1:]}, on rows that were not used to choose the groups."),)
        if groups
        else (),
    )


def conditions(
    columns: Columns, leave_out: set[str], rows: NDArray[np.int64], loss: Array
) -> tuple[NDArray[np.bool_], list[tuple[str, str]]]:
    """List the conditions that groups are made of: cuts of numbers, levels of categories, gaps."""
    candidates: list[tuple[float, NDArray[np.bool_], tuple[str, str]]] = []
    half = len(rows) // 2
    excess = np.minimum(loss[:half], _cap(loss))
    excess = excess - excess.mean()
    for name, kind in columns.kinds.items():
        if name in leave_out or kind not in ("number", "category"):
            continue
        for mask, words in _of_column(columns.typed[name].iloc[rows], kind):
            if max(_FEWEST * 2, _SHARE * len(rows)) <= mask.sum() < len(rows) - _FEWEST:
                clear = float(excess @ mask[:half]) / float(np.sqrt(max(mask[:half].sum(), 1)))
                candidates.append((clear, mask, (name, f"{name} {words}")))
        if len(candidates) > 2 * _CONDITIONS:
            candidates = _clearest(candidates)
    candidates = _clearest(candidates)
    masks = np.column_stack([mask for _, mask, _ in candidates]) if candidates else np.zeros((len(rows), 0), bool)
    return masks, [words for _, _, words in candidates]


def _clearest(
    candidates: list[tuple[float, NDArray[np.bool_], tuple[str, str]]],
) -> list[tuple[float, NDArray[np.bool_], tuple[str, str]]]:
    return sorted(candidates, key=lambda candidate: -candidate[0])[:_CONDITIONS]


def _of_column(column: pd.Series[Any], kind: str) -> Iterator[tuple[NDArray[np.bool_], str]]:
    """The conditions on one column, with their words."""
    values, levels = as_numbers(column)
    missing = np.isnan(values)
    if missing.any():
        yield missing, "is missing"
    if kind == "category" and levels is not None:
        yield from ((values == place, f"= {level}") for place, level in enumerate(levels[:_LEVELS]))
    elif not missing.all():
        year = are_years(values)
        for cut in np.unique(np.quantile(values[~missing], _CUTS)):
            yield values <= cut, f"≤ {number(float(cut), year=year)}"
            yield values > cut, f"> {number(float(cut), year=year)}"


def worst_groups(masks: NDArray[np.bool_], words: list[tuple[str, str]], loss: Array) -> list[Group]:
    """Pick the groups with the clearest excess on the first half of the rows, and measure them on the second.

    >>> rng = np.random.default_rng(0)
    >>> town, old = rng.integers(0, 3, 2000), rng.uniform(size=2000) > 0.6
    >>> loss = rng.exponential(size=2000) * np.where((town == 1) & old, 3, 1)
    >>> masks = np.column_stack([town == 0, town == 1, old, ~old])
    >>> words = [("town", "town = 0"), ("town", "town = 1"), ("old", "old"), ("old", "new")]
    >>> worst_groups(masks, words, loss)[0].where
    'town = 1 and old'
    """
    half = len(loss) // 2
    picked = _pick(masks[:half], words, np.clip(loss[:half], None, _cap(loss)))
    held, value = masks[half:], loss[half:]
    groups, p_values = [], []
    for i, j in picked:
        inside = held[:, i] & held[:, j]
        if min(int(inside.sum()), int((~inside).sum())) < _FEWEST // 2:
            continue
        losses, rest = value[inside], value[~inside]
        capped = [np.clip(part, None, _cap(loss)) for part in (losses, rest)]
        p_values.append(float(ttest_ind(*capped, equal_var=False, alternative="greater").pvalue))
        where = words[i][1] if i == j else f"{words[i][1]} and {words[j][1]}"
        error = float(losses.std() / np.sqrt(len(losses)))
        rows = int((masks[:, i] & masks[:, j]).sum())
        groups.append(Group(where, rows, float(losses.mean()), error, float(rest.mean()), 1.0))
    corrected = [group._replace(p_value=float(p)) for group, p in zip(groups, holm(p_values), strict=True)]
    return sorted(corrected, key=lambda group: -group.loss / max(group.rest, 1e-300))


def _cap(loss: Array) -> float:
    """A loss beyond which one row speaks for no group."""
    return float(np.quantile(loss, 0.99))


def _pick(masks: NDArray[np.bool_], words: list[tuple[str, str]], loss: Array) -> list[tuple[int, int]]:
    """Pairs of conditions, or a condition with itself, with the clearest excess, that share few rows."""
    M = masks.astype(np.float32)
    centred = (loss - loss.mean()).astype(np.float32)
    spread = max(float(loss.std()), 1e-12)
    count = M.T @ M
    excess = (M.T @ (M * centred[:, None])) / np.maximum(count, 1)
    columns = pd.factorize(pd.Series([name for name, _ in words]))[0]
    same = columns[:, None] == columns[None, :]
    np.fill_diagonal(same, False)
    single = np.diag(excess)
    small = count < max(_FEWEST, _SHARE * len(loss))
    # Two conditions are no better than the better of them alone, unless they say so.
    pair = ~np.eye(len(single), dtype=bool)
    no_gain = pair & (excess < _BETTER * np.maximum(single[:, None], single[None, :]))
    z = np.where(same | small | no_gain, -np.inf, excess * np.sqrt(count) / spread)
    z[np.tril_indices(len(single), -1)] = -np.inf
    picked: list[tuple[int, int]] = []
    covered: list[NDArray[np.bool_]] = []
    for place in np.argsort(-z, axis=None, kind="stable")[:2_000]:
        i, j = divmod(int(place), len(single))
        if not z[i, j] > 2 or len(picked) == _CANDIDATES:
            break
        inside = masks[:, i] & masks[:, j]
        if all(np.sum(inside & other) <= _OVERLAP * min(inside.sum(), other.sum()) for other in covered):
            picked.append((i, j))
            covered.append(inside)
    return picked
