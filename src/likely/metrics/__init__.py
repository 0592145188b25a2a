"""Metrics of probabilistic predictions, in scikit-learn's order ``(y_true, prediction)``.

NumPy arrays, torch tensors of any device and dtype, and lists are accepted; sums run in float64 on the CPU and a
Python float comes out. Where a metric is a mean over rows, ``reduction="none"`` returns the rows.
``sample_weight`` counts a row of weight 2 as two rows.

Dask's arrays and frames are read block by block, and are never gathered: the result is that of all rows in memory.
:class:`Running` takes blocks one after another, and objects of several processes merge.
"""

from likely.metrics._crps import *
from likely.metrics._likelihood import *
from likely.metrics._pit import *
from likely.metrics._refinement import *
from likely.metrics._running import *
from likely.metrics._smooth import *
from likely.metrics.classification import *
from likely.metrics.regression import *

__all__ = sorted(name for name, thing in globals().items() if callable(thing) and not name.startswith("_"))
