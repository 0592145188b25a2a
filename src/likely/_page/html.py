"""Tables, sentences and whole pages as HTML; a page loads no other files."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from jinja2 import Environment
from markupsafe import Markup, escape
from pandas.io.formats.style import Styler

from likely._page import Table
from likely._page.machine import versions

PALETTE: dict[str, tuple[str, str]] = {  # name: (light, dark)
    "ink": ("#22252b", "#e4e4e0"),
    "muted": ("#6b7079", "#a3a8b0"),
    "line": ("#d5d6d3", "#3c4048"),
    "ground": ("#fdfcf9", "#17191d"),
    "violet": ("#6a51a3", "#b9a3f5"),
    "blue": ("#2b6cb0", "#74b3f5"),
    "green": ("#1f8a70", "#5fcfae"),
    "gold": ("#b7791f", "#ecc05f"),
    "red": ("#c2423f", "#f58b82"),
}


def css_variables(dark: bool) -> str:
    """Return the palette as CSS declarations."""
    return " ".join(f"--{name}: {colours[dark]};" for name, colours in PALETTE.items())


def render(template: Path, html: Callable[[Any, str], str] | None = None, **values: Any) -> str:
    """Render a template with the values.

    ``light`` and ``dark`` are the palette. The filters are ``words`` for text, and ``html`` for a table, whose argument
    is the prefix of its ids.
    """
    environment = Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True)
    environment.filters |= {"words": words, "html": lambda part, name: Markup((html or table_html)(part, name))}
    light, dark = (Markup(css_variables(dark=dark)) for dark in (False, True))
    page = environment.from_string(template.read_text(encoding="utf-8"))
    return page.render(light=light, dark=dark, versions=versions(), **values)


def table_html(table: Table, name: str, mark: Callable[[Styler], object] = lambda _: None) -> str:
    """Return the table as HTML, in which ``mark`` may style some cells."""
    shown = table.frame.infer_objects()
    digits = {column: _decimals(shown[column], table.digits) for column in shown.columns}
    shown = shown.round({column: places for column, places in digits.items() if places is not None})
    printers = {column: partial(_printed, digits=places) for column, places in digits.items()}
    style = shown.style.set_uuid(name).format(printers, escape="html")
    style.format_index(escape="html", axis="index").format_index(escape="html", axis="columns").hide(names=True)
    left = [{"selector": "", "props": "text-align: left;"}]
    style.set_table_styles({column: left for column in shown.columns if _is_text(shown[column])})
    mark(style)
    html: str = style.to_html()
    # pandas puts the names of the index into a separate header row; here they are in the corner above it.
    corners = (f'<th class="label">{escape(label or "")}</th>' for label in shown.index.names)
    return re.sub(r'<th class="blank[^"]*"\s*>&nbsp;</th>', lambda _: next(corners), html)


def _is_text(column: pd.Series[Any]) -> bool:
    """Whether most cells of a column hold words, which are read from the left, and not numbers."""
    if pd.api.types.is_numeric_dtype(column.dtype):
        return False
    return bool(column.astype(str).str.contains(r"[^\W\d_]{3}").mean() > 0.5)


def words(text: str) -> Markup:
    """Return text as HTML: code between backticks, and a minus sign for a hyphen before a digit."""
    parts = [
        f"<code>{escape(part)}</code>" if code else re.sub(r"(?<!\w)-(?=[\d∞])", "−", str(escape(part)))
        for part, code in zip(text.split("`"), itertools.cycle((False, True)), strict=False)
    ]
    return Markup("".join(parts))


def _decimals(column: pd.Series[Any], digits: int) -> int | None:
    """Return the number of decimals of a column: 0 for counts that a missing value made floats, None for integers."""
    if not pd.api.types.is_float_dtype(column.dtype):
        return None
    finite = column[np.isfinite(column)]
    return 0 if len(finite) and (finite == finite.round()).all() else digits


def _printed(value: Any, digits: int | None) -> str:
    if digits is not None:
        return "–" if math.isnan(value) else f"{value:z,.{digits}f}".replace("inf", "∞").replace("-", "−")
    return f"{value:,}" if isinstance(value, int | np.integer) and not isinstance(value, bool) else str(value)
