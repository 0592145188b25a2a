"""Faces come out alike from both layouts they are kept in, and what is wrong with a file is said."""

import io
import lzma
import sys
from pathlib import Path

import numpy as np
import pytest

from experiments.data import Faces, has_faces, load_faces

FULL, HALF = (178, 218), (89, 109)


def jpeg(size: tuple[int, int], grey: int) -> bytes:
    """A grey middle in a black frame that the cut leaves out."""
    from PIL import Image

    width, height = size
    left, top = (width - 160 * width // 178) // 2, (height - 160 * width // 178) // 2
    image = Image.new("RGB", size)
    image.paste((grey,) * 3, (left, top, width - left, height - top))
    file = io.BytesIO()
    image.save(file, "jpeg", quality=95)
    return file.getvalue()


def pack(place: Path, files: list[bytes]) -> None:
    place.mkdir(parents=True, exist_ok=True)
    (place / "celeba_10k_jpeg.xz").write_bytes(lzma.compress(b"".join(files)))
    lengths = np.array([len(file) for file in files], dtype=np.uint16)
    np.savez(place / "celeba_10k_index.npz", length=lengths, number=np.arange(1, 1 + len(files)))


@pytest.fixture
def packed(tmp_path: Path) -> Path:
    pack(tmp_path / "vision", [jpeg(HALF, 10 * i) for i in range(1, 21)])
    return tmp_path


@pytest.fixture
def published(tmp_path: Path) -> Path:
    pictures = tmp_path / "celeba" / "img_align_celeba"
    pictures.mkdir(parents=True)
    for number in range(1, 7):
        (pictures / f"{number:06d}.jpg").write_bytes(jpeg(FULL, 40 * number))
    lines = [f"{number:06d}.jpg {part}" for number, part in zip(range(1, 7), (0, 1, 0, 2, 0, 1), strict=True)]
    (tmp_path / "celeba" / "list_eval_partition.txt").write_text("\n".join(lines) + "\n")
    return tmp_path


@pytest.mark.parametrize(("part", "numbers"), [("train", range(1, 17)), ("validation", (17, 18)), ("test", (19, 20))])
def test_a_packed_file_is_split_in_its_order(packed: Path, part: str, numbers: range) -> None:
    faces = load_faces(part, packed)
    assert has_faces(packed)
    assert faces.numbers.tolist() == list(numbers)
    assert faces.pixels.shape == (len(numbers), 64, 64, 3)
    # Only the frame is black, and the cut leaves it out: what remains is the grey of each face.
    greys = 10 * faces.numbers[:, None, None, None]
    assert np.abs(faces.pixels[:, 2:-2, 2:-2].astype(int) - greys).max() <= 6


def test_the_published_folder_has_its_own_parts(published: Path) -> None:
    assert has_faces(published)
    for part, numbers in (("train", [1, 3, 5]), ("validation", [2, 6]), ("test", [4])):
        faces = load_faces(part, published, side=16)
        assert faces.numbers.tolist() == numbers
        assert faces.side == 16
        np.testing.assert_allclose(faces.pixels[:, 1:-1, 1:-1].mean((1, 2, 3)), 40 * faces.numbers, atol=2)


def test_rows_are_the_first_ones(packed: Path) -> None:
    some, every = load_faces("train", packed, rows=3), load_faces("train", packed)
    np.testing.assert_array_equal(some.pixels, every.pixels[:3])
    assert some.numbers.tolist() == [1, 2, 3]


def test_a_missing_folder_is_named_with_what_belongs_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert not has_faces(tmp_path)
    with pytest.raises(FileNotFoundError, match=r"holds celeba_10k_jpeg\.xz with .*list_eval_partition\.txt: put"):
        load_faces("train", tmp_path)
    monkeypatch.delenv("LIKELY_DATA", raising=False)
    assert not has_faces()
    with pytest.raises(FileNotFoundError, match=r"set LIKELY_DATA to a folder that holds celeba_10k_jpeg"):
        load_faces("train")


@pytest.mark.parametrize(
    ("wrong", "message"),
    [({"part": "val"}, "train, validation, test; got 'val'"), ({"side": 0}, "positive"), ({"rows": 0}, "positive")],
)
def test_wrong_arguments_are_refused(packed: Path, wrong: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        load_faces(**{"part": "train", "data": packed} | wrong)


def test_a_face_of_another_size_or_no_picture_is_refused_by_its_number(tmp_path: Path) -> None:
    files = [jpeg(HALF, 100)] * 10
    pack(tmp_path, [*files[:3], jpeg((100, 100), 100), *files[4:]])
    with pytest.raises(ValueError, match=r"face 4 is 100 × 100 pixels; aligned faces are 178 × 218 or 89 × 109"):
        load_faces("train", tmp_path)
    pack(tmp_path, [*files[:3], b"not a picture", *files[4:]])
    with pytest.raises(ValueError, match="face 4 is no picture"):
        load_faces("train", tmp_path)
    pack(tmp_path, [*files[:3], files[3][:500], *files[4:]])
    with pytest.raises(ValueError, match="face 4 is no picture"):
        load_faces("train", tmp_path)


def test_a_stream_that_its_index_does_not_fit_is_refused(packed: Path) -> None:
    place = packed / "vision"
    raw = lzma.decompress((place / "celeba_10k_jpeg.xz").read_bytes())
    (place / "celeba_10k_jpeg.xz").write_bytes(lzma.compress(raw[:-9]))
    with pytest.raises(ValueError, match=rf"unpacks to {len(raw) - 9} bytes, but .* counts {len(raw)}: copy both"):
        load_faces("train", packed)
    np.savez(place / "celeba_10k_index.npz", number=np.arange(20))
    with pytest.raises(ValueError, match="lacks the arrays length"):
        load_faces("train", packed)


def test_an_empty_part_is_refused(tmp_path: Path) -> None:
    pack(tmp_path, [jpeg(HALF, 100)])
    with pytest.raises(ValueError, match=r"no face of .* is in the train part"):
        load_faces("train", tmp_path)


def test_without_pillow_it_says_what_to_install(packed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "PIL", None)
    with pytest.raises(ImportError, match="pip install pillow"):
        load_faces("test", packed)


@pytest.mark.parametrize(
    ("pixels", "numbers", "message"),
    [
        (np.zeros((2, 64, 64, 3)), 2, "must be bytes from 0 to 255"),
        (np.full((2, 4, 4, 3), np.nan), 2, "96 pixels of two are not finite"),
        (np.zeros((2, 64, 32, 3), np.uint8), 2, "must be square"),
        (np.zeros((2, 64, 64), np.uint8), 2, r"\(rows, height, width, 1 or 3\)"),
        (np.zeros((2, 64, 64, 3), np.uint8), 3, "2 images but 3 numbers"),
    ],
)
def test_faces_are_square_bytes_with_a_number_each(pixels: np.ndarray, numbers: int, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Faces("two", pixels, np.arange(numbers))
