"""The three files of an audit: a page for people, a CSV for spreadsheets, a JSON for programs."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from likely._destination import keep_inputs, writable, write_together
from likely.auditing._result import Result

FILES = PAGE, SCORES, SUMMARY = "report.html", "scores.csv", "summary.json"
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")


def write(audit: Result, folder: Path, command: str) -> Path:
    """Write all three into a folder, all or none of them; never over the data."""
    from likely.auditing._page import page

    keep_inputs([folder / name for name in FILES], {"the data": audit.source})
    with writable(folder, create=True):
        summary = json.dumps(_plain(audit.summary()), indent=1, ensure_ascii=False, allow_nan=False)
        texts = {SCORES: scores_csv(audit.scores), SUMMARY: summary + "\n", PAGE: page(audit, command)}
        # The name of a file may hold what is no Unicode.
        write_together({folder / name: text.encode("utf-8", "backslashreplace") for name, text in texts.items()})
    return folder / PAGE


def scores_csv(scores: pd.DataFrame) -> str:
    """A CSV in which no cell is a formula."""
    safe = scores.rename(columns=lambda name: harmless(str(name)))
    for name in safe.columns:
        if not pd.api.types.is_numeric_dtype(safe[name].dtype):
            safe[name] = [harmless(value) if isinstance(value, str) else value for value in safe[name]]
    text: str = safe.to_csv(lineterminator="\n", quoting=csv.QUOTE_MINIMAL, float_format="%.6g")
    return text


def harmless(text: str) -> str:
    """The text, after an apostrophe if a spreadsheet would take it for a formula, and without line ends.

    >>> harmless("=1+1"), harmless("fine"), harmless(" @SUM(A1)")
    ("'=1+1", 'fine', "' @SUM(A1)")
    """
    guarded = "'" + text if text.startswith(_FORMULA) or text.lstrip().startswith(_FORMULA) else text
    return guarded.replace("\r", " ").replace("\n", " ")


def _plain(value: Any) -> Any:
    """NumPy's numbers as Python's, and what is not finite as null, which JSON lacks a word for."""
    if isinstance(value, dict):
        return {str(key): _plain(own) for key, own in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(own) for own in value]
    if isinstance(value, bool | np.bool_):
        return bool(value)
    if isinstance(value, int | np.integer):
        return int(value)
    if isinstance(value, float | np.floating):
        return float(value) if np.isfinite(value) else None
    return value if value is None else str(value)
