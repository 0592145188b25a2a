"""CelebA: aligned faces, cut to a square and made small."""

from __future__ import annotations

import io
import lzma
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from experiments.data._folder import VARIABLE, folder, need, read_npz, refusing
from experiments.data._sources import hint
from experiments.data._vision import KIND, check_pixels

if TYPE_CHECKING:
    from PIL import Image

PARTS = ("train", "validation", "test")
SHARES = (0.8, 0.9)  # where the second and third part of a packed file begin
ALIGNED, CUT = ((178, 218), (89, 109)), 160 / 178  # the published size and half of it; the side cut, of the width
PACKED = ("celeba_10k_jpeg.xz", "celeba_10k_index.npz")
PUBLISHED = ("celeba/img_align_celeba", "celeba/list_eval_partition.txt")
LAYOUT = f"{' with '.join(PACKED)}, or {' with '.join(PUBLISHED)}"


@dataclass(frozen=True)
class Faces:
    """Square pictures as bytes (rows, side, side, 3), and the number each has in CelebA.

    >>> import numpy as np
    >>> from experiments.data import Faces
    >>> Faces("two", np.zeros((2, 64, 64, 3), np.uint8), np.array([1, 2])).side
    64
    """

    name: str
    pixels: NDArray[np.uint8]
    numbers: NDArray[np.int64]

    def __post_init__(self) -> None:
        check_pixels(self.name, self.pixels)
        if self.pixels.shape[1] != self.pixels.shape[2]:
            raise ValueError(f"the images of {self.name} must be square, got the shape {self.pixels.shape}")
        if len(self.numbers) != len(self.pixels):
            raise ValueError(f"{self.name} has {len(self.pixels)} images but {len(self.numbers)} numbers")

    @property
    def side(self) -> int:
        """Height and width in pixels."""
        return int(self.pixels.shape[1])


class Files(NamedTuple):
    """The numbers of the pictures in a part, and what reads the file at a position among them."""

    numbers: NDArray[np.int64]
    read: Callable[[int], bytes]


def has_faces(data: str | os.PathLike[str] | None = None) -> bool:
    """Whether CelebA is in the data folder.

    >>> import tempfile
    >>> from experiments.data import has_faces
    >>> with tempfile.TemporaryDirectory() as empty:
    ...     has_faces(empty)
    False
    """
    return (data is not None or bool(os.environ.get(VARIABLE))) and _reader(folder(data)) is not None


def load_faces(
    part: str = "train", data: str | os.PathLike[str] | None = None, *, side: int = 64, rows: int | None = None
) -> Faces:
    """Read the ``"train"``, ``"validation"`` or ``"test"`` part of CelebA from ``data`` or ``LIKELY_DATA``.

    The files are looked for under ``vision/`` and then in the folder itself: one stream of JPEG files with an index of
    their lengths, whose first 80% are for training and 10% for each of the others; or the folder ``celeba`` that
    torchvision downloads, with its official parts. The middle of each face, 160 of 178 pixels wide, is made ``side``
    wide. ``rows`` stops after so many.

    >>> import io, lzma, pathlib, tempfile
    >>> import numpy as np
    >>> from PIL import Image
    >>> from experiments.data import load_faces
    >>> jpeg = io.BytesIO()
    >>> Image.new("RGB", (89, 109), "white").save(jpeg, "jpeg")
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     place = pathlib.Path(folder)
    ...     _ = (place / "celeba_10k_jpeg.xz").write_bytes(lzma.compress(10 * jpeg.getvalue()))
    ...     lengths = np.full(10, len(jpeg.getvalue()))
    ...     np.savez(place / "celeba_10k_index.npz", length=lengths, number=np.arange(1, 11))
    ...     faces = load_faces("validation", folder)
    >>> faces.pixels.shape, faces.numbers
    ((1, 64, 64, 3), array([9]))
    """
    if part not in PARTS:
        raise ValueError(f"part must be one of {', '.join(PARTS)}; got {part!r}")
    if side < 1 or (rows is not None and rows < 1):
        raise ValueError(f"side and rows must be positive, got {side} and {rows}")
    try:
        place = folder(data)
    except FileNotFoundError as error:
        raise FileNotFoundError(f"{error} that holds {LAYOUT}") from None
    reader = _reader(place)
    if reader is None:
        raise FileNotFoundError(
            f"neither {place / KIND} nor {place} holds {LAYOUT}: put the files there{hint('celeba')}"
        )
    files = reader(part)
    numbers = files.numbers[:rows]
    if not len(numbers):
        raise ValueError(f"no face of {place} is in the {part} part")
    with ThreadPoolExecutor() as pool:  # Pillow decodes outside Python's lock
        pixels = pool.map(lambda row: _square(files.read(row), int(numbers[row]), side), range(len(numbers)))
        return Faces(f"celeba {part}", np.stack(list(pixels)), numbers)


def _reader(root: Path) -> Callable[[str], Files] | None:
    """What finds a part, where the files are there."""
    for place in (root / KIND, root):
        packed, published = ([place / name for name in names] for names in (PACKED, PUBLISHED))
        if all(path.is_file() for path in packed):
            return lambda part, paths=packed: _packed(part, *paths)  # type: ignore[misc]
        if published[0].is_dir() and published[1].is_file():
            return lambda part, paths=published: _published(part, *paths)  # type: ignore[misc]
    return None


def _packed(part: str, stream: Path, index: Path) -> Files:
    arrays = read_npz(index)
    need(arrays, ("length", "number"), str(index.with_suffix("")))
    numbers, ends = arrays["number"].astype(np.int64), np.cumsum(arrays["length"].astype(np.int64))
    with refusing(stream):
        raw = lzma.decompress(stream.read_bytes())
    if len(raw) != ends[-1]:
        raise ValueError(f"{stream} unpacks to {len(raw)} bytes, but {index} counts {ends[-1]}: copy both again")
    bounds = [0, *(int(share * len(ends)) for share in SHARES), len(ends)]
    first, last = bounds[PARTS.index(part)], bounds[PARTS.index(part) + 1]
    begins = np.r_[0, ends[:-1]]
    return Files(numbers[first:last], lambda row: raw[begins[first + row] : ends[first + row]])


def _published(part: str, pictures: Path, partition: Path) -> Files:
    lines = (line.split() for line in partition.read_text(encoding="ascii").splitlines() if line.strip())
    numbers = np.array([int(Path(name).stem) for name, own in lines if own == str(PARTS.index(part))], dtype=np.int64)
    return Files(numbers, lambda row: (pictures / f"{numbers[row]:06d}.jpg").read_bytes())


def _square(file: bytes, number: int, side: int) -> NDArray[np.uint8]:
    """The middle of one face."""
    with _opened(file, number) as image:
        if image.size not in ALIGNED:
            sizes = " or ".join(f"{width} × {height}" for width, height in ALIGNED)
            raise ValueError(f"face {number} is {image.width} × {image.height} pixels; aligned faces are {sizes}")
        cut = round(CUT * image.width)
        left, top = (image.width - cut) // 2, (image.height - cut) // 2
        small = image.convert("RGB").resize((side, side), box=(left, top, left + cut, top + cut))
        return np.asarray(small)


def _opened(file: bytes, number: int) -> Image.Image:
    try:
        from PIL import Image, UnidentifiedImageError
    except ImportError:
        raise ImportError("faces are read by Pillow: pip install pillow, or 'likely[plots]'") from None
    try:
        image = Image.open(io.BytesIO(file))
        image.load()
    except (UnidentifiedImageError, OSError) as error:
        raise ValueError(f"face {number} is no picture that Pillow can read: {error}") from None
    return image
