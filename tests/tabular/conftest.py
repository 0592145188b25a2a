import pytest

from likely.tabular.networks import two_stage
from quick_stacks import cut_short


@pytest.fixture
def few_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few steps for the scale, which ``max_steps`` does not limit: for tests of what a fit does, not how well."""
    monkeypatch.setitem(two_stage.SECOND, "max_steps", 40)


@pytest.fixture
def quick_stacks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few trees, centres and steps for the members of a stack: for tests of what a fit does, not how well."""
    cut_short(monkeypatch)
