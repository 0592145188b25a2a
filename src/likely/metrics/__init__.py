"""Metrics of probabilistic predictions, in scikit-learn's order ``(y_true, prediction)``.

All functions accept NumPy arrays, lists and torch tensors of any device and dtype. They sum in float64 on the CPU and
return a Python float. Where a metric is a mean over rows, ``reduction="none"`` returns one value per row.
``sample_weight`` counts a row of weight 2 as two rows.

Tables in files and Dask arrays and frames are read block by block and are never gathered: the result equals that of all
rows in memory. One argument is the table, the others name its columns.
:class:`Running` takes blocks one after another, and the objects of several processes can be merged.
"""

from likely.metrics._bins import *
from likely.metrics._blocks import *
from likely.metrics._refinement import *
from likely.metrics._scores import *
from likely.metrics.classification import *
from likely.metrics.regression import *

__all__ = sorted(name for name, thing in globals().items() if callable(thing) and not name.startswith("_"))
