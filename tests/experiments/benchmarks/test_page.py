"""The page of benchmarks: whole and alone, everything escaped, and what changed is marked."""

import shutil
from collections import Counter
from pathlib import Path

import pandas as pd
import pytest

from auditing.page.browser import CHROMIUM, Browser
from experiments import benchmarks
from experiments.benchmarks import BENCHES
from experiments.benchmarks._history import Compared, remember
from experiments.benchmarks._page import margins, write_bench_page
from experiments.entries import Bar, Context, Entry, Result, run_entry, save
from experiments.entries.parts import Table
from pages import NASTY, Page

BARS = (
    Bar("speed", 4.0, "≥", 5, "×", 0.1, case=NASTY),
    Bar("error", 0.01, "≤", 0.02),
    Bar("lead", 0.001, ">", 0),
    Bar(f"{NASTY} memory", 64.0, "≤", None, " MB"),
)


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A benchmark that ran twice and was slower the second time, one that failed and one that was not run."""
    out = tmp_path_factory.mktemp("bench")
    table = Table(pd.DataFrame({NASTY: [1.0]}, index=pd.Index([NASTY], name="row")), NASTY)

    def measure(context: Context) -> Result:
        faster = (Bar("speed", 6.0, "≥", 5, "×", 0.1), *BARS[1:])
        return Result("holds in part", NASTY, (table,), bars=faster if context.seed else BARS)

    def fail(context: Context) -> Result:
        raise RuntimeError(NASTY)

    entries = [
        Entry("made", "Benchmark", 1, NASTY, NASTY, measure),
        Entry("fails", "Benchmark", 2, "Fails", "A claim.", fail),
        Entry("waits", "Benchmark", 3, "Waits", "A claim.", measure),
    ]
    for seed in (1, 0):
        record = run_entry(entries[0], Context(seed=seed), NASTY)
        save(record, out)
        remember(record, out)
    save(run_entry(entries[1], Context(), "c"), out)
    return write_bench_page(entries, out, NASTY)


def test_it_parses_loads_nothing_and_escapes_everything(path: Path) -> None:
    page = Page(path.read_text())
    assert [name for name, count in Counter(page.ids).items() if count > 1] == []
    assert page.tags["script"] == page.tags["iframe"] == 0
    assert {link.split(":")[0] for link in page.links if not link.startswith("#")} == {"data"}
    assert page.text.count(NASTY) >= 9


def test_it_marks_what_is_missed_and_what_got_worse(path: Path) -> None:
    html = path.read_text()
    assert '<td>4.00 ± 0.10×</td><td>≥ 5×</td>\n<td class="fails">no</td>\n<td class="fails">× 0.667 worse</td>' in html
    assert '<td>0.01</td><td>≤ 0.02</td>\n<td class="holds">yes</td>\n<td class="idle">× 1 </td>' in html
    assert '<td>64 MB</td><td>–</td>\n<td class="idle">–</td>' in html
    assert "4 measures: 2 met, 1 missed, 1 not judged, 1 worse than in the last run." in html
    assert "not run" in html
    assert "<code>fails.json</code>" in html


def test_a_picture_shows_how_far_from_the_bar() -> None:
    (picture,) = margins([Compared(bar) for bar in BARS])
    assert picture.alt == "Of 2 figures 1 are on the right side of their bars. Missed: speed."
    assert "lead" not in picture.svg  # a bar at zero has no ratio
    assert margins([Compared(BARS[2])]) == []


def test_stored_runs_make_a_page(tmp_path: Path) -> None:
    stored = Path(benchmarks.__file__).parent / "results"
    if not stored.exists():
        pytest.skip("not a checkout")
    shutil.copytree(stored, tmp_path, dirs_exist_ok=True)
    html = write_bench_page(BENCHES, tmp_path, "python -m experiments.benchmarks").read_text()
    assert all(f'<section id="{name}">' in html for name in ("numerics", "losses", "linear", "networks"))


@pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed")
@pytest.mark.parametrize("width", [1280, 390])
def test_a_browser_shows_it_without_errors_or_sideways_scrolling(path: Path, width: int) -> None:
    with Browser(width) as browser:
        browser.send(
            "Emulation.setDeviceMetricsOverride", width=width, height=800, deviceScaleFactor=1, mobile=width < 500
        )
        browser.open(path)
        assert browser.errors == []
        assert [address for address in browser.requests if not address.startswith(("file:", "data:"))] == []
        assert browser.run("document.documentElement.scrollWidth") <= width
