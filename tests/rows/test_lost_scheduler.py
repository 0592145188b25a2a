"""A scheduler that is lost in the middle: one line that names it, in bounded time."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dask.array as da
import joblib
import numpy as np
import pandas as pd
import pytest
from distributed import Client
from tests.lost_scheduler import Ends, Scheduler, scheduler_of_one_worker

from likely._rows.sources import source_of
from likely.outliers import ScatterDetector

pytestmark = pytest.mark.heavy

X = np.random.default_rng(0).normal(size=(3000, 4))


@pytest.fixture
def scheduler(tmp_path: Path) -> Iterator[Scheduler]:
    with scheduler_of_one_worker(tmp_path) as scheduler:
        yield scheduler


@pytest.fixture
def client(scheduler: Scheduler) -> Iterator[Client]:
    with Client(scheduler.address, timeout=30) as client:
        yield client


def lost(scheduler: Scheduler) -> Any:
    return pytest.raises(ConnectionError, match=f"^the Dask scheduler at {scheduler.address} was lost$")


@pytest.mark.usefixtures("client")
def test_a_fit_of_a_dask_array_names_it(scheduler: Scheduler) -> None:
    blocks = da.from_array(X, chunks=(200, 4)).map_blocks(Ends(scheduler), dtype=X.dtype, meta=X[:0])
    with lost(scheduler):
        ScatterDetector().fit(blocks)


@pytest.mark.usefixtures("client")
def test_files_name_it(scheduler: Scheduler, tmp_path: Path) -> None:
    for part in range(15):
        pd.DataFrame(X[part * 200 :][:200], columns=list("abcd")).to_parquet(tmp_path / f"{part}.parquet")
    source = source_of(tmp_path / "*.parquet")
    assert source is not None
    with joblib.parallel_config(backend="dask"), lost(scheduler):
        list(source.each(Ends(scheduler)))
