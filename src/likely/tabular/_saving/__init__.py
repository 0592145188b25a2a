"""Fitted estimators of tables as files of numbers and text: reading one runs no code from it."""

from likely.tabular._saving._model import load_model, save_model

__all__ = ["load_model", "save_model"]
