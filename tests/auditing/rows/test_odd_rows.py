"""Odd rows: what breaks the pattern comes first, is told in the data's words, and clean tables stay clean."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from sklearn import datasets

import likely
from likely.auditing.columns.kinds import read_columns
from likely.auditing.expected_values.additive_model import Pattern
from likely.auditing.expected_values.similar_rows import Neighbours, Usual
from likely.auditing.odd_rows.odd_rows import Certainty, RowWords, odd_rows
from likely.auditing.odd_rows.slips import SlipSearch
from likely.auditing.results.finding import Finding, Suspect

NOISE = 0.1
Make = Callable[[np.random.Generator], pd.DataFrame]


def found(frame: pd.DataFrame) -> Finding:
    finding = odd_rows(read_columns(frame.rename(columns=str)), set())
    assert finding is not None
    return finding


def ranked(frame: pd.DataFrame) -> list[Suspect]:
    return sorted(found(frame).suspects, key=lambda suspect: -suspect.harm)


def line(rng: np.random.Generator) -> pd.DataFrame:
    x = rng.normal(size=600)
    y = 2 * x + NOISE * rng.normal(size=600)
    x[:3], y[:3] = [0.3, 4.5, -4.2], [0.6 + 6 * NOISE, 9.0, -8.4]
    return pd.DataFrame({"x": x, "y": y, "other": rng.normal(size=600)})


def curve(rng: np.random.Generator) -> pd.DataFrame:
    x = rng.normal(size=600)
    y = x**2 + NOISE * rng.normal(size=600)
    x[:3], y[:3] = [0.5, 3.8, -3.6], [0.25 + 6 * NOISE, 3.8**2, 3.6**2]
    return pd.DataFrame({"x": x, "y": y, "other": rng.normal(size=600)})


def clusters(rng: np.random.Generator) -> pd.DataFrame:
    centre = rng.choice([-5.0, 5.0], 600)
    x, y = centre + rng.normal(size=600), centre + rng.normal(size=600)
    x[:2], y[:2] = [5.0, 8.6], [-5.0, 8.4]
    return pd.DataFrame({"x": x, "y": y, "other": rng.normal(size=600)})


def prices(rng: np.random.Generator) -> pd.DataFrame:
    size = np.exp(rng.normal(4, 0.8, 600))
    price = 100 * size * np.exp(NOISE * rng.normal(size=600))
    size[:3], price[:3] = [60, 2000, 1500], [6000 * np.exp(6 * NOISE), 200_000, 150_000]
    return pd.DataFrame({"size": size, "price": price, "other": rng.normal(size=600)})


def heavy(rng: np.random.Generator) -> pd.DataFrame:
    x = rng.standard_t(2, size=600)
    y = x + NOISE * rng.normal(size=600)
    x[:2], y[:2] = [0.2, 60.0], [0.2 + 6 * NOISE, 60.0]
    return pd.DataFrame({"x": x, "y": y, "other": rng.standard_t(2, size=600)})


@pytest.mark.parametrize("make", [line, curve, clusters, prices, heavy])
@pytest.mark.parametrize("seed", [10, 11])
def test_a_row_off_the_pattern_comes_before_extremes_that_follow_it(make: Make, seed: int) -> None:
    suspects = ranked(make(np.random.default_rng(seed)))
    order = [suspect.row for suspect in suspects]
    assert 0 in order
    assert not {1, 2} & set(order[: order.index(0)])
    assert not any(suspect.wrong for suspect in suspects if suspect.row in (1, 2))


def animals(rng: np.random.Generator, rows: int = 800) -> pd.DataFrame:
    length = rng.normal(100, 15, rows)
    width = 0.35 * length + rng.normal(size=rows)
    weight = 0.02 * length * width * np.exp(0.05 * rng.normal(size=rows))
    return pd.DataFrame({"length": length, "width": width, "weight": weight, "age": rng.uniform(1, 9, rows)})


def test_headlines_are_in_the_words_of_the_data() -> None:
    frame = animals(np.random.default_rng(0))
    frame.loc[3, "width"] *= 10
    frame.loc[4, "weight"] /= 1000
    frame.loc[5, "length"] *= -1
    frame.loc[6, ["length", "width"]] = frame.loc[6, ["width", "length"]].to_numpy()
    frame.loc[[7, 8, 9], "weight"] = 0.0
    told = {suspect.row: suspect for suspect in found(frame).suspects}
    assert all(told[row].wrong for row in range(3, 10))
    assert told[3].headline.startswith("width = ")
    assert ", where similar rows have " in told[3].headline
    assert told[3].headline.endswith("; ÷10 would fit")
    assert told[4].headline.endswith("; ×1,000 would fit")
    assert told[5].headline.endswith("; the other sign would fit")
    assert told[6].headline in ("length and width look swapped", "width and length look swapped")
    assert told[7].headline.startswith("weight = 0, where similar rows have ")
    assert told[7].group == told[8].group == told[9].group == "weight = 0, unlike similar rows"
    assert told[3].group == ""
    assert told[3].reasons[0].what == "width"
    assert told[3].reasons[0].share > 0.5


def test_the_end_of_a_heavy_tail_and_oddity_in_many_columns_may_be_right() -> None:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.standard_t(1.5, size=(1000, 4)), columns=list("abcd"))
    assert not any(suspect.wrong for suspect in found(frame).suspects)
    joint = pd.DataFrame(rng.normal(size=(800, 2)) @ rng.normal(size=(2, 8)) + 0.1 * rng.normal(size=(800, 8)))
    joint.iloc[0] = rng.permutation(joint.to_numpy()[:8].T.ravel())[:8]  # every value is of another row
    told = {suspect.row: suspect for suspect in found(joint).suspects}
    assert not told[0].wrong
    assert told[0].headline.startswith(f"{told[0].reasons[0].what} = ")  # the value that is most likely wrong


def test_a_missing_value_makes_no_row_odd() -> None:
    rng = np.random.default_rng(0)
    frame = animals(rng)
    frame["kind"] = np.where(frame["length"] > 100, "large", "small")
    for row, name in enumerate(frame.columns):
        frame.loc[row, name] = None
    frame.loc[10, ["length", "width"]] = np.nan
    frame.loc[11:200, "age"] = np.nan
    finding = found(frame)
    assert not {*range(5), 10} & set(finding.rows.tolist())
    assert len(finding.rows) <= 10


def test_a_gap_in_a_column_that_another_repeats_makes_no_row_odd() -> None:
    rng = np.random.default_rng(0)
    age = rng.integers(18, 80, 600).astype(float)
    frame = pd.DataFrame({"age": age, "months": 12 * age, "income": rng.lognormal(10, 0.5, 600)})
    frame.loc[rng.uniform(size=600) < 0.05, "age"] = np.nan
    assert len(found(frame).rows) <= 3  # without predictions in place of gaps it was 22


def test_a_level_that_does_not_go_with_the_numbers_is_told() -> None:
    rng = np.random.default_rng(0)
    kind = rng.choice(["cat", "horse"], 2000)
    frame = pd.DataFrame(
        {"kind": kind, "weight": np.where(kind == "cat", 4, 500) * np.exp(0.2 * rng.normal(size=2000))}
    )
    frame["height"] = 20 * np.cbrt(frame["weight"]) + rng.normal(size=2000)
    frame.loc[5, "kind"] = "cat" if kind[5] == "horse" else "horse"
    told = {suspect.row: suspect for suspect in found(frame).suspects}
    assert told[5].headline == f"kind = {frame.loc[5, 'kind']}, where similar rows have {kind[5]} (100%)"


def normal(rng: np.random.Generator) -> pd.DataFrame:
    return pd.DataFrame(rng.normal(size=(1000, 6)))


def tails(rng: np.random.Generator) -> pd.DataFrame:
    return pd.DataFrame(rng.standard_t(2, size=(1000, 5)))


def houses(rng: np.random.Generator) -> pd.DataFrame:
    size = np.exp(rng.normal(4, 0.4, 1000))
    price = 2000 * size * np.exp(0.4 * rng.normal(size=1000))
    return pd.DataFrame({"size": size, "rooms": np.maximum(1, np.round(size / 25)), "price": price})


def mixture(rng: np.random.Generator) -> pd.DataFrame:
    return pd.DataFrame(5 * rng.normal(size=(3, 4))[rng.integers(0, 3, 1000)] + rng.normal(size=(1000, 4)))


def curves(rng: np.random.Generator) -> pd.DataFrame:
    x = rng.normal(size=1000)
    return pd.DataFrame({"x": x, "square": x**2, "wave": np.sin(2 * x)}) + 0.05 * rng.normal(size=(1000, 3))


def categories(rng: np.random.Generator) -> pd.DataFrame:
    level = rng.choice(list("abcdefgh"), 1000, p=[0.4, 0.2, 0.15, 0.1, 0.07, 0.05, 0.02, 0.01])
    flag = rng.choice(["yes", "no"], 1000)
    return pd.DataFrame({"level": level, "flag": flag, "x": rng.normal(size=1000) + (level == "a")})


def counts(rng: np.random.Generator) -> pd.DataFrame:
    rate = rng.gamma(2, 2, 1000)
    frame = pd.DataFrame({"a": rng.poisson(rate), "b": rng.poisson(3 * rate), "c": rng.geometric(0.2, 1000)})
    return frame.astype(float)


def zeros(rng: np.random.Generator) -> pd.DataFrame:
    rain = np.where(rng.random(1000) < 0.7, 0, rng.exponential(10, 1000))
    claims = np.where(rng.random(1000) < 0.97, 0, rng.lognormal(3, 1, 1000))
    return pd.DataFrame({"rain": rain, "claims": claims, "x": rng.normal(size=1000)})


def dates(rng: np.random.Generator) -> pd.DataFrame:
    day = pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 1500, 1000), unit="D")
    return pd.DataFrame({"day": day, "walk": np.cumsum(rng.normal(size=1000)), "x": rng.uniform(size=1000)})


def wide(rng: np.random.Generator) -> pd.DataFrame:
    return pd.DataFrame(rng.normal(size=(1000, 6)) @ rng.normal(size=(6, 30)) + 0.5 * rng.normal(size=(1000, 30)))


CLEAN = (normal, tails, houses, mixture, curves, categories, counts, zeros, dates, wide)


@pytest.mark.parametrize("make", CLEAN)
def test_clean_tables_stay_clean(make: Make) -> None:
    finding = found(make(np.random.default_rng(20)))
    assert sum(suspect.wrong for suspect in finding.suspects) <= 0.005 * 1000
    assert len(finding.rows) <= 0.02 * 1000


@pytest.mark.parametrize(
    "name", ["iris", "wine", "breast_cancer", "diabetes", pytest.param("digits", marks=pytest.mark.heavy), "linnerud"]
)
def test_tables_of_scikit_learn_stay_clean(name: str) -> None:
    data = getattr(datasets, f"load_{name}")(as_frame=True).data
    finding = found(data)
    assert sum(suspect.wrong for suspect in finding.suspects) <= 0.005 * len(data)
    odd = [suspect for suspect in finding.suspects if not suspect.wrong]
    assert "odd and may be right" in finding.summary or not odd


def lengths(rng: np.random.Generator) -> pd.DataFrame:
    length = rng.normal(32, 4, 400)
    return pd.DataFrame({"len": length, "wid": 0.9 * length + rng.normal(size=400)})


def masses(rng: np.random.Generator) -> pd.DataFrame:
    length = np.exp(rng.normal(3, 0.5, 400))
    return pd.DataFrame({"len": length, "mass": length**2 * np.exp(0.1 * rng.normal(size=400))})


def uniform(rng: np.random.Generator) -> pd.DataFrame:
    x = rng.uniform(10, 50, 400)
    return pd.DataFrame({"x": x, "y": 1.1 * x + rng.normal(size=400), "other": rng.normal(size=400)})


def petals(_: np.random.Generator) -> pd.DataFrame:
    frame = datasets.load_iris(as_frame=True).data
    return frame[["petal length (cm)", "petal width (cm)"]].iloc[50:].reset_index(drop=True)


SLIPS = {"zero": 0.0, "÷10": 10.0, "the other sign": -1.0, "sentinel": 99_999.0}


@pytest.mark.parametrize("make", [lengths, masses, uniform, petals])
@pytest.mark.parametrize("slip", SLIPS)
@pytest.mark.parametrize("column", [0, 1])
def test_of_two_columns_that_explain_each_other_the_wrong_one_is_blamed(make: Make, slip: str, column: int) -> None:
    for seed in (3, 4):
        frame = make(np.random.default_rng(seed))
        name = frame.columns[column]
        row = int(np.argsort(frame[name].to_numpy())[len(frame) // 2])
        frame.loc[row, name] = SLIPS[slip] * (1.0 if slip in ("zero", "sentinel") else float(frame.loc[row, name]))
        headline = {suspect.row: suspect.headline for suspect in found(frame).suspects}[row]
        assert headline.startswith(f"{name} = ")
        assert headline.endswith("would fit") or slip in ("zero", "sentinel")
        assert_no_hint_inside(frame)


def assert_no_hint_inside(frame: pd.DataFrame) -> None:
    """No value that lies in the range of rows like it is said to fit if it were another."""
    table = Neighbours.of(read_columns(frame.rename(columns=str)))
    for suspect in found(frame).suspects:
        if "would fit" in suspect.headline:
            name = suspect.headline.split(" = ")[0]
            usual = table.usual(suspect.row, name)
            assert isinstance(usual, Usual)
            assert not usual.low <= table.values[table.names.index(name)][suspect.row] <= usual.high


@pytest.mark.parametrize("make", [*CLEAN, animals])
def test_clean_rows_have_no_slips(make: Make) -> None:
    told = [suspect.headline for suspect in found(make(np.random.default_rng(21))).suspects]
    assert sum("look swapped" in own or "would fit" in own for own in told) <= 3  # of 1,000 rows


def test_swapped_columns_are_told() -> None:
    told = []
    for seed, name in enumerate(["wine", "breast_cancer", "diabetes"]):
        scaled = {"scaled": False} if name == "diabetes" else {}
        frame = getattr(datasets, f"load_{name}")(as_frame=True, **scaled).data.astype(float)
        rng = np.random.default_rng([23, seed])
        frame = frame.loc[:, frame.nunique() > 20]
        centre, spread = frame.median(), (frame - frame.median()).abs().median()
        for row in rng.choice(len(frame), 4, replace=False):
            while True:
                a, b = rng.choice(frame.columns, 2, replace=False)
                x, y = frame.loc[row, [a, b]]
                if max(abs(y - centre[a]) / spread[a], abs(x - centre[b]) / spread[b]) > 9:  # six deviations
                    break
            changed = frame.copy()
            changed.loc[row, [a, b]] = [y, x]
            headlines = {suspect.row: suspect.headline for suspect in found(changed).suspects}
            told.append(headlines.get(row, "").endswith(swapped(a, b)))
    assert np.mean(told) >= 0.9


def swapped(a: str, b: str) -> tuple[str, ...]:
    """The ends of headlines that say so of two columns."""
    return tuple(f"{x} and {y} look swapped" for x, y in ((a, b), (b, a))) + tuple(
        f"; swapped with {x} it would fit" for x in (a, b)
    )


@pytest.mark.parametrize("count", [6, 12])
@pytest.mark.parametrize("rows", [100, 400])
def test_rows_with_rare_flags_that_are_independent_fit_the_rest(rows: int, count: int) -> None:
    rng = np.random.default_rng([5, rows, count])
    flags = {f"flag {j}": (rng.random(rows) < rng.uniform(0.02, 0.05)).astype(int) for j in range(count)}
    numbers = {"age": rng.integers(18, 90, rows), "pressure": rng.normal(120, 15, rows).round()}
    for table in (flags, flags | numbers):
        odd = len(found(pd.DataFrame(table)).rows) / rows
        assert odd <= 0.03, f"{odd:.0%} of clean rows with rare 0/1 flags are called odd"


def test_a_row_is_as_odd_beside_few_rows_as_beside_all() -> None:
    """The share of rows that are far out is one of the whole table, not of the block in which a row is scored."""
    rng = np.random.default_rng(0)
    scale = np.exp(0.1 * rng.normal(size=1000))
    scale[:10] = 50.0
    scores = {"nats": rng.exponential(size=1000), "row_scale": scale}
    certainty = Certainty.of(scores["nats"], scores["row_scale"])
    few = {name: values[:20] for name, values in scores.items()}
    np.testing.assert_array_equal(certainty(scores)[:20], certainty(few))
    assert certainty(few)[:10].min() > 0.8


def test_a_column_of_one_value_in_the_sample_is_told_by_no_other() -> None:
    rng = np.random.default_rng(0)
    size = rng.normal(size=300)
    frame = pd.DataFrame({"a": size, "b": size + 0.1 * rng.normal(size=300), "flag": np.arange(300) == 7}).astype(float)
    table = Neighbours.of(read_columns(frame))
    sampled = replace(table, sample=np.arange(10, 300), known=table.known[:, 10:])
    (row,) = RowWords(SlipSearch(sampled, Pattern.of(table))).explain(np.array([7]), np.array([0.99]))
    assert not row.wrong
    assert "flag" in {reason.what for reason in row.reasons}


@pytest.mark.parametrize("seed", range(3))
def test_a_factor_is_told_only_of_values_that_are_off_by_it(seed: int) -> None:
    """Where similar rows lie about zero, as returns do, nearly any value fits once it is divided by ten."""
    returns = pd.DataFrame(np.random.default_rng(seed).standard_t(3, size=(800, 5)), columns=list("abcde"))
    table = Neighbours.of(read_columns(returns))
    for suspect in found(returns).suspects:
        name, _, hint = suspect.headline.partition(" = ")
        if "÷10 would fit" in hint:
            usual = table.usual(suspect.row, name)
            assert isinstance(usual, Usual)
            assert abs(returns.loc[suspect.row, name]) > 3 * max(-usual.low, usual.high)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("value", [700.0, 2100.0, 12_000.0, 1_000_007.0])
def test_the_further_off_a_value_is_the_surer_it_is_wrong(seed: int, value: float) -> None:
    # One value far out must not draw the pattern of the other rows to itself: changing it leaves an ordinary row.
    rng = np.random.default_rng(seed)
    start = rng.uniform(0, 365, 400).round(1)
    table = pd.DataFrame({"start": start, "end": start + rng.uniform(1, 6, 400), "cost": rng.gamma(3, 20, 400)}).round(
        2
    )
    table.loc[120, ["start", "end"]] = [100.0, value]
    (suspect,) = [own for own in likely.audit(table).suspects if own.row == 120]
    assert suspect.wrong
    assert suspect.headline.startswith("end = ")
