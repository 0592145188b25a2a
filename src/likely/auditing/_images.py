"""Small pictures of the rows a page shows, as data addresses."""

from __future__ import annotations

import base64
import io
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from likely.auditing._read import read_array

SIDE = 128  # pixels
CHANNELS = (1, 3, 4)
ENDINGS = (".png", ".jpg", ".jpeg", ".webp", ".gif", ".bmp", ".tif", ".tiff")


def thumbnails(images: Any, rows: int) -> Callable[[int], str | None]:
    """From a row to its picture: files of a folder in the order of their names, or an array (rows, height, width …).

    A file that is no picture has none; a folder of another number of files is an error.
    """
    try:
        from PIL import Image
    except ImportError:
        raise ImportError("thumbnails need Pillow: pip install 'likely[plots]'") from None

    if isinstance(images, str | os.PathLike) and Path(images).is_dir():
        files = sorted(path for path in Path(images).iterdir() if path.suffix.lower() in ENDINGS and path.is_file())
        if len(files) != rows:
            raise ValueError(f"{images} holds {len(files)} images, but there are {rows} rows: one each is needed")

        def from_file(row: int) -> str | None:
            try:
                with Image.open(files[row]) as image:
                    return address(image)
            except (OSError, ValueError, Image.DecompressionBombError):
                return None

        return from_file
    if isinstance(images, str | os.PathLike) and not Path(images).is_file():
        raise FileNotFoundError(f"{images} does not exist")
    array = read_array(images, "images")
    if array.ndim not in (3, 4) or len(array) != rows:
        raise ValueError(f"images must be a folder or an array of {rows} pictures, got the shape {array.shape}")
    if array.dtype.kind not in "fiub" or 0 in array.shape:
        raise ValueError(f"images must be numbers, got {array.dtype} of the shape {array.shape}")
    if array.ndim == 4 and not {array.shape[1], array.shape[3]} & set(CHANNELS):
        raise ValueError(f"images must have 1, 3 or 4 channels, first or last, got the shape {array.shape}")

    def from_array(row: int) -> str | None:
        return address(Image.fromarray(_bytes(array[row])))

    return from_array


def address(image: Any) -> str:
    """A picture, made small, as a ``data:`` address."""
    small = image.convert("RGB")
    small.thumbnail((SIDE, SIDE))
    buffer = io.BytesIO()
    small.save(buffer, "PNG" if max(small.size) <= 64 else "JPEG")
    kind = "png" if max(small.size) <= 64 else "jpeg"
    return f"data:image/{kind};base64,{base64.b64encode(buffer.getvalue()).decode()}"


def _bytes(picture: Any) -> Any:
    """Pixels from 0 to 255, channels last; floats are stretched over their range."""
    if picture.ndim == 3 and picture.shape[2] not in CHANNELS:
        picture = np.moveaxis(picture, 0, 2)
    if picture.ndim == 3 and picture.shape[2] == 1:
        picture = picture[:, :, 0]
    if picture.dtype == np.uint8:
        return np.ascontiguousarray(picture)
    values = np.nan_to_num(picture.astype(np.float64))
    low, high = values.min(), values.max()
    return np.ascontiguousarray(((values - low) / (high - low or 1.0) * 255).astype(np.uint8))
