"""The paper's tables and figures, redone: one module each, a registry, and a report that is one HTML page.

From the command line, ``python -m experiments.paper``; from Python:

>>> from experiments.paper import ENTRIES, find
>>> len(ENTRIES), find("offset-stability").what
(20, 'Figure 13')
"""

from experiments.paper.registry import ENTRIES, find

__all__ = ["ENTRIES", "find"]
