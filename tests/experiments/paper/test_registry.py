"""The registry against the paper: every table and figure, once, in order, with its printed number."""

import importlib
from pathlib import Path

import pytest

from experiments.entries import Context
from experiments.paper import ENTRIES, find

# Each float of the paper in the order of its source, as LaTeX numbers them.
PAPER = """
loss-likelihood            Figure 1
conditioning               Figure 2
dimensionality             Figure 3
robust-classification      Figure 4
vae                        Table 1
robust-regression-deep     Table 2
svhn-temperatures          Figure 5
outlier-detection          Table 3
outlier-distribution       Figure 6
adaptive-regularization    Figure 7
classifier-calibration     Table 4
regressor-calibration      Table 5
corruption-aupr            Figure 8
robust-models              Figure 9
robust-regression-linear   Table 6
robust-regression          Figure 10
vae-shape-scale            Figure 11
miscalibration-by-size     Figure 12
offset-stability           Figure 13
conditioning-cost          Table 7
"""
HELPERS = {"letter", "outlier_letter", "grid", "noisy_classifiers", "registry", "vision_classifiers"}


def test_every_table_and_figure_of_the_paper_in_its_order() -> None:
    assert [(entry.name, entry.what) for entry in ENTRIES] == [
        tuple(line.split(None, 1)) for line in PAPER.split("\n")[1:-1]
    ]


def test_every_entry_says_what_the_paper_claims() -> None:
    for entry in ENTRIES:
        assert entry.title
        assert entry.claim.endswith(".")
        assert len(entry.title) <= 50


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.name)
def test_an_entry_has_a_module_of_its_name(entry) -> None:
    module = importlib.import_module(f"experiments.paper.{entry.name.replace('-', '_')}")
    assert entry.what in module.__doc__
    assert callable(module.run)


def test_no_module_is_left_out_of_the_registry() -> None:
    folder = Path(importlib.import_module("experiments.paper").__file__).parent
    modules = {path.stem for path in folder.glob("[!_]*.py")} - HELPERS
    assert modules == {entry.name.replace("-", "_") for entry in ENTRIES}


def test_find_refuses_what_is_not_there() -> None:
    with pytest.raises(KeyError, match="figure-1"):
        find("figure-1")


def test_track_reports_how_far_it_is() -> None:
    told: list[float] = []
    assert list(Context(progress=told.append).track(["a", "b", "c", "d"])) == ["a", "b", "c", "d"]
    assert told == [0.25, 0.5, 0.75, 1.0]
