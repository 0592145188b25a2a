"""Spark's frames and Ray's data sets, where these are installed: the same answers as in memory."""

import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from likely.outliers import ScatterDetector

pytestmark = pytest.mark.filterwarnings("default")  # theirs, about each other


@pytest.fixture(scope="module")
def table() -> pd.DataFrame:
    return pd.DataFrame(np.random.default_rng(0).normal(size=(70_001, 4)), columns=list("abcd"))


@pytest.fixture
def path(table: pd.DataFrame, tmp_path: Path) -> str:
    for number in range(3):
        table.iloc[number::3].to_parquet(tmp_path / f"{number}.parquet", row_group_size=9000)
    return str(tmp_path)


@pytest.fixture
def spark() -> Iterator[Any]:
    sql = pytest.importorskip("pyspark.sql", reason="pyspark is not installed")
    if shutil.which("java") is None:
        pytest.skip("Spark needs Java")
    os.environ["PYSPARK_PYTHON"] = sys.executable
    built = sql.SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
    yield built
    built.stop()


def test_a_spark_frame_gives_a_spark_frame(spark: Any, path: str) -> None:
    frame = spark.read.parquet(path)
    rows = frame.toPandas()
    known, found = ScatterDetector().fit(rows), ScatterDetector().fit(frame)
    assert found.offset_ == pytest.approx(known.offset_, rel=1e-12)
    scored = found.outlier_score(frame).toPandas()
    assert scored.columns.tolist() == [*"abcd", "outlier_score"]
    assert len(scored) == len(rows)
    np.testing.assert_allclose(scored["outlier_score"], known.outlier_score(scored[list("abcd")]), rtol=1e-12)
    assert found.predict(frame).schema["predict"].dataType.typeName() == "long"
    assert found.explain(frame).columns[-1] == "explain_3"
    with pytest.raises(ValueError, match="name a column of it"):
        found.fit(frame, sample_weight=np.ones(len(rows)))


def test_a_ray_data_set_gives_a_ray_data_set(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    ray = pytest.importorskip("ray", reason="ray is not installed")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(sys.path))
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    try:
        data = ray.data.read_parquet(path)
        found = ScatterDetector().fit(data)
        scored = found.outlier_score(data).to_pandas()
        assert len(scored) == 70_001
        np.testing.assert_allclose(scored["outlier_score"], found.outlier_score(scored[list("abcd")]), rtol=1e-12)
    finally:
        ray.shutdown()
