"""Calibrated estimators predict tables that are not in memory as they predict the same rows in memory."""

from pathlib import Path
from typing import Any

import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_diabetes, load_iris
from sklearn.ensemble import RandomForestClassifier
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.pipeline import make_pipeline

from likely.calibration import CalibratedClassifier, CalibratedRegressor


@pytest.fixture(scope="module")
def flowers(tmp_path_factory: pytest.TempPathFactory) -> tuple[pd.DataFrame, pd.Series, Path]:
    X, y = load_iris(as_frame=True, return_X_y=True)
    return X, y.map({0: "setosa", 1: "versicolor", 2: "virginica"}), written(X.assign(kind=y), tmp_path_factory)


@pytest.fixture(scope="module")
def patients(tmp_path_factory: pytest.TempPathFactory) -> tuple[pd.DataFrame, pd.Series, Path]:
    X, y = load_diabetes(as_frame=True, return_X_y=True)
    return X, y, written(X.assign(progression=y), tmp_path_factory)


def written(table: pd.DataFrame, factory: pytest.TempPathFactory) -> Path:
    """Write a table, the target among its columns, as two files of several row groups."""
    folder = factory.mktemp("table")
    half = len(table) // 2
    for number, part in enumerate((table[:half], table[half:])):
        part.to_parquet(folder / f"{number}.parquet", row_group_size=30, index=False)
    return folder


def test_a_classifier_predicts_files_and_dask_frames(flowers: Any) -> None:
    X, y, folder = flowers
    model = CalibratedClassifier(RandomForestClassifier(20, random_state=0), "vector", cv=3).fit(X, y)
    np.testing.assert_allclose(model.predict_proba(folder), model.predict_proba(X), rtol=1e-6)
    assert model.predict(folder).tolist() == model.predict(X).tolist()
    lazy = model.predict_proba(dd.from_pandas(X, npartitions=3))
    assert hasattr(lazy, "dask")
    np.testing.assert_allclose(lazy.compute(), model.predict_proba(X), rtol=1e-6)


def test_a_classifier_says_the_temperature_of_each_row_of_a_file(flowers: Any) -> None:
    X, y, folder = flowers
    model = CalibratedClassifier(LogisticRegression(max_iter=500), "global", cv=3).fit(X, y)
    np.testing.assert_allclose(model.temperature(folder), model.temperature(X), rtol=1e-6)


def test_a_regressor_predicts_files_with_deviations_and_intervals(patients: Any) -> None:
    X, y, folder = patients
    model = CalibratedRegressor(LinearRegression(), cv=3).fit(X, y)
    np.testing.assert_allclose(model.predict(folder), model.predict(X))
    for blocks, memory in (
        (model.predict(folder, return_std=True), model.predict(X, return_std=True)),
        (model.predict_interval(folder, 0.8), model.predict_interval(X, 0.8)),
    ):
        assert isinstance(blocks, tuple)
        np.testing.assert_allclose(blocks, memory, rtol=1e-6)
    with pytest.raises(ValueError, match=r"predict_dist holds its .* call predict or predict_interval"):
        model.predict_dist(folder)


def test_a_list_of_texts_is_no_list_of_paths() -> None:
    texts = ["a good film", "a bad film", "good and/or fine", "bad and/or dull"] * 10
    model = CalibratedClassifier(make_pipeline(CountVectorizer(), LogisticRegression()), "global", cv=2)
    model.fit(texts, ["yes", "no"] * 20)
    assert model.predict(["good and/or fine", "bad film.csv"]).tolist() == ["yes", "no"]
    assert model.predict_proba(["good and/or fine"]).shape == (1, 2)
