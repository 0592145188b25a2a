"""Reliability diagrams, PIT histograms, prediction intervals and column importances.

They are Display objects, as in scikit-learn: a class method (``from_predictions``, ``from_estimator``,
``from_function``) creates and draws one, and ``plot(ax=…)`` draws it again; the axes and the figure are then ``ax_``
and ``figure_``. Needs matplotlib: ``pip install 'likely[plots]'``; importing this module does not load it.
"""

from likely.plots._importance import ImportanceDisplay
from likely.plots._intervals import IntervalDisplay
from likely.plots._pit import PITDisplay
from likely.plots._reliability import ReliabilityDisplay

__all__ = ["ImportanceDisplay", "IntervalDisplay", "PITDisplay", "ReliabilityDisplay"]
