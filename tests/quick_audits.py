"""Audits by small models and few folds: for tests of what an audit does, not how sharply."""

import pytest

from likely.auditing.target import folds, label_forecast, target_forecast


def small_models_of(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give the audits of a test fewer folds, trees and kinds of models."""
    for module in (folds, label_forecast, target_forecast):
        monkeypatch.setattr(module, "FOLDS", 3)
    for name, few in {"TREES": 20, "ROUNDS": 40, "DEALS": 1}.items():
        monkeypatch.setattr(label_forecast, name, few)
    monkeypatch.setattr(target_forecast, "FEW", 0)
