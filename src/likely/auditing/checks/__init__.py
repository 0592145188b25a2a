"""The checks of a sample as a whole, one line each; those that score every row are in ``_row_checks``."""

from collections.abc import Callable

from likely.auditing.checks.faulty_columns import faulty_columns
from likely.auditing.checks.gaps import gaps
from likely.auditing.checks.order import order
from likely.auditing.checks.overview import odd_cells, overview
from likely.auditing.results.finding import Finding
from likely.auditing.sample import Sample

SAMPLE_CHECKS: tuple[Callable[[Sample], Finding | None], ...] = (
    lambda sample: overview(sample.columns, sample.target, sample.task, sample.rows, sample.gaps),
    lambda sample: odd_cells(sample.columns, sample.table.ragged, len(sample)),
    lambda sample: gaps(sample.columns, sample.target, sample.task, sample.words),
    lambda sample: faulty_columns(sample.table.frame, sample.columns, sample.target),
    lambda sample: order(sample.columns, sample.target),
)
