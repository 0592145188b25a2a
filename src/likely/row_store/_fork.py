"""What must be done around a fork: a forked process has one thread, and locks that others held stay locked in it."""

import os
import weakref
from typing import Protocol


class Forked(Protocol):
    """An object with threads or locks."""

    def before_fork(self) -> None:
        """End what other threads have under way."""

    def in_child(self) -> None:
        """Begin with locks and threads of its own."""


_WATCHED: "weakref.WeakSet[Forked]" = weakref.WeakSet()


def watch(one: Forked) -> None:
    """Call its two methods at every fork, as long as it lives."""
    _WATCHED.add(one)


def _before() -> None:
    for one in list(_WATCHED):
        one.before_fork()


def _in_child() -> None:
    for one in list(_WATCHED):
        one.in_child()


if hasattr(os, "register_at_fork"):  # Windows has no fork
    os.register_at_fork(before=_before, after_in_child=_in_child)
