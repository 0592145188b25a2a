import pytest

from likely.auditing import _label_models, _out_of_fold, _target_models


@pytest.fixture(autouse=True)
def small_models(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small models and few folds: these tests are about what an audit does, not how sharply."""
    for module in (_out_of_fold, _label_models, _target_models):
        monkeypatch.setattr(module, "FOLDS", 3)
    for name, few in {"TREES": 20, "ROUNDS": 40, "DEALS": 1}.items():
        monkeypatch.setattr(_label_models, name, few)
    monkeypatch.setattr(_target_models, "FEW", 0)
