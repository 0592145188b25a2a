"""A table gets the same findings however it is stored: in memory, in files that are read by blocks, on Dask."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_diabetes, load_iris, load_wine

import likely
from likely.auditing import Audit, Finding, Suspect, pipeline
from likely.auditing.results.audit import LongAudit
from likely.auditing.sample import Sample


def planted(load: Any, columns: list[str]) -> pd.DataFrame:
    """A real table with a factor of ten and a sign in some columns, and with a copy."""
    table = load(as_frame=True).frame.sample(frac=1, random_state=0, ignore_index=True)
    for place, name in enumerate(columns):
        table[name] = table[name].astype(float)
        table.loc[7 + place, name] *= 10
        table.loc[50 + place, name] *= -1
    return pd.concat([table, table.iloc[[20]]], ignore_index=True)


def told(report: Audit) -> dict[str, Any]:
    """All that is said of rows and of the table, but for the overview, which of blocks is by sums."""
    return {
        finding.name: (
            finding.summary,
            finding.rows.tolist(),
            finding.certainty.round(6).tolist(),
            [(suspect.headline, suspect.group, suspect.wrong, suspect.reasons) for suspect in finding.suspects],
        )
        for finding in report.findings
        if finding.name != "overview"
    }


@pytest.mark.parametrize(
    ("load", "columns", "target"),
    [
        (load_iris, ["sepal width (cm)"], "target"),
        (load_diabetes, ["bmi", "target"], "target"),
        (load_wine, ["ash", "proline"], None),
    ],
)
def test_findings_do_not_depend_on_where_the_table_is(
    load: Any, columns: list[str], target: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dask = pytest.importorskip("dask.dataframe")
    table = planted(load, columns)
    whole = likely.audit(table, target)
    for number, part in enumerate(np.array_split(np.arange(len(table)), 3)):
        table.iloc[part].to_parquet(tmp_path / f"{number}.parquet", index=False)
    assert told(likely.audit(str(tmp_path), target)) == told(whole)
    monkeypatch.setattr(pipeline, "AT_ONCE", 100)
    for stored in (str(tmp_path), dask.from_pandas(table, npartitions=3)):
        by_blocks = likely.audit(stored, target)
        assert isinstance(by_blocks, LongAudit)
        assert told(by_blocks) == told(whole)
        pd.testing.assert_frame_equal(
            by_blocks.scores.drop(columns="suspicious").reset_index(drop=True),
            whole.scores.loc[whole.suspicious, by_blocks.scores.columns.drop("suspicious")].reset_index(drop=True),
            check_dtype=False,
            rtol=1e-5,
        )


def test_a_new_check_is_one_line_of_the_registry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def negative(sample: Sample) -> Finding:
        rows = np.flatnonzero((sample.columns.typed["ash"] < 0).to_numpy())
        suspects = tuple(Suspect(int(row), "negative", 0.9, "ash is negative") for row in rows)
        return Finding("negative", "Negative", f"{len(rows)} rows.", rows, np.full(len(rows), 0.9), suspects)

    monkeypatch.setattr(pipeline, "SAMPLE_CHECKS", (*pipeline.SAMPLE_CHECKS, negative))
    report = likely.audit(planted(load_wine, ["ash"]))
    assert report.findings[-1].rows.tolist() == [50]
    assert "ash is negative" in report.save(tmp_path).read_text()
