"""Benchmarks: each measures, in one process, what we claim, and holds it against a bar.

From the command line, ``likely bench``; from Python:

>>> from likely.bench import BENCHES
>>> BENCHES[0].name
'numerics'
"""

from likely.reproduce import Entry
from likely.reproduce.registry import module

BENCHES: tuple[Entry, ...] = (
    Entry(
        "numerics",
        "Benchmark",
        1,
        "The robust likelihood, exactly",
        "log Z, ρ and their gradients are right to rounding for every shape, around α = 0 and 2 too.",
        module("likely.bench.numerics"),
    ),
    Entry(
        "calibration",
        "Benchmark",
        2,
        "Recalibration, fast and in blocks",
        "One temperature is fitted 25 times faster than by the fastest peer and right to 1e-6; a temperature a row "
        "3 times faster than vector scaling; both in 64 MB.",
        module("likely.bench.calibration"),
    ),
    Entry(
        "safety",
        "Benchmark",
        3,
        "A temperature a row is never worse than one for all",
        "From 1000 calibration rows on LS and LFS are never clearly worse than GS and better in the mean; with 250 or "
        "500 they are worse on at most one split in ten, and by at most .005.",
        module("likely.bench.safety"),
    ),
)

__all__ = ["BENCHES"]
