"""The page in a browser: it loads nothing, breaks nowhere, opens, searches, sorts, marks and exports, and shows data as
text."""

import base64
import io
import json
import re
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from auditing.page.browser import CHROMIUM, Browser
from likely.auditing import Audit, Finding, Reason, Suspect
from likely.auditing.page import _data, page
from likely.auditing.results.accepted import Accepted

NASTY = "<script>document.title = 'owned'</script><img src=x onerror=\"document.title='owned'\">"
needs_browser = pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed")


def made(nasty: str = NASTY) -> Audit:
    values = pd.DataFrame({"size": np.arange(50.0), f"note {nasty}": [nasty] * 50})
    suspects = (
        Suspect(7, "targets", 0.95, f"{nasty} is odd", (Reason("size", nasty, nasty, 0.9),), far=9.0),
        Suspect(31, "targets", 0.6, "31 is a little odd", (Reason("size", "31", "usually 3"),), far=3.0),
    )
    odd = (Suspect(12, "rows", 0.99, "far away", (Reason("size", "12", "usually 1 to 2", 0.5),), 40.0, wrong=False),)
    copies = tuple(
        Suspect(row, "duplicates", 1.0, "a copy", (), 0.1, False, "equal to another row") for row in (40, 41)
    )
    findings = (
        Finding("rows", "Odd rows", "One.", np.array([12]), np.array([0.99]), odd),
        Finding("targets", "Wrong targets", nasty, np.array([7, 31]), np.array([0.95, 0.6]), suspects),
        Finding("duplicates", "Copies", "Two.", np.array([40, 41]), np.ones(2), copies),
    )
    return Audit(f"my {nasty} data", 50, "regression", "size", findings, (nasty,), values)


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    path = tmp_path_factory.mktemp("page") / "report.html"
    path.write_text(page(made(), "likely audit"), encoding="utf-8")
    with Browser() as opened:
        opened.open(path)
        yield opened


def visible(browser: Browser) -> list[int]:
    return [int(row) for row in browser.run("[...document.querySelectorAll('.entry')].map(b => +b.dataset.row)")]


def click(browser: Browser, selector: str) -> None:
    browser.run(f"document.querySelector({selector!r}).click()")


@needs_browser
def test_it_loads_alone_and_without_errors(browser: Browser) -> None:
    assert browser.errors == []
    assert [address for address in browser.requests if not address.startswith(("file:", "data:"))] == []


@needs_browser
def test_a_script_in_a_cell_is_text(browser: Browser) -> None:
    assert browser.run("document.title").startswith("Audit of my <script>")
    assert browser.run("document.querySelectorAll('main img, header img').length") == 0
    assert browser.run("[...document.scripts].filter(s => s.type !== 'application/json').length") == 1
    click(browser, '[data-row="7"] .open')
    assert NASTY in browser.run("document.querySelector('[data-row=\"7\"] .cells').textContent")
    click(browser, '[data-row="7"] .open')


@needs_browser
def test_the_policy_stops_what_would_slip_through(browser: Browser) -> None:
    """Even if escaping failed, a script put into the page does not run, and nothing can be fetched."""
    browser.run("document.body.insertAdjacentHTML('beforeend', '<img id=slip src=x onerror=\"document.title=1\">')")
    browser.run(
        "{ const s = document.createElement('script'); s.textContent = 'document.title = 2'; document.body.append(s) }"
    )
    assert browser.run("fetch('https://example.org').then(() => 'fetched', () => 'refused')") == "refused"
    assert browser.run("document.title").startswith("Audit of my")
    browser.run("document.getElementById('slip').remove()")
    browser.errors.clear()


@needs_browser
def test_reasons_unfold_on_a_click(browser: Browser) -> None:
    why = "document.querySelector('[data-row=\"12\"] .why')"
    assert browser.run(f"{why} === null")
    click(browser, '[data-row="12"] .open')
    assert browser.run(f"{why}.offsetHeight") > 20
    assert "usually 1 to 2" in browser.run(f"{why}.innerText")
    assert browser.run("document.querySelector('[data-row=\"12\"] .open').getAttribute('aria-expanded')") == "true"
    click(browser, '[data-row="12"] .open')
    assert browser.run(f"{why}.offsetHeight") == 0


@needs_browser
def test_rows_with_the_same_problem_are_one_entry_with_its_rows_folded_below(browser: Browser) -> None:
    entry = "document.querySelector('.entry[data-kind=\"duplicates\"]')"
    assert "2 rows: equal to another row" in browser.run(f"{entry}.innerText")
    click(browser, '.entry[data-kind="duplicates"] .open')
    shown = browser.run(f"[...{entry}.querySelectorAll('.member')].map(row => row.innerText)")
    assert ["row 40" in shown[0], "row 41" in shown[1]] == [True, True]
    click(browser, '.entry[data-kind="duplicates"] .open')


def write(browser: Browser, text: str) -> None:
    browser.run(f"$('filter').value = {text!r}; $('filter').dispatchEvent(new Event('input'))")


@needs_browser
def test_it_searches_words_and_shows_a_kind_a_verdict_a_column(browser: Browser) -> None:
    assert visible(browser) == [12, 7, 31, 40]
    write(browser, "LITTLE odd")
    assert visible(browser) == [31]
    assert browser.run("document.getElementById('shown').textContent") == "1 of 4 findings"
    write(browser, "nowhere")
    assert visible(browser) == []
    assert browser.run("document.getElementById('none').offsetHeight") > 0
    write(browser, "")
    for chip, rows in (("kind=targets", [7, 31]), ("verdict=odd", [12, 40]), ("verdict=wrong", [7, 31])):
        name, value = chip.split("=")
        click(browser, f'button[data-{name}="{value}"]')
        assert visible(browser) == rows
        click(browser, f'button[data-{name}="{value}"]')
    browser.run("column.value = 'size'; column.dispatchEvent(new Event('change'))")
    assert visible(browser) == [12, 7, 31]
    browser.run("column.value = ''; column.dispatchEvent(new Event('change'))")
    assert visible(browser) == [12, 7, 31, 40]


@needs_browser
def test_it_sorts(browser: Browser) -> None:
    for key, rows in (("row", [7, 12, 31, 40]), ("score", [40, 12, 7, 31]), ("count", [40, 12, 7, 31])):
        browser.run(f"$('sort').value = '{key}'; $('sort').dispatchEvent(new Event('change'))")
        assert visible(browser) == rows
    browser.run("$('sort').value = 'harm'; $('sort').dispatchEvent(new Event('change'))")


@needs_browser
def test_what_is_marked_as_fine_is_left_out_by_the_next_audit(browser: Browser) -> None:
    from likely.auditing.results.accepted import Accepted

    browser.run("window.kept = null; window.save_as = save; save = (name, type, parts) => { kept = parts.join('') }")
    click(browser, '[data-row="31"] .fine')
    click(browser, '.entry[data-kind="duplicates"] .fine')
    assert browser.run("document.getElementById('marked-count').textContent") == "2 findings are marked as fine."
    click(browser, "#keep")
    fine = json.loads(browser.run("kept"))
    click(browser, "#forget")
    browser.run("save = save_as")
    assert browser.run("document.getElementById('marked').hidden")
    left = made().without(Accepted.read(fine, "known"))
    assert [suspect.row for suspect in left.suspects] == [12, 7]
    assert left.hidden == 3


@needs_browser
def test_what_is_shown_is_exported(browser: Browser) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    write(browser, "odd")
    read = pd.read_csv(io.StringIO(browser.run("csv()")))
    raw = browser.run("new Blob(parquet()).arrayBuffer().then(b => btoa(String.fromCharCode(...new Uint8Array(b))))")
    table = parquet.read_table(io.BytesIO(base64.b64decode(raw)))
    write(browser, "")
    assert read["row"].tolist() == [12, 7, 31, 40, 41]
    assert read["what"][1] == f"{NASTY} is odd"
    pd.testing.assert_frame_equal(table.to_pandas(), read, check_dtype=False)


@needs_browser
def test_a_hundred_thousand_findings_do_not_freeze_it(tmp_path: Path) -> None:
    """Few are drawn at a time; the others are searched, and drawn when somebody asks for them."""
    count = 100_000
    copies = tuple(
        Suspect(row, "duplicates", 1.0, f"equals row {row - 1}", group="equal to another") for row in range(count)
    )
    odd = tuple(Suspect(row, "rows", 0.9, f"row {row} is odd", wrong=False) for row in range(500))
    findings = (
        Finding("duplicates", "Copies", "Many.", np.arange(count), np.ones(count), copies),
        Finding("rows", "Odd", "Many.", np.arange(count), np.full(count, 0.9), odd),
    )
    path = tmp_path / "report.html"
    path.write_text(page(Audit("many", count, "none", None, findings)), encoding="utf-8")
    with Browser() as own:
        own.open(path)
        assert own.run("document.querySelectorAll('*').length") < 2_000
        click(own, '.entry[data-kind="duplicates"] .open')
        assert own.run("document.querySelectorAll('.member').length") == 50
        own.run("document.querySelector('.why > .button').click()")
        assert own.run("document.querySelectorAll('.member').length") == 100
        write(own, "499 is odd")
        assert visible(own)[0] == 499
        assert own.errors == []
    assert path.stat().st_size < 5_000_000


@pytest.mark.heavy
@needs_browser
def test_a_hundred_thousand_separate_findings_open_at_once(tmp_path: Path) -> None:
    """The page holds those that do most harm, and says where the others are."""
    count = 100_000
    values = pd.DataFrame({f"column {j}": np.arange(count) * 1.5 + j for j in range(8)})
    reasons = (Reason("column 3", "1,234.5", "similar rows have 10–20", 0.9), Reason("column 5", "7", "", 0.1))
    suspects = tuple(
        Suspect(row, "targets", 0.9, f"column 3 = {row}.5, expected 14 ± 2", reasons, far=1 + row % 40)
        for row in range(count)
    )
    finding = Finding("targets", "Wrong targets", "Many.", np.arange(count), np.full(count, 0.9), suspects)
    report = Audit("many", count, "regression", "column 3", (finding,), values=values)
    path = report.save(tmp_path)
    assert path.stat().st_size < 10_000_000
    assert len(json.loads((tmp_path / "summary.json").read_text())["entries"]) == count
    with Browser() as opened:
        start = time.perf_counter()
        opened.open(path)
        assert opened.run("document.querySelectorAll('.entry').length") == 20
        assert time.perf_counter() - start < 5  # 2 s on a machine that does nothing else
        text = opened.run("document.querySelector('#first').innerText")
        assert "This page holds the 10,000 findings that do most harm, of 100,000." in text
        write(opened, "99999.5")
        assert visible(opened) == [99_999]
        assert opened.errors == []


def test_rows_of_many_groups_are_named_in_turn() -> None:
    copies = tuple(
        Suspect(row, "duplicates", 1.0, f"equals row {row - 1}", group=f"equals copy {row % 3}")
        for row in range(90_000)
    )
    finding = Finding("duplicates", "Copies", "Many.", np.arange(90_000), np.ones(90_000), copies)
    data = _data(Audit("many", 90_000, "none", None, (finding,)), "")
    assert [entry["count"] for entry in data["entries"]] == [30_000] * 3
    assert [len(entry["rows"]) for entry in data["entries"]] == [5_000] * 3


@needs_browser
@pytest.mark.parametrize("width", [360, 768, 1280])
def test_it_fits_every_width(browser: Browser, width: int) -> None:
    browser.send("Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=False)
    toggle = "for (const open of document.querySelectorAll('button.open')) open.click()"
    browser.run(toggle)
    assert browser.run("document.documentElement.scrollWidth") <= width
    browser.run(toggle)
    browser.send("Emulation.clearDeviceMetricsOverride")


@needs_browser
def test_it_prints_on_few_pages_without_its_tools(browser: Browser) -> None:
    browser.send("Emulation.setEmulatedMedia", media="print")
    assert browser.run("getComputedStyle(document.querySelector('.tools')).display") == "none"
    browser.send("Emulation.setEmulatedMedia", media="")
    pdf = base64.b64decode(browser.send("Page.printToPDF", printBackground=True)["data"])
    assert pdf.startswith(b"%PDF")
    assert 1 <= len(re.findall(rb"/Type\s*/Page\b", pdf)) <= 4


@needs_browser
def test_paper_is_white_whatever_the_screen_prefers(browser: Browser) -> None:
    dark = [{"name": "prefers-color-scheme", "value": "dark"}]
    ink = "getComputedStyle(document.body).color.match(/[0-9]+/g).every(part => part < 80)"
    browser.send("Emulation.setEmulatedMedia", media="screen", features=dark)
    assert not browser.run(ink)
    browser.send("Emulation.setEmulatedMedia", media="print", features=dark)
    assert browser.run(ink)
    browser.send("Emulation.setEmulatedMedia", media="", features=[])


@needs_browser
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_small_text_stands_out_from_its_ground(browser: Browser, scheme: str) -> None:
    """A contrast of 4.5 to 1, as the Web Content Accessibility Guidelines ask for (level AA)."""
    browser.send("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
    click(browser, '[data-row="31"] .fine')
    contrast = """(() => {
        const linear = x => x <= .04045 ? x / 12.92 : ((x + .055) / 1.055) ** 2.4;
        const parts = colour => colour.match(/[0-9.]+/g).slice(0, 3).map(part => linear(part / 255));
        const light = colour => parts(colour).reduce((sum, part, i) => sum + part * [.2126, .7152, .0722][i], .05);
        const ground = light(getComputedStyle(document.body).backgroundColor);
        const ratio = text => Math.max(text / ground, ground / text);
        const small = [...document.querySelectorAll('.chip, .sure, .whose, .fine, .quiet, .headline')];
        return Math.min(...small.map(node => ratio(light(getComputedStyle(node).color))));
    })()"""
    assert browser.run(contrast) >= 4.5
    click(browser, "#forget")
    browser.send("Emulation.setEmulatedMedia", features=[])


@needs_browser
def test_a_printed_page_says_how_many_findings_it_leaves_out(tmp_path: Path) -> None:
    odd = tuple(Suspect(row, "rows", 0.9, f"row {row} is odd", wrong=False) for row in range(130))
    finding = Finding("rows", "Odd", "Many.", np.arange(130), np.full(130, 0.9), odd)
    path = tmp_path / "report.html"
    path.write_text(page(Audit("some", 130, "none", None, (finding,))), encoding="utf-8")
    assert "30 more are in summary.json." in path.read_text()  # for browsers without scripts
    with Browser() as opened:
        opened.open(path)
        rest = "document.getElementById('rest')"
        assert opened.run(f"{rest}.offsetHeight") == 0
        opened.send("Emulation.setEmulatedMedia", media="print")
        opened.run("dispatchEvent(new Event('beforeprint'))")
        assert len(visible(opened)) == 100
        assert opened.run(f"{rest}.offsetHeight") > 0
        assert opened.run(f"{rest}.textContent") == "30 more are in summary.json."


def test_without_a_browser_it_is_well_formed_and_complete() -> None:
    from pages import Page

    read = Page(page(made()))
    assert len(read.ids) == len(set(read.ids))
    assert read.tags["script"] == 2  # one of them is data
    assert "31 is a little odd" in read.text
    assert {link.split(":")[0] for link in read.links if not link.startswith("#")} == {"data"}


def test_no_suspect_is_said_plainly() -> None:
    html = page(Audit("tidy", 10, "none", None, ()))
    assert "No row of 10 is suspicious." in html
    assert "<script" not in html


def test_thousands_of_entries_are_saved_and_known_again(tmp_path: Path) -> None:
    table = pd.DataFrame(np.random.default_rng(0).normal(size=(3000, 3)), columns=list("abc"))
    suspects = tuple(Suspect(row, "rows", 0.95, f"row {row} is odd", far=3.0, wrong=row % 3 > 0) for row in range(3000))
    finding = Finding("rows", "Rows", "All.", np.arange(3000), np.full(3000, 0.95), suspects)
    report = Audit("big", 3000, "none", None, (finding,), values=table)
    report.save(tmp_path)
    assert report.lede() == "of 3,000 rows, 2,000 are probably wrong and 1,000 are odd but may be right."
    assert not report.without(Accepted.read(tmp_path / "summary.json", "since")).entries
