r"""Where Data parameters live: a table with a row for every training example, and its row-wise optimizer.

The table is a buffer, not a parameter. A dense gradient would cost as much as the table is large, and a dense
optimizer would move rows that were not seen. Instead the rows of a batch are gathered as a leaf of the graph,
and as soon as ``backward`` has filled the leaf's gradient the rows, and only they, take a step.

====================  =======================================================================================
``store="device"``    with the model: the default, and the fastest
``store="host"``      in the host's memory; :class:`LookAhead` fetches the next batch's rows ahead of need
``store="a/path"``    in a file that takes room as rows are touched: a billion rows on a laptop
``sharded=True``      a part of the rows in each process, in any of the three
====================  =======================================================================================
"""

from likely.row_store._lookahead import LookAhead
from likely.row_store._store import RowStore

__all__ = ["LookAhead", "RowStore"]
