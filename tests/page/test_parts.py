"""What pages are made of: tables with their best values, and only those, in bold; words; pictures that share a page."""

import math
import re

import pandas as pd

from experiments.entries.drawing import panel, to_svg
from experiments.entries.parts import Table
from experiments.entries.parts_html import inline, to_html
from likely._page.html import words
from pages import Page


def bold_cells(table: Table) -> list[str]:
    """The text of the cells that the table's style sets in bold, in the order of the page."""
    html = to_html(table, "t")
    rules = re.findall(r"([^{}]*)\{[^}]*font-weight: 700", html)
    bold = {name for rule in rules for name in re.findall(r"#(\w+)", rule)}
    return [text for name, text in re.findall(r'<td id="(\w+)"[^>]*>([^<]*)</td>', html) if name in bold]


def frame(**columns: list[object]) -> pd.DataFrame:
    return pd.DataFrame(
        columns, index=pd.Index([f"row {i}" for i in range(len(next(iter(columns.values()))))], name="row")
    )


def test_best_in_a_column() -> None:
    table = Table(
        frame(nll=[0.3, 0.1, 0.2], auc=[0.7, 0.9, 0.8], other=[1.5, 2.5, 3.5]), "", {"nll": "lower", "auc": "higher"}
    )
    assert bold_cells(table) == ["0.100", "0.900"]


def test_best_in_a_row_among_the_named_columns() -> None:
    table = Table(frame(gs=[0.031, 0.05], ls=[0.02, 0.06], base=[0.01, 0.01]), "", {("gs", "ls"): "lower"})
    assert bold_cells(table) == ["0.020", "0.050"]


def test_what_prints_alike_is_tied() -> None:
    assert bold_cells(Table(frame(nll=[0.1001, 0.1004, 0.101]), "", {"nll": "lower"})) == ["0.100", "0.100"]
    assert bold_cells(Table(frame(nll=[0.1001, 0.1004, 0.101]), "", {"nll": "lower"}, digits=4)) == ["0.1001"]
    mixed = pd.DataFrame([[0.1001, "x"], [0.1004, "y"]], columns=["nll", "words"], dtype=object)
    assert bold_cells(Table(mixed, "", {"nll": "lower"})) == ["0.100", "0.100"]


def test_missing_and_infinite_values_are_never_best_over_a_number() -> None:
    table = Table(
        frame(nll=[math.nan, math.inf, 0.25], auc=[math.nan, 0.5, 0.25]),
        "",
        {"nll": "lower", "auc": "higher"},
        digits=2,
    )
    assert bold_cells(table) == ["0.50", "0.25"]
    assert {"–", "∞"} <= set(re.findall(r">([^<>]+)</td>", to_html(table, "t")))


def test_a_column_of_missing_values_has_no_best() -> None:
    assert bold_cells(Table(frame(nll=[math.nan, math.nan]), "", {"nll": "lower"})) == []


def test_numbers_are_printed_for_people() -> None:
    html = to_html(
        Table(frame(count=[1000, 20], steps=[math.nan, 50.0], change=[-1e-9, -0.5], ok=[True, False]), ""), "t"
    )
    assert re.findall(r">([^<>\n]+)</td>", html) == ["1,000", "–", "0.000", "True", "20", "50", "−0.500", "False"]


def test_names_of_the_index_stand_in_the_header() -> None:
    index = pd.MultiIndex.from_tuples([("RN50", "SVHN")], names=["model", "set"])
    html = to_html(Table(pd.DataFrame({"ece": [0.1]}, index=index), ""), "t")
    assert html.count("<tr>") == 2
    assert ">model</th>" in html
    assert ">set</th>" in html


def test_words() -> None:
    assert words("a < b, -0.5 and x-1: `f(-1) < 2`") == "a &lt; b, −0.5 and x-1: <code>f(-1) &lt; 2</code>"


def test_svg_is_the_same_each_time_and_says_nothing_of_when() -> None:
    def draw() -> str:
        figure, axes = panel()
        axes.plot([0, 1], [0, 1])
        axes.imshow([[0.0, 1.0]])
        return to_svg(figure)

    svg = draw()
    assert svg == draw()
    assert "matplotlib.org" not in svg
    assert "<metadata>" not in svg


def test_inline_keeps_pictures_apart() -> None:
    figure, axes = panel()
    axes.plot([0, 1], [0, 1])
    first, second = (inline(to_svg(figure), name) for name in ("a", "b"))
    assert first.startswith("<svg")
    assert "<style" not in first
    assert not set(Page(first).ids) & set(Page(second).ids)
    assert {link[1:] for link in Page(first).links} <= set(Page(first).ids)


def test_inline_leaves_what_is_written_in_a_picture() -> None:
    figure, axes = panel()
    axes.set_title('id="x" and url(#y) in #22252b')
    assert 'id="x" and url(#y) in #22252b' in Page(inline(to_svg(figure), "a")).text


def test_columns_of_words_are_read_from_the_left_and_numbers_from_the_right() -> None:
    frame = pd.DataFrame(
        {"holds": ["3 to 5, median 4", "Yes 69%"], "share": ["4.5% ± 0.7%", "100% ± 0%"], "rows": [3, 4]}
    )
    html = to_html(Table(frame, ""), "t")
    assert re.findall(r"#T_t \.(col\d)[^{]*{\s*text-align: left;", html) == ["col0"]
