"""Robust models are fitted to rows in memory, and predict tables in blocks."""

import dask
import dask.array as da
import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_diabetes

from likely._rows.sources import source_of
from likely.linear import RobustLinearRegression, RobustPCA


@pytest.fixture(autouse=True)
def _here():
    with dask.config.set(scheduler="synchronous"):
        yield


def spoiled():
    """Real rows, a tenth of whose targets are wrong."""
    X, y = load_diabetes(return_X_y=True, scaled=False)
    y[::10] += 900
    return X, y


def in_blocks(array, count):
    return da.from_array(array, chunks=(-(-len(array) // count), *array.shape[1:]))


@pytest.mark.parametrize("estimator", [RobustLinearRegression(), RobustPCA()], ids=str)
def test_a_fit_to_blocks_is_refused_with_what_to_do(estimator, tmp_path):
    X, y = spoiled()
    pd.DataFrame(X).rename(columns=str).to_parquet(tmp_path / "table.parquet")
    for table in (in_blocks(X, 3), tmp_path):
        with pytest.raises(TypeError, match=r"fitted to rows in memory: pass a sample .* DynamicRidge"):
            estimator.fit(table, y)


@pytest.mark.parametrize("scale", ["mixture", "data", "predicted"])
@pytest.mark.parametrize("blocks", [1, 17])
def test_predictions_of_blocks_are_those_of_the_table(scale, blocks):
    X, y = spoiled()
    model = RobustLinearRegression(scale, random_state=0).fit(X, y)
    rows, targets = in_blocks(X, blocks), in_blocks(y, blocks)
    for answer, wanted in zip(model.predict(rows, return_std=True), model.predict(X, return_std=True), strict=True):
        assert isinstance(answer, da.Array)
        np.testing.assert_allclose(answer.compute(), wanted)
    np.testing.assert_allclose(model.outlier_score(rows, targets).compute(), model.outlier_score(X, y))
    with pytest.raises(TypeError, match="in memory"):
        model.predict_dist(rows)


def test_predictions_of_files(tmp_path):
    X, y = spoiled()
    frame = pd.DataFrame(X, columns=[f"c{j}" for j in range(X.shape[1])])
    frame.assign(y=y).to_parquet(tmp_path / "table.parquet", row_group_size=100)
    frame.to_parquet(tmp_path / "new.parquet")
    model = RobustLinearRegression(random_state=0).fit(frame, y)
    np.testing.assert_allclose(model.predict_dist(tmp_path / "new.parquet").mean, model.predict(frame))
    scores = model.outlier_score(tmp_path / "table.parquet", "y")
    np.testing.assert_allclose(scores, model.outlier_score(frame, y))


def test_components_of_blocks():
    X, _ = spoiled()
    pca = RobustPCA(3).fit(X)
    np.testing.assert_allclose(pca.transform(in_blocks(X, 3)).compute(), pca.transform(X))
    np.testing.assert_allclose(pca.outlier_score(in_blocks(X, 3)).compute(), pca.outlier_score(X))


@pytest.mark.parametrize("stride", [2, 7, 10])
def test_the_sample_does_not_depend_on_blocks(stride):
    rows = np.arange(1000)
    first, *others = (source_of(in_blocks(rows, blocks)).sample(stride)[0] for blocks in (1, 3, 17, 400))
    assert all((first == other).all() for other in others)
    assert (first // stride == np.arange(len(first))).all()
    assert len(first) >= 1000 // stride
    assert np.bincount(first % stride).min() > 0.7 * len(first) / stride
