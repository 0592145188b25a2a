"""A template with the palette, the versions and what it shows: one HTML page that needs nothing but itself."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from jinja2 import Environment
from markupsafe import Markup

from likely._machine import versions
from likely._page.html import table_html, words
from likely._page.parts import Picture, Table
from likely._page.svg import css_variables, inline


def render(template: Path, **values: Any) -> str:
    """The page that a template makes of the values; ``light`` and ``dark`` are the palette, ``words`` is a filter."""
    environment = Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True)
    environment.filters["words"] = words
    light, dark = (Markup(css_variables(dark=dark)) for dark in (False, True))
    page = environment.from_string(template.read_text(encoding="utf-8"))
    return page.render(light=light, dark=dark, versions=versions(), **values)


def with_svg(pictures: Iterable[Picture], name: str) -> list[tuple[Picture, Markup]]:
    """The pictures and their SVG, with ids that begin with ``name``."""
    return [(one, Markup(inline(one.svg, f"{name}-{number}"))) for number, one in enumerate(pictures, start=1)]


def with_html(tables: Iterable[Table], name: str) -> list[tuple[Table, Markup]]:
    """The tables and their HTML, with ids that begin with ``name``."""
    return [(one, Markup(table_html(one, f"{name}-{number}"))) for number, one in enumerate(tables, start=1)]
