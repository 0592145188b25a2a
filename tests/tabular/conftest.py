import pytest

from likely.tabular import _fitting


@pytest.fixture
def few_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few steps for the scale, which ``max_steps`` does not limit: for tests of what a fit does, not how well."""
    monkeypatch.setitem(_fitting.SECOND, "max_steps", 40)
