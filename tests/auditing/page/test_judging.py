"""What an audit does not know it does not judge: unpredictable labels and targets, noise, functions of few columns."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn import datasets
from typer.testing import CliRunner

import likely
from likely import cli
from likely.auditing import Audit, Finding
from likely.auditing.checks.copies import find_twins
from likely.auditing.checks.leaks import tells
from likely.auditing.columns.kinds import read_columns
from likely.auditing.columns.scale import AsinhScale
from likely.auditing.target.forecasts import classify
from likely.auditing.target.label_verdict import judge_labels
from likely.auditing.target.target_check import by_content
from likely.auditing.target.target_verdict import judge_targets
from pairwise import together

Array = Any


def finding(audit: Audit, name: str) -> Finding:
    return next(own for own in audit.findings if own.name == name)


def random_table(n: int, classes: int, seed: int, share: float | None = None) -> pd.DataFrame:
    rng = np.random.default_rng([seed, n, classes])
    p = None if share is None else [share, *[(1 - share) / (classes - 1)] * (classes - 1)]
    table = pd.DataFrame(rng.normal(size=(n, 3)), columns=list("abc"))
    table["town"] = rng.choice(list("pqrstu"), n)
    table["code"] = rng.permutation(n)
    table["y"] = np.array([f"class {i}" for i in range(classes)])[rng.choice(classes, n, p=p)]
    return table


def accused(logits: Array, y: Array) -> float:
    verdict = judge_labels(logits, y)
    return float((verdict.wrong > 0.5).mean())


def drawn(p: Array, rng: np.random.Generator) -> Array:
    return (p.cumsum(1) > rng.uniform(size=(len(p), 1))).argmax(1)


def softmax(z: Array) -> Array:
    p = np.exp(z - z.max(1, keepdims=True))
    return p / p.sum(1, keepdims=True)


@pytest.mark.parametrize(("n", "classes", "share"), [(300, 2, None), (300, 2, 0.9), (400, 5, 0.6), (300, 90, None)])
def test_labels_that_cannot_be_predicted_are_not_judged(n: int, classes: int, share: float | None) -> None:
    audit = likely.audit(random_table(n, classes, 5, share), target="y")
    labels = finding(audit, "labels")
    assert len(labels.rows) <= 0.02 * n
    assert not labels.judged
    assert labels.summary == "These labels cannot be predicted from the columns, so they are not judged."
    assert audit.summary()["findings"]["labels"]["judged"] is False
    assert audit.scores["label_wrong"].isna().all()


@together("scale", [0.1, 1.0, 30.0])
@together(("n", "classes"), [(300, 2), (1000, 5), (2000, 100)])
def test_random_logits_accuse_no_label(n: int, classes: int, scale: float) -> None:
    rng = np.random.default_rng([7, n])
    for y in (rng.integers(0, classes, n), np.minimum(rng.geometric(0.5, n), classes) - 1):
        assert accused(scale * rng.normal(size=(n, classes)), y) <= 0.02


def test_logits_that_are_the_same_for_all_rows_judge_nothing() -> None:
    y = np.random.default_rng(0).integers(0, 3, 60)
    assert not judge_labels(np.zeros((60, 3)), y).judged
    assert not judge_labels(np.tile([5.0, 0.0, -3.0], (60, 1)), y).judged


@pytest.mark.parametrize("right", [0.6, 0.7, 0.8])
@pytest.mark.parametrize(("n", "classes"), [(500, 2), (1500, 5)])
def test_honest_labels_that_are_hard_to_predict_are_not_called_wrong(n: int, classes: int, right: float) -> None:
    """Labels drawn from known probabilities: on a plateau, and from logits that are too sure and noisy."""
    rng = np.random.default_rng([11, n])
    best = rng.integers(0, classes, n)
    p = np.full((n, classes), (1 - right) / (classes - 1))
    p[np.arange(n), best] = right
    noisy = np.log(p) + 0.5 * rng.normal(size=p.shape)
    assert accused(noisy, drawn(p, rng)) <= 0.03
    z = rng.normal(size=(n, classes)) * (1.0 if right < 0.7 else 3.0)
    sure = 4 * (z + 0.5 * rng.normal(size=z.shape))
    assert accused(sure, drawn(softmax(z), rng)) <= 0.03


def test_too_many_differences_are_told_as_such() -> None:
    rng = np.random.default_rng(0)
    best = rng.integers(0, 3, 2000)
    logits = 6 * np.eye(3)[best] + rng.normal(size=(2000, 3))
    y = np.where(rng.uniform(size=2000) < 0.35, (best + 1) % 3, best)
    labels = finding(likely.audit(logits=logits, labels=y), "labels")
    assert not len(labels.rows)
    assert "cannot be distinguished from labels that are hard to predict" in labels.summary
    assert labels.numbers["share_wrong"] is None


@pytest.mark.parametrize("share", [0.02, 0.05, 0.1])
def test_planted_errors_are_still_found(share: float) -> None:
    rng = np.random.default_rng(3)
    truth = rng.integers(0, 4, 2000)
    logits = 8 * np.eye(4)[truth] + rng.normal(size=(2000, 4))
    bad = rng.choice(2000, round(share * 2000), replace=False)
    y = truth.copy()
    y[bad] = (truth[bad] + rng.integers(1, 4, len(bad))) % 4
    wrong = judge_labels(logits, y).wrong > 0.5
    assert wrong[bad].mean() > 0.9
    assert wrong.sum() <= 1.1 * len(bad)


@pytest.mark.parametrize(("name", "recall"), [("digits", 0.8), ("wine", 0.6), ("breast_cancer", 0.7)])
def test_planted_errors_of_real_tables_are_named(name: str, recall: float) -> None:
    X, y = getattr(datasets, f"load_{name}")(return_X_y=True)
    classes = int(y.max()) + 1
    named, right, count = 0, 0, 0
    for seed in (3, 4) if len(y) < 500 else (3,):
        rng = np.random.default_rng([23, seed])
        bad = rng.choice(len(y), round(0.05 * len(y)), replace=False)
        given = y.copy()
        given[bad] = (y[bad] + rng.integers(1, classes, len(bad))) % classes
        verdict = judge_labels(classify(X.astype(np.float32), given, seed).log_p, given, seed=seed)
        wrong = np.flatnonzero(verdict.wrong > 0.5)
        named, right, count = named + len(wrong), right + int(np.isin(wrong, bad).sum()), count + len(bad)
    assert right / count >= recall
    assert right / named >= 0.8


def test_an_unlikely_label_is_named_though_two_classes_remain_likely() -> None:
    rng = np.random.default_rng(0)
    truth = rng.integers(0, 6, 3000)
    best = truth - truth % 2  # classes look alike in pairs
    logits = 8 * (np.eye(6)[best] + np.eye(6)[best + 1]) + 1.5 * np.eye(6)[truth] + rng.normal(size=(3000, 6))
    bad = np.arange(150)
    given = truth.copy()
    given[bad] = (best[bad] + 2) % 6
    wrong = judge_labels(logits, given).wrong > 0.5
    assert wrong[bad].mean() > 0.9
    assert wrong[150:].mean() < 0.01


def test_a_class_that_cannot_be_told_from_the_others_is_not_accused_as_a_whole() -> None:
    rng = np.random.default_rng(0)
    side = rng.integers(0, 2, 800)
    chance = np.where(rng.uniform(size=800) < 0.1, 2, side)  # the third label replaces a tenth of the others
    logits = 9 * np.eye(3)[side] + [0.0, 0.0, 1.0] + rng.normal(size=(800, 3))
    audit = likely.audit(logits=logits, labels=chance, classes=["left", "right", "either"])
    labels = finding(audit, "labels")
    assert not np.isin(labels.rows, np.flatnonzero(chance == 2)).any()
    assert labels.numbers["classes_not_judged"] == ["either"]
    assert labels.summary.endswith(
        "Classes that are not judged, because the logits do not distinguish them from the others: either."
    )


TARGETS = {
    "normal": lambda rng, n: rng.normal(size=n),
    "cauchy": lambda rng, n: rng.standard_cauchy(n),
    "lognormal": lambda rng, n: np.exp(3 * rng.normal(size=n)),
    "pareto": lambda rng, n: rng.pareto(1, n),
    "mostly zero": lambda rng, n: np.where(rng.uniform(size=n) < 0.9, 0.0, rng.gamma(2, 9, n)),
    "two clusters": lambda rng, n: rng.normal(size=n) + 100 * (rng.uniform(size=n) < 0.3),
    "levels": lambda rng, n: rng.integers(0, 500, n).astype(float),
}


@pytest.mark.parametrize("kind", TARGETS)
def test_targets_that_cannot_be_predicted_are_judged_calmly(kind: str) -> None:
    for n in (100, 1500):
        rng = np.random.default_rng([13, n])
        y = TARGETS[kind](rng, n)
        u = AsinhScale.of(y)(y)
        verdict = judge_targets(0.2 * rng.normal(size=n), u)
        assert not verdict.judged
        assert (verdict.wrong > 0.5).mean() <= 0.02


def test_a_wrong_unit_is_found_among_targets_that_cannot_be_predicted() -> None:
    rng = np.random.default_rng(0)
    table = {"a": rng.normal(size=200), "b": rng.normal(size=200), "y": 100 + 5 * rng.normal(size=200)}
    table["y"][17] *= 1000
    targets = finding(likely.audit(table, target="y"), "targets")
    assert targets.rows.tolist() == [17]
    assert not targets.judged
    assert targets.summary.startswith("y cannot be predicted from the columns, so values are judged only by how far")


def test_what_a_column_tells_is_right_on_small_data() -> None:
    X, y = datasets.load_diabetes(return_X_y=True, as_frame=True)
    pressure = tells(X["bp"].to_numpy(), y.to_numpy(), labels=False)
    assert abs(pressure.share - 0.19) < 2 * pressure.error < 0.1
    X, y = datasets.load_wine(return_X_y=True, as_frame=True)
    alcohol = tells(X["alcohol"].to_numpy(), y.to_numpy().astype(float), labels=True)
    assert alcohol.share > 0.25
    assert 0.02 < alcohol.error < 0.1


@pytest.mark.parametrize("n", [30, 100, 1000])
def test_columns_without_meaning_tell_nothing_and_leaks_tell_all(n: int) -> None:
    rng = np.random.default_rng([17, n])
    noise = [tells(rng.normal(size=n), y, labels=y.dtype == int).share for y in _both(rng, n) for _ in range(20)]
    assert np.mean(noise) < 0.01 + 0.5 / n
    x, y = rng.normal(size=n), rng.integers(0, 3, n)
    assert tells(x, x + 0.05 * rng.normal(size=n), labels=False).share > 0.95
    assert tells(y + 0.05 * rng.normal(size=n), y.astype(float), labels=True).share > 0.95
    group = rng.integers(0, n // 15 + 2, n)
    assert tells(group.astype(float), rng.integers(0, 2, n // 15 + 2)[group].astype(float), labels=True).share > 0.9


def _both(rng: np.random.Generator, n: int) -> tuple[Array, Array]:
    return rng.normal(size=n), rng.integers(0, 3, n)


def test_rows_on_a_curve_are_no_copies_but_planted_ones_are() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=10_000)
    curve = pd.DataFrame({"a": x, "b": x**2, "c": np.sin(x)})
    assert (find_twins(read_columns(curve), None).of >= 0).sum() <= 2
    flat = pd.DataFrame(rng.normal(size=(3000, 4)), columns=list("abcd"))
    flat.loc[:1499, list("bcd")] = 0.0
    assert (find_twins(read_columns(flat), None).of >= 0).sum() <= 2
    cloud = rng.normal(size=(2000, 4))
    twice = pd.DataFrame(np.r_[cloud, cloud[:50] * (1 + 1e-4 * rng.normal(size=(50, 4)))], columns=list("abcd"))
    of = find_twins(read_columns(twice), None).of
    assert (of[2000:] == np.arange(50)).mean() > 0.95
    assert (of[:2000] < 0).all()


@pytest.mark.parametrize("target", ["kind", "size"])
def test_the_order_of_rows_changes_nothing_but_their_numbers(target: str) -> None:
    rng = np.random.default_rng(0)
    truth = rng.integers(0, 3, 150)
    table = pd.DataFrame({"a": rng.normal(size=150) + 3 * truth, "b": rng.normal(size=150)})
    table["town"] = rng.choice(list("pqr"), 150)
    table["kind"] = np.array(["x", "y", "z"])[truth]
    table["size"] = 3 * table["a"] + 0.3 * rng.normal(size=150)
    table.loc[4, "kind"], table.loc[9, "size"] = "x" if truth[4] else "z", 900.0
    order = rng.permutation(150)
    first = likely.audit(table, target=target).scores.iloc[order].reset_index(drop=True)
    turned = likely.audit(table.iloc[order].reset_index(drop=True), target=target).scores
    pd.testing.assert_frame_equal(first, turned, check_names=False, rtol=1e-9)


def test_equal_rows_stay_in_order() -> None:
    table = pd.DataFrame({"a": [1.0, 1.0, 1.0]})
    assert by_content(table, np.array([2, 0, 1])).tolist() == [2, 0, 1]


def test_threads_give_the_same_audit() -> None:
    table = random_table(60, 2, 1)
    with ThreadPoolExecutor(2) as pool:
        first, second = pool.map(lambda _: likely.audit(table, target="y").scores, range(2))
    pd.testing.assert_frame_equal(first, second)


def test_the_command_says_what_is_not_judged_as_python_does(tmp_path: Path) -> None:
    table = random_table(80, 2, 3)
    table.to_csv(tmp_path / "table.csv", index=False)
    result = CliRunner().invoke(
        cli.build(), ["audit", str(tmp_path / "table.csv"), "--target", "y", "--out", str(tmp_path / "out")]
    )
    assert result.exit_code == 0
    (well,) = [line for line in result.stdout.splitlines() if line.startswith("Nothing to report on ")]
    for own in likely.audit(table, target="y").findings:
        assert (own.title.lower() in well) if own.clean else (f"{own.title}: {own.summary}" in result.stdout)
    assert "cannot be predicted from the columns, so they are not judged" in result.stdout
    page = (tmp_path / "out" / "report.html").read_text()
    assert "not judged</span>" in page
    assert "No row of 80 is suspicious, as far as could be judged." in page or 'class="entry"' in page


@pytest.mark.parametrize("names", ["twice", "missing"])
def test_rows_that_share_a_name_are_told_apart(names: str) -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=200)
    y = 3 * x + 0.1 * rng.normal(size=200)
    y[[7, 30]] = 900.0
    code = [f"h{row}" for row in range(200)]
    code[7] = code[30] = "h1" if names == "twice" else None
    table = pd.DataFrame({"code": code, "x": x, "y": y})
    report = likely.audit(table, target="y", id_column="code")
    count = 3 if names == "twice" else 2
    assert f"In code, {count} rows have names that others share; they are shown with their row number." in report.notes
    assert {report.names.called(row) for row in (7, 30)} == (
        {"code h1 (row 7)", "code h1 (row 30)"} if names == "twice" else {"row 7", "row 30"}
    )
    # What is known of one of them says nothing about another of the same value.
    first = [entry for entry in report.summary()["entries"] if entry["first"] == 7]
    again = likely.audit(table, target="y", id_column="code", previous={"entries": first})
    assert 30 in again.suspicious
    assert 7 not in again.suspicious


@pytest.mark.parametrize(
    "content",
    [
        '{"version": 1, "fine": [[["a"]]]}',
        '{"version": 1, "fine": [{"kind": "rows"}]}',
        '{"entries": [{"marks": [{"kind": "rows"}]}]}',
    ],
)
def test_marks_that_mark_nothing_are_refused(content: str, tmp_path: Path) -> None:
    path = tmp_path / "accepted.json"
    path.write_text(content)
    with pytest.raises(ValueError, match=r"accepted\.json is not a file of findings"):
        likely.audit({"x": np.arange(30.0)}, accepted=path)


def test_what_is_not_judged_is_neither_right_nor_wrong() -> None:
    rng = np.random.default_rng(0)
    coins = {"x": rng.normal(size=200), "coin": rng.choice(["heads", "tails"], 200).astype(object)}
    coins["coin"][3] = None
    verdicts = likely.audit(coins, target="coin").scores["label_verdict"]
    assert verdicts[3] == "not judged: missing"
    assert set(verdicts.drop(3)) == {"not judged: cannot be told"}
