"""What the paper's entries and the benchmarks share: how they run, what is kept of them, and the page that shows it."""

from experiments.entries.bar import Bar
from experiments.entries.entry import Context, Entry, Result
from experiments.entries.record import Record, load, run_entry, save

__all__ = ["Bar", "Context", "Entry", "Record", "Result", "load", "run_entry", "save"]
