import pytest

from likely.auditing import _out_of_fold, _predictions


@pytest.fixture(autouse=True)
def small_models(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small models and few folds: these tests are about what an audit does, not how sharply."""
    monkeypatch.setattr(_out_of_fold, "FOLDS", 3)
    for name, few in {"FOLDS": 3, "PASSES": 1, "SMALL": 0, "MEDIUM": 0}.items():
        monkeypatch.setattr(_predictions, name, few)
