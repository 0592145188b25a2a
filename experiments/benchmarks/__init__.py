"""Benchmarks: each measures, in one process, what we claim, and holds it against a bar.

From the command line, ``python -m experiments.benchmarks``; from Python:

>>> from experiments.benchmarks import BENCHES
>>> BENCHES[0].name
'numerics'
"""

from experiments.entries.entry import Entry, module

BENCHES: tuple[Entry, ...] = (
    Entry(
        "numerics",
        "Benchmark",
        1,
        "The robust likelihood, exactly",
        "log Z, ρ and their gradients are right to rounding for every shape, around α = 0 and 2 too.",
        module("experiments.benchmarks.numerics"),
    ),
    Entry(
        "calibration",
        "Benchmark",
        2,
        "Recalibration, fast and in blocks",
        "One temperature is fitted 25 times faster than by the fastest peer and right to 1e-6; one per row "
        "3 times faster than vector scaling; both in 64 MB.",
        module("experiments.benchmarks.calibration"),
    ),
    Entry(
        "safety",
        "Benchmark",
        3,
        "One temperature per row is as safe as one for all",
        "From 1000 calibration rows on LS, LFS and DS are never clearly worse than GS and better in the mean; with 250 "
        "or 500 they are worse on at most one split in ten, and by at most .005.",
        module("experiments.benchmarks.safety"),
    ),
    Entry(
        "composition",
        "Benchmark",
        4,
        "Calibrators in a row beat each alone",
        "Vector or matrix scaling followed by one temperature per row has a lower mean NLL than each alone and than "
        "probmetrics' best; the automatic choice is within .002 of the best on 9 networks in 10.",
        module("experiments.benchmarks.composition"),
    ),
    Entry(
        "linear",
        "Benchmark",
        5,
        "Linear models that tune themselves and shrug off outliers",
        "Learned priors come within 5 to 10% of the best strength, spike and slab within 20% of knowing the support, "
        "many times faster than cross-validation; robust models are near the best tuned peer everywhere.",
        module("experiments.benchmarks.linear"),
    ),
    Entry(
        "priors",
        "Benchmark",
        6,
        "Priors for any module",
        "A learned L2 is as good as the best of a tuned grid; a learned L1 prunes four fifths of a network's weights "
        "at no loss.",
        module("experiments.benchmarks.priors"),
    ),
    Entry(
        "audit",
        "Benchmark",
        7,
        "An audit finds what was planted, and what people found",
        "Wrong labels at 5% are ranked with an average precision of .8 or more; wrong labels, planted and human, and "
        "wrong targets are ranked above cleanlab's on the same predictions; a million rows take three minutes.",
        module("experiments.benchmarks.audit"),
    ),
    Entry(
        "outliers",
        "Benchmark",
        8,
        "Outliers found by how unlikely they are",
        "The default detector has a higher mean AUC on the ODDS sets than every detector of the paper's table, and an "
        "average precision as good as theirs; it fits and scores 286,000 rows in a second, and reads ten million from "
        "disk in a gigabyte.",
        module("experiments.benchmarks.outliers"),
    ),
    Entry(
        "losses",
        "Benchmark",
        9,
        "As fast as the memory bus",
        "A likelihood costs no more than the loss it replaces: gradients of every parameter in one pass over memory. "
        "At every size it is as fast as the same loss in ten lines of torch.",
        module("experiments.benchmarks.losses"),
    ),
    Entry(
        "networks",
        "Benchmark",
        10,
        "Networks for tables: how sure, how robust, at no cost to the mean",
        "The default network has a lower NLL than one fitted scale and NGBoost and is as good as a deep ensemble, at "
        "the plain networks' squared error or less; corrupted rows and wrong labels do little harm.",
        module("experiments.benchmarks.networks"),
    ),
    Entry(
        "tables",
        "Benchmark",
        11,
        "A parameter for every row, a billion of them",
        "A step takes a third of a millisecond, a hundredth of a dense update; a billion rows in a file need less than "
        "a gigabyte and take 200,000 updates a second; on a GPU a row's own parameters add 5%, a pixel's 10%.",
        module("experiments.benchmarks.tables"),
    ),
    Entry(
        "tabular",
        "Benchmark",
        12,
        "Tables: the regressor and the classifier people would choose",
        "The defaults are as good as the best of LightGBM, CatBoost, RealMLP, NGBoost and a Gaussian process on each "
        "set, surer of what they know, take categories, gaps, dates and counts as they come, and shrug off 5% of wrong "
        "targets, in four times LightGBM's time.",
        module("experiments.benchmarks.tabular"),
    ),
    Entry(
        "slips",
        "Benchmark",
        13,
        "An audit tells what happened to a value",
        "Units, signs and swapped columns of more than four noise scales, planted in real tables, are found and told "
        "with the right hint in nine cases of ten.",
        module("experiments.benchmarks.slips"),
    ),
    Entry(
        "blocks",
        "Benchmark",
        14,
        "A table beyond memory",
        "The default detector is fitted to 20 million rows of Parquet and scores them in under a gigabyte, within "
        "three times the time it takes to read them; two Dask workers take 1.6 times less than one.",
        module("experiments.benchmarks.blocks"),
    ),
    Entry(
        "start",
        "Benchmark",
        15,
        "One line, and it learns",
        "With its defaults every loss of a real number reaches the likelihood of the same loss by hand that starts at "
        "the truth, in any unit and with any optimizer.",
        module("experiments.benchmarks.start"),
    ),
    Entry(
        "mutants",
        "Benchmark",
        16,
        "A mistake in the code makes a test fail",
        "Of 400 small mistakes, planted one at a time at random places of the likelihoods, parameters, optimizers, "
        "solvers, calibrators, thresholds, pools and verdicts, the tests of make test notice 85% or more.",
        module("experiments.benchmarks.mutants"),
    ),
    Entry(
        "hard",
        "Benchmark",
        17,
        "Promises where statistics is hard",
        "With 15 to 100 rows, up to three times as many columns, and targets of few values, 90% intervals cover at "
        "least 80% of new rows, predictions are as good as the marginal, and thresholds keep their share.",
        module("experiments.benchmarks.hard"),
    ),
    Entry(
        "judged",
        "Benchmark",
        18,
        "What an audit says of real tables is true",
        "Of the entries that are called wrong in real tables, judged by hand with a reason each, four in five are; of "
        "the first ten of a table, six are worth a look; clean tables show two entries or fewer.",
        module("experiments.benchmarks.judged"),
    ),
)

__all__ = ["BENCHES"]
