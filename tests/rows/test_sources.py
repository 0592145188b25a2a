"""Rows that are not in memory: the same answers as in memory, from files and from Dask, whatever the blocks."""

import operator
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dask
import dask.array as da
import dask.dataframe as dd
import fsspec
import joblib
import numpy as np
import pandas as pd
import pytest
from pyarrow import feather

from likely._rows import stored_tables
from likely._rows.blocks import drawn
from likely._rows.sources import Source, by_blocks, source_of
from likely.linear import DynamicRidge
from likely.outliers import LikelihoodDetector, ScaledPCADetector, ScatterDetector

ROWS, BLOCKS = 70_001, (1, 3, 17)


@pytest.fixture(autouse=True)
def in_this_thread() -> Iterator[None]:
    with dask.config.set(scheduler="synchronous"):
        yield


@pytest.fixture(scope="module")
def table() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(ROWS, 4)).astype(np.float32), columns=list("abcd"))
    frame["b"] += frame["a"]
    frame["kind"] = rng.choice(["x", "y", "z"], ROWS)
    frame.loc[::97, "c"] = np.nan
    return frame


def written(table: pd.DataFrame, folder: Path, blocks: int) -> Path:
    for number, rows in enumerate(np.array_split(np.arange(len(table)), blocks)):
        table.iloc[rows].to_parquet(folder / f"part-{number:02}.parquet", index=False, row_group_size=3000)
    return folder


@pytest.mark.parametrize("blocks", BLOCKS)
@pytest.mark.parametrize("detector", [ScatterDetector(), LikelihoodDetector(random_state=0)])
def test_a_detector_answers_as_in_memory(detector: Any, blocks: int, table: pd.DataFrame, tmp_path: Path) -> None:
    detector.fit(table)
    scores, offset = detector.outlier_score(table), detector.offset_
    folder, frame = written(table, tmp_path, blocks), dd.from_pandas(table, npartitions=blocks)
    assert detector.fit(folder).offset_ == offset
    np.testing.assert_array_equal(detector.outlier_score(folder), scores)
    assert detector.fit(frame).offset_ == offset
    lazy = detector.outlier_score(frame)
    pd.testing.assert_series_equal(lazy.compute(), pd.Series(scores), check_names=False)


@pytest.mark.parametrize("chunks", [(ROWS, 4), (23_334, 2), (4_118, 1)])
def test_a_dask_array_gives_a_dask_array(chunks: tuple[int, int], table: pd.DataFrame) -> None:
    X = table[list("abcd")].to_numpy()
    detector = ScatterDetector().fit(X)
    scores, explained, sides = detector.outlier_score(X), detector.explain(X), detector.predict(X)
    lazy = da.from_array(X, chunks=chunks)
    detector.fit(lazy)
    for found, known in zip(
        (detector.outlier_score(lazy), detector.explain(lazy), detector.predict(lazy)),
        (scores, explained, sides),
        strict=True,
    ):
        assert isinstance(found, da.Array)
        assert found.shape == known.shape
        assert found.dtype == known.dtype
        np.testing.assert_array_equal(found.compute(), known)
    np.testing.assert_array_equal(detector.decision_function(lazy).compute(), -scores - detector.offset_)


def test_all_detectors_read_blocks(table: pd.DataFrame) -> None:
    detector = ScaledPCADetector(max_steps=20, random_state=0)
    few = table[list("abd")].iloc[:4000]
    scores = detector.fit(few).outlier_score(few)
    lazy = dd.from_pandas(few, npartitions=3)
    np.testing.assert_allclose(detector.fit(lazy).outlier_score(lazy).compute(), scores, rtol=1e-6)


def test_weights_stand_beside_the_rows(table: pd.DataFrame, tmp_path: Path) -> None:
    weight = np.random.default_rng(1).integers(0, 3, ROWS).astype(float)
    offset = ScatterDetector().fit(table, sample_weight=weight).offset_
    lazy = dd.from_pandas(table, npartitions=5)
    assert ScatterDetector().fit(lazy, sample_weight=weight).offset_ == offset
    beside = dd.from_pandas(table.assign(weight=weight), npartitions=5)
    assert ScatterDetector().fit(beside[table.columns.tolist()], sample_weight=beside["weight"]).offset_ == offset
    table.assign(weight=weight).to_parquet(tmp_path / "one.parquet", row_group_size=10_000)
    assert ScatterDetector().fit(tmp_path / "one.parquet", sample_weight="weight").offset_ == offset


def test_what_is_computed_later_is_computed_by_the_fit_that_was_asked(table: pd.DataFrame) -> None:
    lazy = da.from_array(table[list("abd")].to_numpy(), chunks=(20_000, 3))
    detector = ScatterDetector().fit(lazy)
    scores = detector.outlier_score(lazy)
    known = detector.outlier_score(lazy).compute()
    detector.fit(10 * lazy + 3)
    np.testing.assert_array_equal(scores.compute(), known)


@pytest.mark.parametrize("kind", ["csv", "feather", "arrow", "parquet"])
def test_kinds_of_files(kind: str, tmp_path: Path) -> None:
    frame = pd.DataFrame({"a": np.arange(5000.0), "b": np.arange(5000) % 7})
    for number in range(2):
        path, part = tmp_path / f"{number}.{kind}", frame.iloc[2500 * number : 2500 * (number + 1)]
        if kind == "csv":
            part.to_csv(path, index=False)
        elif kind == "parquet":
            part.to_parquet(path)
        else:
            feather.write_feather(part.reset_index(drop=True), path, chunksize=300)
    for given in (str(tmp_path), tmp_path / f"*.{kind}", [tmp_path / f"0.{kind}", tmp_path / f"1.{kind}"]):
        source = source_of(given)
        assert source is not None
        assert len(source) == 5000
        assert source.names == ["a", "b"]
        (rows,) = source.sample(10)
        pd.testing.assert_frame_equal(rows, frame.iloc[drawn(0, 5000, 10)].reset_index(drop=True))
        assert source.total(lambda block: float(block["a"].sum())) == frame["a"].sum()


def test_a_url() -> None:
    frame = pd.DataFrame({"a": np.arange(100.0)})
    memory = fsspec.filesystem("memory")
    for number in range(2):
        with memory.open(f"/folder/{number}.parquet", "wb") as file:
            frame.iloc[50 * number : 50 * (number + 1)].to_parquet(file)
    try:
        for url in ("memory://folder/*.parquet", "memory://folder", "memory://folder/0.parquet"):
            source = source_of(url)
            assert source is not None
            assert len(source) == (50 if url.endswith("0.parquet") else 100)
        with pytest.raises(FileNotFoundError, match="memory://nowhere does not exist"):
            source_of("memory://nowhere")
    finally:
        memory.rm("/folder", recursive=True)


def test_a_column_stands_beside_the_others(tmp_path: Path) -> None:
    frame = pd.DataFrame({"a": np.arange(1000.0), "y": np.arange(1000.0) * 2, "b": 1.0})
    frame.to_parquet(tmp_path / "t.parquet", row_group_size=100)
    for source in (source_of(tmp_path / "t.parquet"), source_of(dd.from_pandas(frame, npartitions=3))):
        assert source is not None
        both = source.with_columns("y")
        assert both.names == ["a", "b"]
        assert both.total(lambda X, y: float(X["a"] @ y)) == frame["a"] @ frame["y"]
        third = both.with_columns(np.arange(1000.0))
        assert third.total(lambda X, y, z: np.array([len(X), y @ z]), operator.add)[1] == frame["y"] @ np.arange(1000)


def test_functions_run_where_joblib_says(tmp_path: Path) -> None:
    pd.DataFrame({"a": np.arange(100.0)}).to_parquet(tmp_path / "t.parquet", row_group_size=10)
    source = source_of(tmp_path / "t.parquet")
    assert source is not None
    for backend in ("threading", "sequential"):
        with joblib.parallel_config(backend=backend, n_jobs=2):
            assert source.total(lambda block: float(block["a"].sum())) == 4950


def test_answers_of_several_numbers_keep_their_rows(tmp_path: Path) -> None:
    class Doubles:
        @by_blocks(width=lambda _, factor: 2)
        def both(self, X: Any, factor: float = 2.0) -> Any:
            return np.column_stack([X["a"], factor * X["a"]])

    frame = pd.DataFrame({"a": np.arange(50.0)}, index=np.arange(100, 150))
    lazy = dd.from_pandas(frame, npartitions=4)
    found = Doubles().both(lazy, 3.0)
    assert found.divisions == lazy.divisions
    assert found.compute().index.tolist() == frame.index.tolist()
    assert found.compute()[1].iloc[-1] == 147


def test_what_is_wrong_is_said_in_one_line_that_names_it(tmp_path: Path) -> None:
    frame = pd.DataFrame({"a": np.arange(10.0), "b": "word"})
    frame.to_parquet(tmp_path / "1.parquet", index=False)
    frame.assign(a="text").to_parquet(tmp_path / "2.parquet", index=False)
    with pytest.raises(ValueError, match=r"2\.parquet has other columns: .*Field a has incompatible types: double vs"):
        ScatterDetector().fit(tmp_path)
    frame[["a"]].to_parquet(tmp_path / "2.parquet", index=False)
    with pytest.raises(ValueError, match=r"2\.parquet has other columns: 'b' is not there"):
        ScatterDetector().fit(tmp_path)
    (tmp_path / "2.parquet").write_bytes(b"no parquet at all")
    with pytest.raises(ValueError, match=r"2\.parquet cannot be read"):
        ScatterDetector().fit(tmp_path)
    with pytest.raises(FileNotFoundError, match=r"none\.parquet does not exist"):
        ScatterDetector().fit(tmp_path / "none.parquet")
    (tmp_path / "empty").mkdir()
    with pytest.raises(FileNotFoundError, match="empty holds no file"):
        ScatterDetector().fit(tmp_path / "empty")
    (tmp_path / "t.txt").write_text("a\n1\n")
    with pytest.raises(FileNotFoundError, match=r"t\.txt holds no file that ends in \.parquet"):
        ScatterDetector().fit(tmp_path / "t.txt")
    source = source_of(tmp_path / "1.parquet")
    assert source is not None
    with pytest.raises(ValueError, match="there is no column 'z': there are a, b"):
        source.with_columns("z")
    with pytest.raises(ValueError, match="the table has 10 rows, but its target or weights have 9"):
        source.with_columns(np.zeros(9))


def test_a_block_without_rows_is_answered_by_none(table: pd.DataFrame) -> None:
    few = table[list("abd")].iloc[:300].assign(number=np.arange(300.0))
    lazy = dd.from_pandas(few, npartitions=3)
    lazy = lazy[(lazy["number"] < 100) | (lazy["number"] >= 200)]  # nothing is left of the block in the middle
    kept = few[(few["number"] < 100) | (few["number"] >= 200)]
    detector = ScatterDetector().fit(lazy)
    np.testing.assert_array_equal(detector.outlier_score(lazy).compute(), detector.outlier_score(kept))
    parts = detector.explain(lazy).compute()
    pd.testing.assert_frame_equal(parts, detector.explain(kept), check_index_type=False)


def test_files_take_every_core_unless_someone_says_otherwise(monkeypatch):
    """joblib 1.6 has another default number of jobs, with which files were read and scored by one thread."""
    monkeypatch.setattr(joblib, "cpu_count", lambda: 3)
    assert stored_tables.jobs() == 3
    with joblib.parallel_config(backend="threading", n_jobs=2):
        assert stored_tables.jobs() is None  # joblib reads its own configuration


def test_dates_of_files_are_dates(tmp_path: Path) -> None:
    table = pd.DataFrame({"day": pd.date_range("2020-01-01", periods=40), "x": np.arange(40.0)})
    table.assign(day=table["day"].dt.date).to_parquet(tmp_path / "days.parquet", index=False)
    table.to_csv(tmp_path / "days.csv", index=False)
    for file in ("days.parquet", "days.csv"):
        source = source_of(tmp_path / file)
        assert source is not None
        (frame,) = source.sample()
        assert frame["day"].dtype.kind == "M"
        assert (frame["day"] == table["day"]).all()


def test_folders_named_after_a_value_are_a_column(tmp_path: Path) -> None:
    table = pd.DataFrame({"a": np.arange(40.0), "year": np.repeat([2020, 2021], 20)})
    folder = tmp_path / "run=3" / "table"  # what is above the folder says nothing about its rows
    table.to_parquet(folder, partition_cols=["year"], index=False)
    source = source_of(folder)
    assert source is not None
    assert source.names == ["a", "year"]
    assert source.total(lambda block: float(block["a"] @ block["year"].astype(float))) == table["a"] @ table["year"]
    part = source_of(folder / "year=2021")
    assert part is not None
    assert part.names == ["a"]


def test_an_empty_cell_of_csv_is_a_gap_in_texts_too(tmp_path: Path) -> None:
    table = pd.DataFrame({"town": ["Rome", None, "Oslo"] * 5, "x": np.arange(15.0)})
    table.to_csv(tmp_path / "t.csv", index=False)
    source = source_of([tmp_path / "t.csv"])
    assert source is not None
    assert source.sample()[0]["town"].isna().sum() == 5


def test_whole_numbers_in_one_file_and_others_in_the_next_are_numbers(tmp_path: Path) -> None:
    for ending, write in (("csv", "to_csv"), ("parquet", "to_parquet")):
        folder = tmp_path / ending
        folder.mkdir()
        for name, part in {"1": [1, 2, 3], "2": [0.5, None, 2.5], "3": [4, 5, 6]}.items():
            getattr(pd.DataFrame({"age": part, "x": 1.0}), write)(folder / f"{name}.{ending}", index=False)
        source = source_of(folder)
        assert source is not None
        assert source.sample()[0]["age"].sum() == 24
        assert source.total(lambda block: block["age"].dtype == np.float64, operator.and_)


@pytest.mark.parametrize("estimator", [ScatterDetector(), DynamicRidge()])
def test_files_without_rows_are_refused(estimator: Any, tmp_path: Path) -> None:
    pd.DataFrame({"a": [1.0], "b": [2.0]})[:0].to_parquet(tmp_path / "none.parquet")
    with pytest.raises(ValueError, match="the table has no rows"):
        estimator.fit(tmp_path, *(() if isinstance(estimator, ScatterDetector) else ("b",)))


def test_columns_of_files_are_taken_by_name(tmp_path: Path) -> None:
    table = pd.DataFrame(np.random.default_rng(0).normal(size=(50, 3)), columns=list("abc"))
    detector = ScatterDetector().fit(table)
    for columns in ("cba", "abc"):
        table.assign(target=1.0)[[*columns, "target"]].to_parquet(tmp_path / "more.parquet")
        table[list(columns)].to_parquet(tmp_path / "same.parquet")
        for name in ("more", "same"):
            scores = detector.outlier_score(tmp_path / f"{name}.parquet")
            np.testing.assert_allclose(scores, detector.outlier_score(table))


def test_a_new_source_is_one_class():
    class Chunks(Source):
        """Arrays in a list, as one table."""

        def __init__(self, chunks):
            self.chunks, self.width = chunks, chunks[0].shape[1]

        def run(self, call, parts):
            return (call(*block) for block in zip(self.chunks, *parts, strict=True))

        def map_rows(self, compute, none):
            return np.concatenate(list(self.each(compute)))

    rows = np.random.default_rng(0).normal(size=(150, 3))
    detector = ScatterDetector().fit(Chunks([rows[:100], rows[100:]]), sample_weight=np.ones(150))
    scores = detector.outlier_score(Chunks([rows[:60], rows[60:]]))
    np.testing.assert_allclose(scores, ScatterDetector().fit(rows).outlier_score(rows))
