import pytest

from quick_audits import small_models_of


@pytest.fixture(autouse=True)
def small_models(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small models and few folds: these tests are about what an audit does, not how sharply."""
    small_models_of(monkeypatch)
