"""Where Data parameters live: a table with a row for every training example, and its row-wise optimizer.

The table is a buffer, not a parameter. A dense gradient would cost as much as the table is large, and a dense
optimizer would move rows that were not seen. Instead the rows of a batch are gathered as a leaf of the graph,
and as soon as ``backward`` has filled the leaf's gradient the rows, and only they, take a step.
"""

from likely.row_store._lookahead import LookAhead
from likely.row_store._store import RowStore

__all__ = ["LookAhead", "RowStore"]
