"""The rule by which the paper is judged: what it says of a claim, and that every word comes from the numbers."""

import json
import math
import re
from dataclasses import replace
from pathlib import Path

import _paper
import pytest

from experiments.paper import ENTRIES
from experiments.paper._claims import CLAIMS
from experiments.paper._published import RESULTS, SUBSETS, Published, all_published, count_verdicts
from experiments.paper._report import write_report
from experiments.paper._rule import RULE, Claim, Interval, once, told, verdict
from pages import Page

ROOT = Path(__file__).parents[3]
ABOVE, BELOW, ACROSS = Interval(2.0, 1.5, 2.5), Interval(0.5, 0.2, 0.9), Interval(1.1, 0.7, 1.5)


@pytest.fixture(scope="module")
def run() -> list[Published]:
    return all_published()


def claim(interval: Interval, side: str = "above") -> Claim:
    return Claim("the ratio", interval, side, 1)


@pytest.mark.parametrize(
    ("interval", "side", "state", "direction"),
    [
        (ABOVE, "above", "holds", "above 1, as the paper says"),
        (ABOVE, "below", "does not hold", "above 1, where the paper says below"),
        (BELOW, "above", "does not hold", "below 1, where the paper says above"),
        (BELOW, "below", "holds", "below 1, as the paper says"),
        (ACROSS, "above", "open", "not clearly above or below 1; the paper says above"),
        (once(2.0), "above", "open", "(one run: open); the paper says above 1"),
    ],
)
def test_a_claim_is_judged_by_its_interval(interval: Interval, side: str, state: str, direction: str) -> None:
    one = claim(interval, side)
    assert one.state == state
    assert one.sentence.endswith(direction)


@pytest.mark.parametrize(
    ("intervals", "expected"),
    [
        ([ABOVE], "holds"),
        ([ABOVE, ABOVE], "holds"),
        ([ABOVE, ACROSS], "holds in part"),
        ([ABOVE, BELOW], "holds in part"),
        ([ACROSS, ABOVE], "holds in part"),
        ([BELOW, ABOVE], "does not hold"),  # the main claim is the first
        ([ACROSS, BELOW], "open"),
        ([ACROSS], "open"),
        ([once(2.0)], "open"),
    ],
)
def test_an_entry_is_judged_by_its_claims(intervals: list[Interval], expected: str) -> None:
    assert verdict([claim(interval) for interval in intervals]) == expected


def test_every_entry_has_claims_and_its_stored_verdict_is_the_rules(run: list[Published]) -> None:
    assert list(CLAIMS) == [entry.name for entry in ENTRIES]
    for one in run:
        stored = json.loads(RESULTS.joinpath(f"{one.entry.name}.json").read_text())
        assert one.result.verdict == verdict(one.claims) == stored["result"]["verdict"], one.entry.name
        assert all(math.isfinite(claim.interval.value) for claim in one.claims), one.entry.name


def number(text: str) -> float:
    return float(text.replace("−", "-").replace(",", ""))


def direction(sentence: str) -> str | None:
    """What a sentence says, read from its words alone."""
    found = re.search(r"\), (above|below) |(?<=[\d%]), (above|below) ", sentence)
    return (found[1] or found[2]) if found else None


def test_no_sentence_and_its_number_disagree_in_direction(run: list[Published]) -> None:
    pattern = re.compile(r" is (−?[\d.,]*\d)(?: \((−?[\d.,]*\d) to (−?[\d.,]*\d)\))?, (?:not clearly )?(above|below)")
    for one in run:
        for judged in one.claims:
            if "one run" in judged.sentence:
                assert judged.state == "open"
                continue
            value, low, high, side = pattern.search(judged.sentence).groups()
            low, high = (number(end or value) for end in (low, high))
            unit = 10.0**-judged.digits
            if "not clearly" in judged.sentence:
                assert low - unit <= judged.bar <= high + unit, judged.sentence
            elif side == "above":
                assert low + unit >= judged.bar, judged.sentence
                assert number(value) > judged.bar - unit, judged.sentence
            else:
                assert high - unit <= judged.bar, judged.sentence
                assert number(value) < judged.bar + unit, judged.sentence
        main = one.claims[0]
        assert one.sentence[1:].startswith(main.sentence[1:]), one.entry.name
        assert (one.result.verdict == "does not hold") == ("where the paper says" in main.sentence)


def test_a_number_on_the_other_side_is_another_sentence(run: list[Published]) -> None:
    for one in run:
        for judged in one.claims:
            interval, bar = judged.interval, judged.bar
            mirrored = Interval(2 * bar - interval.value, 2 * bar - interval.high, 2 * bar - interval.low)
            other = replace(judged, interval=mirrored)
            if judged.state == "open":
                assert other.state == "open"
            else:
                assert {judged.state, other.state} == {"holds", "does not hold"}
                assert direction(judged.sentence) != direction(other.sentence)


def test_the_rule_stands_above_the_first_verdict(tmp_path: Path, run: list[Published]) -> None:
    text = " ".join(Page(write_report(ENTRIES, tmp_path, "c").read_text()).text.split())
    first = text.index(run[0].sentence)
    assert RULE in text[: text.index(count_verdicts(run))]
    assert SUBSETS in text[:first]
    assert SUBSETS in " ".join(ROOT.joinpath("README.md").read_text().split())


def test_the_page_of_the_site_begins_with_the_rule(run: list[Published]) -> None:
    text = _paper.page()
    rule, counted, first = (text.index(part) for part in (RULE, count_verdicts(run), run[0].sentence))
    assert rule < counted < text.index(SUBSETS) < first
    assert [one.entry.name for one in run if f" | {one.result.verdict} | {one.sentence} |" not in text] == []


def test_a_reason_counts_the_other_claims() -> None:
    claims = [claim(ABOVE), claim(ABOVE), claim(BELOW), claim(ACROSS), claim(ACROSS)]
    assert told(claims).endswith("Further claims: 1 holds, 1 does not, 2 are open.")
    assert told(claims[:1]) == "The ratio is 2.000 (1.500 to 2.500), above 1, as the paper says."
