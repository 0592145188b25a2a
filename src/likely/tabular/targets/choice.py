"""The choice of a likelihood: values with mass of their own are found by counting, and the rest by quick fits.

Each likelihood that the values allow is fitted to a part of the rows, and compared on held-out rows.
"""

from dataclasses import replace

import numpy as np
import torch

from likely._numerics.significance import held_out_gain
from likely._typing import Array, Index
from likely.tabular._stack import Pool, Stack
from likely.tabular.members.estimators import Growth, fit_boosting
from likely.tabular.members.task import Task
from likely.tabular.targets import counts
from likely.tabular.targets.continuous import ContinuousTarget, countable, family_of
from likely.tabular.targets.links import Link, possible_links
from likely.tabular.targets.noise import FAMILIES, learn_noise

MAX_ATOMS = 2  # a floor and a cap
MIN_ATOM_ROWS = 5  # smallest number of rows at an atom
MIN_ATOM_SHARE = 0.05  # and their smallest share
ATOM_RATIO = 5.0  # of the rows at an atom to those at any other value: in rounded data all values repeat
MIN_OTHER_ROWS = 2  # smallest number of rows off the atoms that each model must learn from
# Up to so many rows none of which is negative, or above one, may be chance: a likelihood that allows only what was seen
# would call a new row beyond impossible.
FEW_ROWS = 100
CHOICE_ROWS = 2000  # largest number of rows used for the choice
GROWTH = Growth(rate=0.3, leaves=15, rounds=50, patience=5)
NAMED = {name: ("identity", name) for name in FAMILIES} | {"log_normal": ("log", "normal")}  # link and family
NAMED |= {name: ("counts", name) for name in counts.FAMILIES}


def find_atoms(y: Array, weight: Array, folds: Index) -> Array:
    """Return the values, at most two, that repeat far more often than any other; none of a constant or of counts."""
    if countable(y):
        return y[:0]
    values, place = np.unique(y, return_inverse=True)
    rows_at = np.bincount(place, weight)
    order = np.argsort(-rows_at, kind="stable")
    rows_at = np.append(rows_at[order], [0.0] * MAX_ATOMS)
    if len(values) == MAX_ATOMS and rows_at[0] >= MIN_ATOM_ROWS:
        return values
    least = max(MIN_ATOM_ROWS, MIN_ATOM_SHARE * rows_at.sum())
    possible = range(1, min(MAX_ATOMS, len(values) - 1) + 1)
    numbers = [k for k in possible if rows_at[k - 1] >= max(least, ATOM_RATIO * rows_at[k])]
    atoms = np.sort(values[order[: max(numbers, default=0)]])
    others = folds[~np.isin(y, atoms)] % 2  # quick fits, which look for outliers, have two folds
    return y[:0] if np.bincount(others, minlength=2).min() < MIN_OTHER_ROWS else atoms


def choose(task: Task, y: Array, counts: bool = True, floor: bool = False) -> tuple[str, dict[str, float]]:
    """Choose ``"identity"``, ``"log"``, ``"logit"`` or ``"counts"``; also return the held-out NLL of each candidate.

    ``floor`` says that zero is the least value of the whole target, of which this is a part.
    """
    seen = possible_links(y) if floor or task.weight.sum() > FEW_ROWS else ("identity",)
    links = [*seen, *(["counts"] if counts and countable(y) else [])]
    if len(links) == 1:
        return links[0], {}
    step = -(-len(y) // CHOICE_ROWS)
    task, y = replace(task.subsample(step), folds=task.folds[::step] % 2), y[::step]
    nll = {link: _held_out_nll(task, y, link) for link in links}
    best = links[0]
    for link in links[1:]:
        if held_out_gain(nll[best] - nll[link], task.weight).sure() > 0:
            best = link
    return best, {link: round(float(np.average(losses, weights=task.weight)), 4) for link, losses in nll.items()}


def _held_out_nll(task: Task, y: Array, link: str) -> Array:
    """The NLL of each row under a link, from boosted trees that were fitted without the row."""
    if link == "counts":
        count_task = replace(task, target=y[:, None], link="log")
        location = fit_boosting(count_task, GROWTH).out_of_fold[:, 0]
        spread, _, log_square = counts.learn_dispersion(count_task, location, "auto", varying=True)
        return counts.nll_of(spread, y, location, log_square)
    units = Link.learn(link, y, task.weight)
    z = units.forward(y)
    standardized = replace(task, target=z[:, None], link="identity")
    location = fit_boosting(standardized, GROWTH).out_of_fold[:, 0]
    noise = learn_noise(
        replace(standardized, table=task.table.beside(location)), z - location, family_of(link, "student_t")
    )
    if link != "identity" or not countable(y) or y.min() > 0:
        return noise.nll - units.log_slope(y)
    # A count without a link is a rounded real number.
    model = ContinuousTarget(
        units, Stack({}, ()), Pool(np.ones(1), 0.0), noise, {}, np.ones(1, dtype=bool), above_zero=True, is_count=True
    )
    return -np.asarray(model.distribution(location, noise.out_of_fold).log_prob(torch.as_tensor(y)))
