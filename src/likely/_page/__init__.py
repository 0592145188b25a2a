"""The parts of a page: its tables."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Table:
    """A frame whose index labels its rows, printed with so many digits."""

    frame: pd.DataFrame
    caption: str
    digits: int = field(default=3, kw_only=True)
