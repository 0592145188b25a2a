"""An interrupted or doubled download leaves no half file, and a damaged one is refused by its name."""

import json
import lzma
import os
import pickle
import tarfile
import threading
import zipfile
from pathlib import Path

import numpy as np
import pytest

from experiments.data import _convert, _download, _fetch, fetch, load_faces, load_images, load_outliers
from experiments.data._convert import matlab, unpack
from experiments.data._download import download
from experiments.data._sources import SOURCES, File, Source

CONTENT = bytes(range(256)) * 40


@pytest.fixture
def served(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Every address gives the same content; the list says which were asked for."""
    asked: list[str] = []

    def append(url: str, partial: Path) -> None:
        asked.append(url)
        with partial.open("ab") as target:
            for start in range(0, len(CONTENT), 256):
                target.write(CONTENT[start : start + 256])
                target.flush()

    monkeypatch.setattr(_download, "_append", append)
    return asked


@pytest.mark.parametrize("spoil", [lambda b: b[: len(b) // 2], lambda b: b"", lambda b: b"\x80\x04cos\nsystem\n"])
def test_an_npz_that_is_damaged_is_named(spoil, tmp_path: Path) -> None:
    path = tmp_path / "odds" / "wine.npz"
    path.parent.mkdir()
    np.savez(path, X=np.zeros((50, 3)), y=np.zeros(50))
    path.write_bytes(spoil(path.read_bytes()))
    with pytest.raises(ValueError, match=r"odds/wine\.npz cannot be read \(.*: remove it") as refused:
        load_outliers("wine", tmp_path)
    assert "\n" not in str(refused.value)


def test_pictures_that_are_damaged_are_named(tmp_path: Path) -> None:
    (tmp_path / "test_32x32.mat").write_bytes(b"MATLAB 5.0 MAT-file".ljust(200))
    with pytest.raises(ValueError, match=r"test_32x32\.mat cannot be read"):
        load_images("svhn", "test", tmp_path)
    batch = tmp_path / "cifar-10-batches-py" / "test_batch"
    batch.parent.mkdir()
    whole = pickle.dumps({b"data": np.zeros((2, 3072), np.uint8), b"labels": [0, 1]})
    for content in (whole[: len(whole) // 2], b"", pickle.dumps([1]), pickle.dumps({b"data": 1})):
        batch.write_bytes(content)
        with pytest.raises(ValueError, match="test_batch cannot be read"):
            load_images("cifar10", "test", tmp_path)
    (tmp_path / "celeba_10k_jpeg.xz").write_bytes(lzma.compress(b"x" * 1000)[:-20])
    np.savez(tmp_path / "celeba_10k_index.npz", length=np.array([1000]), number=np.array([1]))
    with pytest.raises(ValueError, match=r"celeba_10k_jpeg\.xz cannot be read"):
        load_faces("train", tmp_path)
    (tmp_path / "celeba_10k_index.npz").write_bytes(b"PK\x03\x04")
    with pytest.raises(ValueError, match=r"celeba_10k_index\.npz cannot be read"):
        load_faces("train", tmp_path)


def test_a_download_that_cannot_be_converted_is_named_and_leaves_no_set(
    served: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = Source(("odds/bad.npz",), "cite them", (File("bad.mat", ("https://a/bad.mat",)),), arrays=matlab)
    monkeypatch.setitem(SOURCES, "odds/bad", source)
    with pytest.raises(ValueError, match=r"bad\.mat cannot be read"):
        fetch("odds/bad", tmp_path)
    assert not (tmp_path / "odds").exists()


def test_an_interrupted_conversion_leaves_no_half_set(
    served: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    arrays = {"X": np.zeros((4, 2)), "y": np.zeros(4)}
    source = Source(("odds/few.npz",), "cite", (File("few.mat", ("https://a/few.mat",)),), arrays=lambda _: arrays)
    monkeypatch.setitem(SOURCES, "odds/few", Source(**vars(source) | {"shape": (4, 2), "mean": 0.0}))

    def interrupted(target, **_: object) -> None:
        target.write(b"half")
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(_fetch.np, "savez_compressed", interrupted)
        with pytest.raises(KeyboardInterrupt):
            fetch("odds/few", tmp_path)
    assert os.listdir(tmp_path / "odds") == []
    assert load_outliers("few", fetch("odds/few", tmp_path)).X.shape == (4, 2)
    assert len(served) == 1


def test_two_who_fetch_the_same_set_do_not_mix_it(
    served: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = Source(("vision/set.bin",), "cite", (File("set.bin", ("https://a/set.bin",)),))
    monkeypatch.setitem(SOURCES, "set", source)
    threads = [threading.Thread(target=fetch, args=("set", tmp_path)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(served) == 1
    assert (tmp_path / "vision" / "set.bin").read_bytes() == CONTENT
    assert json.loads((tmp_path / "downloads" / "checksums.json").read_text()).keys() == {"set.bin"}


def test_damaged_pins_are_named_and_cost_no_download(served: list[str], tmp_path: Path) -> None:
    (tmp_path / "checksums.json").write_text('{"set.b')
    file = File("set.bin", ("https://a/set.bin",))
    with pytest.raises(ValueError, match=r"checksums\.json is damaged .*: remove it"):
        download(file, tmp_path)
    assert (tmp_path / "set.bin.partial").read_bytes() == CONTENT
    (tmp_path / "checksums.json").write_text("{}")


def test_a_pinned_file_is_checked_in_a_folder_that_is_not_written_to(
    served: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = File("set.bin", ("https://a/set.bin",))
    download(file, tmp_path)
    monkeypatch.setattr(_download, "replacing", lambda _: pytest.fail("nothing is new"))
    assert download(file, tmp_path).read_bytes() == CONTENT


@pytest.mark.parametrize("kind", ["zip", "tar.gz"])
def test_an_archive_that_is_damaged_leaves_nothing(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, out = tmp_path / f"set.{kind}", tmp_path / "out"
    (tmp_path / "one").write_bytes(os.urandom(5000))
    if kind == "zip":
        with zipfile.ZipFile(path, "w") as archive:
            archive.write(tmp_path / "one", "one")
        monkeypatch.setattr(_convert.zipfile.ZipFile, "extractall", _half)
    else:
        with tarfile.open(path, "w:gz") as archive:
            archive.add(tmp_path / "one", "one")
        path.write_bytes(path.read_bytes()[:3000])
    with pytest.raises((EOFError, OSError, KeyboardInterrupt, tarfile.ReadError)):
        unpack(path, out)
    assert os.listdir(out) == []


def _half(_: zipfile.ZipFile, folder: Path) -> None:
    (folder / "one").write_text("half")
    raise KeyboardInterrupt
