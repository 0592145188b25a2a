"""Pictures come out alike from every layout they are published in, and what is wrong with a file is said."""

import pickle
import sys
from pathlib import Path

import numpy as np
import pytest
from scipy.io import savemat

from experiments.data import Images, list_images, load_images

RNG = np.random.default_rng(0)
PIXELS = RNG.integers(0, 256, (200, 32, 32, 3), dtype=np.uint8)
LABELS = RNG.integers(0, 10, 200)


def write_sheet(path: Path, pixels: np.ndarray) -> None:
    from PIL import Image

    tiles = pixels.reshape(-1, 100, 32, 32, 3).transpose(0, 2, 1, 3, 4)
    Image.fromarray(tiles.reshape(-1, 3200, 3)).save(path, lossless=True)


def write_batches(folder: Path, names: list[str], pixels: np.ndarray, labels: np.ndarray) -> None:
    place = folder / "cifar-10-batches-py"
    place.mkdir(exist_ok=True)
    rows = pixels.transpose(0, 3, 1, 2).reshape(len(pixels), -1)
    for name, part in zip(names, np.array_split(np.arange(len(pixels)), len(names)), strict=True):
        batch = {b"data": rows[part], b"labels": labels[part].tolist()}
        (place / name).write_bytes(pickle.dumps(batch, protocol=2))


@pytest.fixture
def sheets(tmp_path: Path) -> Path:
    place = tmp_path / "vision"
    place.mkdir()
    for number in range(2):
        write_sheet(place / f"cifar10_train_{number}.webp", PIXELS[100 * number :][:100])
    write_sheet(place / "svhn_test.webp", PIXELS)
    np.savez(place / "cifar10_labels.npz", train=np.r_[LABELS, LABELS].astype("u1"), test=LABELS[:0])
    people = dict.fromkeys(("clean", "aggregate", "worst", "random1", "random2", "random3"), np.r_[LABELS, LABELS])
    np.savez(place / "cifar10n_labels.npz", **people, cifar100_noisy=np.r_[LABELS, LABELS])
    np.savez(place / "svhn_labels.npz", test=LABELS[:150], test_side=np.arange(150), train_side=np.arange(9))
    return tmp_path


def test_sheets_are_cut_into_tiles_with_the_labels_of_their_rows(sheets: Path) -> None:
    train = load_images("cifar10", data=sheets)
    np.testing.assert_array_equal(train.pixels, PIXELS)
    np.testing.assert_array_equal(train.labels, LABELS)
    assert sorted(train.facts) == ["aggregate", "random1", "random2", "random3", "worst"]
    np.testing.assert_array_equal(train.facts["worst"], LABELS)
    # A sheet that is not full has fewer labels than tiles.
    digits = load_images("svhn", "test", data=sheets)
    np.testing.assert_array_equal(digits.pixels, PIXELS[:150])
    assert list(digits.facts) == ["side"]
    assert list_images(sheets) == ["cifar10", "svhn"]


def test_published_files_give_the_same_rows(tmp_path: Path) -> None:
    write_batches(tmp_path, [f"data_batch_{i}" for i in range(1, 6)], PIXELS, LABELS)
    write_batches(tmp_path, ["test_batch"], PIXELS[:7], LABELS[:7])
    savemat(
        tmp_path / "train_32x32.mat", {"X": PIXELS.transpose(1, 2, 3, 0), "y": np.where(LABELS, LABELS, 10)[:, None]}
    )
    for images in (load_images("cifar10", "train", tmp_path), load_images("svhn", "train", tmp_path)):
        np.testing.assert_array_equal(images.pixels, PIXELS)
        np.testing.assert_array_equal(images.labels, LABELS)
    assert len(load_images("cifar10", "test", tmp_path).labels) == 7
    assert list_images(tmp_path) == ["cifar10", "svhn"]


class Harm:
    def __reduce__(self):
        return (print, ("harm",))


def test_a_batch_that_would_run_code_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_batches(tmp_path, ["test_batch"], PIXELS[:7], LABELS[:7])
    (tmp_path / "cifar-10-batches-py" / "test_batch").write_bytes(pickle.dumps(Harm()))
    with pytest.raises(pickle.UnpicklingError, match=r"test_batch asks for builtins\.print"):
        load_images("cifar10", "test", tmp_path)
    assert not capsys.readouterr().out


def test_a_missing_folder_or_file_is_named_with_what_belongs_there(
    tmp_path: Path, sheets: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(FileNotFoundError, match=r"holds cifar10_test_0\.webp .* cifar-10-batches-py: put the files"):
        load_images("cifar10", "test", sheets)
    monkeypatch.delenv("LIKELY_DATA", raising=False)
    assert list_images() == []
    with pytest.raises(FileNotFoundError, match=r"set LIKELY_DATA to a folder that holds svhn_test_0\.webp"):
        load_images("svhn", "test")
    monkeypatch.setenv("LIKELY_DATA", str(sheets))
    assert len(load_images("svhn", "test").labels) == 150


def test_wrong_names_are_refused(sheets: Path) -> None:
    with pytest.raises(ValueError, match="one of cifar10, svhn; got 'mnist'"):
        load_images("mnist", data=sheets)
    with pytest.raises(ValueError, match="'train' or 'test', got 'val'"):
        load_images("svhn", "val", sheets)


def test_a_sheet_or_batch_of_another_size_is_refused(sheets: Path) -> None:
    from PIL import Image

    Image.new("RGB", (3200, 40)).save(sheets / "vision" / "svhn_test.webp", lossless=True)
    with pytest.raises(ValueError, match=r"svhn_test\.webp is 3200 × 40 pixels; a sheet has 100 tiles of 32 × 32"):
        load_images("svhn", "test", sheets)
    write_batches(sheets, ["test_batch"], PIXELS[:7, :16], LABELS[:7])
    with pytest.raises(ValueError, match=r"rows of the shape \(7, 1536\), not 3072 bytes"):
        load_images("cifar10", "test", sheets)


def test_without_pillow_a_sheet_says_what_to_install(sheets: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "PIL", None)
    with pytest.raises(ImportError, match="pip install pillow"):
        load_images("svhn", "test", sheets)


@pytest.mark.parametrize(
    ("pixels", "labels", "message"),
    [
        (PIXELS[:2].astype(float), LABELS[:2], "must be bytes from 0 to 255"),
        (np.full((2, 8, 8, 3), np.nan), LABELS[:2], "384 pixels of two are not finite"),
        (PIXELS[:2, :, :, 0], LABELS[:2], r"must be \(rows, height, width, 1 or 3\), got the shape \(2, 32, 32\)"),
        (PIXELS[:2].transpose(0, 3, 1, 2), LABELS[:2], r"got the shape \(2, 3, 32, 32\)"),
        (PIXELS[:2], LABELS[:3], "2 images but 3 labels"),
        (PIXELS[:2], np.array([0, -1]), "class numbers"),
        (PIXELS[:2], np.array([0.5, 1.0]), "class numbers"),
    ],
)
def test_images_are_bytes_with_a_label_each(pixels: np.ndarray, labels: np.ndarray, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Images("two", pixels, labels)


def test_rows_are_selected_with_their_facts() -> None:
    images = Images("two", PIXELS[:2], LABELS[:2], {"side": np.array([30, 60])})
    second = images.select(np.array([False, True]))
    assert second.facts["side"].tolist() == [60]
    np.testing.assert_array_equal(second.pixels, PIXELS[1:2])
    assert images.size == (32, 32, 3)
