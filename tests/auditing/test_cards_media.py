"""Columns of text and of images, and data sets that hold them."""

import inspect
import json
import tokenize
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import sklearn.datasets
import sklearn.ensemble
import sklearn.linear_model
import sklearn.preprocessing
import torch
from PIL import Image, ImageFilter
from sklearn.datasets import load_digits, load_iris, load_sample_images
from torch.utils.data import DataLoader, TensorDataset

import likely
from likely.auditing import Finding
from likely.auditing._columns import read_columns
from likely.auditing._datasets import open_dataset
from likely.auditing.checks._picture_facts import measure
from likely.auditing.checks._pictures import odd_pictures
from likely.auditing.checks._scripts import misread
from likely.auditing.checks._text_copies import near_texts
from likely.auditing.checks._text_features import text_features
from likely.auditing.checks._texts import odd_texts


def texts() -> list[str]:
    """Texts that nobody here wrote: what Python's and scikit-learn's own functions say of themselves."""
    modules = (inspect, json, tokenize, sklearn.datasets, sklearn.ensemble, sklearn.linear_model, sklearn.preprocessing)
    said = [inspect.getdoc(getattr(module, name)) or "" for module in modules for name in dir(module)]
    firsts = {text.split("\n\n")[0].replace("\n", " ")[:400] for text in said}
    long = {text.replace("\n", " ")[200:700] for text in said if len(text) > 1500}
    return sorted(text for text in firsts | long if len(text) > 60)


def judged(values: list[Any]) -> Finding:
    finding = odd_texts(read_columns(pd.DataFrame({"comment": values})), set())
    assert finding is not None
    return finding


def test_planted_faults_of_texts_are_found_and_named() -> None:
    values = texts()
    n = len(values)
    assert n > 100
    clean = judged(values)
    assert clean.numbers["damaged"] == clean.numbers["empty"] == clean.numbers["script"] == 0
    assert clean.numbers["rows"] <= 0.1 * n
    values[3] = "   "
    values[10] = "The cafÃ© was closed, and we didnâ€™t know that it would be so."
    values[11] = "A lost \ufffd sign in the middle of this sentence of the table."
    values[20] = "Это предложение написано по-русски, а все остальные нет."
    values[21] = "Dieser Satz ist auf Deutsch, und das ist nicht die Sprache der anderen, die hier zu finden sind."
    values[30] = values[40].replace(" the ", " a ", 1) + "!"
    values[31] = "word " * 20_000
    found = {suspect.row: suspect for suspect in judged(values).suspects}
    assert found[3].headline == "comment is empty"
    assert "was “The café was closed" in found[10].headline
    assert found[10].group == "comment was UTF-8, and read as Windows-1252"
    assert found[11].wrong
    assert found[20].headline == "comment is in Cyrillic script, most are in Latin"
    assert found[21].headline == "comment is in German, most are in English"
    assert "almost equals that of row 30" in found[40].headline
    assert "characters, most have" in found[31].headline
    assert not found[20].wrong


@pytest.mark.parametrize("text", ["Café", "naïve Ångström", "Ãlvaro", "Größe in m²", "“quoted” – well…", "São Paulo"])
def test_what_is_not_damaged_is_left_alone(text: str) -> None:
    assert misread(text) is None
    damaged = text.encode().decode("cp1252", "ignore")
    if text.isascii() or damaged.encode("cp1252", "ignore").decode("utf-8", "ignore") != text:
        return
    assert misread(damaged) == text


def test_near_copies_of_texts_are_those_with_most_words_in_common() -> None:
    values = texts()
    rng = np.random.default_rng(0)
    edited = []
    for text in values[:60]:
        words = text.split()
        words[int(rng.integers(len(words)))] = "changed"
        edited.append(" ".join(words).upper())
    of, _ = near_texts([*values, *edited])
    long = [i for i in range(60) if len(values[i].split()) > 14]
    assert np.mean(of[len(values) + np.array(long)] == long) > 0.85
    assert text_features(values, 8).shape == (len(values), 8)


def photos(n: int = 60) -> list[Any]:
    """Crops of two photographs, without those of the sky alone."""
    rng = np.random.default_rng(0)
    both = load_sample_images().images
    found: list[Any] = []
    while len(found) < n:
        top, left = rng.integers(0, 280), rng.integers(0, 480)
        crop = both[len(found) % 2][top : top + 120, left : left + 160]
        if crop.std() > 30:
            found.append(Image.fromarray(crop))
    return found


def test_planted_faults_of_images_are_found_and_named() -> None:
    images = photos()
    clean = odd_pictures(measure(lambda row: images[row], 60), 60)
    assert clean.numbers["rows"] <= 4
    images[5] = None
    images[6] = Image.new("RGB", (160, 120), (10, 200, 30))
    images[7] = images[7].point(lambda value: value // 8)
    images[8] = images[8].point(lambda value: 225 + value // 9)
    images[9] = images[9].filter(ImageFilter.GaussianBlur(8))
    images[10] = images[10].resize((1600, 1200))
    images[11] = images[11].resize((800, 30))
    images[12] = images[12].convert("L")
    images[41] = images[40].resize((150, 112))
    images[42] = Image.fromarray(np.clip(np.asarray(images[20]).astype(int) + 2, 0, 255).astype(np.uint8))
    found = odd_pictures(measure(lambda row: images[row], 60), 60)
    told = {suspect.row: suspect.headline for suspect in found.suspects}
    kinds = {
        5: "cannot be read",
        6: "one colour",
        7: "dark",
        8: "light",
        9: "blurred",
        10: "odd size",
        11: "wider or taller",
        12: "grey",
        41: "copy: of row 40",
        42: "copy: of row 20",
    }
    assert {row: kind for row, kind in kinds.items() if kind not in told.get(row, "")} == {}
    assert found.numbers["rows"] <= len(kinds) + 4


def test_digits_are_neither_copies_nor_dark() -> None:
    images = [Image.fromarray((digit * 15).astype(np.uint8)).resize((32, 32)) for digit in load_digits().images[:600]]
    found = odd_pictures(measure(lambda row: images[row], 600), 600)
    assert found.numbers["dark"] == 0
    assert found.numbers["copy"] <= 3


def test_brightness_that_gives_the_label_away_is_told() -> None:
    images = photos(120)
    labels = np.arange(120) // 60
    told = odd_pictures(measure(lambda row: images[row], 120), 120, labels.astype(float))
    assert "alone explains" not in told.summary
    brighter = [image.point(lambda value: 170 + value // 3) if labels[i] else image for i, image in enumerate(images)]
    told = odd_pictures(measure(lambda row: brighter[row], 120), 120, labels.astype(float))
    assert "alone explains" in told.summary
    assert max(told.numbers["tell_the_label"].values()) > 0.4


def test_a_column_of_paths_beside_a_csv(tmp_path: Path) -> None:
    for i, image in enumerate(photos(40)):
        image.save(tmp_path / f"{i}.png")
    (tmp_path / "7.png").write_bytes(b"no picture")
    pd.DataFrame({"photo": [f"{i}.png" for i in range(41)], "x": np.arange(41.0) ** 2}).to_csv(tmp_path / "t.csv")
    audit = likely.audit(tmp_path / "t.csv")
    found = next(finding for finding in audit.findings if finding.name == "images")
    assert {7, 40} <= set(found.rows.tolist())
    assert "photo names images, which are checked." in audit.notes
    assert audit.thumbnails is not None
    assert str(audit.thumbnails(3)).startswith("data:image")


def test_names_of_images_that_are_not_there_are_told_once() -> None:
    table = pd.DataFrame({"photo": [f"nowhere/{i}.jpg" for i in range(30)], "x": np.arange(30.0) ** 2})
    audit = likely.audit(table)
    assert "images" not in {finding.name for finding in audit.findings}
    assert any(note.startswith("photo names images, none of which is there") for note in audit.notes)


class Labels:
    """As Hugging Face's ClassLabel."""

    names = ("setosa", "versicolor", "virginica")


Labels.__name__ = "ClassLabel"


class Part:
    """As much of Hugging Face's Dataset as is asked for: the package is not needed to read one."""

    def __init__(self, frame: pd.DataFrame) -> None:
        self.frame = frame
        self.features = {name: Labels() if name == "label" else 1.0 for name in frame.columns}

    def to_pandas(self) -> pd.DataFrame:
        return self.frame.reset_index(drop=True)

    def remove_columns(self, names: list[str]) -> "Part":
        return Part(self.frame.drop(columns=names))

    def with_format(self, _: str | None) -> "Part":
        return self

    def __len__(self) -> int:
        return len(self.frame)


def test_a_dataset_dict_is_a_table_and_a_second_one() -> None:
    frame = load_iris(as_frame=True).frame.sample(150, random_state=0).rename(columns={"target": "label"})
    frame["vector"] = [np.array([row, -row]) for row in range(150)]
    frame.loc[frame.index[4], "label"] = -1
    audit = likely.audit({"train": Part(frame[:100]), "test": Part(frame[100:])})
    assert audit.target == "label"
    assert audit.task == "classification"
    assert {"drift", "overlap", "labels", "overview"} <= {finding.name for finding in audit.findings}
    overview = next(finding for finding in audit.findings if finding.name == "overview")
    assert set(overview.numbers["classes"]) == set(Labels.names)
    assert overview.numbers["columns"] == 7
    assert sum(overview.numbers["classes"].values()) == 99


def test_a_dataset_of_hugging_face_with_images() -> None:
    datasets = pytest.importorskip("datasets")
    images, labels = photos(40), np.arange(40) % 2
    images[6] = Image.new("RGB", (160, 120), (0, 0, 0))
    features = datasets.Features({"image": datasets.Image(), "label": datasets.ClassLabel(names=["china", "flower"])})
    data = datasets.Dataset.from_dict({"image": images, "label": labels}, features=features)
    audit = likely.audit(data)
    assert audit.target == "label"
    assert 6 in next(finding for finding in audit.findings if finding.name == "images").rows
    assert audit.thumbnails is not None
    assert str(audit.thumbnails(2)).startswith("data:image")
    shuffled = likely.audit(data.shuffle(seed=0))
    assert len(next(finding for finding in shuffled.findings if finding.name == "images").rows) >= 1
    with pytest.raises(ValueError, match="is a stream"):
        likely.audit(data.to_iterable_dataset())


def test_torch_data_sets_and_loaders_without_a_model() -> None:
    X, y = load_iris(return_X_y=True)
    data = TensorDataset(torch.tensor(X, dtype=torch.float32), torch.tensor(y))
    for source in (data, DataLoader(data, 32)):
        opened = open_dataset(source)
        assert opened is not None
        assert opened.table.shape == (150, 5)
        assert opened.target == "target"
    assert likely.audit(data).task == "classification"
    regression = TensorDataset(torch.tensor(X[:, 1:]), torch.tensor(X[:, 0]))
    assert likely.audit(regression).task == "regression"
    digits = torch.tensor(load_digits().images, dtype=torch.float32)[:200, None]
    digits[4] = 0.0
    audit = likely.audit(TensorDataset(digits, torch.tensor(load_digits().target[:200])))
    assert 4 in next(finding for finding in audit.findings if finding.name == "images").rows
    with pytest.raises(ValueError, match="is empty"):
        likely.audit(TensorDataset(torch.zeros(0, 3)))


def test_a_model_that_reads_images_has_them_looked_at() -> None:
    rng = np.random.default_rng(0)
    labels = torch.tensor(rng.integers(0, 2, 120))
    images = torch.tensor(rng.uniform(size=(120, 3, 16, 16)), dtype=torch.float32) + 0.2 * labels[:, None, None, None]
    images[7] = 0.5
    model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(3 * 16 * 16, 2))
    report = likely.audit(model, DataLoader(TensorDataset(images, labels), 50))
    finding = next(finding for finding in report.findings if finding.name == "images")
    assert finding.rows.tolist() == [7]
    assert report.thumbnails is not None
    assert str(report.thumbnails(7)).startswith("data:image/png")
    # Rows of numbers, and a model whose inputs are no pictures, have none.
    table = torch.randn(60, 5)
    plain = likely.audit(torch.nn.Linear(5, 2), DataLoader(TensorDataset(table, torch.arange(60) % 2), 20))
    assert not [finding for finding in plain.findings if finding.name == "images"]
