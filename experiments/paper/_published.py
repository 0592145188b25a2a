"""The full run of the paper's tables and figures that is stored here: the one by which the paper is judged."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from experiments.entries.entry import Entry, Result
from experiments.entries.parts import Picture
from experiments.entries.record import Damaged, Record, load
from experiments.paper._claims import claims_of
from experiments.paper._compared import COMPARED
from experiments.paper._drawn import drawn
from experiments.paper._headlines import Headline, headline
from experiments.paper._quotes import QUOTES
from experiments.paper._rule import Claim, told, verdict
from experiments.paper.registry import ENTRIES

RESULTS = Path(__file__).parent / "results"
COMMAND = "python -m experiments.paper --all --data FOLDER --jobs -1 --out runs"
VERDICTS = ("holds", "holds in part", "does not hold", "open")
SUBSETS = (
    "on 8,000 of CelebA's 162,770 faces, 20,000 pictures each of CIFAR-10 and SVHN, at most 5,000 rows of a regression "
    "table and 21 of 22 outlier sets, with smaller networks for Figures 5 and 8, and without ImageNet"
)
OLD_NAMES = {  # the first records were made when the experiments were part of the package
    "likely reproduce": "python -m experiments.paper",
    "likely.reproduce": "experiments.paper",
    "likely bench": "python -m experiments.benchmarks",
}


@dataclass(frozen=True)
class Published:
    """An entry with its stored full run, the paper's claims about it, and what a page shows of it."""

    entry: Entry
    record: Record
    result: Result
    claims: tuple[Claim, ...]
    headline: Headline
    picture: Picture | None

    @property
    def sentence(self) -> str:
        """Why the verdict is what it is, written from the numbers."""
        return told(self.claims)

    @property
    def quote(self) -> str:
        """The claim in the paper's words."""
        return QUOTES[self.entry.name]

    @property
    def command(self) -> str:
        """What redoes the stored run."""
        return again(self.record.command)

    @property
    def notes(self) -> str:
        """All that the stored run says of its verdict."""
        return again(self.result.notes)

    @property
    def hardware(self) -> str:
        """The machine of the stored run; where networks were trained before, also the one that trained them."""
        about = self.record.machine
        here = f"{about.get('gpu') or about['cpu']}, {about['cores']} cores"
        return f"{here}; networks trained on {self.trained_on}" if self.trained_on else here

    @property
    def trained_on(self) -> str:
        """What trained the networks whose outputs are stored, or nothing."""
        found = re.search(r"made them in [^.]*? on (.+?), with torch", self.result.notes)
        return found[1] if found else ""

    @property
    def against(self) -> str:
        """What ours is held against."""
        return COMPARED[self.entry.name].against

    @property
    def spread(self) -> str:
        """Over what the numbers spread."""
        return COMPARED[self.entry.name].spread


def published(entry: Entry, folder: Path = RESULTS) -> Published:
    """The stored full run of an entry."""
    try:
        record = load(entry.name, folder)
    except Damaged:  # its pictures are not there: numbers alone may be stored
        record = load(entry.name, folder, pictures=False)
    if record is None or record.result is None:
        raise ValueError(f"{folder} has no result of {entry.name}")
    claims = tuple(claims_of(entry.name, record.result))
    result = replace(record.result, verdict=verdict(claims))
    picture = result.pictures[0] if result.pictures else drawn(entry.name, result)
    return Published(entry, record, result, claims, headline(entry.name, result), picture)


def all_published() -> list[Published]:
    """The stored full run of every table and figure, in the paper's order."""
    return [published(entry) for entry in ENTRIES]


def count_verdicts(run: Sequence[Published]) -> str:
    """How many hold, in the words of the README, the report and the site."""
    return counted([one.result.verdict for one in run])


def counted(verdicts: Sequence[str]) -> str:
    """How many hold, in words.

    >>> counted(["holds", "open", "open", "does not hold"])
    'of its 4 tables and figures 1 holds, 1 does not and 2 are open'
    """
    counts = Counter(map(str, verdicts))
    parts = [f"{counts[kind]} {_plural(kind, counts[kind])}" for kind in VERDICTS if counts[kind]]
    return f"of its {len(verdicts)} tables and figures {', '.join(parts[:-1])} and {parts[-1]}"


def _plural(kind: str, count: int) -> str:
    if kind == "open":
        return "is open" if count == 1 else "are open"
    short = kind.removesuffix(" hold")
    return short if count == 1 else short.replace("holds", "hold").replace("does", "do")


def where_and_when(run: Sequence[Published]) -> str:
    """The machines and the dates of the stored run, the most frequent machine first."""
    cpus = Counter(f"{one.record.machine['cores']} cores of {one.record.machine['cpu']}" for one in run)
    gpus = Counter(name for one in run if "GPU" in (name := one.trained_on) or "NVIDIA" in name)
    machines = " and ".join(name for name, _ in cpus.most_common())
    trained = f", networks trained on {' and '.join(gpus)}" if gpus else ""
    dates = sorted({one.record.date for one in run if one.record.date})
    when = " to ".join(dict.fromkeys((dates[0], dates[-1]))) if dates else "date not recorded"
    return f"{machines}{trained}; {when}"


def again(text: str) -> str:
    """A command, or a text with commands in it, as they are today."""
    for old, new in OLD_NAMES.items():
        text = text.replace(old, new)
    return text
