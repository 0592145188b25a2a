"""Data for experiments: outputs of classifiers, regression and outlier sets from a local folder, and synthetic sets.

Nothing is downloaded. Files are read from the folder given as ``data``, or named by the environment variable
``LIKELY_DATA``; each is an npz, under ``logits/``, ``regression/`` or ``odds/``.
"""

from likely.datasets._linear import LinearProblem, make_linear
from likely.datasets._logits import Logits, list_logits, load_logits
from likely.datasets._outliers import Outliers, list_outliers, load_outliers
from likely.datasets._regression import Regression, list_regression, load_regression
from likely.datasets._synthetic import make_heteroscedastic

__all__ = [
    "LinearProblem",
    "Logits",
    "Outliers",
    "Regression",
    "list_logits",
    "list_outliers",
    "list_regression",
    "load_logits",
    "load_outliers",
    "load_regression",
    "make_heteroscedastic",
    "make_linear",
]
