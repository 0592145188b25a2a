"""A Dask cluster of two worker processes: the same answers, also where one of them dies in the middle."""

import itertools
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dask
import dask.array as da
import dask.dataframe as dd
import joblib
import numpy as np
import pandas as pd
import pytest
from distributed import Client, LocalCluster

from likely._rows import stored_tables
from likely._rows.sources import source_of
from likely.outliers import LikelihoodDetector, ScatterDetector

pytestmark = pytest.mark.heavy

ROWS = 70_001


@pytest.fixture(scope="module")
def client() -> Iterator[Client]:
    # Every two seconds, Dask drops copies of results that no task waits for, such as those of a model between batches.
    calm = {"distributed.scheduler.active-memory-manager.start": False}
    with (
        dask.config.set(calm),
        LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0", protocol="tcp://") as cluster,
        Client(cluster) as client,
    ):
        yield client


@pytest.fixture(scope="module")
def table() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(ROWS, 4)), columns=list("abcd"))
    return frame.assign(kind=rng.choice(["x", "y", "z"], ROWS))


class DiesOnce:
    """Ends the process that calls it first, unless it is the one that made it."""

    def __init__(self, flag: Path) -> None:
        self.flag, self.home = flag, os.getpid()

    def __call__(self, block: Any) -> Any:
        if os.getpid() != self.home and not self.flag.exists():
            self.flag.touch()
            os._exit(1)
        return block


@pytest.mark.parametrize("detector", [ScatterDetector(), LikelihoodDetector(random_state=0)])
def test_the_same_answers_from_two_processes(detector: Any, table: pd.DataFrame, client: Client) -> None:
    detector.fit(table)
    scores, offset = detector.outlier_score(table), detector.offset_
    for blocks in (1, 3, 17):
        frame = dd.from_pandas(table, npartitions=blocks)
        assert detector.fit(frame).offset_ == pytest.approx(offset, rel=1e-8)
        np.testing.assert_allclose(detector.outlier_score(frame).compute().to_numpy(), scores, rtol=1e-8)


def test_files_are_read_by_the_workers(table: pd.DataFrame, client: Client, tmp_path: Path) -> None:
    table.to_parquet(tmp_path / "t.parquet", row_group_size=5000)
    known = ScatterDetector().fit(table)
    with joblib.parallel_config(backend="dask"):
        found = ScatterDetector().fit(tmp_path)
        np.testing.assert_allclose(found.outlier_score(tmp_path), known.outlier_score(table), rtol=1e-12)
        source = source_of(tmp_path)
        assert source is not None
        assert os.getpid() not in set(source.each(lambda _: os.getpid()))


class Large:
    """A function as large as a forest, which says in which process it was unpickled, and how many times."""

    def __init__(self) -> None:
        self.numbers = np.zeros(3_000_000)

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__ = state | {"number": next(_unpickled)}

    def __call__(self, block: Any) -> tuple[int, int]:
        return os.getpid(), self.number


_unpickled = itertools.count()


def test_a_model_is_not_sent_with_every_block(
    table: pd.DataFrame, client: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stored_tables, "BLOCK_NUMBERS", 1000)
    table.to_parquet(tmp_path / "t.parquet", row_group_size=ROWS // 20)
    source = source_of(tmp_path / "t.parquet")
    assert source is not None
    with joblib.parallel_config(backend="dask"):
        copies = list(source.each(Large()))
    assert len(copies) >= 20
    assert len(set(copies)) == len({process for process, _ in copies})


def test_a_worker_that_dies_changes_nothing(table: pd.DataFrame, client: Client, tmp_path: Path) -> None:
    X = table[list("abcd")].to_numpy()
    known = ScatterDetector().fit(X)
    lazy = da.from_array(X, chunks=(5000, 4)).map_blocks(DiesOnce(tmp_path / "dead"), dtype=X.dtype, meta=X[:0])
    found = ScatterDetector().fit(lazy)
    assert (tmp_path / "dead").exists()
    assert found.offset_ == known.offset_
    np.testing.assert_array_equal(found.outlier_score(lazy).compute(), known.outlier_score(X))


def test_a_worker_that_dies_over_files_changes_nothing(table: pd.DataFrame, client: Client, tmp_path: Path) -> None:
    table.to_parquet(tmp_path / "t.parquet", row_group_size=5000)
    source = source_of(tmp_path / "t.parquet")
    assert source is not None
    with joblib.parallel_config(backend="dask"):
        blocks = list(source.each(DiesOnce(tmp_path / "dead")))
    assert (tmp_path / "dead").exists()
    pd.testing.assert_frame_equal(pd.concat(blocks, ignore_index=True), table)
