"""Pictures of calibration, prediction intervals and column importances as Display objects, in scikit-learn's manner.

Make one with ``from_predictions`` (``from_estimator``, ``from_function``), which draws it, or draw again with
``plot(ax=…)``; the axes and the figure are then ``ax_`` and ``figure_``. Needs matplotlib: ``pip install
'likely[plots]'``; importing this module does not load it.
"""

from likely.plots._importance import ImportanceDisplay
from likely.plots._intervals import IntervalDisplay
from likely.plots._pit import PITDisplay
from likely.plots._reliability import ReliabilityDisplay
from likely.plots._temperature_map import TemperatureMapDisplay

__all__ = ["ImportanceDisplay", "IntervalDisplay", "PITDisplay", "ReliabilityDisplay", "TemperatureMapDisplay"]
