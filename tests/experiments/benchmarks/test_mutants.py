"""Mistakes are planted where they are said to be, and noticed by tests that pass there."""

from __future__ import annotations

import contextlib
import random
from collections import Counter

import pytest

from experiments.benchmarks import mutants

OPTIM = mutants.PACKAGE / "optim.py"


def test_mistakes_are_drawn_alike_from_every_part() -> None:
    drawn = mutants.drawn(0, 80)
    assert drawn == mutants.drawn(0, 80)
    assert drawn != mutants.drawn(1, 80)
    assert Counter(one.part for one in drawn) == dict.fromkeys(mutants.PARTS, 10)


def test_a_pattern_without_files_is_told(monkeypatch) -> None:
    monkeypatch.setitem(mutants.PARTS, "gone", "nowhere/*.py")
    with pytest.raises(ValueError, match=r"nowhere/\*\.py"):
        mutants.drawn(0, 8)


def test_a_planted_mistake_changes_its_line_alone() -> None:
    for one in random.Random(0).sample(list(mutants.mutants("optim", OPTIM)), 20):
        before, after = one.control.source().splitlines(), one.source().splitlines()
        assert len(before) == len(after)
        assert sum(line != other for line, other in zip(before, after, strict=True)) == 1, one


def test_tests_notice_a_mistake_and_nothing_else(tmp_path) -> None:
    found = mutants.reach(tmp_path, 0, "tests/parameters/test_optim.py")
    assert len(found.seconds) > 5
    one = next(one for one in mutants.mutants("optim", OPTIM) if "isinstance(parameter, Global)" in one.before)
    tests = found.tests_of(one)
    assert tests
    with contextlib.closing(mutants.Forks()) as forks:
        assert forks.survives(one.control, tests)
        assert not forks.survives(one, tests)
        assert forks.survives(one, [])
