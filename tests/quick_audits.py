"""Audits by small models and few folds: for tests of what an audit does, not how sharply."""

import pytest

from likely.auditing.target import forecasts, held_out


def small_models_of(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give the audits of a test fewer folds, trees and kinds of models."""
    monkeypatch.setattr(held_out, "FOLDS", 3)
    for name, few in {"TREES": 20, "ROUNDS": 40, "DEALS": 1, "FEW": 0}.items():
        monkeypatch.setattr(forecasts, name, few)
