"""The checks of a sample as a whole, one line each; those that score every row are in ``_row_checks``."""

from collections.abc import Callable

from likely.auditing._finding import Finding
from likely.auditing._sample import Sample
from likely.auditing.checks._cells import odd_cells
from likely.auditing.checks._copies import across
from likely.auditing.checks._drift import drift
from likely.auditing.checks._faulty_columns import faulty_columns
from likely.auditing.checks._gaps import gaps
from likely.auditing.checks._order import order
from likely.auditing.checks._overview import overview

SAMPLE_CHECKS: tuple[Callable[[Sample], Finding | None], ...] = (
    lambda sample: overview(sample.columns, sample.target, sample.task),
    lambda sample: odd_cells(sample.columns, sample.table.ragged, len(sample)),
    lambda sample: across(sample.table.frame, sample.second, sample.target, sample.id) if sample.second else None,
    lambda sample: gaps(sample.columns, sample.target, sample.task),
    lambda sample: faulty_columns(sample.table.frame, sample.columns, sample.target),
    lambda sample: drift(sample.table.frame, sample.second, sample.target, sample.id) if sample.second else None,
    lambda sample: order(sample.columns, sample.target),
)
