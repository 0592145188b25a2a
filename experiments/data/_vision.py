"""CIFAR-10 and SVHN: small colour pictures, their labels, and what else is known of each."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from experiments.data._folder import VARIABLE, folder
from experiments.data._sources import hint
from experiments.data._vision_files import Arrays, cifar_batches, sheets, svhn_matrix

KIND = "vision"
PARTS = ("train", "test")
READERS = {"cifar10": (sheets, cifar_batches), "svhn": (sheets, svhn_matrix)}
LAYOUTS = {
    "cifar10": "cifar10_PART_0.webp with cifar10_labels.npz, or the folder cifar-10-batches-py",
    "svhn": "svhn_PART_0.webp with svhn_labels.npz, or PART_32x32.mat",
}


@dataclass(frozen=True)
class Images:
    """Pictures as bytes (rows, height, width, channels), their labels, and further facts of each row.

    >>> import numpy as np
    >>> from experiments.data import Images
    >>> two = Images("two", np.zeros((2, 8, 8, 3), np.uint8), np.array([0, 1]))
    >>> two.size, len(two.select(np.array([True, False])).labels)
    ((8, 8, 3), 1)
    """

    name: str
    pixels: NDArray[np.uint8]
    labels: NDArray[np.int64]
    facts: Mapping[str, NDArray[Any]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_pixels(self.name, self.pixels)
        for what, values in {"labels": self.labels, **self.facts}.items():
            if len(values) != len(self.pixels):
                raise ValueError(f"{self.name} has {len(self.pixels)} images but {len(values)} {what}")
        if len(self.labels) and (self.labels.dtype.kind not in "iu" or self.labels.min() < 0):
            raise ValueError(f"the labels of {self.name} must be class numbers 0, 1, 2 …")

    @property
    def size(self) -> tuple[int, int, int]:
        """Height, width and channels."""
        height, width, channels = self.pixels.shape[1:]
        return height, width, channels

    @property
    def n_classes(self) -> int:
        return int(self.labels.max()) + 1

    def select(self, rows: NDArray[np.bool_] | NDArray[np.int64]) -> Images:
        """These rows only."""
        facts = {name: values[rows] for name, values in self.facts.items()}
        return replace(self, pixels=self.pixels[rows], labels=self.labels[rows], facts=facts)


def list_images(data: str | os.PathLike[str] | None = None) -> list[str]:
    """Which of the picture sets are in the data folder; none without a folder.

    >>> import tempfile
    >>> from experiments.data import list_images
    >>> with tempfile.TemporaryDirectory() as empty:
    ...     list_images(empty)
    []
    """
    if data is None and not os.environ.get(VARIABLE):
        return []
    return [name for name in READERS if any(find_images(name, part, data) is not None for part in PARTS)]


def load_images(name: str, part: str = "train", data: str | os.PathLike[str] | None = None) -> Images:
    """Read ``"cifar10"`` or ``"svhn"``, its ``"train"`` or ``"test"`` part, from ``data`` or ``LIKELY_DATA``.

    The files are looked for under ``vision/`` and then in the folder itself: lossless WebP sheets of 100 tiles a row
    with an npz of labels, or what the authors publish and torchvision downloads (``cifar-10-batches-py``,
    ``train_32x32.mat``). ``facts`` holds what else a folder of sheets knows: people's labels of CIFAR-10 (CIFAR-10N:
    ``"worst"``, ``"aggregate"`` …), and of SVHN the photograph a digit was cut from and the side of that cut in pixels.

    >>> import pathlib, tempfile
    >>> import numpy as np, scipy.io
    >>> from experiments.data import load_images
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     digits = {"X": np.zeros((32, 32, 3, 2), np.uint8), "y": np.array([[10], [7]])}
    ...     scipy.io.savemat(f"{folder}/train_32x32.mat", digits)
    ...     load_images("svhn", data=folder).labels
    array([0, 7])
    """
    if name not in READERS:
        raise ValueError(f"name must be one of {', '.join(READERS)}; got {name!r}")
    if part not in PARTS:
        raise ValueError(f"part must be 'train' or 'test', got {part!r}")
    wanted = LAYOUTS[name].replace("PART", part)
    try:
        found = find_images(name, part, data)
    except FileNotFoundError as error:
        raise FileNotFoundError(f"{error} that holds {wanted}") from None
    if found is None:
        there = folder(data)
        raise FileNotFoundError(f"neither {there / KIND} nor {there} holds {wanted}: put the files there{hint(name)}")
    arrays = found()
    pixels, labels = arrays.pop("pixels"), arrays.pop("labels")
    return Images(f"{name} {part}", pixels, labels.astype(np.int64), arrays)


def find_images(name: str, part: str, data: str | os.PathLike[str] | None) -> Arrays | None:
    """What reads the set, where its files are there."""
    root = folder(data)
    for place in (root / KIND, root):
        for reader in READERS[name]:
            if (found := reader(Path(place), name, part)) is not None:
                return found
    return None


def check_pixels(name: str, pixels: NDArray[Any]) -> None:
    if pixels.ndim != 4 or pixels.shape[-1] not in (1, 3):
        raise ValueError(f"the images of {name} must be (rows, height, width, 1 or 3), got the shape {pixels.shape}")
    if pixels.dtype == np.uint8:
        return
    if pixels.dtype.kind == "f" and (missing := int(np.size(pixels) - np.isfinite(pixels).sum())):
        raise ValueError(f"{missing} pixels of {name} are not finite: fill them, then round to bytes (uint8)")
    raise ValueError(f"the images of {name} must be bytes from 0 to 255 (uint8), got {pixels.dtype}: scale and round")
