"""The bars of `python -m experiments.benchmarks networks` follow from the scores."""

from collections.abc import Iterable

import pandas as pd
import pytest

from experiments.benchmarks import _network_classes as classes, networks
from experiments.entries import Bar

FINE = {
    networks.DEFAULT: (1.0, 0.1, 0.01, 1.0),
    networks.PLAIN: (1.1, 0.1, 0.02, 1.0),
    networks.NGBOOST: (1.2, 0.2, 0.1, 9),
}


def missed(bars: Iterable[Bar]) -> list[str]:
    return [bar.name for bar in bars if bar.met is False]


@pytest.mark.parametrize(
    ("ours", "names"),
    [
        ((1.0, 0.1, 0.01, 1.0), []),
        (
            (1.15, 0.1, 0.01, 1.0),
            ["share of sets with an NLL below one fitted scale", "NLL less that of one fitted scale"],
        ),
        ((1.0, 0.11, 0.01, 1.0), ["MSE over the plain networks'"]),
        ((1.0, 0.1, 0.03, 1.0), ["share of sets with a better CAL"]),
        ((1.0, 0.1, 0.01, 4.0), ["time over NGBoost's"]),
    ],
)
def test_regression(ours: tuple[float, ...], names: list[str]) -> None:
    rows = [
        (name, split, method, *values)
        for name in ("a", "b")
        for split in range(2)
        for method, values in {**FINE, networks.DEFAULT: ours}.items()
    ]
    scores = pd.DataFrame(rows, columns=["set", "split", "method", "NLL", "MSE", "CAL", "seconds"])
    assert missed(networks.judge(scores)) == names


def test_corrupted_rows_count_where_they_hurt_the_plain_networks() -> None:
    rows = [("a", 0, "targets", "plain", 3.0), ("a", 0, "targets", "student_t", 1.05)]
    rows += [("b", 0, "inputs", "plain", 1.2), ("b", 0, "inputs", "student_t", 1.4)]
    frame = pd.DataFrame(rows, columns=["set", "split", "corruption", "method", "ratio"])
    (bar,) = networks.judge_corruption(frame)
    assert (bar.value, bar.met, bar.case) == (1.05, True, "a, targets")


@pytest.mark.parametrize(
    ("accuracy", "ece", "aupr", "names"),
    [
        (0.9, 0.04, 0.9, []),
        (0.8, 0.04, 0.9, ["accuracy less cross-entropy's"]),
        (0.9, 0.06, 0.9, ["ECE over cross-entropy's"]),
        (0.9, 0.04, 0.7, ["wrong labels at 20%, AUPR", "wrong labels, mean AUPR less that of cleanlab, margin"]),
    ],
)
def test_classifiers(accuracy: float, ece: float, aupr: float, names: list[str]) -> None:
    methods = {
        classes.PLAIN: (0.9, 0.1, 0.5),
        classes.OURS: (accuracy, ece, aupr),
        f"{classes.CLEANLAB}, margin": (float("nan"), float("nan"), 0.8),
    }
    rows = [("a", noise, "uniform", 0, m, *values) for noise in (0.1, 0.2) for m, values in methods.items()]
    assert missed(classes.judge(pd.DataFrame(rows, columns=classes.COLUMNS))) == names
