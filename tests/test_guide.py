"""What the README and the guide claim is what the files they cite hold."""

import re
from pathlib import Path

import _benchmarks
import _stored
import pytest

from pairwise import together

PAGES = {str(page.relative_to(_stored.ROOT)): page for page in _stored.pages()}
TUTORIALS = [page for page in PAGES.values() if page.parent.name == "tutorials" and page.stem != "index"]


@together("name", PAGES)
def test_numbers_are_those_of_the_stored_results(name: str) -> None:
    text = PAGES[name].read_text(encoding="utf-8")
    assert text == _stored.renewed(text), "run `python docs/_stored.py`"


@together("name", PAGES)
def test_every_stored_number_is_closed(name: str) -> None:
    text = PAGES[name].read_text(encoding="utf-8")
    assert text.count("<!-- stored") == text.count("<!-- end -->") == len(_stored.BLOCK.findall(text))
    assert not re.search(r"^ +<!-- stored", text, re.MULTILINE)  # it would end the paragraph


def test_the_readme_and_the_comparison_give_the_same_figures() -> None:
    comparison = PAGES["docs/comparison.md"].read_text(encoding="utf-8")
    assert [library for library in _stored.VERSUS if f"versus | {library} " not in comparison] == []


def test_the_page_of_benchmarks_begins_with_the_result() -> None:
    page = _benchmarks.page()
    met, missed = page.count(" | ✓ |"), page.count(" | ✗ |")
    assert page.startswith(f"**{met} of {met + missed} goals are met.**")
    anchors = re.findall(r"^\| \[.*?\]\(#([\w-]+)\)", page, re.MULTILINE)
    assert anchors == [_benchmarks.slug(title) for title in re.findall(r"^## (.*)$", page, re.MULTILINE)]


def test_every_extra_is_explained() -> None:
    table = _stored.extras_block().splitlines()[2:]
    assert [row for row in table if re.match(r"\| `\w+` \|  \|", row)] == []


@pytest.mark.parametrize("page", TUTORIALS, ids=lambda page: page.stem)
def test_a_tutorial_has_all_its_parts(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    parts = ["**The question.**", "**The data.**", "## Ten lines", "## How to read it", "## What can go wrong"]
    places = [text.find(part) for part in [*parts, "## Next"]]
    assert places == sorted(places)
    assert places[0] > 0
    assert f"\n{page.stem}\n" in page.with_name("index.md").read_text(encoding="utf-8")


@together("name", PAGES)
def test_the_english_of_pages(name: str) -> None:
    text = PAGES[name].read_text(encoding="utf-8")
    assert re.findall(r"\bone an? (?:row|channel|pixel|example|image|column)\b|\ba temperature a row\b", text) == []
