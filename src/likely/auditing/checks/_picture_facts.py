"""What can be measured of a picture without knowing what it shows: size, light, contrast, sharpness, colour."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from likely.auditing._images import Pictures

PICTURES = 20_000  # that are opened, at most
PROPERTIES = ("width", "height", "brightness", "contrast", "sharpness", "colour")  # that are told of a picture
_SIDE = 128  # pixels to which larger pictures are reduced before they are measured
_SMALL = 16  # pixels of the picture by which copies are compared
_HASH = 8


class Facts(NamedTuple):
    """Measurements of pictures, one value per picture, NaN for those that cannot be read."""

    width: NDArray[np.float64]
    height: NDArray[np.float64]
    brightness: NDArray[np.float64]
    dark: NDArray[np.float64]
    light: NDArray[np.float64]
    contrast: NDArray[np.float64]
    sharpness: NDArray[np.float64]
    colour: NDArray[np.float64]
    hashes: NDArray[np.uint64]
    small: NDArray[np.float32]


def measure(picture: Pictures, rows: int) -> Facts:
    """Measure pictures, one after the other.

    >>> from PIL import Image
    >>> facts = measure(lambda row: Image.new("RGB", (40, 20), (250, 250, 250)), 1)
    >>> facts.width[0], facts.brightness[0], facts.contrast[0]
    (np.float64(40.0), np.float64(250.0), np.float64(0.0))
    """
    numbers = np.full((rows, 8), np.nan)
    hashes, small = np.zeros(rows, np.uint64), np.zeros((rows, _SMALL**2), np.float32)
    for row in range(rows):
        image = picture(row)
        if image is not None:
            numbers[row], hashes[row], small[row] = _measure_one(image)
    width, height, brightness, dark, light, contrast, sharpness, colour = numbers.T
    return Facts(width, height, brightness, dark, light, contrast, sharpness, colour, hashes, small)


def _measure_one(image: Any) -> tuple[Any, np.uint64, NDArray[np.float32]]:
    width, height = image.size
    colour = image.convert("RGB")
    if max(width, height) > _SIDE:
        colour.thumbnail((_SIDE, _SIDE))
    grey_image = colour.convert("L")
    grey = np.asarray(grey_image, np.float64)
    channels = np.asarray(colour, np.float64)
    contrast = float(grey.std())
    edges = 0.0
    if min(grey.shape) > 2 and contrast > 0:
        middle = grey[1:-1, 1:-1]
        laplacian = grey[:-2, 1:-1] + grey[2:, 1:-1] + grey[1:-1, :-2] + grey[1:-1, 2:] - 4 * middle
        edges = float(laplacian.std()) / contrast
    light, dark = np.quantile(grey, [0.01, 0.99])
    spread = float((channels.max(2) - channels.min(2)).mean())
    steps = np.asarray(grey_image.resize((_HASH + 1, _HASH)), np.float64)
    bits = np.packbits((steps[:, 1:] > steps[:, :-1]).ravel())
    small = np.asarray(grey_image.resize((_SMALL, _SMALL)), np.float32).ravel()
    numbers = (width, height, float(grey.mean()), float(dark), float(light), contrast, edges, spread)
    return numbers, bits.view(np.uint64)[0], small
