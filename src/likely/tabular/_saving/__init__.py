"""Fitted estimators of tables as files of plain numbers: nothing in such a file is run when it is read."""

from likely.tabular._saving._model import load_model, save_model

__all__ = ["load_model", "save_model"]
