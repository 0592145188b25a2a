"""Fitted calibrators as plain JSON: numbers that any language reads, and no code in them."""

from likely.calibration._json._model import load, needs, save, to_json

__all__ = ["load", "needs", "save", "to_json"]
