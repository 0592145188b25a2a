"""The audit of a table, of a model's outputs, or of a model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from likely.auditing._audit import Audit, Progress
from likely.auditing._outputs import audit_logits, audit_model
from likely.auditing._table import audit_table


def audit(
    data: Any = None,
    target: Any = None,
    *,
    task: str = "auto",
    logits: Any = None,
    labels: Any = None,
    features: Any = None,
    images: Any = None,
    classes: Sequence[str] | None = None,
    test: Any = None,
    seed: int = 0,
    progress: Progress = lambda _what, _share: None,
) -> Audit:
    """Find what is wrong with a data set: odd rows, wrong labels and targets, noise, copies, leaks.

    Give one of

    - ``data``, a table (a path to CSV, Parquet, Arrow or npz, a pandas, Polars or Arrow frame, an array, a mapping of
      columns) and, to judge its labels or targets, ``target``, the name of that column. ``task`` is
      ``"classification"`` or ``"regression"`` where the column does not speak for itself. ``test`` is a second table
      that should share no row with the first;
    - ``logits`` and ``labels`` (arrays or .npy files) of a classifier on rows it was not trained on, with ``features``
      (its last layer's input) and ``images`` (a folder, or an array) if there are any;
    - a torch model as ``data`` and a loader of (input, target) batches it was not trained on as ``target``. Its
      temperature, or its scale, is fitted on the input of its last linear layer.

    Predictions are out of fold throughout: no row is judged by a model that has seen it. Nothing is written; call
    ``save`` on the answer.

    >>> import likely, numpy as np
    >>> rng = np.random.default_rng(0)
    >>> truth = rng.integers(0, 2, 400)
    >>> table = {"x": truth + 0.1 * rng.normal(size=400), "z": rng.normal(size=400), "label": np.where(truth, "a", "b")}
    >>> table["label"][3] = "b" if truth[3] else "a"
    >>> audit = likely.audit(table, target="label")
    >>> [suspect.row for suspect in audit.suspects if suspect.kind == "labels"]
    [3]
    """
    if logits is not None or labels is not None:
        if data is not None or target is not None:
            raise ValueError("give data (and target), or logits and labels, not both")
        if logits is None or labels is None:
            raise ValueError("logits and labels go together: give both")
        return audit_logits(logits, labels, features, images, classes, seed, progress)
    if data is None:
        raise ValueError("give a table, or logits and labels, or a model and a loader")
    if callable(data) and hasattr(data, "parameters"):
        return audit_model(data, target, task, images, classes, seed, progress)
    return audit_table(data, target, task, test, seed, progress)
