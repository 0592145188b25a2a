"""What a table or figure of the paper is, what running it takes, and what comes back."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Literal, ParamSpec, TypeVar

from experiments.entries.bar import Bar
from experiments.entries.parts import Picture, Table
from experiments.entries.units import once

P = ParamSpec("P")
T = TypeVar("T")
Kind = Literal["Table", "Figure", "Benchmark"]
Verdict = Literal["holds", "holds in part", "does not hold", "open", "not judged"]


def _silent(_fraction: float) -> None:
    return None


@dataclass(frozen=True)
class Context:
    """The settings of one run, where to report how far it has come (a fraction of one) and where to keep its units.

    ``options`` are those of the command line that one entry alone has, by name.
    """

    quick: bool = False
    seed: int = 0
    data: Path | None = None
    progress: Callable[[float], None] = _silent
    units: Path | None = None
    options: Mapping[str, str] = field(default_factory=dict)

    def track(self, steps: Sequence[T]) -> Iterator[T]:
        """Yield the steps, reporting progress after each.

        >>> list(Context().track("abc"))
        ['a', 'b', 'c']
        """
        for done, step in enumerate(steps, start=1):
            yield step
            self.progress(done / len(steps))

    def once(self, unit: tuple[object, ...], function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """What the function returns; after an interruption, what it returned before for the same unit.

        ``unit`` tells this call from others of the function. Random numbers must come from a seed among the arguments.

        >>> Context().once(("a set", 3), sum, [2, 2])
        4
        """
        if self.units is None:
            return function(*args, **kwargs)
        return once(self.units, (function.__module__, function.__qualname__, *unit), partial(function, *args, **kwargs))


@dataclass(frozen=True)
class Result:
    """What an entry found. ``notes`` says in words, with the numbers, why the verdict is what it is.

    ``printed`` are tables for the terminal, which say what stored ones say; they are not stored.
    """

    verdict: Verdict
    notes: str
    tables: tuple[Table, ...] = ()
    pictures: tuple[Picture, ...] = ()
    bars: tuple[Bar, ...] = ()
    printed: tuple[Table, ...] = ()


@dataclass(frozen=True)
class Entry:
    """One table or figure of the paper, or a benchmark, and how to redo it. A timed one runs with nothing beside it."""

    name: str
    kind: Kind
    number: int
    title: str
    claim: str
    run: Callable[[Context], Result]
    timed: bool = False

    @property
    def what(self) -> str:
        """The label the paper prints, such as ``Figure 7``."""
        return f"{self.kind} {self.number}"


def module(name: str) -> Callable[[Context], Result]:
    """The `run` of a module that is imported when it is called, so that listing entries costs nothing."""
    return partial(_run_module, name)


def _run_module(name: str, context: Context) -> Result:
    result: Result = import_module(name).run(context)
    return result
