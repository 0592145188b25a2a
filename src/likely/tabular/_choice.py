"""The choice of a likelihood: each that the target's values allow is fitted quickly and compared on held-out rows."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch

from likely._solvers.selection import held_out_gain
from likely._typing import Array
from likely.tabular import _counts
from likely.tabular._council import Council
from likely.tabular._links import Link, possible_links
from likely.tabular._noise import FAMILIES, learn_noise
from likely.tabular._pool import Pool
from likely.tabular._real import Real, countable, family_of
from likely.tabular.members._task import Task
from likely.tabular.members.boosting import Growth, fit_boosting

LOOK = 2000  # largest number of rows used for the choice
MARGIN = 2.0  # standard errors by which another likelihood must be better to replace the best so far
GROWTH = Growth(rate=0.15, leaves=15, rounds=100, patience=10)
NAMED = {name: ("identity", name) for name in FAMILIES} | {"log_normal": ("log", "normal")}  # link and family
NAMED |= {name: ("counts", name) for name in _counts.FAMILIES}


def choose(task: Task, y: Array) -> tuple[str, dict[str, float]]:
    """Choose ``"identity"``, ``"log"``, ``"logit"`` or ``"counts"``; also return the held-out NLL of each candidate."""
    links = [*possible_links(y), *(["counts"] if countable(y) else [])]
    if len(links) == 1:
        return links[0], {}
    step = -(-len(y) // LOOK)
    task, y = replace(task.subsample(step), folds=task.folds[::step] % 2), y[::step]
    nll = {link: _held_out_nll(task, y, link) for link in links}
    best = links[0]
    for link in links[1:]:
        if held_out_gain(nll[best] - nll[link], task.weight).sure(MARGIN) > 0:
            best = link
    return best, {link: round(float(np.average(losses, weights=task.weight)), 4) for link, losses in nll.items()}


def _held_out_nll(task: Task, y: Array, link: str) -> Array:
    """The NLL of each row under a link, from boosted trees that were fitted without the row."""
    if link == "counts":
        counts = replace(task, target=y[:, None], link="log")
        location = fit_boosting(counts, GROWTH).out_of_fold[:, 0]
        spread, _, log_square = _counts.learn_spread(counts, location, "auto", varying=True)
        return _counts.nll_of(spread, y, location, log_square)
    units = Link.learn(link, y, task.weight)
    z = units.forward(y)
    standardized = replace(task, target=z[:, None], link="identity")
    location = fit_boosting(standardized, GROWTH).out_of_fold[:, 0]
    table = replace(task.table, plain=np.column_stack([task.table.plain, location]))
    noise = learn_noise(replace(standardized, table=table), z - location, family_of(link, "student_t"))
    if link != "identity" or not countable(y) or y.min() > 0:
        return noise.nll - units.log_slope(y)
    # A count without a link is a rounded real number.
    model = Real(
        units, Council({}, ()), Pool(np.ones(1), 0.0), noise, {}, np.ones(1, dtype=bool), above_zero=True, is_count=True
    )
    return -np.asarray(model.distribution(location, noise.out_of_fold).log_prob(torch.as_tensor(y)))
