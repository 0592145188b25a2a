"""Readers of the files that picture sets come in. Each returns what will read them, or None where they are not."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from itertools import count, takewhile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from experiments.data._folder import RunsCode, need, read_npz, refusing

SIDE, ACROSS = 32, 100  # pixels of a tile, tiles in a row of a sheet
PEOPLE = ("aggregate", "worst", "random1", "random2", "random3")  # the label sets of CIFAR-10N
Arrays = Callable[[], dict[str, NDArray[Any]]]


def sheets(place: Path, name: str, part: str) -> Arrays | None:
    """NAME_PART.webp, or NAME_PART_0.webp and its followers, with NAME_labels.npz and perhaps NAMEn_labels.npz."""
    single, labels = place / f"{name}_{part}.webp", place / f"{name}_labels.npz"
    numbered = takewhile(Path.is_file, (place / f"{name}_{part}_{i}.webp" for i in count()))
    files = [single] if single.is_file() else list(numbered)
    if not files or not labels.is_file():
        return None

    def read() -> dict[str, NDArray[Any]]:
        stored = read_npz(labels)
        need(stored, (part,), str(labels.with_suffix("")))
        facts = {key.removeprefix(f"{part}_"): value for key, value in stored.items() if key.startswith(f"{part}_")}
        people = place / f"{name}n_labels.npz"
        if part == "train" and people.is_file():
            stored_by_people = read_npz(people)
            need(stored_by_people, PEOPLE, str(people.with_suffix("")))
            facts |= {key: stored_by_people[key] for key in PEOPLE}
        pixels = np.concatenate([read_sheet(path) for path in files])[: len(stored[part])]
        # The last sheets may be missing: rows are numbered from the front.
        found = {"labels": stored[part], **facts}
        return {"pixels": pixels, **{key: value[: len(pixels)] for key, value in found.items()}}

    return read


def read_sheet(path: Path) -> NDArray[np.uint8]:
    """The tiles of one sheet, row by row."""
    try:
        from PIL import Image
    except ImportError:
        raise ImportError("picture sheets are read by Pillow: pip install pillow, or 'likely[plots]'") from None

    with refusing(path), Image.open(path) as image:
        sheet = np.asarray(image.convert("RGB"))
    height, width, _ = sheet.shape
    if height % SIDE or width != SIDE * ACROSS:
        raise ValueError(
            f"{path} is {width} × {height} pixels; a sheet has {ACROSS} tiles of {SIDE} × {SIDE} in a row, so it is "
            f"{SIDE * ACROSS} wide and a multiple of {SIDE} high"
        )
    tiles = sheet.reshape(height // SIDE, SIDE, ACROSS, SIDE, 3).transpose(0, 2, 1, 3, 4)
    return tiles.reshape(-1, SIDE, SIDE, 3)


def cifar_batches(place: Path, name: str, part: str) -> Arrays | None:
    """The folder of the Python version of CIFAR-10, as its authors and torchvision name it."""
    names = [f"data_batch_{i}" for i in range(1, 6)] if part == "train" else ["test_batch"]
    files = [place / "cifar-10-batches-py" / one for one in names]
    if not all(path.is_file() for path in files):
        return None

    def read() -> dict[str, NDArray[Any]]:
        batches = [_Plain(path).read() for path in files]
        rows = np.concatenate([np.asarray(batch[b"data"]) for batch in batches])
        if rows.ndim != 2 or rows.shape[1] != 3 * SIDE * SIDE:
            raise ValueError(
                f"{files[0].parent} holds rows of the shape {rows.shape}, not {3 * SIDE * SIDE} bytes each"
            )
        pixels = np.ascontiguousarray(rows.reshape(-1, 3, SIDE, SIDE).transpose(0, 2, 3, 1))
        return {"pixels": pixels, "labels": np.concatenate([np.asarray(batch[b"labels"]) for batch in batches])}

    return read


def svhn_matrix(place: Path, name: str, part: str) -> Arrays | None:
    """The cropped digits as their authors publish them, where zero has the label ten."""
    path = place / f"{part}_32x32.mat"
    if not path.is_file():
        return None

    def read() -> dict[str, NDArray[Any]]:
        from scipy.io import loadmat

        with refusing(path):
            stored = loadmat(path)
        need(stored, ("X", "y"), str(path))
        return {"pixels": np.ascontiguousarray(stored["X"].transpose(3, 0, 1, 2)), "labels": stored["y"].ravel() % 10}

    return read


class _Plain(pickle.Unpickler):
    """CIFAR-10 is published as pickles, which may run any code: this one builds arrays and nothing else."""

    allowed = frozenset(
        {("numpy.core.multiarray", "_reconstruct"), ("numpy._core.multiarray", "_reconstruct")}
        | {("numpy", "ndarray"), ("numpy", "dtype"), ("_codecs", "encode")}
    )

    def __init__(self, path: Path) -> None:
        self.path = path
        self._bytes = path.open("rb")
        super().__init__(self._bytes, encoding="bytes")

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in self.allowed:
            raise RunsCode(f"{self.path} asks for {module}.{name}: it is no CIFAR-10 batch, do not open it")
        return super().find_class(module.replace("numpy.core", "numpy._core"), name)

    def read(self) -> dict[bytes, Any]:
        with refusing(self.path), self._bytes:
            batch: dict[bytes, Any] = self.load()
            if not {b"data", b"labels"} <= set(batch):
                raise ValueError("it lacks data or labels")
        return batch
