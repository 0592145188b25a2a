"""The audit of a table, or of a classifier's outputs."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from likely.auditing.outputs import audit_logits
from likely.auditing.pipeline import audit_table
from likely.auditing.results.accepted import Accepted
from likely.auditing.results.audit import Audit, Progress

Earlier = str | os.PathLike[str] | Mapping[str, Any]


def audit(
    data: Any = None,
    target: str | None = None,
    *,
    task: str = "auto",
    logits: Any = None,
    labels: Any = None,
    features: Any = None,
    classes: Sequence[str] | None = None,
    test: Any = None,
    id_column: str | None = None,
    accepted: Earlier | None = None,
    previous: Earlier | None = None,
    random_state: int = 0,
    progress: Progress = lambda _what, _share: None,
) -> Audit:
    """Find what is wrong with a data set: odd rows, wrong labels and targets, noise, copies, leaks.

    Pass one of two kinds of input:

    - ``data``, a table (a path to CSV, Parquet, Arrow or npz, a pandas, Polars or Arrow frame, an array, a mapping of
      columns; a folder, glob, URL or list of Parquet, Feather or CSV files, a Dask array or frame) and, to judge its
      labels or targets, ``target``, the name of that column. ``test`` is a second table that should share no row
      with the first;
    - ``logits`` and ``labels`` (arrays or .npy files) of a classifier on rows it was not trained on, with ``features``
      (its last layer's input) if there are any.

    A table of more than 2²⁶ (67 million) numbers that is not in memory is read in blocks: models are fitted to a
    sample of about 100,000 rows, and all rows are scored by them. The result then lists the worst rows, and ``save``
    writes all scores as Parquet.

    Predictions are out of fold throughout: no row is judged by a model that was trained on it. Nothing is written to
    disk; call ``save`` on the result.

    Args:
        data: a table.
        target: the name of the column to judge.
        task: ``"classification"`` or ``"regression"``; ``"auto"`` (the default) decides by the target's values.
        logits: a classifier's outputs, of the shape (rows, classes).
        labels: their labels, as class numbers.
        features: the input of the classifier's last layer, of the shape (rows, width).
        classes: the names of the classes, for ``logits``; None numbers them.
        test: a second table, of the same columns, such as the test set.
        id_column: the column that names rows. Rows are reported by that name, and no model uses the column.
        accepted: findings that were marked as fine, to be left out: the file that the page saves, or its content.
        previous: an earlier audit's ``summary.json``, or its content: what it found is left out.
        random_state: seed of all random choices.
        progress: function that is called with the name of each step and the share of it that is done.

    Returns:
        An :class:`~likely.auditing.Audit` with the findings, the suspicious rows and reasons, and scores of all rows.

    Raises:
        ValueError: if the input cannot be audited; the message has the reason and the remedy.

    >>> import likely, numpy as np
    >>> rng = np.random.default_rng(0)
    >>> truth = rng.integers(0, 2, 400)
    >>> table = {"x": truth + 0.1 * rng.normal(size=400), "z": rng.normal(size=400), "label": np.where(truth, "a", "b")}
    >>> table["label"][3] = "b" if truth[3] else "a"
    >>> audit = likely.audit(table, target="label")
    >>> [suspect.row for suspect in audit.suspects if suspect.kind == "labels"]
    [3]
    """
    earlier = Accepted()
    for source, what in ((accepted, "accepted"), (previous, "previous")):
        earlier |= Accepted() if source is None else Accepted.read(source, what)
    if logits is not None or labels is not None:
        if data is not None or target is not None:
            raise ValueError("give data (and target), or logits and labels, not both")
        if logits is None or labels is None:
            raise ValueError("logits and labels go together: give both")
        result = audit_logits(logits, labels, features, classes, random_state, progress)
    elif data is None:
        raise ValueError("give a table, or logits and labels")
    else:
        result = audit_table(data, target, task, test, random_state, progress, id_column)
    return result.without(earlier)
