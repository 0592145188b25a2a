"""Wrong targets and labels: clean tables stay clean, gaps are no errors, and hints say what happened."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn import datasets
from sklearn.metrics import average_precision_score

import likely
from likely.auditing import Audit, Suspect
from likely.auditing.columns.scale import AsinhScale
from likely.auditing.target.target_verdict import judge_targets

Array = Any


def called_wrong(table: Any, target: str) -> float:
    """The share of rows whose target or label is called wrong."""
    audit = likely.audit(table, target=target)
    return sum(len(own.rows) for own in audit.findings if own.name in ("targets", "labels")) / audit.rows


def suspects(audit: Audit, kind: str = "targets") -> dict[int, Suspect]:
    return {own.row: own for own in audit.suspects if own.kind == kind}


def features(rng: np.random.Generator, n: int) -> pd.DataFrame:
    table = pd.DataFrame(rng.normal(size=(n, 4)), columns=list("abcd"))
    table["town"] = rng.choice(list("pqrst"), n)
    return table


def signal(table: pd.DataFrame) -> Array:
    return (2 * table["a"] + np.sin(2 * table["b"]) + table["c"] * table["d"]).to_numpy()


def heteroscedastic(table: pd.DataFrame, rng: np.random.Generator) -> Array:
    return signal(table) + np.exp(table["a"].to_numpy()) * rng.normal(size=len(table))


def with_gaps(table: pd.DataFrame, rng: np.random.Generator) -> Array:
    y = signal(table) + 0.3 * rng.normal(size=len(table))
    table.loc[rng.uniform(size=len(table)) < 0.1, "a"] = np.nan
    return y


def by_group(table: pd.DataFrame, rng: np.random.Generator) -> Array:
    table["shop"] = rng.choice([f"shop {i}" for i in range(40)], len(table))
    level = dict(zip(sorted(set(table["shop"])), 3 * rng.normal(size=40), strict=True))
    return signal(table) + table["shop"].map(level).to_numpy() + 0.5 * rng.normal(size=len(table))


def rare_class(table: pd.DataFrame, rng: np.random.Generator) -> Array:
    return np.where(signal(table) + 0.7 * rng.normal(size=len(table)) > 4, "rare", "usual")


CLEAN = {
    "normal": lambda table, rng: signal(table) + 0.5 * rng.normal(size=len(table)),
    "heavy-tailed": lambda table, rng: signal(table) + 0.5 * rng.standard_t(3, len(table)),
    "heteroscedastic": heteroscedastic,
    "skewed": lambda table, rng: np.exp(0.5 * signal(table) + 0.5 * rng.normal(size=len(table))),
    "counts": lambda table, rng: rng.poisson(np.exp(1.5 + 0.4 * signal(table))).astype(float),
    "rounded": lambda table, rng: np.round(3 * (signal(table) + 0.3 * rng.normal(size=len(table)))) / 2,
    "categories": lambda table, rng: (
        table["town"].map(dict(zip("pqrst", (0, 5, 5, 9, -4), strict=True))).to_numpy() + rng.normal(size=len(table))
    ),
    "groups": by_group,
    "gaps": with_gaps,
    "imbalanced classes": rare_class,
}


QUICK = ("categories", "heteroscedastic", "imbalanced classes")  # the others are heavy


@pytest.mark.parametrize("kind", [pytest.param(k, marks=[] if k in QUICK else pytest.mark.heavy) for k in CLEAN])
def test_clean_tables_stay_clean(kind: str) -> None:
    rng = np.random.default_rng([29, len(kind)])
    table = features(rng, 600)
    table["y"] = CLEAN[kind](table, rng)
    assert called_wrong(table, "y") <= 0.005


LARGE = [pytest.param(name, marks=pytest.mark.heavy) for name in ("breast_cancer", "digits")]


@pytest.mark.parametrize("name", ["iris", "wine", "diabetes", *LARGE])
def test_scikit_learns_own_tables_stay_clean(name: str) -> None:
    frame = getattr(datasets, f"load_{name}")(as_frame=True).frame
    assert called_wrong(frame, "target") <= 0.005


def test_the_targets_of_linnerud_stay_clean() -> None:
    bunch = datasets.load_linnerud(as_frame=True)
    for target in bunch.target.columns:
        assert called_wrong(bunch.data.assign(**{target: bunch.target[target]}), target) == 0


@pytest.mark.parametrize("share", [0.01, 0.2])
def test_a_row_that_lacks_a_feature_is_not_called_wrong_for_that(share: float) -> None:
    rng = np.random.default_rng(31)
    table = features(rng, 600)
    table["y"] = 10 * table["a"] + table["b"] + 0.1 * rng.normal(size=600)
    gaps = rng.choice(600, round(share * 600), replace=False)
    table.loc[gaps, "a"] = np.nan
    rows = list(suspects(likely.audit(table, target="y")))
    assert len(set(rows) & set(gaps)) <= 0.1 * len(gaps)


def test_a_label_is_not_called_wrong_for_a_gap() -> None:
    rng = np.random.default_rng(37)
    table = features(rng, 600)
    table["y"] = np.where(table["a"] > 0, "up", "down")
    gaps = rng.choice(600, 60, replace=False)
    table.loc[gaps, "a"] = np.nan
    rows = list(suspects(likely.audit(table, target="y"), "labels"))
    assert len(set(rows) & set(gaps)) <= 6


PLANTED = {
    "÷10 would fit": 10.0,
    "×10 would fit": 0.1,
    "÷100 would fit": 100.0,
    "×100 would fit": 0.01,
    "÷1,000 would fit": 1000.0,
    "×1,000 would fit": 0.001,
    "the other sign would fit": -1.0,
}


NOISE = 3.0


def rents(rng: np.random.Generator, n: int) -> pd.DataFrame:
    table = features(rng, n)
    table["length"] = rng.normal(300, 20, n)
    table["rent"] = 100 + 12 * table["a"] + 8 * table["b"] + 0.1 * (table["length"] - 300) + NOISE * rng.normal(size=n)
    return table


def hinted(table: pd.DataFrame, right: pd.DataFrame, rows: Array, group: str) -> list[bool]:
    """Whether each of the rows that are more than four noise scales off is found with the right hint."""
    far = rows[np.abs(table["rent"] - right["rent"])[rows] > 4 * NOISE]
    found = suspects(likely.audit(table, target="rent"))
    for row in far:
        if row in found:
            assert found[row].headline.startswith("rent = ")
            assert "±" in found[row].headline
            assert found[row].far > 4
    return [row in found and found[row].headline.endswith(f"; {group}") for row in far]


AGAIN = ("×10 would fit", "÷100 would fit", "÷1,000 would fit", "×1,000 would fit")  # heavy


@pytest.mark.parametrize("group", [pytest.param(g, marks=pytest.mark.heavy if g in AGAIN else []) for g in PLANTED])
def test_what_happened_to_a_target_is_told(group: str) -> None:
    """Of plantings of more than four noise scales nine in ten are found with the right hint."""
    rng = np.random.default_rng(41)
    right = rents(rng, 300)
    table, bad = right.copy(), rng.choice(300, 15, replace=False)
    table.loc[bad, "rent"] *= PLANTED[group]
    told = hinted(table, right, bad, group)
    assert len(told) >= 12
    assert np.mean(told) >= 0.9


def test_ten_times_a_target_beyond_all_others_comes_first_where_most_are_near_zero() -> None:
    """Squashed targets are logarithms far out, where ten times as much is a small step."""
    ours, plain = [], []
    for seed in range(4):
        rng = np.random.default_rng(seed)
        x = rng.normal(size=(1000, 3))
        expected = 0.05 * np.exp(1.2 * x[:, 0])
        right = np.where(rng.random(1000) < 0.2, 0.0, rng.gamma(1.0, expected))
        y, bad = right.copy(), rng.choice(1000, 50, replace=False)
        y[bad] *= 10
        squash = AsinhScale.of(y)
        verdict = judge_targets(squash(0.8 * expected), squash(y), squash=squash)
        ours.append(average_precision_score(y != right, verdict.odds))
        plain.append(average_precision_score(y != right, np.abs(y - 0.8 * expected)))
        assert ((verdict.wrong > 0.5) & (y == right)).sum() <= 2
    assert np.mean(ours) > 0.48
    assert np.mean(ours) > np.mean(plain) + 0.05


def test_a_label_says_how_sure_another_one_is() -> None:
    rng = np.random.default_rng(43)
    truth = rng.integers(0, 3, 600)
    table = pd.DataFrame({"x": 6 * truth + rng.normal(size=600), "z": rng.normal(size=600)})
    given = truth.copy()
    given[:25] = (truth[:25] + 1) % 3
    table["kind"] = np.array(["ash", "birch", "cedar"])[given]
    found = suspects(likely.audit(table, target="kind"), "labels")
    assert len(set(range(25)) & set(found)) >= 22
    wrong = found[3]
    assert wrong.headline.startswith(f"label {table['kind'][3]}, ")
    assert "with probability" in wrong.headline
    assert wrong.far > 2
    groups = [own.group for own in found.values()]
    assert any(groups)
    assert all(own == "" or groups.count(own) >= 3 for own in groups)


@pytest.mark.parametrize("share", [0.02, 0.1])
def test_many_wrong_units_do_not_hide_each_other(share: float) -> None:
    rng = np.random.default_rng(0)
    size, age, town = rng.gamma(20, 5, 400), rng.uniform(0, 50, 400), rng.choice(["A", "B", "C"], 400)
    price = 3 * size - age + 40 * (town == "A") + 5 * rng.normal(size=400) + 50
    table = pd.DataFrame({"size": size, "age": age, "town": town, "price": price})
    bad = np.random.default_rng(1).choice(len(table), round(share * len(table)), replace=False)
    table.loc[bad, "price"] *= 1000
    found = list(suspects(likely.audit(table, target="price")))
    assert set(bad) <= set(found)
    assert len(found) <= 1.2 * len(bad) + 3
