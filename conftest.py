"""What tests and doctests share: seeds, and no test of a GPU where there is none."""

import gc
import os
import random
from pathlib import Path

import hypothesis
import pytest
import torch

os.environ.setdefault("MPLBACKEND", "Agg")
gc.disable()  # until all tests are there: nothing of what is imported for them is garbage
# What tests leave, such as onnxruntime's sessions, waits for its threads when it is freed; a fork has none of them.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=gc.freeze)

# The first call of a compiled or lazily imported function is slow: a deadline per example makes flakes.
hypothesis.settings.register_profile("likely", deadline=None, derandomize=True, print_blob=True)
hypothesis.settings.load_profile("likely")


@pytest.fixture(autouse=True)
def seed() -> None:
    """Start every test and every doctest alike, in whatever order and process they run."""
    torch.manual_seed(0)


@pytest.fixture(autouse=True)
def empty_folder_for_pages(request: pytest.FixtureRequest) -> None:
    """Run the examples of a page as its readers do: in a folder that holds nothing else."""
    if request.node.path.suffix == ".md":
        request.getfixturevalue("monkeypatch").chdir(request.getfixturevalue("tmp_path"))


def pytest_addoption(parser: pytest.Parser) -> None:
    """Offer ``--shuffle``, with which tests that need another test before them are found."""
    parser.addoption("--shuffle", type=int, metavar="SEED", help="run all tests in a random order")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Skip what needs a GPU where there is none; tests of experiments and the guide's pages are heavy, all of them."""
    if (order := config.getoption("--shuffle")) is not None:
        random.Random(order).shuffle(items)
    root = Path(__file__).parent
    for item in items:
        if item.path.is_relative_to(root / "tests" / "experiments") or item.path.is_relative_to(root / "docs"):
            item.add_marker("heavy")
    if not torch.cuda.is_available():
        for item in items:
            if item.get_closest_marker("gpu"):
                item.add_marker(pytest.mark.skip(reason="needs a CUDA device"))


def pytest_collection_finish() -> None:
    """Spare the garbage collector the million objects of the libraries and tests, which stay to the end."""
    gc.freeze()
    gc.enable()
