"""Pictures among the inputs of a model: kept, made small, while the model reads them."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from likely.auditing._images import CHANNELS, SIDE, as_bytes

_LEAST = 8  # pixels that a picture has at least
_ROOM = 1 << 28  # bytes of pictures that are kept


class InputPictures:
    """The pictures that a model was given, one per row, until there is no more room.

    Floats are stretched from the lowest to the highest of the first batch, and cut off beyond.

    >>> seen = InputPictures()
    >>> seen.add(torch.rand(5, 3, 32, 32))
    >>> seen.count, seen(4).size, seen(5)
    (5, (32, 32), None)
    """

    def __init__(self) -> None:
        self._kept: list[NDArray[np.uint8]] = []
        self._range: tuple[float, float] | None = None
        self._open = find_spec("PIL") is not None
        self._left = _ROOM

    @property
    def count(self) -> int:
        """How many rows have a picture."""
        return len(self._kept)

    def add(self, inputs: Any) -> None:
        """Keep what a model is given, if it is pictures."""
        self._open = self._open and _are_pictures(inputs) and self._left > 0
        if not self._open:
            return
        batch = inputs.detach().cpu()
        if max(batch.shape[2:]) > SIDE:
            size = [max(1, round(side * SIDE / max(batch.shape[2:]))) for side in batch.shape[2:]]
            batch = torch.nn.functional.interpolate(batch.float(), size, mode="area")
        array = batch.float().numpy()
        if self._range is None:
            whole = not inputs.is_floating_point()
            self._range = (0.0, 255.0) if whole else (float(np.nanmin(array)), float(np.nanmax(array)))
        for picture in array:
            self._kept.append(as_bytes(picture, *self._range))
            self._left -= self._kept[-1].nbytes

    def __call__(self, row: int) -> Any:
        """The picture of a row as a Pillow image, or None if it was not kept."""
        from PIL import Image

        return Image.fromarray(self._kept[row]) if row < self.count else None


def _are_pictures(inputs: Any) -> bool:
    if not isinstance(inputs, Tensor) or inputs.ndim != 4 or inputs.is_complex():
        return False
    return inputs.shape[1] in CHANNELS and min(inputs.shape[2:]) >= _LEAST
