"""From the files that authors publish to the arrays that our loaders read."""

from __future__ import annotations

import shutil
import tarfile
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray


def matlab(path: Path) -> dict[str, NDArray[Any]]:
    """``X`` and ``y`` of a MATLAB file; in version 7.3 it is HDF5, with the axes turned."""
    from scipy.io import loadmat

    try:
        stored: Any = loadmat(path)
        X, y = stored["X"], stored["y"]
    except NotImplementedError:
        try:
            import h5py  # type: ignore[import-not-found, unused-ignore]
        except ImportError:
            raise ImportError(f"{path} is a MATLAB 7.3 file, which h5py reads: pip install h5py") from None
        with h5py.File(path) as stored:
            X, y = np.array(stored["X"]).T, np.array(stored["y"])
    return {"X": np.asarray(X, dtype=np.float64), "y": np.asarray(y).ravel().astype(np.uint8)}


def table(
    path: Path, *, separator: str = " ", header: bool = False, columns: slice = slice(0, -1), target: int = -1
) -> dict[str, NDArray[Any]]:
    """Numbers in a text file: some columns are inputs and one is the target; NaN where a value is missing."""
    import pandas as pd

    # Between spaces a name may stand in quotes and hold some.
    frame = pd.read_csv(
        path, sep=r"\s+" if separator == " " else separator, header=0 if header else None, na_values="?"
    )
    inputs, y = frame.iloc[:, columns], frame.iloc[:, target]
    named = {"feature_names": np.array(inputs.columns, dtype=str), "target_name": np.array(y.name)} if header else {}
    return {"X": inputs.to_numpy(np.float64), "y": y.to_numpy(np.float64), **named}


def probabilities(path: Path, labels: Path | None = None) -> dict[str, NDArray[Any]]:
    """A classifier's probabilities as logits; a fixed half of the rows is for calibration, as in our other files."""
    stored = np.load(path, allow_pickle=False)
    if labels is None:
        with stored:
            said, truth = stored["predictions"], stored["ground_truth"]
    else:
        said, truth = stored, np.load(labels, allow_pickle=False)
    truth = truth.argmax(1) if truth.ndim == 2 and truth.shape[1] > 1 else truth.ravel()
    calibration = np.zeros(len(said), dtype=bool)
    calibration[np.random.default_rng(0).permutation(len(said))[: len(said) // 2]] = True
    logits = np.log(np.maximum(said, np.finfo(np.float32).tiny)).astype(np.float32)
    return {"logits": logits, "labels": truth.astype(np.uint8), "is_val": calibration}


def unpack(path: Path, folder: Path) -> None:
    """Put what an archive holds into the folder, once all of it is there, and nothing outside."""
    beside = folder / f".{path.name}.partial"
    shutil.rmtree(beside, ignore_errors=True)
    beside.mkdir(parents=True)
    try:
        if zipfile.is_zipfile(path):
            with zipfile.ZipFile(path) as archive:
                archive.extractall(beside)
        else:
            with tarfile.open(path) as archive:
                archive.extractall(beside, filter="data")
        for found in beside.iterdir():
            if not (folder / found.name).exists():
                found.rename(folder / found.name)
    finally:
        shutil.rmtree(beside, ignore_errors=True)
