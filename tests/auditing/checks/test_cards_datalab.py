"""Beside cleanlab's Datalab, on planted data: each of its kinds of issue has a counterpart that finds as much."""

import warnings
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import RandomForestClassifier
from sklearn.metrics import average_precision_score
from sklearn.model_selection import cross_val_predict
from sklearn.preprocessing import StandardScaler

import likely
from likely.auditing import Finding

pytest.importorskip("datasets")
cleanlab = pytest.importorskip("cleanlab")


def tumours(seed: int = 0) -> pd.DataFrame:
    """Real tumours in a random order, ten measurements each."""
    table = load_breast_cancer(as_frame=True).frame
    table = table[[*table.columns[:10], "target"]].sample(len(table), random_state=seed, ignore_index=True)
    table["target"] = np.where(table["target"] == 1, "benign", "malignant")
    return table


def lab(table: pd.DataFrame, kind: str, features: Any = None, probabilities: Any = None, **options: Any) -> Any:
    """What Datalab finds of one kind: a flag per row, and the summary of the issue."""
    found = cleanlab.Datalab({"y": table["target"].tolist()}, label_name="y", verbosity=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # cleanlab's own, of pandas
        found.find_issues(features=features, pred_probs=probabilities, issue_types={kind: options})
    return found.get_issues(kind)[f"is_{kind}_issue"].to_numpy(), found.get_info(kind)


def ours(table: pd.DataFrame, kind: str, **options: Any) -> Finding:
    audit = likely.audit(table, target="target", **options)
    return next(finding for finding in audit.findings if finding.name == kind)


def measurements(table: pd.DataFrame) -> Any:
    return StandardScaler().fit_transform(table.drop(columns="target").to_numpy(float))


def hits(flags: Any, planted: Any) -> int:
    return int(np.isin(planted, np.flatnonzero(flags) if np.asarray(flags).dtype == bool else flags).sum())


def test_label() -> None:
    table, rng = tumours(), np.random.default_rng(0)
    planted = rng.choice(len(table), 28, replace=False)
    table.loc[planted, "target"] = np.where(table.loc[planted, "target"] == "benign", "malignant", "benign")
    forest = RandomForestClassifier(50, random_state=0)
    p = cross_val_predict(forest, measurements(table), table["target"], cv=5, method="predict_proba")
    wrong = np.isin(np.arange(len(table)), planted)
    found = cleanlab.Datalab({"y": table["target"].tolist()}, label_name="y", verbosity=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found.find_issues(pred_probs=p, issue_types={"label": {}})
    theirs = found.get_issues("label")
    codes = (table["target"] == "malignant").to_numpy(int)
    own = likely.audit(logits=np.log(np.clip(p, 1e-3, 1)), labels=codes)
    precision = [average_precision_score(wrong, s) for s in (own.scores["label_nll"], 1 - theirs["label_score"])]
    assert precision[0] > 0.7
    assert precision[0] >= precision[1] - 0.02


def test_outlier() -> None:
    table = tumours()
    planted = [3, 99, 200]
    table.loc[planted, "mean smoothness"] *= 12
    theirs, _ = lab(table, "outlier", features=measurements(table))
    assert hits(ours(table, "rows").rows, planted) == len(planted) >= hits(theirs, planted)


def test_near_duplicate() -> None:
    table = tumours()
    table.loc[500:509] = table.loc[0:9].to_numpy()
    table.loc[505:509, "mean area"] += 1e-5
    planted = np.arange(500, 510)
    theirs, _ = lab(table, "near_duplicate", features=measurements(table))
    own = ours(table, "duplicates")
    assert sorted(own.rows.tolist()) == planted.tolist()  # the later of two; Datalab flags both
    assert hits(theirs, planted) == 10


@pytest.mark.parametrize("ordered", [False, True])
def test_non_iid(ordered: bool) -> None:
    table = tumours()
    if ordered:
        table["mean texture"] += np.linspace(0, 8, len(table))
        table["mean radius"] += np.linspace(0, 6, len(table))
    _, info = lab(table, "non_iid", features=measurements(table))
    assert bool(ours(table, "order").numbers["columns"]) == ordered
    if not ordered:
        assert info["p-value"] > 0.01


def test_class_imbalance() -> None:
    table = tumours()
    table = table.drop(index=table.index[table["target"] == "malignant"][6:]).reset_index(drop=True)
    theirs, _ = lab(table, "class_imbalance")
    assert theirs.sum() == 6
    audit = likely.audit(table, target="target")
    assert next(f for f in audit.findings if f.name == "overview").numbers["rare"] == ["malignant"]


def test_null() -> None:
    table = tumours()
    table.loc[7, table.columns[:10]] = np.nan
    table.loc[40:60, "mean area"] = np.nan
    features = table.drop(columns="target").to_numpy(float)
    theirs, _ = lab(table, "null", features=features)
    assert np.flatnonzero(theirs).tolist() == [7]
    own = ours(table, "gaps").numbers
    assert own["empty_rows"] == [7]
    assert own["missing"]["mean area"] == round(22 / 569, 4)


def test_underperforming_group() -> None:
    table, rng = tumours(), np.random.default_rng(0)
    table["clinic"] = rng.choice([0.0, 1.0, 2.0, 3.0], len(table))
    inside = np.flatnonzero(table["clinic"] == 2)
    table.loc[inside, "target"] = rng.choice(["benign", "malignant"], len(inside))
    forest = RandomForestClassifier(50, random_state=0)
    X = measurements(table)
    p = cross_val_predict(forest, X, table["target"], cv=5, method="predict_proba")
    theirs, _ = lab(table, "underperforming_group", features=X, probabilities=p)
    found = ours(table, "groups").numbers["groups"]
    assert any("clinic" in group["where"] for group in found)  # in words
    assert theirs.dtype == bool  # Datalab flags rows of a cluster, if it finds one


def test_identifier_column() -> None:
    table = tumours()
    table.insert(0, "patient", np.random.default_rng(0).permutation(len(table)) + 7)
    features = table[["patient"]].to_numpy()
    found = cleanlab.Datalab({"y": table["target"].tolist()}, label_name="y", verbosity=0)
    manager = pytest.importorskip("cleanlab.datalab.internal.issue_manager.identifier_column")
    theirs = manager.IdentifierColumnIssueManager(found)
    theirs.find_issues(features=features)
    assert theirs.info["identifier_columns"] == [0]
    own = ours(table, "columns").numbers["identifier"]
    assert [line["column"] for line in own] == ["patient"]
