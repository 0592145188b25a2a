import os

import hypothesis
import pytest
import torch

os.environ.setdefault("MPLBACKEND", "Agg")

# The first call of a compiled or lazily imported function is slow: a deadline per example makes flakes.
hypothesis.settings.register_profile("likely", deadline=None, derandomize=True, print_blob=True)
hypothesis.settings.load_profile("likely")


@pytest.fixture(autouse=True)
def seed() -> None:
    torch.manual_seed(0)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if not torch.cuda.is_available():
        for item in items:
            if item.get_closest_marker("gpu"):
                item.add_marker(pytest.mark.skip(reason="needs a CUDA device"))
