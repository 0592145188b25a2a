"""The training rows that a fitted estimator keeps, as plain columns."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import Any, Self

import numpy as np

from likely._rows.columns import as_codes, each_column, is_frame
from likely.tabular._columns import Columns, Levels

LIBRARIES = ("pandas", "polars")


@dataclass(frozen=True)
class PlainFrame:
    """A frame whose columns hold numbers or levels; times are numbers of days."""

    library: str
    names: tuple[Any, ...]
    values: tuple[Any, ...]

    @classmethod
    def of(cls, X: Any, columns: Columns) -> Self:
        """Convert a frame, whose columns are read by ``columns``."""
        values: list[Any] = []
        for kind, column in zip(columns.kinds, each_column(X), strict=True):
            if isinstance(kind, Levels):
                missing = np.isnan(as_codes(column, kind.codes))
                levels = np.asarray(column, dtype=object).tolist()
                values.append([None if gap else level for gap, level in zip(missing, levels, strict=True)])
            else:
                values.append(kind.read(column)[0])
        return cls(type(X).__module__.split(".")[0], tuple(X.columns), tuple(values))

    def restored(self) -> Any:
        """Return a frame that is read as the same columns."""
        if self.library not in LIBRARIES:
            raise ValueError(f"the sample of rows is damaged: it names an unknown library of frames ({self.library!r})")
        try:
            library = import_module(self.library)
        except ImportError:
            raise ImportError(
                f"this model was fitted on a frame of {self.library}: pip install {self.library}"
            ) from None
        if self.library == "polars":
            return library.DataFrame(dict(zip(self.names, self.values, strict=True)))
        columns = {
            position: library.Series(values, dtype=object if isinstance(values, list) else None)
            for position, values in enumerate(self.values)
        }
        frame = library.DataFrame(columns)
        frame.columns = library.Index(self.names, tupleize_cols=False)
        return frame


def plain_rows(X: Any, columns: Columns) -> Any:
    """Return an array unchanged, a frame as plain columns."""
    return PlainFrame.of(X, columns) if is_frame(X) else np.asarray(X)


def restored_rows(rows: Any) -> Any:
    """Return the array or the frame that :func:`plain_rows` converted."""
    return rows.restored() if isinstance(rows, PlainFrame) else rows
