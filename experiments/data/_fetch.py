"""Getting a set that is not in the data folder, from those who publish it."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np

from experiments.data._convert import unpack
from experiments.data._download import BROKEN, download
from experiments.data._faces import has_faces
from experiments.data._folder import folder, refusing
from experiments.data._sources import SOURCES, Source
from experiments.data._vision import PARTS, READERS, find_images
from likely._files import replacing

DOWNLOADS = "downloads"


def list_sources() -> list[str]:
    """Names of the sets that :func:`fetch` knows where to get.

    >>> from experiments.data import list_sources
    >>> "cifar10" in list_sources(), "odds/wine" in list_sources()
    (True, True)
    """
    return list(SOURCES)


def fetch(name: str, data: str | os.PathLike[str] | None = None) -> Path:
    """Put a set where its loader looks for it, in ``data`` or ``LIKELY_DATA``, and return the data folder.

    What is there already is left alone. Files come from the authors' addresses into ``downloads/``, or are put there
    by hand where there is no network; they are checked against published checksums, or against the first download
    where none is published. Regression sets of OpenML come through scikit-learn. Every set has terms:
    :func:`terms` says them.

    >>> import pathlib, tempfile
    >>> import numpy as np
    >>> from experiments.data import fetch, load_outliers
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     pathlib.Path(folder, "odds").mkdir()
    ...     np.savez(f"{folder}/odds/wine.npz", X=np.zeros((129, 13)), y=np.arange(129) < 10)
    ...     load_outliers("wine", fetch("odds/wine", folder)).X.shape
    (129, 13)
    """
    source, root = _source(name), folder(data)
    if is_there(name, root):
        return root
    root.mkdir(parents=True, exist_ok=True)
    with alone_in(root):  # two that append to one download would make a third file
        if not is_there(name, root):
            _fetch(source, root)
    return root


@contextmanager
def alone_in(folder: Path) -> Iterator[None]:
    """Have other processes and threads that ask for the same folder wait until the block has ended.

    Args:
        folder: A folder that exists. Where folders cannot be locked, as on Windows, nobody waits.
    """
    try:
        descriptor = os.open(folder, os.O_RDONLY)
    except PermissionError:  # so Windows answers
        yield
        return
    try:
        with suppress(ImportError, OSError):
            import fcntl  # which Windows has not

            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _fetch(source: Source, root: Path) -> None:
    if source.openml:
        _keep(_from_openml(source, root), source, root)
        return
    if source.arrays:
        paths = [download(file, root / DOWNLOADS) for file in source.files]
        with refusing(paths[0]):
            arrays = source.arrays(*paths)
        _keep(arrays, source, root)
        return
    inside = (root / source.places[-1]).parent
    inside.mkdir(parents=True, exist_ok=True)
    for file in source.files:
        if (inside / file.name).exists():
            continue
        path = download(file, root / DOWNLOADS)
        if source.unpacks and path.suffix in (".gz", ".zip"):
            unpack(path, inside)
        else:
            os.replace(path, inside / path.name)


def is_there(name: str, root: Path) -> bool:
    """Whether a set is in the data folder, in any layout that its loader reads."""
    if name in READERS:
        return all(find_images(name, part, root) is not None for part in PARTS)
    return has_faces(root) if name == "celeba" else all((root / place).exists() for place in _source(name).places)


def terms(name: str) -> str:
    """What those who publish a set ask for.

    >>> from experiments.data import terms
    >>> terms("svhn")
    'non-commercial use only; cite Y. Netzer et al., 2011'
    """
    return _source(name).terms


def _source(name: str) -> Source:
    if name not in SOURCES:
        raise ValueError(f"no source of {name!r} is known; there are {', '.join(SOURCES)}")
    return SOURCES[name]


def _from_openml(source: Source, root: Path) -> dict[str, Any]:
    from sklearn.datasets import fetch_openml

    try:
        # OpenML publishes an MD5 of every file, which scikit-learn checks.
        found = fetch_openml(
            source.openml, version=1, as_frame=False, parser="liac-arff", data_home=str(root / DOWNLOADS)
        )
    except BROKEN as error:
        raise FileNotFoundError(
            f"{root / source.places[0]} is missing and could not be downloaded: put an npz with X and y there, made "
            f"from {source.page}. Tried {source.openml!r} of OpenML: {getattr(error, 'reason', None) or error}"
        ) from None
    y = np.asarray(found.target, dtype=np.float64)
    return {"X": np.asarray(found.data, np.float64), "y": y, "feature_names": np.array(found.feature_names)}


def _keep(arrays: Any, source: Source, root: Path) -> None:
    """Write the npz of a set, if it is the set that we know."""
    inputs = arrays["X"] if "X" in arrays else arrays["logits"]
    found = (*inputs.shape, float(np.mean(arrays["y"])) if "y" in arrays else None)
    expected = (*(source.shape or ()), source.mean)
    if found[:2] != expected[:2] or (source.mean is not None and not math.isclose(found[2], source.mean, rel_tol=1e-4)):
        raise ValueError(
            f"what {source.page} gives is another set: its rows, columns and mean target are {found}, not {expected}"
        )
    path = root / source.places[0]
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as beside, beside.open("wb") as target:
        np.savez_compressed(target, **arrays)
