"""Data for experiments: saved outputs of classifiers and regression sets from a local folder, and synthetic sets.

Nothing is downloaded. Files are read from the folder given as ``data``, or named by the environment variable
``LIKELY_DATA``; each is an npz, under ``logits/`` or ``regression/``.
"""

from likely.datasets._linear import LinearProblem, make_linear
from likely.datasets._logits import Logits, list_logits, load_logits
from likely.datasets._regression import Regression, list_regression, load_regression
from likely.datasets._synthetic import make_heteroscedastic

__all__ = [
    "LinearProblem",
    "Logits",
    "Regression",
    "list_logits",
    "list_regression",
    "load_logits",
    "load_regression",
    "make_heteroscedastic",
    "make_linear",
]
