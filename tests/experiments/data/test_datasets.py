"""Files in both layouts are read alike, and a file that is not there is named with the place it belongs."""

from pathlib import Path

import numpy as np
import pytest

from experiments.data import (
    list_logits,
    list_regression,
    load_logits,
    load_regression,
    make_heteroscedastic,
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    rng = np.random.default_rng(0)
    (tmp_path / "logits").mkdir()
    (tmp_path / "regression").mkdir()
    whole = {"logits": rng.normal(size=(6, 3)).astype("f2"), "labels": np.arange(6, dtype="u1") % 3}
    np.savez(tmp_path / "logits" / "whole.npz", **whole, is_val=np.arange(6) < 3, features=rng.normal(size=(6, 2)))
    np.savez(tmp_path / "logits" / "bare.npz", **whole, is_val=np.arange(6) < 3)
    parts = {}
    for part, n, told in (("val", 4, 2), ("test", 5, 3)):
        parts |= {f"{part}_logits": rng.normal(size=(n, 3)), f"{part}_labels": np.arange(n) % 3}
        parts[f"{part}_features"] = 10 * n + np.arange(told, dtype="f2")[:, None]
    np.savez(tmp_path / "logits" / "parts.npz", **parts)
    np.savez(tmp_path / "logits" / "lacking.npz", logits=np.zeros((2, 2)))
    np.savez(tmp_path / "regression" / "line.npz", X=np.array([[1, np.nan]]), y=[2], test_index=[[0]])
    np.savez(tmp_path / "regression" / "pickled.npz", X=np.array([[None]], dtype=object), y=[0])
    return tmp_path


def test_every_row_has_features_or_none_has(folder: Path) -> None:
    whole, bare = load_logits("whole", folder), load_logits("bare", folder)
    assert (whole.logits.dtype, whole.labels.dtype, whole.features.dtype) == (np.float32, np.int64, np.float32)
    assert whole.calibration.sum() == 3
    assert whole.described.features.shape == (6, 2)
    assert bare.features is None
    assert bare.described is bare


def test_parts_are_joined_and_features_stay_with_their_rows(folder: Path) -> None:
    parts = load_logits("parts", folder)
    assert parts.logits.shape == (9, 3)
    assert parts.calibration.tolist() == [True] * 4 + [False] * 5
    assert parts.with_features.tolist() == [True] * 2 + [False] * 2 + [True] * 3 + [False] * 2
    assert parts.described.features[:, 0].tolist() == [40, 41, 50, 51, 52]
    assert parts.described.labels.tolist() == [0, 1, 0, 1, 2]
    test = parts.select(~parts.calibration)
    assert test.features[:, 0].tolist() == [50, 51, 52]
    assert test.with_features.tolist() == [True] * 3 + [False] * 2
    assert test.n_classes == 3


def test_regression_keeps_missing_values_and_splits(folder: Path) -> None:
    line = load_regression("line", folder)
    assert np.isnan(line.X[0, 1])
    assert (line.y.tolist(), line.test_index.tolist(), line.feature_names) == ([2.0], [[0]], ("x0", "x1"))


def test_the_environment_names_the_folder(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LIKELY_DATA", str(folder))
    assert list_logits() == ["bare", "lacking", "parts", "whole"]
    assert list_regression() == ["line", "pickled"]
    assert load_logits("bare").name == "bare"


def test_without_a_folder_nothing_is_listed_and_loading_says_what_to_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LIKELY_DATA", raising=False)
    assert list_logits() == list_regression() == []
    with pytest.raises(FileNotFoundError, match=r"set LIKELY_DATA to a folder that holds logits/net\.npz"):
        load_logits("net")


def test_a_missing_file_is_named_with_its_place(folder: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"regression/fried\.npz is missing.*there is line, pickled"):
        load_regression("fried", folder)
    with pytest.raises(FileNotFoundError, match="there is nothing"):
        load_logits("net", folder / "nowhere")


def test_a_file_of_another_layout_is_refused(folder: Path) -> None:
    with pytest.raises(ValueError, match=r"logits/lacking\.npz lacks the arrays labels, is_val; it has logits"):
        load_logits("lacking", folder)


def test_pickles_are_never_opened(folder: Path) -> None:
    with pytest.raises(ValueError, match="allow_pickle"):
        load_regression("pickled", folder)


def test_heteroscedastic_noise_has_the_scale_it_says() -> None:
    X, y, scale = make_heteroscedastic(20_000, 3, random_state=0)
    noise = (y - np.sin(2 * X[:, 0]) - X[:, 1] / 2) / scale
    assert noise.std() == pytest.approx(1, abs=0.02)
    assert np.array_equal(y, make_heteroscedastic(20_000, 3, random_state=0).y)
    with pytest.raises(ValueError, match="n_features"):
        make_heteroscedastic(10, 1)
