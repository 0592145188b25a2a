"""Robust fits to tables in blocks: those of the whole table, and beyond a sample by sums over all rows."""

import dask
import dask.array as da
import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_diabetes
from sklearn.linear_model import LinearRegression

from likely._rows.sources import source_of
from likely.linear import RobustLinearRegression, RobustPCA, _robust_pca, _robust_regression

TIGHT = {"tol": 1e-9, "max_iter": 1000}


@pytest.fixture(autouse=True)
def _here():
    with dask.config.set(scheduler="synchronous"):
        yield


def spoiled(copies=1):
    """Real inputs, targets of one scale about a line, a tenth of them wrong, and some wrong inputs."""
    X, y = load_diabetes(return_X_y=True, scaled=False)
    X, y = np.tile(X, (copies, 1)), np.tile(y, copies)
    random = np.random.default_rng(0)
    X += 0.05 * X.std(0) * random.normal(size=X.shape)
    y = LinearRegression().fit(X, y).predict(X) + 40 * random.normal(size=len(y))
    y[::10] += 900
    X[5::50, 2] += 300
    shuffled = random.permutation(len(y))
    return X[shuffled], y[shuffled]


def in_blocks(array, count):
    return da.from_array(array, chunks=(-(-len(array) // count), *array.shape[1:]))


def alike(found, whole, X, tol=1e-6):
    slopes, wanted = (each.coef_ * X.std(0) for each in (found, whole))
    np.testing.assert_allclose(slopes, wanted, atol=tol * np.abs(wanted).max())
    for name in ("intercept_", "scale_", "outlier_scale_", "inlier_share_", "df_"):
        assert getattr(found, name, 0.0) == pytest.approx(getattr(whole, name, 0.0), rel=10 * tol)
    np.testing.assert_allclose(np.asarray(found.weights_), whole.weights_, atol=10 * tol)


@pytest.mark.parametrize("scale", ["mixture", "data", "predicted", "predicted_xy"])
@pytest.mark.parametrize("blocks", [1, 3, 17])
def test_a_table_that_the_sample_holds_is_fitted_as_in_memory(scale, blocks):
    X, y = spoiled()
    whole = RobustLinearRegression(scale, random_state=0).fit(X, y)
    found = RobustLinearRegression(scale, random_state=0).fit(in_blocks(X, blocks), in_blocks(y, blocks))
    alike(found, whole, X, 1e-12)
    assert isinstance(found.weights_, da.Array)
    scores = found.outlier_score(in_blocks(X, blocks), in_blocks(y, blocks))
    np.testing.assert_allclose(scores.compute(), whole.outlier_score(X, y))


@pytest.mark.parametrize(
    ("options", "blocks", "weighted"),
    [
        ({"scale": "mixture"}, 1, False),
        ({"scale": "mixture"}, 3, False),
        ({"scale": "mixture"}, 17, True),
        ({"scale": "mixture", "fit_intercept": False}, 3, False),
        ({"scale": "mixture", "likelihood": "student_t"}, 3, True),
        ({"scale": "data"}, 1, True),
        ({"scale": "data"}, 3, False),
        ({"scale": "data", "df": 4.0}, 17, False),
        ({"scale": "data", "df": 3.0, "likelihood": "robust", "shape": 1.0}, 3, True),
        ({"scale": "predicted"}, 1, False),
        ({"scale": "predicted"}, 3, True),
        ({"scale": "predicted", "likelihood": "student_t"}, 3, False),
        ({"scale": "predicted", "fit_intercept": False}, 1, False),
        ({"scale": "predicted_xy"}, 3, False),
    ],
    ids=str,
)
def test_beyond_the_sample_the_steps_end_where_those_in_memory_do(options, blocks, weighted, monkeypatch):
    monkeypatch.setattr(_robust_regression, "SAMPLE", 300)
    X, y = spoiled(3)
    weight = np.arange(len(y)) % 3.0 if weighted else None
    whole = RobustLinearRegression(**options, **TIGHT, random_state=0).fit(X, y, weight)
    rows = [None if each is None else in_blocks(each, blocks) for each in (X, y, weight)]
    found = RobustLinearRegression(**options, **TIGHT, random_state=0).fit(*rows)
    alike(found, whole, X)
    # And with the steps that are taken by default, about so.
    quick = RobustLinearRegression(**options, random_state=0).fit(*rows)
    np.testing.assert_allclose(quick.predict(X), whole.predict(X), atol=0.05 * whole.scale_)


def test_a_column_that_only_few_rows_have(monkeypatch):
    # In the sample it is constant.
    monkeypatch.setattr(_robust_regression, "SAMPLE", 300)
    X, y = spoiled(3)
    stride = len(y) // 300
    X[:, 0] = (np.arange(len(y)) % (5 * stride)) == 1
    y = y + 50 * X[:, 0]
    found = RobustLinearRegression(**TIGHT, random_state=0).fit(in_blocks(X, 5), in_blocks(y, 5))
    alike(found, RobustLinearRegression(**TIGHT, random_state=0).fit(X, y), X)
    assert found.coef_[0] > 30


def test_a_pattern_that_recurs_is_sampled_as_often_as_it_is_there(monkeypatch):
    monkeypatch.setattr(_robust_regression, "SAMPLE", 300)
    random = np.random.default_rng(0)
    X = random.normal(size=(3000, 5))
    y = X @ [1, 2, 3, 0, 0] + random.normal(size=3000)
    y[::10] += 50  # every tenth row, and one row of ten is in the sample
    whole = RobustLinearRegression(**TIGHT, random_state=0).fit(X, y)
    alike(RobustLinearRegression(**TIGHT, random_state=0).fit(in_blocks(X, 7), in_blocks(y, 7)), whole, X)


@pytest.mark.parametrize("stride", [2, 7, 10])
def test_the_sample_does_not_depend_on_blocks(stride):
    rows = np.arange(1000)
    first, *others = (source_of(in_blocks(rows, blocks)).sample(stride)[0] for blocks in (1, 3, 17, 400))
    assert all((first == other).all() for other in others)
    assert (first // stride == np.arange(len(first))).all()
    assert len(first) >= 1000 // stride
    assert np.bincount(first % stride).min() > 0.7 * len(first) / stride


def test_parquet(tmp_path, monkeypatch):
    monkeypatch.setattr(_robust_regression, "SAMPLE", 300)
    X, y = spoiled(3)
    frame = pd.DataFrame(X, columns=[f"c{j}" for j in range(X.shape[1])])
    frame.assign(y=y).to_parquet(tmp_path / "table.parquet", row_group_size=100)
    frame.to_parquet(tmp_path / "new.parquet")
    found = RobustLinearRegression(random_state=0).fit(tmp_path / "table.parquet", "y")
    whole = RobustLinearRegression(random_state=0).fit(frame, y)
    assert list(found.feature_names_in_) == list(frame.columns)
    assert isinstance(found.weights_, np.ndarray)
    np.testing.assert_allclose(found.predict_dist(tmp_path / "new.parquet").mean, found.predict(frame))
    np.testing.assert_allclose(found.predict(frame), whole.predict(frame), atol=0.05 * whole.scale_)
    scores = found.outlier_score(tmp_path / "table.parquet", "y")
    np.testing.assert_allclose(scores, found.outlier_score(frame, y))


def test_what_needs_all_rows_says_so(monkeypatch):
    monkeypatch.setattr(_robust_regression, "SAMPLE", 100)
    X, y = spoiled()
    with pytest.raises(ValueError, match="needs a target"):
        RobustLinearRegression().fit(in_blocks(X, 3), None)
    with pytest.raises(TypeError, match="in memory"):
        RobustLinearRegression().fit(X, y).predict_dist(in_blocks(X, 3))


def same_subspace(found, whole, tol):
    np.testing.assert_allclose(found.components_, whole.components_, atol=tol)
    for name in ("mean_", "scale_", "explained_variance_", "explained_variance_ratio_"):
        np.testing.assert_allclose(getattr(found, name), getattr(whole, name), rtol=10 * tol)
    np.testing.assert_allclose(np.asarray(found.weights_), whole.weights_, atol=100 * tol)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("blocks", [1, 3, 17])
def test_components(blocks, weighted, monkeypatch):
    X, _ = spoiled(3)
    X /= X.std(0)
    weight = np.arange(len(X)) % 3.0 if weighted else None
    rows = [None if each is None else in_blocks(each, blocks) for each in (X, weight)]
    same_subspace(RobustPCA(3).fit(rows[0], None, rows[1]), RobustPCA(3).fit(X, None, weight), 1e-9)
    monkeypatch.setattr(_robust_pca, "SAMPLE", 300)
    whole = RobustPCA(3, tol=1e-9, max_iter=1000).fit(X, None, weight)
    found = RobustPCA(3, tol=1e-9, max_iter=1000).fit(rows[0], None, rows[1])
    same_subspace(found, whole, 1e-6)
    np.testing.assert_allclose(found.transform(rows[0]).compute(), whole.transform(X), atol=1e-5)
    np.testing.assert_allclose(found.outlier_score(rows[0]).compute(), whole.outlier_score(X), rtol=1e-5)


def test_components_of_parquet_and_of_rows_in_a_plane(tmp_path, monkeypatch):
    monkeypatch.setattr(_robust_pca, "SAMPLE", 300)
    random = np.random.default_rng(0)
    X = random.normal(size=(1000, 2)) @ random.normal(size=(2, 4)) * 1e100
    X[3::100] += 1e100 * random.normal(size=(10, 4))
    frame = pd.DataFrame(X, columns=list("abcd"))
    frame.to_parquet(tmp_path / "table.parquet", row_group_size=100)
    found, whole = (RobustPCA(2, tol=1e-9).fit(table) for table in (tmp_path / "table.parquet", frame))
    np.testing.assert_allclose(found.components_, whole.components_, atol=1e-6)
    assert list(found.feature_names_in_) == list("abcd")
    np.testing.assert_allclose(found.weights_ > 0.5, whole.weights_ > 0.5)
    with pytest.raises(ValueError, match="n_components=5"):
        RobustPCA(5).fit(tmp_path / "table.parquet")
