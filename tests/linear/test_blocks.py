"""Tables in blocks: the same line as of the whole table, whatever they are in, and never gathered."""

import dask
import dask.array as da
import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_diabetes

from likely.linear import (
    DynamicLasso,
    DynamicLogisticRegression,
    DynamicRegression,
    DynamicRidge,
    MultiLasso,
    MultiRidge,
    RobustLogisticRegression,
    SpikeSlabRegression,
)
from pairwise import together

MODELS = [
    DynamicRidge(),
    DynamicRidge(fit_intercept=False),
    DynamicRidge(prior_mean="learned"),
    DynamicRidge(penalty_weights=[0, 1, 2, 1, 1, 0.5, 1, 1, 1, 0]),
    MultiRidge(),
    MultiRidge(groups=[0, 0, 0, 1, 1, 1, 2, 2, 2, 2]),
    DynamicLasso(),
    MultiLasso(),
    SpikeSlabRegression(),
    DynamicRegression(),
    DynamicRegression("laplace", fit_intercept=False),
]


@pytest.fixture(autouse=True)
def _here():
    with dask.config.set(scheduler="synchronous"):
        yield


def diabetes():
    """Real rows, in units that differ by far: one column is large and hardly varies, one is tiny."""
    X, y = load_diabetes(return_X_y=True, scaled=False)
    X[:, 0] += 1e6
    X[:, 1] *= 1e-6
    return X, y


def in_blocks(X, blocks):
    """A Dask array of as many blocks, of different sizes."""
    ends = np.unique(np.linspace(0, 1, blocks + 1)[1:] ** 1.3 * len(X)).astype(int)
    sizes = np.diff([0, *ends[:-1], len(X)])
    return da.from_array(X, chunks=(tuple(map(int, sizes)), *X.shape[1:]))


def alike(model, other, X, tol=1e-6):
    slopes, wanted = (each.coef_ * np.asarray(X).std(0) for each in (model, other))
    np.testing.assert_allclose(slopes, wanted, atol=tol * np.abs(wanted).max())
    assert model.sigma_ == pytest.approx(other.sigma_, rel=tol)
    np.testing.assert_allclose(model.prior_scale_, other.prior_scale_, rtol=1e-4, atol=1e-9)
    expected = other.predict(X, return_std=True)
    for found, wanted in zip(model.predict(X, return_std=True), expected, strict=True):
        np.testing.assert_allclose(found, wanted, rtol=tol, atol=tol * np.abs(wanted).max())


@together("blocks", [1, 3, 17])
@pytest.mark.parametrize("model", MODELS, ids=str)
def test_the_line_of_blocks_is_that_of_the_table(model, blocks):
    X, y = diabetes()
    whole = model.fit(X, y)
    expected = dict(vars(whole))
    found = type(model)(**model.get_params()).fit(in_blocks(X, blocks), in_blocks(y, blocks))
    alike(found, whole, X)
    assert vars(whole).keys() == expected.keys() == vars(found).keys()
    assert isinstance(found.predict(in_blocks(X, blocks)), da.Array)


@pytest.mark.parametrize("kind", ["counts", "relative"])
@pytest.mark.parametrize("blocks", [1, 3, 17])
def test_weights_count_as_in_memory(kind, blocks):
    X, y = diabetes()
    random = np.random.default_rng(0)
    weight = random.integers(0, 4, len(y)).astype(float) if kind == "counts" else random.uniform(0, 2, len(y))
    weight[:60] = 0  # the whole of the first of seventeen blocks
    found = DynamicRidge().fit(in_blocks(X, blocks), in_blocks(y, blocks), in_blocks(weight, blocks))
    alike(found, DynamicRidge().fit(X, y, weight), X)


def test_weights_on_another_scale_warn_as_in_memory():
    X, y = diabetes()
    weight = np.random.default_rng(0).uniform(0, 1e-3, len(y))
    with pytest.warns(UserWarning, match="mean of"):
        found = DynamicRidge().fit(in_blocks(X, 3), in_blocks(y, 3), in_blocks(weight, 3))
    with pytest.warns(UserWarning, match="mean of"):
        alike(found, DynamicRidge().fit(X, y, weight), X)


def test_a_folder_of_parquet_and_a_column_by_name(tmp_path):
    X, y = diabetes()
    folder = tmp_path / "table"
    folder.mkdir()
    frame = pd.DataFrame(X, columns=[f"c{j}" for j in range(X.shape[1])])
    weight = np.arange(len(y)) % 3
    table = frame.assign(disease=y, weight=weight)
    for number, rows in enumerate(np.array_split(np.arange(len(y)), 3)):
        table.iloc[rows].to_parquet(folder / f"{number}.parquet")
    found = DynamicRidge().fit(folder, "disease", "weight")
    whole = DynamicRidge().fit(frame, y, weight)
    alike(found, whole, frame)
    assert list(found.feature_names_in_) == list(whole.feature_names_in_)
    frame.to_parquet(tmp_path / "new.pq")
    predicted, deviation = found.predict(tmp_path / "new.pq", return_std=True)
    expected = whole.predict(frame, return_std=True)
    np.testing.assert_allclose(np.stack([predicted, deviation]), np.stack(expected), rtol=1e-6)
    np.testing.assert_array_equal(found.predict_dist(tmp_path / "new.pq").mean, predicted)
    with pytest.raises(ValueError, match="no column 'health'"):
        DynamicRidge().fit(folder, "health")
    with pytest.raises(ValueError, match="needs a target"):
        DynamicRidge().fit(folder, None)


@pytest.mark.parametrize("blocks", [1, 3, 17])
def test_dask_frames(blocks):
    import dask.dataframe as dd

    X, y = diabetes()
    frame = pd.DataFrame(X, columns=[f"c{j}" for j in range(X.shape[1])])
    table = dd.from_pandas(frame.assign(y=y, w=1.0 + (np.arange(len(y)) % 2)), npartitions=blocks)
    columns = list(frame.columns)
    whole = DynamicRidge().fit(frame, y, 1.0 + (np.arange(len(y)) % 2))
    for found in (DynamicRidge().fit(table, "y", "w"), DynamicRidge().fit(table[columns], table["y"], table["w"])):
        alike(found, whole, frame)
        answers = found.predict(table[columns])
        assert isinstance(answers, dd.Series)
        np.testing.assert_allclose(answers.compute(), whole.predict(frame), rtol=1e-6)
    with pytest.raises(TypeError, match="return_std=True"):
        found.predict_dist(table[columns])


def test_more_columns_than_rows_and_columns_that_repeat_one_another():
    random = np.random.default_rng(1)
    X = random.normal(size=(40, 60))
    X[:, 7] = -3 * X[:, 4]
    X[:, 9] = 5.0
    y = X[:, :5].sum(1) + 0.1 * random.normal(size=40)
    for model in (DynamicRidge, DynamicLasso, SpikeSlabRegression, MultiRidge):
        found, whole = model().fit(in_blocks(X, 3), in_blocks(y, 3)), model().fit(X, y)
        np.testing.assert_allclose(found.coef_, whole.coef_, atol=1e-6)
        assert found.coef_[9] == 0
        assert found.coef_[7] == pytest.approx(-found.coef_[4] / 3, abs=1e-9)


def test_sizes_at_the_ends_of_float64():
    X, y = diabetes()
    X = np.column_stack([X[:, 2:], X[:, 2] * 1e70 * np.where(np.arange(len(y)) < 50, 1e-150, 1), X[:, 3] * 1e-70])
    whole = DynamicRidge().fit(X, y)
    found = DynamicRidge().fit(in_blocks(X, 7), in_blocks(y, 7))
    np.testing.assert_allclose(found.predict(X), whole.predict(X), rtol=1e-6)
    for factor in (1e200, 1e-200):
        with pytest.raises(ValueError, match="in other units"):
            DynamicRidge().fit(in_blocks(X, 7), in_blocks(y * factor, 7))
        with pytest.raises(ValueError, match="give column 0 of X in other units"):
            DynamicRidge().fit(in_blocks(X * factor, 7), in_blocks(y, 7))


def test_a_nearly_singular_table_keeps_its_digits():
    # Sums of products of these columns are singular in float64; their factor is not.
    random = np.random.default_rng(2)
    base = random.normal(size=2000)
    X = np.column_stack([base, base + 1e-7 * random.normal(size=2000)]) + 1e3
    y = X[:, 0] + 0.1 * random.normal(size=2000)
    found, whole = (DynamicRidge().fit(f(X), f(y)) for f in (lambda a: in_blocks(a, 17), lambda a: a))
    np.testing.assert_allclose(found.coef_, whole.coef_, rtol=1e-6)


def test_empty_blocks_and_bad_ones():
    X, y = diabetes()
    kind = {"dtype": float, "meta": np.empty((0, 10))}
    empty = da.from_array(X, chunks=(100, 10)).map_blocks(lambda x: x[: 0 if (x[0] == X[100]).all() else 100], **kind)
    assert len(empty.compute()) == len(y) - 100
    kept = np.delete(np.arange(len(y)), np.s_[100:200])
    alike(DynamicRidge().fit(empty, y[kept]), DynamicRidge().fit(X[kept], y[kept]), X)
    X[77, 3] = np.nan
    with pytest.raises(ValueError, match="contains NaN"):
        DynamicRidge().fit(in_blocks(X, 5), in_blocks(y, 5))
    with pytest.raises(ValueError, match="rows"):
        DynamicRidge().fit(in_blocks(X, 5), y[:-1])


def test_a_refused_fit_changes_nothing():
    X, y = diabetes()
    model = DynamicRidge().fit(X, y)
    before = model.coef_
    with pytest.raises(ValueError, match="rows"):
        model.fit(in_blocks(X, 3), y[:-1])
    assert model.coef_ is before


@pytest.mark.parametrize("kind", [DynamicLogisticRegression, RobustLogisticRegression])
@pytest.mark.parametrize("labels", [["no", "yes"], ["low", "middle", "high"]])
def test_classifiers_predict_blocks_and_are_fitted_in_memory(kind, labels):
    X, y = diabetes()
    y = np.array(labels)[np.digitize(y, np.quantile(y, np.linspace(0, 1, len(labels) + 1)[1:-1]))]
    model = kind().fit(X, y)
    for question in ("decision_function", "predict_proba"):
        answer = getattr(model, question)(in_blocks(X, 3))
        assert isinstance(answer, da.Array)
        np.testing.assert_allclose(answer.compute(), getattr(model, question)(X), rtol=1e-9)
    np.testing.assert_array_equal(model.predict(in_blocks(X, 3)).compute(), model.predict(X))
    with pytest.raises(TypeError, match="fitted to rows in memory: pass a sample"):
        kind().fit(in_blocks(X, 3), in_blocks(y, 3))
