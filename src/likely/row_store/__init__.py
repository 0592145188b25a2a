r"""Storage of Data parameters: a table with one row per training example, and its row-wise optimizer.

The table is a buffer, not a parameter. A dense gradient would be as large as the table, and a dense optimizer would
change rows that are not in the batch. Instead the rows of a batch are gathered as a leaf of the graph, and as soon as
``backward`` has computed the leaf's gradient, these rows, and no others, are updated.

====================  =======================================================================================
``store="device"``    with the model: the default, and the fastest
``store="host"``      in the memory of the host, where there is more of it
``store="a/path"``    in a file that grows as rows are used: a billion rows on a laptop
``sharded=True``      a part of the rows in each process, in any of the three
====================  =======================================================================================
"""

from likely.row_store._store import RowStore

__all__ = ["RowStore"]
