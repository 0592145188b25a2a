"""The report: one page that loads nothing, escapes what it shows, and sets the best values, and only those, in bold."""

import math
import re
from collections import Counter
from pathlib import Path

import pandas as pd
import pytest

from likely.reproduce import ENTRIES, Context, Entry, Picture, Result, Table, load, run_entry, save
from likely.reproduce._compared import COMPARED
from likely.reproduce._report import REASON, Item, shortened, table_html, words, write_report
from likely.reproduce._svg import PALETTE, inline, panel, to_svg
from likely.reproduce.registry import find
from pages import NASTY, Page

CHEAP = ("loss-likelihood", "dimensionality", "robust-models")
SPREAD = re.compile(r"±|[Ss]tandard (deviation|error)|spread|quartile")


def bold_cells(table: Table) -> list[str]:
    """The text of the cells that the table's style sets in bold, in the order of the page."""
    html = table_html(table, "t")
    rules = re.findall(r"([^{}]*)\{[^}]*font-weight: 700", html)
    bold = {name for rule in rules for name in re.findall(r"#(\w+)", rule)}
    return [text for name, text in re.findall(r'<td id="(\w+)"[^>]*>([^<]*)</td>', html) if name in bold]


def frame(**columns: list[object]) -> pd.DataFrame:
    return pd.DataFrame(
        columns, index=pd.Index([f"row {i}" for i in range(len(next(iter(columns.values()))))], name="row")
    )


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("runs")
    for name in CHEAP:
        save(run_entry(find(name), Context(quick=True), f"likely reproduce {name} --quick"), out / "results")
    return out


@pytest.fixture(scope="module")
def real(runs: Path) -> str:
    return write_report(ENTRIES, runs, "likely reproduce --quick").read_text()


def made(out: Path, result: Result, **about: str) -> str:
    entry = Entry(
        "made", "Table", 1, about.get("title", "Made"), about.get("claim", "A claim."), lambda context: result
    )
    save(run_entry(entry, Context(), about.get("command", "likely reproduce made")), out / "results")
    return write_report([entry], out, about.get("command", "likely reproduce made")).read_text()


def test_it_parses_and_its_ids_are_unique(real: str) -> None:
    page = Page(real)
    assert page.tags["svg"] >= 10
    assert [name for name, count in Counter(page.ids).items() if count > 1] == []


def test_it_loads_nothing(real: str) -> None:
    page = Page(real)
    assert page.tags["script"] == page.tags["iframe"] == 0
    assert {link.split(":")[0] for link in page.links if not link.startswith("#")} == {"data"}
    assert {link[1:] for link in page.links if link.startswith("#")} <= set(page.ids)
    assert "@import" not in real
    assert all(target.startswith("#") for target in re.findall(r"url\(([^)]*)\)", real))


def test_a_namespace_is_the_only_address_in_it(real: str) -> None:
    assert {address.split("/")[2] for address in re.findall(r"https?://[^\s\"'<]+", real)} <= {"www.w3.org"}


def test_its_pictures_take_the_colours_of_the_page(real: str) -> None:
    pictures = "".join(re.findall(r"<svg.*?</svg>", real, flags=re.DOTALL))
    assert "prefers-color-scheme: dark" in real
    for name, (light, dark) in PALETTE.items():
        assert f"--{name}: {light};" in real
        assert f"--{name}: {dark};" in real
        assert light not in pictures.replace(f"var(--{name}, {light})", "")
    assert "DejaVu" not in pictures


def test_it_shows_every_entry_and_its_state(real: str) -> None:
    page = Page(real)
    assert set(page.ids) >= {entry.name for entry in ENTRIES}
    assert page.text.count("not run") >= 2 * (len(ENTRIES) - len(CHEAP))
    assert "likely reproduce dimensionality --quick" in page.text
    assert "scikit-learn" in page.text


def test_every_entry_declares_what_the_page_owes_its_reader() -> None:
    assert list(COMPARED) == [entry.name for entry in ENTRIES]
    for entry in ENTRIES:
        compared = COMPARED[entry.name]
        assert entry.claim.endswith(".")
        assert all(line and not line.endswith(".") for line in compared), entry.name
        assert SPREAD.search(compared.spread) or compared.spread.startswith(("none", "quantiles")), entry.name


@pytest.mark.parametrize("name", CHEAP)
def test_an_entry_shows_all_that_is_owed(name: str, runs: Path, real: str) -> None:
    record = load(name, runs / "results")
    result = record.result
    section = re.search(rf'<section id="{name}">.*?</section>', real, flags=re.DOTALL)[0]
    shown = Page(section).text
    owed = [find(name).claim, result.verdict, record.command, *(f"{line}." for line in COMPARED[name])]
    assert [words(text).striptags() for text in owed if words(text).striptags() not in " ".join(shown.split())] == []
    assert result.tables
    assert result.pictures
    told = " ".join([result.notes, *(f"{table.caption} {table.frame.to_string()}" for table in result.tables)])
    assert SPREAD.search(told) or COMPARED[name].spread.startswith("none")


def test_the_summary_names_links_and_reasons_every_entry(real: str) -> None:
    rows = re.findall(r"<tr.*?</tr>", re.search(r"<nav.*?</nav>", real, flags=re.DOTALL)[0], flags=re.DOTALL)
    assert len(rows) == len(ENTRIES)
    for row, entry in zip(rows, ENTRIES, strict=True):
        assert f'href="#{entry.name}"' in row
        assert entry.title in Page(row).text
        assert ("reason" in row) == (entry.name in CHEAP)


def test_a_reason_is_short_and_of_the_verdict() -> None:
    def reason(notes: str) -> str:
        entry = Entry("made", "Table", 1, "Made", "A claim.", lambda context: Result("holds", notes))
        return Item(entry, run_entry(entry, Context(), "c")).reason

    why = "The error of `ours` is 0.25 ± 0.01, which is below 0.5 in every set that was tried."
    assert reason(f"On scikit-learn's digits instead of CIFAR-10. {why} More is said here.") == why
    assert reason(f"It holds. {why}") == f"It holds. {why}"
    assert reason("It holds.") == "It holds."
    assert reason("") == ""


@pytest.mark.parametrize("mark", ["; ", ", ", " "])
def test_a_long_reason_ends_where_words_do(mark: str) -> None:
    cut = shortened(mark.join(["a clause of `code`"] * 30))
    assert cut.endswith("…")
    assert REASON // 2 < len(cut) <= REASON + 2
    assert cut.count("`") % 2 == 0
    assert shortened("x" * 400) == "x" * REASON + "…"


def test_all_text_is_escaped(tmp_path: Path) -> None:
    index = pd.MultiIndex.from_tuples([(NASTY, NASTY)], names=[f"{NASTY} 1", f"{NASTY} 2"])
    table = Table(pd.DataFrame({NASTY: [NASTY]}, index=index), NASTY)
    result = Result("holds", NASTY, (table,), (Picture(to_svg(panel()[0]), f'"{NASTY}"', f"`{NASTY}`"),))
    html = made(tmp_path, result, title=NASTY, claim=NASTY, command=NASTY)
    page = Page(html)
    assert page.tags["script"] == 0
    assert page.text.count(NASTY) >= 10


def test_a_failure_is_shown_with_its_message(tmp_path: Path) -> None:
    def fail(context: Context) -> Result:
        raise RuntimeError(NASTY)

    entry = Entry("fails", "Figure", 1, "Fails", "A claim.", fail)
    save(run_entry(entry, Context(), "c"), tmp_path / "results")
    page = Page(write_report([entry], tmp_path, "c").read_text())
    assert f"RuntimeError: {NASTY}" in page.text
    assert "1 failed" in page.text


def test_an_entry_made_elsewhere_says_so(tmp_path: Path) -> None:
    entry = Entry("made", "Table", 1, "Made", "A claim.", lambda context: Result("holds", ""))
    record = run_entry(entry, Context(), "c")
    save(record, tmp_path / "results")
    assert "Made with" not in write_report([entry], tmp_path, "c").read_text()
    path = tmp_path / "results" / "made.json"
    path.write_text(path.read_text().replace(record.versions["torch"], "1.2.3"))
    assert "torch 1.2.3" in write_report([entry], tmp_path, "c").read_text()


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
    assert {"–", "∞"} <= set(re.findall(r">([^<>]+)</td>", table_html(table, "t")))


def test_a_column_of_missing_values_has_no_best() -> None:
    assert bold_cells(Table(frame(nll=[math.nan, math.nan]), "", {"nll": "lower"})) == []


def test_numbers_are_printed_for_people() -> None:
    html = table_html(
        Table(frame(count=[1000, 20], steps=[math.nan, 50.0], change=[-1e-9, -0.5], ok=[True, False]), ""), "t"
    )
    assert re.findall(r">([^<>\n]+)</td>", html) == ["1,000", "–", "0.000", "True", "20", "50", "−0.500", "False"]


def test_names_of_the_index_stand_in_the_header() -> None:
    index = pd.MultiIndex.from_tuples([("RN50", "SVHN")], names=["model", "set"])
    html = table_html(Table(pd.DataFrame({"ece": [0.1]}, index=index), ""), "t")
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
