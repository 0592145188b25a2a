"""A saved model comes back the same, without pickle; what cannot is refused in words."""

import copy
import io
import json
import zipfile
from dataclasses import replace

import numpy as np
import pandas as pd
import polars as pl
import pytest
import torch
from sklearn.ensemble import (
    ExtraTreesClassifier,
    ExtraTreesRegressor,
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
)
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import Ridge
from sklearn.model_selection import KFold

from likely._saving.codec import RecordReader, RecordWriter
from likely.tabular import LikelihoodClassifier, LikelihoodRegressor, _saved as trees
from likely.tabular._saved import CODEC
from likely.tabular.members import estimators, network

EVERY = ["linear", "kernel", "boosting", "shallow", "trees", "network"]
ROWS = 60


@pytest.fixture(scope="module", autouse=True)
def quick():
    """Few rounds and steps: these tests are about files, not fits."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(estimators.Growth, "on", lambda growth, rows: replace(growth, least=3, rounds=10))
        patch.setattr(network, "STEPS", 5)
        yield


def table(rows=ROWS, seed=0):
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "x": rng.normal(size=rows),
            "gaps": np.where(rng.random(rows) < 0.2, np.nan, rng.normal(size=rows)),
            "town": rng.choice(["a", "b", "c", None], rows),
            "many": rng.integers(0, 15, rows).astype(str),
            "flag": rng.random(rows) < 0.5,
            "when": pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 900, rows), unit="D"),
            "whole": pd.Categorical(rng.integers(0, 3, rows)),
            "half": pd.Categorical(rng.choice([0.5, 1.5, 2.5], rows), ordered=True),
        }
    )


def target(X, seed=0):
    return X["x"].to_numpy() + np.random.default_rng(seed).normal(size=len(X)) * np.where(X["flag"], 0.1, 1.0)


def fresh():
    """New rows, some with levels and gaps that training rows had not."""
    X = table(40, seed=1)
    X["town"] = X["town"].where(X.index > 5, "never met")
    X["x"] = X["x"].where(X.index % 7 > 0)
    X["many"] = X["many"].where(X.index % 5 > 0)
    return X


def again(model, tmp_path):
    path = tmp_path / "model.npz"
    model.save(path)
    return type(model).load(path)


def same(first, second):
    np.testing.assert_allclose(np.asarray(first), np.asarray(second), rtol=1e-12, atol=1e-12)


@pytest.fixture(scope="module")
def regressor():
    X = table()
    return LikelihoodRegressor(EVERY, cv=2, random_state=0).fit(X, target(X))


@pytest.fixture(scope="module")
def line():
    X = np.random.default_rng(0).normal(size=(ROWS, 2))
    return LikelihoodRegressor("linear", scale="global", cv=2, random_state=0).fit(X, X[:, 0])


@pytest.fixture
def file(line, tmp_path):
    path = tmp_path / "line.npz"
    line.save(path)
    return path


def test_a_regressor_of_all_kinds_of_members_comes_back(regressor, tmp_path):
    loaded, X = again(regressor, tmp_path), fresh()
    assert loaded.get_params() == regressor.get_params()
    for said, other in zip(loaded.predict(X, return_std=True), regressor.predict(X, return_std=True), strict=True):
        same(said, other)
    y = torch.as_tensor(target(X))
    same(loaded.predict_dist(X).log_prob(y), regressor.predict_dist(X).log_prob(y))
    same(loaded.predict_quantile(X, [0.1, 0.5]), regressor.predict_quantile(X, [0.1, 0.5]))
    for conformal in (False, True):
        same(loaded.predict_interval(X, conformal=conformal), regressor.predict_interval(X, conformal=conformal))
    for rows in (None, X):
        first, second = loaded.importances(rows, n_repeats=1), regressor.importances(rows, n_repeats=1)
        assert first.columns == second.columns == tuple(X.columns)
        same([first.mean, first.scale], [second.mean, second.scale])
    same(loaded.out_of_fold_, regressor.out_of_fold_)
    same(loaded.outlier_scores_, regressor.outlier_scores_)
    assert loaded.summary_ == regressor.summary_
    assert list(loaded.feature_names_in_) == list(X.columns)


def test_a_loaded_model_saves_the_same_file_again(regressor, tmp_path):
    loaded = again(regressor, tmp_path)
    loaded.save(tmp_path / "second.npz")
    assert (tmp_path / "second.npz").read_bytes() == (tmp_path / "model.npz").read_bytes()


def test_loading_draws_no_random_numbers(regressor, tmp_path):
    regressor.save(tmp_path / "model.npz")
    before = torch.get_rng_state()
    LikelihoodRegressor.load(tmp_path / "model.npz")
    assert torch.equal(before, torch.get_rng_state())


@pytest.mark.parametrize("labels", [["no", "yes"], [3, 5, 9], [False, True]])
def test_a_classifier_comes_back(labels, tmp_path):
    X = table()
    y = np.asarray(labels)[np.digitize(target(X), [-0.3, 0.6][: len(labels) - 1])]
    members = EVERY if len(labels) == 3 else ["linear", "boosting", "trees"]
    model = LikelihoodClassifier(members, cv=2, random_state=0).fit(X, y)
    loaded = again(model, tmp_path)
    same(loaded.predict_proba(fresh()), model.predict_proba(fresh()))
    assert (loaded.predict(fresh()) == model.predict(fresh())).all()
    assert loaded.classes_.dtype == model.classes_.dtype
    first, second = loaded.importances(n_repeats=1), model.importances(n_repeats=1)
    same([first.mean, first.scale], [second.mean, second.scale])


@pytest.mark.parametrize("likelihood", ["poisson", "negative_binomial"])
def test_counts_come_back(likelihood, tmp_path):
    X = table()
    y = np.random.default_rng(0).poisson(np.exp(X["x"]))
    model = LikelihoodRegressor(["linear", "trees"], likelihood=likelihood, cv=2, random_state=0).fit(X, y)
    loaded = again(model, tmp_path)
    same(loaded.predict(fresh()), model.predict(fresh()))
    same(loaded.predict_interval(fresh()), model.predict_interval(fresh()))


def test_arrays_come_back(tmp_path):
    X = np.random.default_rng(0).normal(size=(ROWS, 3))
    model = LikelihoodRegressor("linear", cv=KFold(2), random_state=0).fit(X, np.exp(X[:, 0]))
    loaded = again(model, tmp_path)
    assert loaded.cv is None  # a splitter is no plain value
    same(loaded.predict(X), model.predict(X))
    same(loaded.importances(n_repeats=1).mean, model.importances(n_repeats=1).mean)


def test_a_frame_of_polars_comes_back(tmp_path):
    X = table()
    towns = [None if town != town else town for town in X["town"]]
    X = pl.DataFrame({"x": X["x"].to_numpy(), "town": towns, "flag": X["flag"].tolist()})
    model = LikelihoodRegressor("linear", cv=2, random_state=0).fit(X, target(table()))
    loaded = again(model, tmp_path)
    same(loaded.predict(X), model.predict(X))
    same(loaded.importances(n_repeats=1).mean, model.importances(n_repeats=1).mean)


def written_and_read(value):
    """The value, as a file brings it back."""
    writer = RecordWriter(CODEC)
    text = json.dumps(writer.write(value), allow_nan=False)
    return RecordReader(CODEC, writer.arrays()).read(json.loads(text))


@pytest.mark.parametrize("classes", [1, 2, 4])
def test_forests_come_back(classes):
    rng = np.random.default_rng(0)
    x, new = rng.normal(size=(200, 3)).astype(np.float32), rng.normal(size=(3000, 3)).astype(np.float32)
    if classes == 1:
        forest = ExtraTreesRegressor(5, random_state=0).fit(x, x[:, 0] + rng.normal(size=200))
        assert (written_and_read(forest).predict(new) == forest.predict(new)).all()
    else:
        forest = ExtraTreesClassifier(5, min_samples_leaf=5, random_state=0).fit(x, rng.integers(0, classes, 200))
        assert (written_and_read(forest).predict_proba(new) == forest.predict_proba(new)).all()


@pytest.mark.parametrize("loss", ["squared_error", "poisson", "gamma", 2, 3])
def test_boosted_trees_come_back(loss):
    rng = np.random.default_rng(0)

    def rows(n, levels):
        x = rng.normal(size=(n, 4))
        x[:, 1], x[:, 3] = rng.integers(0, levels, n), rng.choice([2, 5, 70, 200], n)
        x[rng.random((n, 4)) < 0.1] = np.nan
        return x

    x, new = rows(300, 40), rows(3000, 60)
    y = np.exp(np.nan_to_num(x[:, 0]) + np.nan_to_num(x[:, 1]) % 3)
    options = {"categorical_features": [1, 3], "max_iter": 10, "min_samples_leaf": 3, "random_state": 0}
    if isinstance(loss, str):
        model = HistGradientBoostingRegressor(loss=loss, **options).fit(x, y)
        assert (written_and_read(model).predict(new) == model.predict(new)).all()
    else:
        labels = np.digitize(y, [1.0, 5.0][: loss - 1])
        model = HistGradientBoostingClassifier(**options).fit(x, labels)
        assert (written_and_read(model).predict_proba(new) == model.predict_proba(new)).all()
    nodes = np.concatenate([tree.nodes for turn in model._predictors for tree in turn])
    assert (nodes["is_categorical"] != 0).any()  # some splits are by category


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (["linear", Ridge()], "the member 'Ridge' cannot be saved without pickle: it is a Ridge.*joblib or skops"),
        (torch.nn.Linear(2, 1), "the member 'Linear' cannot be saved.*a module of your own.*state_dict"),
    ],
)
def test_a_member_that_cannot_be_saved_is_named_and_the_old_file_stays(model, message, tmp_path):
    X = np.random.default_rng(0).normal(size=(ROWS, 2))
    fitted = LikelihoodRegressor(model, scale="global", cv=2, random_state=0).fit(X, X[:, 0])
    path = tmp_path / "model.npz"
    path.write_text("old")
    with pytest.raises(TypeError, match=message):
        fitted.save(path)
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_levels_that_are_no_plain_values_are_refused(tmp_path):
    X = table()[["x"]]
    X["bin"] = pd.cut(X["x"], 3)
    model = LikelihoodRegressor("linear", scale="global", cv=2, random_state=0).fit(X, X["x"])
    with pytest.raises(TypeError, match=r"of the type Interval.*convert such columns"):
        model.save(tmp_path / "model.npz")


def test_boosted_trees_that_are_kept_in_another_way_are_refused(regressor, tmp_path, monkeypatch):
    monkeypatch.setitem(trees.LISTED, f"{trees.BOOSTING}.predictor", [])
    with pytest.raises(TypeError, match=r"the member 'boosting' cannot be saved.*in another way.*leave it out"):
        regressor.save(tmp_path / "model.npz")


def test_a_copy_that_would_predict_something_else_is_not_written(line, tmp_path, monkeypatch):
    array = RecordReader.array
    monkeypatch.setattr(RecordReader, "array", lambda reader, node: 1.01 * array(reader, node))
    with pytest.raises(RuntimeError, match="does not predict the same"):
        line.save(tmp_path / "model.npz")
    assert not list(tmp_path.iterdir())


def test_a_model_of_another_device_is_written_though_the_cpu_rounds_differently(line, tmp_path, monkeypatch):
    model = copy.copy(line).set_params(device="cuda")
    array = RecordReader.array
    monkeypatch.setattr(RecordReader, "array", lambda reader, node: (1 + 1e-6) * array(reader, node))
    model.save(tmp_path / "model.npz")
    monkeypatch.undo()
    loaded, rows = LikelihoodRegressor.load(tmp_path / "model.npz"), np.zeros((3, 2))
    same(loaded.predict(rows), line.predict(rows))
    assert loaded.device == "cuda"  # for another fit; predictions are made on the CPU


def test_an_estimator_that_is_not_fitted_is_refused(tmp_path):
    with pytest.raises(NotFittedError):
        LikelihoodRegressor().save(tmp_path / "model.npz")


def test_the_file_is_numpy_s_and_holds_no_pickles(file):
    with np.load(file, allow_pickle=False) as arrays:
        assert all(arrays[name].dtype.kind in "biufU" for name in arrays.files if name.startswith("array_"))


def test_the_other_class_is_named(file, tmp_path):
    with pytest.raises(ValueError, match=r"line.npz is not read: it holds a LikelihoodRegressor"):
        LikelihoodClassifier.load(file)
    with pytest.raises(FileNotFoundError, match="does not exist"):
        LikelihoodRegressor.load(tmp_path / "none.npz")


def rewritten(file, change):
    """The file with its header or an array changed."""
    with zipfile.ZipFile(file) as archive:
        content = {name: archive.read(name) for name in archive.namelist()}
    header = json.loads(content["header.json"])
    change(header, content)
    if "header.json" in content:
        content["header.json"] = json.dumps(header).encode()
    with zipfile.ZipFile(file, "w") as archive:
        for name, data in content.items():
            archive.writestr(name, data)


def pickled(header, content):
    stream = io.BytesIO()
    np.save(stream, np.array([{}], dtype=object), allow_pickle=True)
    content["array_0.npy"] = stream.getvalue()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda header, content: content.pop("header.json"), "not a model of likely"),
        (lambda header, content: content.pop("array_0.npy"), "lacks the array 'array_0'"),
        (pickled, "pickled objects"),
        (lambda header, content: header.update(format=2), "format 2, written by likely"),
        (lambda header, content: header.pop("model"), "damaged .*'model'"),
        (lambda header, content: header["model"].pop("_sample"), "damaged"),
        (lambda header, content: header["model"].update(colour="red"), "'colour' is neither an argument of Likelihood"),
        (lambda header, content: header["model"].pop("target_"), "damaged"),
        (lambda header, content: header["model"].update(predict=3), "'predict' is neither an argument"),
        (lambda header, content: header["model"].update(__class__=3), "'__class__' is neither an argument"),
        (lambda header, content: header["model"]["columns_"].update({"class": "os.system"}), "unknown class"),
        (lambda header, content: header["model"]["columns_"].update(more=1), "has the fields"),
        (lambda header, content: header["model"].update(columns_={"kind": "code"}), "unknown kind"),
        (lambda header, content: header["model"].update(columns_={"kind": "tuple"}), "damaged .KeyError: 'items'"),
        (lambda header, content: header["model"].update(columns_=7), "damaged"),
    ],
)
def test_a_file_of_another_content_is_refused(file, change, message):
    rewritten(file, change)
    with pytest.raises(ValueError, match=f"line.npz is not read: .*{message}"):
        LikelihoodRegressor.load(file)


def test_a_damaged_file_is_refused(file, line):
    whole = file.read_bytes()
    for damaged in (b"", b"some text", whole[: len(whole) // 2], whole[:-20]):
        file.write_bytes(damaged)
        with pytest.raises(ValueError, match=r"line.npz is not read"):
            LikelihoodRegressor.load(file)
    rows = np.random.default_rng(1).normal(size=(20, 2))
    for place in range(0, len(whole), len(whole) // 60):
        file.write_bytes(whole[:place] + bytes([whole[place] ^ 0x55]) + whole[place + 1 :])
        try:
            loaded = LikelihoodRegressor.load(file)
        except ValueError as error:
            assert "line.npz is not read" in str(error)  # noqa: PT017
        else:  # a byte that says nothing, such as that of a date
            same(loaded.predict(rows), line.predict(rows))


@pytest.mark.parametrize("field", ["left_child", "right_child", "feature"])
def test_trees_whose_nodes_lead_astray_are_refused(field):
    x = np.random.default_rng(0).normal(size=(50, 2))
    forest = ExtraTreesRegressor(2, random_state=0).fit(x, x[:, 0])
    for place in (-5, 10**6) if field == "feature" else (0, 10**6):
        spoiled = copy.deepcopy(forest)
        tree = spoiled.estimators_[1].tree_
        state = tree.__getstate__()
        state["nodes"][field] = np.where(state["nodes"]["left_child"] >= 0, place, -1)
        tree.__setstate__(state)
        with pytest.raises(ValueError, match="an index of a node is out of range"):
            written_and_read(spoiled)


@pytest.mark.parametrize("field", ["left", "right", "feature_idx", "bitset_idx"])
def test_boosted_trees_whose_nodes_lead_astray_are_refused(field):
    x = np.random.default_rng(0).integers(0, 9, size=(200, 2)).astype(float)
    model = HistGradientBoostingRegressor(categorical_features=[0, 1], max_iter=2).fit(x, x[:, 0] % 3)
    for place in (200, 10**6):
        spoiled = copy.deepcopy(model)
        spoiled._predictors[1][0].nodes[field] = place
        with pytest.raises(ValueError, match="out of range"):
            written_and_read(spoiled)


def test_objects_of_classes_that_are_not_listed_are_neither_written_nor_made():
    x = np.random.default_rng(0).normal(size=(50, 2))
    with pytest.raises(TypeError, match="in another way"):
        written_and_read(Ridge().fit(x, x[:, 0]))
    for module, name in (("os", "system"), ("sklearn.tree._tree", "DepthFirstTreeBuilder"), ("builtins", "eval")):
        with pytest.raises(ValueError, match="unknown class"):
            trees.PlainState(module, name, (), None).restored()
