"""Tables, sentences and whole pages as HTML; a page loads no other files."""

from __future__ import annotations

import itertools
import math
import re
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from jinja2 import Environment
from markupsafe import Markup, escape

from likely._page import Picture, Table
from likely._page.machine import versions
from likely._page.svg import css_variables, inline

BEST = "font-weight: 700;"


def render(template: Path, **values: Any) -> str:
    """Render a template with the values.

    ``light`` and ``dark`` are the palette. The filters are ``words`` for text, and ``html`` for a table or a picture,
    whose argument is the prefix of its ids.
    """
    environment = Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True)
    environment.filters |= {"words": words, "html": _html}
    light, dark = (Markup(css_variables(dark=dark)) for dark in (False, True))
    page = environment.from_string(template.read_text(encoding="utf-8"))
    return page.render(light=light, dark=dark, versions=versions(), **values)


def _html(part: Table | Picture, name: str) -> Markup:
    return Markup(table_html(part, name) if isinstance(part, Table) else inline(part.svg, name))


def table_html(table: Table, name: str) -> str:
    """Return the table as HTML, with its best values in bold."""
    shown = table.frame.infer_objects()
    digits = {column: _decimals(shown[column], table.digits) for column in shown.columns}
    shown = shown.round({column: places for column, places in digits.items() if places is not None})
    printers = {column: partial(_printed, digits=places) for column, places in digits.items()}
    style = shown.style.set_uuid(name).format(printers, escape="html")
    style.format_index(escape="html", axis="index").format_index(escape="html", axis="columns").hide(names=True)
    left = [{"selector": "", "props": "text-align: left;"}]
    style.set_table_styles({column: left for column in shown.columns if _is_text(shown[column])})
    for columns, better in table.best.items():
        highlight = style.highlight_min if better == "lower" else style.highlight_max
        if isinstance(columns, str):
            highlight(subset=[columns], axis="index", props=BEST)
        else:
            highlight(subset=list(columns), axis="columns", props=BEST)
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
