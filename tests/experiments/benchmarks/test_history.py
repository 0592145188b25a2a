"""Runs are compared with the last of their kind, and only what moved beyond its spread is said to have moved."""

import json
import math
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

from experiments.benchmarks._bars import result_of, worst
from experiments.benchmarks._history import FILE, Compared, compare, remember, tally
from experiments.entries import Bar, Record, Result, load, save

HERE = {"cpu": "a", "cores": 2}


def run(value: float, spread: float | None = None, **about: object) -> Record:
    result = Result("holds", "", bars=(Bar("speed", value, "≥", 2, "×", spread), Bar("left", math.nan, "≤", 1)))
    made = Record(
        "fake", False, 0, "python -m experiments.benchmarks fake", {"likely": "1", "torch": "2"}, dict(HERE), result
    )
    return replace(made, **about)


def kept(folder: Path, *records: Record) -> Record:
    folder.mkdir(exist_ok=True)
    for record in records:
        remember(record, folder)
    return records[-1]


def test_a_run_is_compared_with_the_one_before_it(tmp_path: Path) -> None:
    speed, left = compare(kept(tmp_path, run(9.0), run(4.0), run(6.0)), tmp_path).bars
    assert (speed.before.value, speed.change, speed.trend) == (4.0, "× 1.5", "better")
    assert (left.change, left.trend) == ("–", "")


def test_a_first_run_has_nothing_to_be_compared_with(tmp_path: Path) -> None:
    found = compare(kept(tmp_path, run(4.0)), tmp_path)
    assert found.bars[0] == Compared(run(4.0).result.bars[0])
    assert found.bars[0].change == "–"
    assert "No earlier run" in found.last


@pytest.mark.parametrize(
    "other",
    [{"machine": HERE | {"cores": 4}}, {"machine": HERE | {"gpu": "b"}}, {"quick": True}, {"name": "another"}],
    ids=str,
)
def test_only_like_is_compared_with_like(other: dict[str, object], tmp_path: Path) -> None:
    now = kept(tmp_path, run(4.0), run(8.0, **other), run(4.4))
    assert compare(now, tmp_path).bars[0].before.value == 4.0
    assert compare(run(8.0, **other), tmp_path).bars[0].before is None


def test_seeds_and_versions_may_differ(tmp_path: Path) -> None:
    now = kept(tmp_path, run(4.0, seed=1, versions={"likely": "0.9", "torch": "1.9"}), run(4.4))
    found = compare(now, tmp_path)
    assert found.bars[0].before.value == 4.0
    assert "likely 0.9, torch 1.9" in found.last


def test_a_stored_folder_stands_in_where_its_own_has_nothing(tmp_path: Path) -> None:
    kept(tmp_path / "stored", run(3.0), run(4.0))
    now = kept(tmp_path / "own", run(4.0))
    assert compare(now, tmp_path / "own", tmp_path / "stored").bars[0].before.value == 4.0
    now = kept(tmp_path / "own", run(5.0), run(6.0))
    assert compare(now, tmp_path / "own", tmp_path / "stored").bars[0].before.value == 5.0
    assert compare(run(4.0), tmp_path / "stored", tmp_path / "stored").bars[0].before.value == 3.0


@pytest.mark.parametrize(
    ("now", "then", "trend"),
    [
        (Bar("", 1.19, "≤", 2, spread=0.1), Bar("", 1.0, "≤", 2, spread=0.05), ""),
        (Bar("", 1.25, "≤", 2, spread=0.1), Bar("", 1.0, "≤", 2, spread=0.05), "worse"),
        (Bar("", 1.25, "≥", 2, spread=0.1), Bar("", 1.0, "≥", 2, spread=0.05), "better"),
        (Bar("", 1.25, "≤", 2, spread=0.1), Bar("", 1.0, "≤", 2), "worse"),
        (Bar("", 1.09, "<", 2), Bar("", 1.0, "<", 2), ""),
        (Bar("", 1.11, "<", 2), Bar("", 1.0, "<", 2), "worse"),
        (Bar("", 0.0, "≤", 0), Bar("", 0.0, "≤", 0), ""),
        (Bar("", 1.0, "≤", 0), Bar("", 0.0, "≤", 0), "worse"),
        (Bar("", -0.02, ">", 0), Bar("", -0.01, ">", 0), "worse"),
        (Bar("", math.inf, "≤", 0), Bar("", 1.0, "≤", 0), ""),
    ],
)
def test_a_change_counts_beyond_the_spread(now: Bar, then: Bar, trend: str) -> None:
    assert Compared(now, then).trend == trend


def test_a_difference_is_shown_where_a_ratio_says_nothing() -> None:
    assert Compared(Bar("", -0.02, ">", 0), Bar("", 0.01, ">", 0)).change == "−0.03"
    assert Compared(Bar("", 0.02, ">", 0), Bar("", 0.0, ">", 0)).change == "+0.02"


def test_history_is_strict_json_and_bars_survive_it(tmp_path: Path) -> None:
    kept(tmp_path, run(4.0, 0.5))
    (line,) = (tmp_path / FILE).read_text().splitlines()
    stored = json.loads(line, parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))
    assert stored["bars"][0] == {"name": "speed", "value": 4.0, "sign": "≥", "bar": 2, "unit": "×", "spread": 0.5}
    record = run(4.0, 0.5)
    save(record, tmp_path)
    again = load("fake", tmp_path)
    assert again.result.bars[0] == record.result.bars[0]
    assert math.isnan(again.result.bars[1].value)
    assert again.result.bars[1].met is None


def test_the_verdict_follows_the_bars() -> None:
    good, bad, unjudged = Bar("good", 1, "≤", 2), Bar("bad", 3, "≤", 2, " s", case="here"), Bar("new", 1, "≤", None)
    assert result_of([good, unjudged]).verdict == "holds"
    assert result_of([good, good, bad]).verdict == "holds in part"
    assert result_of([good, bad]).verdict == "does not hold"
    assert result_of([good, good, bad], notes="More.").notes == "Missed: bad is 3 s (≤ 2 s), here. More."


@pytest.mark.parametrize(("sign", "met"), [("<", False), ("≤", True), (">", False), ("≥", True)])
def test_a_bar_may_itself_be_allowed_or_not(sign: str, met: bool) -> None:
    assert Bar("", 2.0, sign, 2).met is met


def test_statistics_of_too_few_repeats_count_as_unknown() -> None:
    bar = Bar("", 2.0, "≤", math.nan, spread=math.nan)
    assert (bar.bar, bar.spread, bar.met, bar.measured, bar.set_at) == (None, None, None, "2", "–")
    assert Compared(bar, Bar("", 2.1, "≤", None, spread=math.nan)).trend == ""


def test_the_worst_of_nothing_is_no_bar() -> None:
    assert list(worst("", pd.Series([], dtype=float), "≤", 1)) == []
    (bar,) = worst("", pd.Series([math.nan, 3.0, 2.0], [1, 2, 3]).rename_axis("n"), "≥", 1)
    assert (bar.value, bar.case) == (2.0, "n 3")


def test_a_tally_counts_each_measure_once() -> None:
    bars = [
        Compared(Bar("", 1, "≤", 2), Bar("", 2, "≤", 2)),
        Compared(Bar("", 3, "≤", 2)),
        Compared(Bar("", 3, "≤", None)),
    ]
    assert tally(bars) == "3 measures: 1 met, 1 missed, 1 not judged, 1 better than in the last run."
