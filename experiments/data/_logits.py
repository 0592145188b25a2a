"""Saved outputs of trained classifiers."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from experiments.data._folder import names, need, read

KIND = "logits"


@dataclass(frozen=True)
class Logits:
    """What a classifier said of rows it was not trained on, and what they were.

    ``calibration`` marks the rows the file sets aside for fitting a calibrator. ``features`` are the input of the
    network's last layer; where a file keeps them for some rows only, they are those of the rows ``with_features``.

    >>> import numpy as np
    >>> from experiments.data import Logits
    >>> half = np.array([True, False])
    >>> two = Logits("two", np.zeros((2, 3), np.float32), np.array([0, 2]), half)
    >>> two.n_classes, len(two.select(half).labels)
    (3, 1)
    """

    name: str
    logits: NDArray[np.float32]
    labels: NDArray[np.int64]
    calibration: NDArray[np.bool_]
    features: NDArray[np.float32] | None = None
    with_features: NDArray[np.bool_] | None = None

    @property
    def n_classes(self) -> int:
        return int(self.logits.shape[1])

    @property
    def described(self) -> Logits:
        """The rows that have features: all of them where there are none, so that methods see the same rows."""
        return self if self.with_features is None else self.select(self.with_features)

    def select(self, rows: NDArray[np.bool_]) -> Logits:
        """These rows only."""
        features, known = self.features, self.with_features
        if features is not None and known is not None:
            features = features[rows[known]]
            known = known[rows]
        return replace(
            self,
            logits=self.logits[rows],
            labels=self.labels[rows],
            calibration=self.calibration[rows],
            features=features,
            with_features=known,
        )


def list_logits(data: str | os.PathLike[str] | None = None) -> list[str]:
    """Names of the outputs in the data folder; none without a folder.

    >>> import tempfile
    >>> from experiments.data import list_logits
    >>> with tempfile.TemporaryDirectory() as empty:
    ...     list_logits(empty)
    []
    """
    return names(KIND, data)


def load_logits(name: str, data: str | os.PathLike[str] | None = None) -> Logits:
    """Read ``logits/NAME.npz`` from ``data`` or the folder that ``LIKELY_DATA`` names.

    A file holds either ``logits``, ``labels`` and ``is_val`` with ``features`` for every row or none, or
    ``val_logits``, ``val_labels``, ``test_logits``, ``test_labels`` with ``val_features`` and ``test_features`` for
    the first rows of each part.

    >>> import pathlib, tempfile
    >>> import numpy as np
    >>> from experiments.data import load_logits
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     pathlib.Path(folder, "logits").mkdir()
    ...     arrays = {"logits": np.eye(4), "labels": np.arange(4), "is_val": np.arange(4) < 2}
    ...     np.savez(f"{folder}/logits/net.npz", **arrays)
    ...     load_logits("net", folder).logits.shape
    (4, 4)
    """
    arrays = read(KIND, name, data)
    where = f"{KIND}/{name}"
    if "logits" in arrays:
        need(arrays, ("labels", "is_val"), where)
        logits, labels, calibration = arrays["logits"], arrays["labels"], arrays["is_val"]
        features = arrays.get("features")
        known = None if features is None else np.ones(len(logits), dtype=bool)
    else:
        parts = ("val", "test")
        need(arrays, tuple(f"{part}_{what}" for what in ("logits", "labels") for part in parts), where)
        logits, labels = (np.concatenate([arrays[f"{part}_{what}"] for part in parts]) for what in ("logits", "labels"))
        sizes = [len(arrays[f"{part}_labels"]) for part in parts]
        calibration = np.repeat([True, False], sizes)
        features = known = None
        if all(f"{part}_features" in arrays for part in parts):
            told = [arrays[f"{part}_features"] for part in parts]
            features = np.concatenate(told)
            known = np.concatenate([np.arange(n) < len(own) for n, own in zip(sizes, told, strict=True)])
    return Logits(
        name,
        logits.astype(np.float32),
        labels.astype(np.int64),
        calibration.astype(bool),
        None if features is None else features.astype(np.float32),
        known,
    )
