"""Readers' words lead to the right page: the table of the glossary, and the search index of a built site."""

from pathlib import Path

import _words
import pytest

DOCS = Path(__file__).parents[1] / "docs"
INDEX = DOCS / "_build" / "html" / "searchindex.js"
# The first words that people type for each job, with the page that should answer.
ASKED = {
    "heteroscedastic": "tutorials/forecasts",
    "aleatoric": "tutorials/forecasts",
    "prediction interval": "tabular",
    "uncertainty weighting": "howto/multi-task",
    "focal": "faq",
    "imbalance": "faq",
    "noisy labels": "tutorials/noisy-labels",
    "label smoothing": "torch-losses",
    "quantile loss": "which-loss",
    "pinball": "which-loss",
    "Huber": "which-loss",
    "evidential": "faq",
    "MC dropout": "faq",
    "temperature scaling": "calibration",
    "Venn-Abers": "calibration",
    "calibration": "calibration",
    "conformal": "integrations",
    "ECE": "metrics",
    "CRPS": "metrics",
    "outlier detection": "outliers",
    "anomaly detection": "outliers",
    "robust regression": "linear",
    "LASSO": "linear",
    "ridge": "linear",
    "weight decay": "priors",
    "data leakage": "audit",
}


def test_every_word_leads_to_one_page_that_is_there() -> None:
    pages = _words.pages()
    assert [page for page in pages if not DOCS.joinpath(f"{page}.md").is_file()] == []
    words = [word.lower() for own in pages.values() for word in own]
    assert len(words) == len(set(words))
    table = _words.GLOSSARY.read_text().split("## Also called")[1]
    assert len(_words.ROW.findall(table)) == table.count("](")  # no row is passed over


@pytest.mark.parametrize("word", ASKED)
def test_the_glossary_knows_the_word(word: str) -> None:
    assert word in _words.pages()[ASKED[word]]


def test_a_page_begins_with_the_entries_of_its_words() -> None:
    source = ["# Outliers\n"]
    _words.add_to_index(None, "outliers", source)
    assert source[0].startswith("```{index} ! outlier detection, ! anomaly detection, ")
    assert source[0].endswith("```\n\n# Outliers\n")
    untouched = ["# Other\n"]
    _words.add_to_index(None, "contributing", untouched)
    assert untouched == ["# Other\n"]


@pytest.mark.skipif(not INDEX.exists(), reason="the site is not built: make docs")
def test_the_search_box_answers_within_three_hits() -> None:
    index = _words.load(INDEX)
    found = {word: _words.hits(word, index)[:3] for word in ASKED}
    assert {word: pages for word, pages in found.items() if ASKED[word] not in pages} == {}
