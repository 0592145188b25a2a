"""Estimators of tables on files and on Dask: fitted to the rows they would read in memory, and the same answers."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from likely._rows.blocks import drawn
from likely.tabular import (
    LikelihoodClassifier,
    LikelihoodRegressor,
    NetworkClassifier,
    NetworkRegressor,
    _columns,
)

dask = pytest.importorskip("dask")
da = pytest.importorskip("dask.array")
dd = pytest.importorskip("dask.dataframe")
ROWS = 340


@pytest.fixture(autouse=True)
def in_this_thread() -> Iterator[None]:
    with dask.config.set(scheduler="synchronous"):
        yield


def table() -> pd.DataFrame:
    rng = np.random.default_rng(3)
    frame = pd.DataFrame(rng.normal(size=(ROWS, 3)), columns=["a", "b", "c"])
    frame["word"] = np.where(rng.random(ROWS) < 0.3, "wet", "dry")
    frame.loc[::7, "b"] = np.nan
    frame["y"] = frame["a"] - frame["c"] + (frame["word"] == "wet") + 0.1 * rng.normal(size=ROWS)
    frame["kind"] = np.where(frame["y"] + 0.3 * rng.normal(size=ROWS) > 0, "high", "low")
    return frame


def in_files(frame: pd.DataFrame, folder: Path, blocks: int) -> str:
    folder.mkdir(parents=True)
    for number, part in enumerate(np.array_split(np.arange(len(frame)), blocks)):
        frame.iloc[part].to_parquet(folder / f"{number:03}.parquet", index=False)
    return str(folder)


def gathered(answer: Any) -> Any:
    if isinstance(answer, tuple):
        return tuple(gathered(own) for own in answer)
    return np.asarray(answer.compute() if hasattr(answer, "compute") else answer)


def sources(frame: pd.DataFrame, tmp_path: Path) -> Iterator[Any]:
    for blocks in (1, 5):
        yield in_files(frame, tmp_path / str(blocks), blocks)
        yield dd.from_pandas(frame, npartitions=blocks)


@pytest.mark.usefixtures("quick_stacks")
def test_a_regressor_gives_the_same_answers_of_blocks(tmp_path: Path) -> None:
    frame = table().drop(columns="kind")
    X, y = frame.drop(columns="y"), frame["y"]
    known = LikelihoodRegressor(["linear", "boosting"], random_state=0).fit(X, y)
    for number, source in enumerate(sources(frame, tmp_path)):
        # The target's column is left out where a table has it.
        again = LikelihoodRegressor(["linear", "boosting"], random_state=0).fit(source, "y") if number < 2 else known
        assert again.n_rows_read_ == ROWS
        for own, other in (
            (again.predict(source), known.predict(X)),
            (again.predict(source, return_std=True), known.predict(X, return_std=True)),
            (again.predict_scale(source), known.predict_scale(X)),
            (again.predict_interval(source, 0.8), known.predict_interval(X, 0.8)),
            (again.predict_interval(source, conformal=True), known.predict_interval(X, conformal=True)),
            (again.predict_quantile(source, 0.3), known.predict_quantile(X, 0.3)),
            (again.predict_quantile(source, [0.3, 0.6]), known.predict_quantile(X, [0.3, 0.6])),
            (again.outlier_score(source, "y"), known.outlier_score(X, y)),
        ):
            np.testing.assert_allclose(gathered(own), gathered(other), rtol=1e-6, atol=1e-8)


def test_a_classifier_gives_the_same_answers_of_blocks(tmp_path: Path) -> None:
    frame = table().drop(columns="y")
    X, y = frame.drop(columns="kind"), frame["kind"]
    known = LikelihoodClassifier("linear", random_state=0).fit(X, y)
    for source in sources(frame, tmp_path):
        again = LikelihoodClassifier("linear", random_state=0).fit(source, "kind")
        np.testing.assert_allclose(gathered(again.predict_proba(source)), known.predict_proba(X), rtol=1e-6)
        np.testing.assert_allclose(gathered(again.predict_log_proba(source)), known.predict_log_proba(X), rtol=1e-6)
        np.testing.assert_allclose(gathered(again.outlier_score(source, "kind")), known.outlier_score(X, y), rtol=1e-6)
        assert (gathered(again.predict(source)) == known.predict(X)).all()


def test_answers_are_of_the_kind_of_the_table_and_dask_s_are_lazy() -> None:
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(200, 2)), rng.normal(size=(200, 2))
    blocks = da.from_array(X, chunks=(70, 1))
    networks = NetworkRegressor(hidden=(), max_steps=5, random_state=0).fit(X, y)
    line = LikelihoodRegressor("linear", random_state=0).fit(X, y[:, 0])
    for model, shape in ((networks, (200, 2)), (line, (200,))):
        mean, std = model.predict(blocks, return_std=True)
        assert isinstance(mean, da.Array)
        assert mean.shape == std.shape == shape
        np.testing.assert_allclose(mean.compute(), model.predict(X), rtol=1e-5)
    assert line.predict_quantile(blocks, [0.1, 0.9]).compute().shape == (200, 2)
    frame = dd.from_pandas(pd.DataFrame(X, columns=["a", "b"], index=np.arange(200) * 2), npartitions=3)
    named = LikelihoodRegressor("linear", random_state=0).fit(frame, da.from_array(y[:, 0], chunks=67))
    lower, upper = named.predict_interval(frame)
    assert (lower.compute().index == np.arange(200) * 2).all()
    assert (lower < upper).all().compute()


def test_networks_read_blocks_too(tmp_path: Path) -> None:
    frame = table().drop(columns=["kind", "word", "b"])
    X = frame.drop(columns="y").to_numpy()
    options: dict[str, Any] = {"hidden": (4,), "max_steps": 5, "random_state": 0}
    source = in_files(frame, tmp_path / "files", 3)
    network = NetworkRegressor(**options).fit(source, "y")
    same = NetworkRegressor(**options).fit(frame.drop(columns="y"), frame["y"])
    for own, other in zip(network.predict(source, return_std=True), same.predict(frame[["a", "c"]], True), strict=True):
        np.testing.assert_allclose(own, other, rtol=1e-5)
    high = (frame["y"] > 0).to_numpy()
    classifier = NetworkClassifier(**options).fit(da.from_array(X, chunks=(100, 2)), da.from_array(high, chunks=50))
    np.testing.assert_allclose(classifier.predict_proba(da.from_array(X)).compute(), classifier.predict_proba(X))


def test_of_a_large_table_a_sample_is_read_and_that_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    frame = table().drop(columns=["kind", "word"])
    source = in_files(frame, tmp_path / "files", 3)
    monkeypatch.setattr(_columns, "MAX_NUMBERS", 3 * 120)
    lines: list[str] = []
    model = LikelihoodRegressor("linear", random_state=0, verbose=lines.append).fit(source, "y")
    rows = frame.iloc[drawn(0, ROWS, 3)]
    assert model.n_rows_read_ == len(rows)
    assert lines[0] == f"read {len(rows)} of {ROWS} rows"
    same = LikelihoodRegressor("linear", random_state=0).fit(rows.drop(columns="y"), rows["y"])
    np.testing.assert_allclose(model.predict(source), same.predict(frame.drop(columns="y")))
    assert isinstance(model.predict_dist(frame.drop(columns="y")), torch.distributions.Distribution)


def test_what_blocks_cannot_do_is_said_in_one_line(tmp_path: Path) -> None:
    frame = table().drop(columns=["kind", "word"])
    source = in_files(frame, tmp_path / "files", 2)
    model = LikelihoodRegressor("linear", random_state=0).fit(source, "y")
    with pytest.raises(ValueError, match="predict_dist holds its result in memory; for a table that is not, call"):
        model.predict_dist(source)
    with pytest.raises(ValueError, match="there is no column 'z'"):
        LikelihoodRegressor("linear").fit(source, "z")
    with pytest.raises(ValueError, match="the target y is None"):
        LikelihoodRegressor("linear").fit(source, None)
    with pytest.raises(FileNotFoundError, match=r"no\.parquet does not exist"):
        model.predict("no.parquet")
