"""The stored full run: it alone judges the paper, and every page counts and shows the same of it."""

import json
import re
from collections import Counter
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from experiments.entries import Context, Entry, Result, run_entry, save
from experiments.paper import ENTRIES, _shown
from experiments.paper._headlines import HEADLINES
from experiments.paper._headlines.row import SAME, Numbers
from experiments.paper._published import RESULTS, Published, all_published, count_verdicts, published
from experiments.paper._quotes import QUOTES
from experiments.paper._report import write_report
from experiments.paper._shown import Shown
from experiments.paper.letter import LETTERS
from experiments.paper.registry import find
from pages import Page

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def run() -> list[Published]:
    return all_published()


@pytest.fixture(scope="module")
def bodies(run: list[Published]) -> dict[str, str]:
    return {one.entry.name: str(Shown(one.entry, one).body) for one in run}


def contrary(entry: Entry) -> Entry:
    """An entry whose run says the opposite of the stored one."""
    stored = json.loads(RESULTS.joinpath(f"{entry.name}.json").read_text())["result"]["verdict"]
    verdict = "does not hold" if stored == "holds" else "holds"
    return replace(entry, run=lambda context: Result(verdict, "What a quick run saw."))


def test_all_twenty_are_stored_full_runs_that_say_when_and_where(run: list[Published]) -> None:
    assert [one.entry for one in run] == list(ENTRIES)
    assert len(run) == 20
    for one in run:
        assert not one.record.quick
        assert re.fullmatch(r"\d{4}-\d\d-\d\d", one.record.date)
        assert one.record.machine["cpu"]
        assert one.command.startswith("python -m experiments.paper ")
    assert list(QUOTES) == list(HEADLINES) == [entry.name for entry in ENTRIES]


def test_readme_report_and_site_count_the_same_from_the_same_files(run: list[Published], tmp_path: Path) -> None:
    counts = Counter(json.loads(path.read_text())["result"]["verdict"] for path in RESULTS.glob("*.json"))
    counted = count_verdicts(run)
    assert sorted(map(int, re.findall(r"\d+", counted))) == sorted([20, *counts.values()])
    readme = " ".join(ROOT.joinpath("README.md").read_text().split())
    assert f"{counted}." in readme
    report = " ".join(Page(write_report(ENTRIES, tmp_path, "c").read_text()).text.split())
    assert f"{counted}." in report
    assert "count_verdicts(run)" in ROOT.joinpath("docs", "_paper.py").read_text()


def test_a_quick_run_judges_nothing_above_the_fold(tmp_path: Path) -> None:
    for entry in ENTRIES:
        save(run_entry(contrary(entry), Context(quick=True), "c --quick"), tmp_path / "results")
    html = write_report(ENTRIES, tmp_path, "c --quick").read_text()
    head = " ".join(Page(re.search(r"<header>.*?</header>", html, flags=re.DOTALL)[0]).text.split())
    chips = re.findall(r'class="chip [\w-]+">([^<]+)<', re.search(r"<nav.*?</nav>", html, flags=re.DOTALL)[0])
    assert chips == [one.result.verdict for one in all_published()]
    assert "quick run of 20 of 20 entries" in head
    assert "does not judge the paper" in head
    for entry in ENTRIES:
        section = re.search(rf'<section id="{entry.name}">.*?</section>', html, flags=re.DOTALL)[0]
        seen = contrary(entry).run(Context()).verdict
        before, after = section.split('<span class="tag">this quick run</span>', 1)
        assert f"“{seen}”" not in before
        assert after.startswith("is small, and does not judge the paper")


def test_every_entry_has_a_quote_a_sentence_a_picture_and_the_five_columns(bodies: dict[str, str]) -> None:
    for name, body in bodies.items():
        page = " ".join(Page(body).text.split())
        assert f"“{QUOTES[name]}”" in page
        assert body.count('<figure class="lead">') == 1, name
        assert "<svg" in body
        table = re.search(r'<table class="five">.*?</table>', body, flags=re.DOTALL)[0]
        labels = re.findall(r"<th>([^<]+)</th>", table)
        assert labels == ["paper", "to the letter", "ours", "best rival", "spread"]
        opened = re.sub(r"<details.*</details>", "", body, flags=re.DOTALL)
        assert len(Page(opened).text.split()) < 420, name  # one screen


def test_both_rows_or_the_reason(run: list[Published], monkeypatch: pytest.MonkeyPatch) -> None:
    for one in run:
        assert one.headline.rows
        assert any(row.letter != "–" for row in one.headline.rows), one.entry.name
        assert all(row.ours == SAME for row in one.headline.rows) or any(
            row.ours not in (SAME, "–") for row in one.headline.rows
        )
    reason = "networks stopped at 180 of 300 epochs"
    letter = SimpleNamespace(
        fixed=("300 epochs",), open=("the start",), ours=("He",), departs=(reason,), saved="Saved so."
    )
    monkeypatch.setattr(_shown, "LETTERS", {"vae": letter})
    body = str(Shown(find("vae"), published(find("vae"))).body)
    shown = Page(body).text
    assert f"Not run to the letter: {reason}." in shown
    assert re.search(r'class="letter [^>]*>[^<]+\*</td>', body)
    assert "What the paper fixes, what it leaves open, and what we did" in shown
    assert "Saved so." in shown


def test_the_numbers_of_the_small_table_are_those_of_the_stored_file(run: list[Published]) -> None:
    by_name = {one.entry.name: {row.measure: row for row in one.headline.rows} for one in run}
    stored = json.loads(RESULTS.joinpath("outlier-detection.json").read_text())["result"]["tables"][0]["rows"]
    scores = {row["method"]: row["median AUC"] for row in stored}
    row = by_name["outlier-detection"]["median AUC, PCA+S"]
    assert float(row.letter) == pytest.approx(scores["PCA+S"], abs=5e-4)
    assert float(row.ours) == pytest.approx(scores["PCA+S, ours"], abs=5e-4)
    assert row.paper == "0.868"


def test_another_stored_number_is_another_number_on_the_page(run: list[Published]) -> None:
    for one in run:
        numbers = Numbers(one.result)
        before = HEADLINES[one.entry.name](numbers)
        for frame in numbers.frames:
            floats = frame.select_dtypes("float").columns
            frame[floats] = frame[floats] * 3 + 1
            for column in frame.columns.difference(floats):
                frame[column] = [
                    value.replace("0", "7") if isinstance(value, str) else value for value in frame[column]
                ]
        if any(frame.select_dtypes("float").size for frame in numbers.frames):
            assert HEADLINES[one.entry.name](numbers) != before, one.entry.name


def test_the_numbers_of_what_saves_a_claim_are_those_of_the_stored_file(run: list[Published]) -> None:
    for one in run:
        said = [one.result.notes, *(table.caption for table in one.result.tables)]
        values = set()
        for frame in (table.frame for table in one.result.tables):
            said += [str(cell) for cell in frame.select_dtypes(exclude="number").to_numpy().ravel()]
            numbers = frame.select_dtypes("number")
            values |= {*numbers.to_numpy(float).ravel(), *numbers.mean()}
        values |= {float(text) for text in re.findall(r"\d+\.\d+|\d+", " ".join(said).replace(",", ""))}
        for text in re.findall(r"(?<![\w.])\d*\.\d+", LETTERS[one.entry.name].saved):
            half = 0.5 * 10.0 ** -len(text.split(".")[1]) + 1e-9
            assert any(abs(abs(value) - float(text)) <= half for value in values), (one.entry.name, text)


def test_clear_differences_are_counted_in_a_table_beside_the_reasons(bodies: dict[str, str]) -> None:
    counted = [name for name, body in bodies.items() if f"{name}-records" in body]
    assert counted == [
        "robust-regression-deep",
        "classifier-calibration",
        "regressor-calibration",
        "robust-regression-linear",
    ]
    for name in counted:
        reasons = re.search(r"<details><summary>Why .*?</details>", bodies[name], flags=re.DOTALL)[0]
        assert "<table" in reasons
        assert Page(reasons).text.count("clearly better") <= 3


def test_no_sentence_of_a_page_lists_what_a_table_says(bodies: dict[str, str]) -> None:
    for name, body in bodies.items():
        opened = Page(re.sub(r"<details.*</details>", "", body, flags=re.DOTALL)).text
        assert max((text.count("better") for text in re.split(r"[.]\s", opened)), default=0) <= 4, name


def test_a_stored_run_without_its_pictures_is_drawn_from_its_numbers(tmp_path: Path) -> None:
    stored = json.loads(RESULTS.joinpath("outlier-distribution.json").read_text())
    stored["result"]["pictures"] = [{"alt": "a", "caption": "c", "wide": True}]
    tmp_path.joinpath("outlier-distribution.json").write_text(json.dumps(stored))
    picture = published(find("outlier-distribution"), tmp_path).picture
    assert picture is not None
    assert "Drawn from the stored table" in picture.caption
