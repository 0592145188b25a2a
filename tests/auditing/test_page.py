"""The page in a browser: it loads nothing, breaks nowhere, folds, filters and sorts, and shows data as text."""

import base64
import re
from collections.abc import Iterator

import numpy as np
import pandas as pd
import pytest

from auditing.browser import CHROMIUM, Browser
from likely.auditing import Audit, Finding, Reason, Suspect
from likely.auditing._audit import page

NASTY = "<script>document.title = 'owned'</script><img src=x onerror=\"document.title='owned'\">"
needs_browser = pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed")


def made(nasty: str = NASTY) -> Audit:
    values = pd.DataFrame({"size": np.arange(50.0), f"note {nasty}": [nasty] * 50})
    suspects = (
        Suspect(7, "targets", 0.95, f"{nasty} is odd", (Reason("size", nasty, nasty, 0.9),)),
        Suspect(31, "targets", 0.6, "31 is a little odd", (Reason("size", "31", "usually 3"),)),
    )
    odd = (Suspect(12, "rows", 0.99, "far away", (Reason("size", "12", "usually 1 to 2", 0.5),)),)
    findings = (
        Finding("rows", "Odd rows", "One.", np.array([12]), np.array([0.99]), odd),
        Finding("targets", "Wrong targets", nasty, np.array([7, 31]), np.array([0.95, 0.6]), suspects),
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
    found = browser.run("[...document.querySelectorAll('.suspect')].filter(b => !b.hidden).map(b => +b.dataset.row)")
    return [int(row) for row in found]


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
    assert browser.run("document.scripts.length") == 1
    assert NASTY in browser.run("document.querySelector('[data-row=\"7\"] .cells').textContent")


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
    assert browser.run(f"{why}.offsetHeight") == 0
    click(browser, '[data-row="12"] .open')
    assert browser.run(f"{why}.offsetHeight") > 20
    assert "usually 1 to 2" in browser.run(f"{why}.innerText")
    assert browser.run("document.querySelector('[data-row=\"12\"] .open').getAttribute('aria-expanded')") == "true"
    click(browser, '[data-row="12"] .head td')
    assert browser.run(f"{why}.offsetHeight") == 0


@needs_browser
def test_it_filters_by_words_and_by_kind(browser: Browser) -> None:
    def write(text: str) -> None:
        browser.run(f"filter.value = {text!r}; filter.dispatchEvent(new Event('input'))")

    assert visible(browser) == [12, 7, 31]
    write("LITTLE odd")
    assert visible(browser) == [31]
    assert browser.run("document.getElementById('shown').textContent") == "1 of 3 shown"
    write("nowhere")
    assert visible(browser) == []
    assert browser.run("document.getElementById('none').offsetHeight") > 0
    write("")
    click(browser, 'button[data-kind="targets"]')
    assert visible(browser) == [12]
    click(browser, 'button[data-kind="targets"]')
    assert visible(browser) == [12, 7, 31]


@needs_browser
def test_it_sorts_numbers_as_numbers_and_back(browser: Browser) -> None:
    click(browser, 'button[data-sort="row"]')
    assert visible(browser) == [7, 12, 31]
    assert (
        browser.run("document.querySelector('[data-sort=\"row\"]').closest('th').getAttribute('aria-sort')")
        == "ascending"
    )
    click(browser, 'button[data-sort="row"]')
    assert visible(browser) == [31, 12, 7]
    click(browser, 'button[data-sort="score"]')
    click(browser, 'button[data-sort="score"]')
    assert visible(browser) == [12, 7, 31]


@needs_browser
@pytest.mark.parametrize("width", [360, 768, 1280])
def test_it_fits_every_width(browser: Browser, width: int) -> None:
    browser.send("Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=False)
    browser.run("for (const why of document.querySelectorAll('.why')) why.hidden = false")
    assert browser.run("document.documentElement.scrollWidth") <= width
    browser.run("for (const why of document.querySelectorAll('.why')) why.hidden = true")
    browser.send("Emulation.clearDeviceMetricsOverride")


@needs_browser
def test_it_prints_on_few_pages_without_its_tools(browser: Browser) -> None:
    browser.send("Emulation.setEmulatedMedia", media="print")
    assert browser.run("getComputedStyle(document.querySelector('.tools')).display") == "none"
    browser.send("Emulation.setEmulatedMedia", media="")
    pdf = base64.b64decode(browser.send("Page.printToPDF", printBackground=True)["data"])
    assert pdf.startswith(b"%PDF")
    assert 1 <= len(re.findall(rb"/Type\s*/Page\b", pdf)) <= 4


def test_without_a_browser_it_is_well_formed_and_complete() -> None:
    from pages import Page

    read = Page(page(made()))
    assert len(read.ids) == len(set(read.ids))
    assert read.tags["script"] == 1
    assert "31 is a little odd" in read.text
    assert {link.split(":")[0] for link in read.links if not link.startswith("#")} == {"data"}


def test_no_suspect_is_said_plainly() -> None:
    html = page(Audit("tidy", 10, "none", None, ()))
    assert "No row is suspicious." in html
    assert "<script" not in html
