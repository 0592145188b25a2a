import pytest

from likely.auditing import _out_of_fold


@pytest.fixture(autouse=True)
def small_models(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small models and few folds: these tests are about what an audit does, not how sharply."""
    for name, few in {"TREES": 20, "ROUNDS": 40, "DEALS": 1, "FOLDS": 3}.items():
        monkeypatch.setattr(_out_of_fold, name, few)
