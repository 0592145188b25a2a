"""The paper's tables and figures, redone: one module each, a registry, and a report that is one HTML page.

From the command line, ``likely reproduce``; from Python:

>>> from likely.reproduce import ENTRIES, find
>>> len(ENTRIES), find("offset-stability").what
(20, 'Figure 13')
"""

from likely.reproduce._bar import Bar
from likely.reproduce._entry import Context, Entry, Result
from likely.reproduce._record import Record, load, run_entry, save
from likely.reproduce.registry import ENTRIES, find

__all__ = [
    "ENTRIES",
    "Bar",
    "Context",
    "Entry",
    "Record",
    "Result",
    "find",
    "load",
    "run_entry",
    "save",
]
