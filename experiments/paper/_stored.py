"""Small outputs of long runs, kept beside the entries, from which a figure is drawn without training again.

They are written by running an entry's module, as in ``python -m experiments.paper.corruption_aupr``, with the pictures
in ``LIKELY_DATA``; each file says what made it.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from experiments.data import has_faces, list_images
from experiments.entries.cores import one_thread
from experiments.entries.entry import Context
from likely._files import replacing
from likely._page.machine import machine, versions

OUTPUTS = Path(__file__).parent / "outputs"


class Stored(NamedTuple):
    """Arrays by name, and in words what made them."""

    arrays: dict[str, NDArray[Any]]
    made: str


def trains(context: Context, name: str) -> bool:
    """Whether to train anew: the pictures, or ``"faces"``, are there, and a GPU to learn them in minutes."""
    if context.quick or context.data is None or not torch.cuda.is_available():
        return False
    return has_faces(context.data) if name == "faces" else name in list_images(context.data)


def train_and_keep(name: str, train: Callable[[Context, Path], Any]) -> None:
    """Train on what is in LIKELY_DATA, telling how far it is, and keep the arrays of the tuple that it returns."""
    start = time.monotonic()
    context = Context(progress=lambda done: print(f"{done:.0%} after {time.monotonic() - start:.0f} s", flush=True))
    with one_thread():
        found = train(context, Path(os.environ["LIKELY_DATA"]))
    print(keep(name, found._asdict(), time.monotonic() - start))


def keep(name: str, arrays: Mapping[str, NDArray[Any]], seconds: float, folder: Path | None = None) -> Path:
    """Write NAME.npz, with the command, versions and machine that made it, beside the entries or to a folder."""
    about = json.dumps({"command": _command(name), "seconds": round(seconds), **versions(), **machine()})
    folder = folder or OUTPUTS
    folder.mkdir(exist_ok=True)
    path = folder / f"{name}.npz"
    with replacing(path) as beside, beside.open("wb") as file:
        np.savez_compressed(file, about=np.array(about), **dict(arrays))  # type: ignore[arg-type]
    return path


def stored(name: str) -> Stored:
    """What is kept under this name."""
    with np.load(OUTPUTS / f"{name}.npz", allow_pickle=False) as file:
        arrays = {key: file[key] for key in file.files}
    about = json.loads(str(arrays.pop("about")))
    processor = about.get("gpu") or f"one core of {about['cpu']}"
    minutes = round(about["seconds"] / 60)
    made = (
        f"Redrawn from stored outputs: `{_command(name)}` made them in {minutes if minutes > 1 else 'a'} "
        f"minute{'s'[: minutes > 1]} on {processor}, with torch {about['torch']}."
    )
    return Stored(arrays, made)


def _command(name: str) -> str:
    """What makes the outputs of that name; files older than this folder name the command of their time."""
    return f"python -m experiments.paper.{name}"
