"""Calibrators on tables in blocks: the answers of the same rows in memory, from rows that are read once."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import dask
import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
import torch
from scipy.special import softmax
from sklearn.base import clone
from sklearn.linear_model import LinearRegression, LogisticRegression

from likely._rows.sources import spooled
from likely.calibration import (
    AutoCalibrator,
    AutoScale,
    CalibratedClassifier,
    CalibratedRegressor,
    DeepScale,
    DeepTemperature,
    FeatureTemperature,
    GlobalScale,
    GlobalTemperature,
    IsotonicCalibration,
    IsotonicScale,
    LinearScale,
    LinearTemperature,
    PlattScaling,
    StructuredMatrixScaling,
    VectorScaling,
    _calibrator,
    _scale,
    compose,
)
from pairwise import together

SUMS = [
    GlobalTemperature(),
    LinearTemperature(),
    FeatureTemperature(),
    VectorScaling(),
    StructuredMatrixScaling(),
]
SCALES = [GlobalScale(), GlobalScale(likelihood="laplace"), LinearScale(), IsotonicScale()]


@pytest.fixture(autouse=True)
def one_thread() -> Any:
    with dask.config.set(scheduler="synchronous"):
        yield


def rows_of_logits(n: int = 600, classes: int = 4, columns: int = 5) -> tuple[Any, ...]:
    rng = np.random.default_rng(0)
    y, features = rng.integers(0, classes, n), rng.normal(size=(n, columns))
    noise = 2 * np.exp(0.5 * features[:, :1])
    logits = 3 * np.eye(classes)[y] + noise * rng.normal(size=(n, classes)) + np.r_[2, np.zeros(classes - 1)]
    return logits, y, features, rng.integers(0, 3, n).astype(float)


def forecasts(n: int = 3000) -> tuple[Any, ...]:
    rng = np.random.default_rng(0)
    features, mean = rng.normal(size=(n, 3)), rng.normal(size=n)
    scale = np.exp(0.3 * features[:, 1])
    return mean, scale, mean + scale * np.exp(0.4 * features[:, 0]) * rng.standard_t(4, size=n), features


def cut(array: Any, blocks: int) -> Any:
    return da.from_array(array, chunks=(-(-len(array) // blocks), *array.shape[1:]))


def frame_of(logits: Any, y: Any, features: Any, weight: Any) -> pd.DataFrame:
    frame = pd.DataFrame(logits, columns=[f"z{k}" for k in range(logits.shape[1])])
    frame.insert(1, "label", y)
    return frame.assign(**{f"x{k}": features[:, k] for k in range(features.shape[1])}, times=weight)


def folder_of(frame: pd.DataFrame, path: Path, pieces: int) -> str:
    for number, rows in enumerate(np.array_split(np.arange(len(frame)), pieces)):
        frame.iloc[rows].to_parquet(path / f"part{number:02}.parquet")
    return str(path)


@together("blocks", [1, 3, 17])
@pytest.mark.parametrize("calibrator", SUMS, ids=str)
def test_logits_in_blocks_are_calibrated_as_in_memory(calibrator: Any, blocks: int) -> None:
    whole = rows_of_logits()
    logits, _, features, _ = whole
    parts = [cut(array, blocks) for array in whole]
    expected = calibrator.fit(*whole).transform(logits, features)
    fitted = calibrator.fit(*parts)
    np.testing.assert_allclose(fitted.transform(logits, features), expected, rtol=1e-6, atol=1e-7)
    answers = fitted.predict_proba(parts[0], parts[2])
    assert isinstance(answers, da.Array)
    assert answers.chunks[0] == parts[0].chunks[0]
    np.testing.assert_allclose(answers.compute(), softmax(expected, axis=1), atol=1e-7)


@together("blocks", [1, 3, 17])
@pytest.mark.parametrize("calibrator", SCALES, ids=str)
def test_forecasts_in_blocks_are_scaled_as_in_memory(calibrator: Any, blocks: int) -> None:
    mean, scale, y, features = forecasts()
    parts = [cut(array, blocks) for array in (mean, scale, y, features)]
    for with_scale in (True, False) if blocks == 3 else (True,):
        own, own_parts = (scale, parts[1]) if with_scale else (None, None)
        expected = calibrator.fit(mean, own, y, features).predict_interval(mean, own, features)
        fitted = calibrator.fit(parts[0], own_parts, parts[2], parts[3])
        found = fitted.predict_interval(parts[0], own_parts, parts[3])
        assert all(isinstance(end, da.Array) for end in found)
        np.testing.assert_allclose(np.stack(dask.compute(*found)), np.stack(expected), rtol=1e-6, atol=1e-7)
        scales = fitted.predict_scale(mean=parts[0], scale=own_parts, features=parts[3])
        np.testing.assert_allclose(scales.compute(), fitted.predict_scale(mean, own, features), rtol=1e-12)


def test_a_scale_reads_its_own_forecast_where_there_are_no_features() -> None:
    mean, scale, y, _ = forecasts()
    expected = LinearScale().fit(mean, scale, y)
    found = LinearScale().fit(cut(mean, 5), cut(scale, 5), cut(y, 5))
    np.testing.assert_allclose(found.predict_scale(mean, scale), expected.predict_scale(mean, scale), rtol=1e-7)


@pytest.mark.parametrize("kind", ["parquet", "dask frame"])
def test_tables_with_named_columns(kind: str, tmp_path: Path) -> None:
    whole = rows_of_logits()
    frame, names = frame_of(*whole), [f"x{k}" for k in range(5)]
    table = folder_of(frame, tmp_path, 4) if kind == "parquet" else dd.from_pandas(frame, npartitions=4)
    expected = FeatureTemperature().fit(*whole)
    found = FeatureTemperature().fit(table, "label", features=names, sample_weight="times")
    np.testing.assert_allclose(found.solution_.coef, expected.solution_.coef, rtol=1e-6)
    # Labels and weights are still in the table, and are no logits.
    answers = found.predict(table, features=names)
    assert isinstance(answers, np.ndarray if kind == "parquet" else dd.Series)
    np.testing.assert_array_equal(np.asarray(answers), expected.predict(whole[0], whole[2]))
    temperatures = np.asarray(found.temperature(table, features=names))
    np.testing.assert_allclose(temperatures, expected.temperature(whole[0], whole[2]), rtol=1e-6)


def test_a_table_of_forecasts_names_all_but_the_mean(tmp_path: Path) -> None:
    mean, scale, y, features = forecasts(500)
    frame = pd.DataFrame({"m": mean, "s": scale, "y": y, "x0": features[:, 0], "x1": features[:, 1]})
    path = folder_of(frame, tmp_path, 3)
    found = LinearScale().fit(path, "s", "y", features=["x0", "x1"])
    expected = LinearScale().fit(mean, scale, y, features[:, :2])
    np.testing.assert_allclose(
        found.predict_scale(path, "s", features=["x0", "x1"]),
        expected.predict_scale(mean, scale, features[:, :2]),
        rtol=1e-6,
    )
    with pytest.raises(ValueError, match=r"one column left, the mean, and has 3"):
        GlobalScale().fit(path, "s", "y")


@pytest.mark.parametrize("calibrator", [PlattScaling(), IsotonicCalibration()], ids=str)
def test_curves_are_fitted_to_rows_that_can_be_kept(calibrator: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    logits, y, features, weight = rows_of_logits(5000)
    parts = [cut(each, 7) for each in (logits, y, features, weight)]
    expected = calibrator.fit(logits, y, features, weight).predict_proba(logits)
    np.testing.assert_allclose(calibrator.fit(*parts).predict_proba(logits), expected, atol=1e-9)
    monkeypatch.setattr(_calibrator, "KEPT_NUMBERS", 10_000)
    seen = np.flatnonzero(weight)[::2]  # of the rows of positive weight, spread evenly
    expected = calibrator.fit(logits[seen], y[seen], sample_weight=weight[seen]).predict_proba(logits)
    np.testing.assert_allclose(calibrator.fit(*parts).predict_proba(logits), expected, atol=1e-9)


@pytest.mark.parametrize("kept", [2**22, 500])
def test_chains_and_choices(kept: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """With rows that can be kept as in memory; with more, steps are fitted to answers as they are, as in memory."""
    monkeypatch.setattr(_calibrator, "KEPT_NUMBERS", kept)
    logits, y, features, weight = rows_of_logits()
    parts = [cut(array, 3) for array in (logits, y, features, weight)]
    candidates = {"GS": GlobalTemperature(), "VS": VectorScaling()}
    for calibrator in (compose(VectorScaling(), LinearTemperature()), AutoCalibrator(candidates, cv=3)):
        expected = calibrator.fit(logits, y, features, weight).predict_proba(logits, features)
        found = calibrator.fit(*parts).predict_proba(parts[0], parts[2])
        np.testing.assert_allclose(found.compute(), expected, atol=1e-6)


@pytest.mark.parametrize("kept", [2**22, 3000])
def test_chains_and_choices_of_scales(kept: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_scale, "KEPT_NUMBERS", kept)
    mean, scale, y, features = forecasts()
    parts = [cut(array, 3) for array in (mean, scale, y, features)]
    folds = 5 if kept > 3000 else None
    for last in (IsotonicScale(), LinearScale(penalty=1.0)):
        expected = compose(GlobalScale(), last, cv=folds).fit(mean, scale, y, features)
        found = compose(GlobalScale(), last).fit(*parts)
        scales = [pipeline.predict_scale(mean, scale, features) for pipeline in (found, expected)]
        if kept > 3000 or isinstance(last, LinearScale):
            np.testing.assert_allclose(*scales, rtol=1e-6)
        else:  # tails are fitted to a sample of 500 rows, the map after them to all
            losses = [-p.distribution(mean, scale, features).log_prob(torch.as_tensor(y)) for p in (found, expected)]
            assert float(losses[0].mean()) == pytest.approx(float(losses[1].mean()), abs=5e-3)
        in_blocks = found.predict_scale(parts[0], parts[1], parts[3]).compute()
        np.testing.assert_allclose(in_blocks, scales[0], rtol=1e-6)
    few = {"global": GlobalScale(), "isotonic": IsotonicScale()}
    chosen = AutoScale(candidates=few, cv=3).fit(*parts)
    assert chosen.name_ == AutoScale(candidates=few, cv=3).fit(mean, scale, y, features).name_


def test_small_networks_train_on_rows_spread_over_all() -> None:
    logits, y, features, weight = rows_of_logits(300)
    parts = [cut(array, 3) for array in (logits, y, features, weight)]
    network = DeepTemperature(max_iter=10)
    expected = network.fit(logits, y, features, weight).temperature(logits, features)
    np.testing.assert_allclose(network.fit(*parts).temperature(logits, features), expected, rtol=1e-5)
    mean, scale, target, x = forecasts(300)
    deep = DeepScale(max_iter=10)
    expected = deep.fit(mean, scale, target, x).predict_scale(mean, scale, x)
    found = deep.fit(*(cut(array, 3) for array in (mean, scale, target, x)))
    np.testing.assert_allclose(found.predict_scale(mean, scale, x), expected, rtol=1e-5)


@pytest.mark.parametrize("scaled", [1.0, 0.37])
def test_weights_have_the_one_rule(scaled: float) -> None:
    logits, y, _, weight = rows_of_logits()
    for given in (scaled * weight, 2.0, 0.5):
        expected = VectorScaling().fit(logits, y, sample_weight=given)
        part = cut(given, 3) if np.ndim(given) else given
        found = VectorScaling().fit(cut(logits, 3), cut(y, 3), sample_weight=part)
        np.testing.assert_allclose(found.bias_, expected.bias_, atol=1e-7)
    with pytest.warns(UserWarning, match="only its ratios are used"):
        GlobalTemperature().fit(cut(logits, 3), cut(y, 3), sample_weight=cut(1e-3 * weight, 3))


def test_blocks_without_rows_and_probabilities() -> None:
    logits, y, _, weight = rows_of_logits()
    weight[:200] = 0.0  # the first of three blocks
    frame = dd.from_pandas(frame_of(*rows_of_logits()).assign(times=weight), npartitions=3)
    nothing = frame[frame["label"] < 0]
    both = dd.concat([nothing, frame])
    columns = ["z0", "z1", "z2", "z3"]
    found = GlobalTemperature().fit(both[columns], both["label"], sample_weight=both["times"])
    expected = GlobalTemperature().fit(logits, y, sample_weight=weight)
    assert found.temperature_ == pytest.approx(expected.temperature_, rel=1e-9)
    assert len(found.predict_proba(both[columns]).compute()) == len(y)
    shares = softmax(logits, axis=1)
    from_shares = VectorScaling(inputs="probabilities")
    expected_shares = from_shares.fit(shares, y).predict_proba(shares)
    answers = from_shares.fit(cut(shares, 3), cut(y, 3)).predict_proba(cut(shares, 3))
    np.testing.assert_allclose(answers.compute(), expected_shares, atol=1e-9)


def test_half_precision_stays_narrow_and_answers_are_single() -> None:
    logits, y, _, _ = rows_of_logits()
    half = logits.astype(np.float16)
    found = GlobalTemperature().fit(cut(half, 3), cut(y, 3))
    assert found.temperature_ == pytest.approx(GlobalTemperature().fit(half, y).temperature_, rel=1e-9)
    assert found.transform(cut(half, 3)).dtype == np.float32
    assert found.predict(cut(half, 3)).dtype == np.int64


class TestRefusals:
    logits, y, features, _ = rows_of_logits()

    def test_a_bad_row_is_named(self) -> None:
        bad = self.logits.copy()
        bad[431, 2] = np.nan
        with pytest.raises(ValueError, match=r"in row 431 \(counted from 0\)"):
            GlobalTemperature().fit(cut(bad, 3), cut(self.y, 3))

    def test_labels_features_and_targets_are_looked_at(self) -> None:
        z = cut(self.logits, 3)
        with pytest.raises(ValueError, match="class numbers"):
            GlobalTemperature().fit(z, cut(self.y + 0.5, 3))
        with pytest.raises(ValueError, match="y holds classes 0 to 13"):
            GlobalTemperature().fit(z, cut(np.where(self.y == 3, 13, self.y), 3))
        with pytest.raises(ValueError, match="features hold NaN"):
            FeatureTemperature().fit(z, cut(self.y, 3), cut(self.features * np.inf, 3))
        with pytest.raises(ValueError, match="needs features="):
            FeatureTemperature().fit(z, cut(self.y, 3))
        with pytest.raises(ValueError, match=r"≥ 0 in every row"):
            GlobalTemperature().fit(z, cut(self.y, 3), sample_weight=cut(-np.ones(len(self.y)), 3))
        with pytest.raises(ValueError, match="scale must be positive"):
            GlobalScale().fit(cut(np.zeros(9), 3), cut(np.zeros(9), 3), cut(np.ones(9), 3))
        with pytest.raises(ValueError, match="the table has 600 rows, but its target or weights have 599"):
            GlobalTemperature().fit(z, self.y[:-1])

    def test_names_are_of_columns(self, tmp_path: Path) -> None:
        path = folder_of(frame_of(*rows_of_logits()), tmp_path, 2)
        with pytest.raises(ValueError, match=r"y='truth': there is no column 'truth': there are z0, label"):
            GlobalTemperature().fit(path, "truth")
        with pytest.raises(ValueError, match="is an array, without names"):
            GlobalTemperature().fit(cut(self.logits, 3), "label")
        with pytest.raises(ValueError, match="y must hold one label per row"):
            GlobalTemperature().fit(path, None)

    def test_a_failed_fit_leaves_the_earlier_one(self) -> None:
        fitted = GlobalTemperature().fit(self.logits, self.y)
        before = dict(fitted.__dict__)
        with pytest.raises(ValueError, match="class numbers"):
            fitted.fit(cut(self.logits, 3), cut(self.y + 0.5, 3))
        assert fitted.__dict__ == before

    def test_distributions_and_other_classes(self) -> None:
        mean, scale, y, _ = forecasts(90)
        fitted = GlobalScale().fit(mean, scale, y)
        with pytest.raises(ValueError, match="call predict_scale or predict_interval"):
            fitted.distribution(cut(mean, 3), cut(scale, 3))
        calibrated = GlobalTemperature().fit(self.logits, self.y)
        with pytest.raises(ValueError, match="logits have 3 classes, the calibrator was fitted on 4"):
            calibrated.transform(cut(self.logits[:, :3], 3)).compute()

    def test_words_are_no_labels(self, tmp_path: Path) -> None:
        frame = frame_of(*rows_of_logits()).assign(label="word")
        with pytest.raises(ValueError, match=r"y must hold numbers, and for classes their numbers 0, 1, …"):
            GlobalTemperature().fit(folder_of(frame, tmp_path, 2), "label")


def test_rows_are_read_once_into_files_that_are_gone_afterwards(tmp_path: Path, monkeypatch: Any) -> None:
    logits, y, features, _ = rows_of_logits(12_000, 3, 2)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    read: list[int] = []

    def counting(block: Any) -> Any:
        read.append(len(block))
        return block

    for calibrator in (GlobalTemperature(), FeatureTemperature(), StructuredMatrixScaling()):
        read.clear()
        blocks = cut(logits, 3).map_blocks(counting, dtype=logits.dtype, meta=logits[:0])
        found = clone(calibrator).fit(blocks, cut(y, 3), cut(features, 3))
        assert sum(read) == len(logits)
        expected = clone(calibrator).fit(logits, y, features)
        assert np.array_equal(found.transform(logits, features), expected.transform(logits, features))
        assert not list(tmp_path.iterdir())


def test_a_table_is_mapped_and_not_in_memory() -> None:
    logits, y, _, weight = rows_of_logits()
    table = spooled("logits", cut(logits.astype(np.float32), 3), y=cut(y, 3), sample_weight=weight, features=None)
    found, labels, _, features = table.arguments
    assert table.mapped
    assert isinstance(found, np.memmap)
    assert found.dtype == np.float32
    np.testing.assert_array_equal(found, logits[weight > 0].astype(np.float32))
    np.testing.assert_array_equal(labels, y[weight > 0])
    assert features is None
    assert spooled("logits", logits, y=y).arguments == (logits, y)


def test_estimators_are_calibrated_in_memory() -> None:
    X = np.arange(20.0)[:, None]
    for kind, estimator in ((CalibratedClassifier, LogisticRegression()), (CalibratedRegressor, LinearRegression())):
        with pytest.raises(TypeError, match="give a calibrator"):
            kind(estimator).fit(da.from_array(X, chunks=(5, 1)), X[:, 0] > 5)
