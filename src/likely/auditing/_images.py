"""The pictures of rows, from a folder, an array, paths, or what Hugging Face's datasets hold."""

from __future__ import annotations

import base64
import io
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from likely.auditing._read import read_array

SIDE = 128  # pixels
CHANNELS = (1, 3, 4)
ENDINGS = (".png", ".jpg", ".jpeg", ".webp", ".gif", ".bmp", ".tif", ".tiff")
Pictures = Callable[[int], Any]  # from a row to a Pillow image, or None where there is none that can be read


def thumbnails_of(picture: Pictures) -> Callable[[int], str | None]:
    """Make small pictures of pictures."""

    def small(row: int) -> str | None:
        image = picture(row)
        return None if image is None else address(image)

    return small


def pictures(images: Any, rows: int) -> Pictures:
    """Open the pictures of rows, one at a time."""
    _pillow()
    if isinstance(images, str | os.PathLike) and Path(images).is_dir():
        files = sorted(path for path in Path(images).iterdir() if path.suffix.lower() in ENDINGS and path.is_file())
        if len(files) != rows:
            raise ValueError(f"{images} holds {len(files)} images, but there are {rows} rows: one each is needed")
        return lambda row: opened(files[row])
    if isinstance(images, str | os.PathLike) and not Path(images).is_file():
        raise FileNotFoundError(f"{images} does not exist")
    if isinstance(images, Sequence) and len(images) and not isinstance(images, str) and _single(images[0]):
        if len(images) != rows:
            raise ValueError(f"there are {len(images)} pictures, but {rows} rows: one each is needed")
        return lambda row: opened(images[row])
    array = read_array(images, "images")
    if array.ndim not in (3, 4) or len(array) != rows:
        raise ValueError(f"images must be a folder or an array of {rows} pictures, got the shape {array.shape}")
    if array.dtype.kind not in "fiub" or 0 in array.shape:
        raise ValueError(f"images must be numbers, got {array.dtype} of the shape {array.shape}")
    if array.ndim == 4 and not {array.shape[1], array.shape[3]} & set(CHANNELS):
        raise ValueError(f"images must have 1, 3 or 4 channels, first or last, got the shape {array.shape}")
    floats = array.dtype.kind == "f"
    low, high = (float(np.nanmin(array)), float(np.nanmax(array))) if floats else (0.0, 255.0)
    return lambda row: _pillow().fromarray(as_bytes(array[row], low, high))


def opened(source: Any) -> Any:
    """Open one picture."""
    Image = _pillow()
    if isinstance(source, dict):
        content = source.get("bytes")
        source = io.BytesIO(content) if content else source.get("path")
    if isinstance(source, Image.Image):
        return source
    try:
        with Image.open(source) as image:
            image.load()
            return image.copy()
    except (OSError, ValueError, TypeError, AttributeError, SyntaxError, Image.DecompressionBombError):
        return None


def _pillow() -> Any:
    try:
        from PIL import Image
    except ImportError:
        raise ImportError("images need Pillow: pip install 'likely[plots]'") from None
    return Image


def _single(source: Any) -> bool:
    """Whether this is one picture, or the name of one, and no row of an array."""
    return isinstance(source, str | os.PathLike | dict) or hasattr(source, "getbands") or source is None


def address(image: Any) -> str:
    """A picture, made small, as a ``data:`` address."""
    small = image.convert("RGB")
    small.thumbnail((SIDE, SIDE))
    buffer = io.BytesIO()
    small.save(buffer, "PNG" if max(small.size) <= 64 else "JPEG")
    kind = "png" if max(small.size) <= 64 else "jpeg"
    return f"data:image/{kind};base64,{base64.b64encode(buffer.getvalue()).decode()}"


def as_bytes(picture: NDArray[Any], low: float, high: float) -> Any:
    """Pixels from 0 to 255, channels last; floats are stretched from their lowest to their highest in all pictures."""
    if picture.ndim == 3 and picture.shape[2] not in CHANNELS:
        picture = np.moveaxis(picture, 0, 2)
    if picture.ndim == 3 and picture.shape[2] == 1:
        picture = picture[:, :, 0]
    if picture.dtype == np.uint8:
        return np.ascontiguousarray(picture)
    values = np.clip(np.nan_to_num(picture.astype(np.float64)), low, high)
    return np.ascontiguousarray(((values - low) / (high - low or 1.0) * 255).astype(np.uint8))
