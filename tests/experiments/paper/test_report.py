"""The report: one page that loads nothing, escapes what it shows, and sets the best values, and only those, in bold."""

import re
from collections import Counter
from pathlib import Path

import pandas as pd
import pytest

from experiments.entries import Context, Entry, Result, load, run_entry, save
from experiments.entries.drawing import PALETTE, panel, to_svg
from experiments.entries.page import REASON, Item, shortened
from experiments.entries.parts import Picture, Table
from experiments.paper import ENTRIES
from experiments.paper._compared import COMPARED
from experiments.paper._published import all_published
from experiments.paper._quotes import QUOTES
from experiments.paper._report import write_report
from experiments.paper.registry import find
from likely._page.html import words
from pages import NASTY, Page

CHEAP = ("loss-likelihood", "dimensionality", "robust-models")
SPREAD = re.compile(r"±|[Ss]tandard (deviation|error)|spread|quartile")


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("runs")
    for name in CHEAP:
        save(run_entry(find(name), Context(quick=True), f"python -m experiments.paper {name} --quick"), out / "results")
    return out


@pytest.fixture(scope="module")
def real(runs: Path) -> str:
    return write_report(ENTRIES, runs, "python -m experiments.paper --quick").read_text()


def made(out: Path, result: Result, **about: str) -> str:
    entry = Entry(
        "made", "Table", 1, about.get("title", "Made"), about.get("claim", "A claim."), lambda context: result
    )
    save(run_entry(entry, Context(), about.get("command", "python -m experiments.paper made")), out / "results")
    return write_report([entry], out, about.get("command", "python -m experiments.paper made")).read_text()


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


def test_it_shows_every_entry_and_what_was_not_run(real: str) -> None:
    page = Page(real)
    assert set(page.ids) >= {entry.name for entry in ENTRIES}
    assert real.count("</span>not run.") == len(ENTRIES) - len(CHEAP)
    assert "python -m experiments.paper dimensionality --quick" in page.text
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
    against, spread = COMPARED[name][1:]
    owed = [QUOTES[name], "does not judge the paper", record.command, f"{against}.", f"{spread}."]
    assert [words(text).striptags() for text in owed if words(text).striptags() not in " ".join(shown.split())] == []
    assert result.tables
    assert result.pictures
    told = " ".join([result.notes, *(f"{table.caption} {table.frame.to_string()}" for table in result.tables)])
    assert SPREAD.search(told) or COMPARED[name].spread.startswith("none")


def test_the_summary_has_the_stored_verdict_and_sentence_of_every_entry(real: str) -> None:
    nav = re.search(r"<nav.*?</nav>", real, flags=re.DOTALL)[0]
    rows = re.findall(r"<tr.*?</tr>", nav, flags=re.DOTALL)
    assert len(rows) == len(ENTRIES)
    for row, one in zip(rows, all_published(), strict=True):
        assert f'href="#{one.entry.name}"' in row
        shown = " ".join(Page(row).text.split())
        assert one.entry.title in shown
        assert words(one.sentence).striptags() in shown
        assert shown.endswith(one.result.verdict)


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
