"""Promises where statistics is hard: few rows, many columns, targets of few values, columns of any kind.

The full grid is a benchmark, ``python -m experiments.benchmarks hard``; here every class of the list meets some of its
tables.
"""

from __future__ import annotations

import numpy as np
import pytest

from experiments.benchmarks import hard
from pairwise import together


@together("name", list(hard.LINEAR))
def test_linear_intervals_and_means_hold(name: str) -> None:
    lines = hard.measured(name, hard.thinned(hard.grid(hard.TARGETS), 8), [20])
    assert lines["coverage"].mean() >= 0.8
    assert lines["coverage"].min() >= 0.6, lines.loc[lines["coverage"].idxmin(), "table"]
    if name == "RobustLinearRegression":  # whose line is that of most rows: where most are zero, so is the line
        lines = lines[~lines["table"].str.endswith("two values")]
    assert lines["mean"].max() <= 1, lines.loc[lines["mean"].idxmax(), "table"]
    assert lines["NLL"].mean() <= 0.05
    assert lines["weights"].max() <= 1e-5


@pytest.mark.parametrize("name", ["DynamicLogisticRegression", "RobustLogisticRegression"])
def test_classes_of_three_rows_cost_no_more_than_their_shares(name: str) -> None:
    lines = hard.measured(name, hard.thinned(hard.grid(hard.CLASSES), 6), [20])
    assert lines["NLL"].mean() <= 0.05
    assert lines["weights"].max() <= 1e-5


@together("name", ["ScatterDetector"])
def test_thresholds_hold_on_tables_of_any_shape(name: str) -> None:
    lines = hard.measured(name, hard.thinned(hard.grid(), 8), [20])
    assert lines["a tenth"].mean() <= 0.2
    assert lines["auto"].mean() <= 0.08


def test_the_grid_meets_every_kind_of_table() -> None:
    cells = hard.thinned(hard.grid(hard.TARGETS), 35)
    for place, values in ((2, hard.COLUMNS), (3, hard.TARGETS)):
        assert {cell[place] for cell in cells} == set(values)
    assert {cell.rows for cell in cells} == set(hard.ROWS)


def test_a_constant_target_has_no_likelihood_to_compare() -> None:
    cell = hard.Cell(15, 8, "collinear", "two values")
    found = hard.of_regressor(hard.LINEAR["DynamicRidge"], cell, 2, weighted=False)
    assert np.isnan(found["NLL"])
    assert found["coverage"] > 0.6


def test_bars_tell_a_class_that_covers_too_little() -> None:
    lines = hard.measured("DynamicRidge", hard.thinned(hard.grid(hard.TARGETS), 3), [0])
    assert all(bar.met for bar in hard.judge(lines.assign(coverage=0.9, mean=0.1, NLL=0.0)))
    missed = [bar.name for bar in hard.judge(lines.assign(coverage=0.5, mean=0.1, NLL=0.0)) if not bar.met]
    assert missed == ["DynamicRidge, mean coverage of 90% intervals", "DynamicRidge, coverage in a run"]
    assert hard.summary(lines).frame.loc["DynamicRidge", "runs"] == 3
