"""Audits by small models and few folds: for tests of what an audit does, not how sharply."""

import pytest

from likely.auditing import _label_models, _out_of_fold, _target_models


def small_models_of(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give the audits of a test fewer folds, trees and kinds of models."""
    for module in (_out_of_fold, _label_models, _target_models):
        monkeypatch.setattr(module, "FOLDS", 3)
    for name, few in {"TREES": 20, "ROUNDS": 40, "DEALS": 1}.items():
        monkeypatch.setattr(_label_models, name, few)
    monkeypatch.setattr(_target_models, "FEW", 0)
