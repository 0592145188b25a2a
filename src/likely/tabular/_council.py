"""Members of different kinds, fitted one after the other on the same folds for as long as they can help."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from likely._typing import Array
from likely.tabular.members._task import Member, NoHelp, OutOfTime, Task
from likely.tabular.members.boosting import fit_boosting, fit_shallow
from likely.tabular.members.kernel import fit_kernel
from likely.tabular.members.linear import fit_lines
from likely.tabular.members.network import fit_networks
from likely.tabular.members.trees import fit_trees

Fit = Callable[[Task], Member]
Say = Callable[[str], None]

KINDS: dict[str, Fit] = {  # the quickest first, and those that others are measured by
    "linear": fit_lines,
    "kernel": fit_kernel,
    "boosting": fit_boosting,
    "shallow": fit_shallow,
    "trees": fit_trees,
    "network": fit_networks,
}
SMOOTH = 0.6  # of the loss of boosting, which kernels have where functions are so smooth that a network may help
BENT = 0.9  # the same for classes
EXACT = 1e-3  # of the target's variance: where kernels leave no more, a network would not tell it
NETWORK_ROWS = 2000  # from which it has enough to learn from


@dataclass(frozen=True)
class Council:
    """The members that were fitted, and what became of each that was tried."""

    members: Mapping[str, Member]
    tried: tuple[dict[str, Any], ...]

    @property
    def blind(self) -> Array:
        """What members said of rows that they had not seen, (members, rows, outputs)."""
        return np.stack([member.blind for member in self.members.values()])


def assemble(task: Task, fits: Mapping[str, Fit], all_of_them: bool, say: Say, scouted: Mapping[str, Array]) -> Council:
    """Fit members; drop one whose first fold does not help the best one, unless ``all_of_them`` were asked for.

    The first is fitted whatever the time; an interrupt later on keeps what there is. What was ``scouted`` is said
    blindly by a lesser kind of a member: where that is no help, the member is not begun.
    """
    members: dict[str, Member] = {}
    losses: dict[str, float] = {}
    tried: list[dict[str, Any]] = []
    for name, fit in _in_turn(fits, scouted):
        began, outcome = time.monotonic(), "fitted"
        best = None if all_of_them else _best(task, members, losses, scouted, name)
        try:
            if not members:
                members[name] = fit(replace(task, deadline=np.inf))
            elif not all_of_them and name == "network" and not _may_bend(task, losses, scouted):
                outcome = "not begun: the target is not smooth enough, or there are too few rows"
            else:
                task.check_time()
                own = replace(task, best=best)
                if name in scouted and "kernel" in members:
                    own.check_help(scouted[name], np.arange(len(task.folds)))
                members[name] = fit(own)
        except NoHelp:
            outcome = "dropped: on the first fold it did not help"
        except OutOfTime:
            outcome = "dropped: time_limit was reached"
        except KeyboardInterrupt:
            if not members:
                raise
            warnings.warn(f"interrupted: the fit goes on with {', '.join(members)}", stacklevel=2)
            tried.append({"member": name, "outcome": "interrupted", "seconds": time.monotonic() - began})
            break
        record = {"member": name, "outcome": outcome, "seconds": round(time.monotonic() - began, 3)}
        if name in members:
            losses[name] = record["loss"] = task.loss(members[name].blind)
        tried.append(record)
        say(f"{name}: {outcome}" + (f", loss {losses[name]:.4g}" if name in losses else ""))
    return Council(members, tuple(tried))


def _in_turn(fits: Mapping[str, Fit], scouted: Mapping[str, Array]) -> list[tuple[str, Fit]]:
    """Boosting comes before kernels where nothing of it was scouted."""
    if scouted or list(fits) != list(KINDS):
        return list(fits.items())
    return [(name, fits[name]) for name in ("linear", "boosting", "shallow", "kernel", "trees", "network")]


def _best(
    task: Task, members: Mapping[str, Member], losses: Mapping[str, float], scouted: Mapping[str, Array], turn: str
) -> Array | None:
    """What the best member so far said, or the scout of a later one where it is better."""
    if not members:
        return None
    name = min(losses, key=losses.__getitem__)
    later = [own for kind, own in scouted.items() if kind not in members and kind != turn]
    better = [own for own in later if task.loss(own) < losses[name]]
    return better[0] if better else members[name].blind


def _may_bend(task: Task, losses: Mapping[str, float], scouted: Mapping[str, Array]) -> bool:
    """Whether what there is to learn is smooth, and there is enough of it."""
    if len(task.target) < NETWORK_ROWS or "kernel" not in losses:
        return False
    if task.link == "softmax":
        return losses["kernel"] <= BENT * losses.get("boosting", np.inf)
    if losses["kernel"] < EXACT * float(task.target.var()):
        return False
    steps = losses["boosting"] if "boosting" in losses else task.loss(scouted["boosting"]) if scouted else np.inf
    return losses["kernel"] <= SMOOTH * steps
