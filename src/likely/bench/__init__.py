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
        "From 1000 calibration rows on LS, LFS and DS are never clearly worse than GS and better in the mean; with 250 "
        "or 500 they are worse on at most one split in ten, and by at most .005.",
        module("likely.bench.safety"),
    ),
    Entry(
        "composition",
        "Benchmark",
        4,
        "Calibrators in a row beat each alone",
        "Vector or matrix scaling followed by a temperature a row has a lower mean NLL than each alone and than "
        "probmetrics' best; the automatic choice is within .002 of the best on 9 networks in 10.",
        module("likely.bench.composition"),
    ),
    Entry(
        "linear",
        "Benchmark",
        5,
        "Linear models that tune themselves and shrug off outliers",
        "Learned priors come within 5 to 10% of the best strength, spike and slab within 20% of knowing the support, "
        "many times faster than cross-validation; robust models are near the best tuned peer everywhere.",
        module("likely.bench.linear"),
    ),
    Entry(
        "priors",
        "Benchmark",
        6,
        "Priors for any module",
        "A learned L2 is as good as the best of a tuned grid; a learned L1 prunes four fifths of a network's weights "
        "at no loss.",
        module("likely.bench.priors"),
    ),
)

__all__ = ["BENCHES"]
