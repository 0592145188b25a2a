"""Text that no file can hold, that a terminal or a browser would obey, or that is very long: all of it is shown."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import likely
from likely._rows.reading.read_table import read_table

HALF = "half \ud83d"


def numbers(n: int = 60) -> dict[str, Any]:
    rng = np.random.default_rng(0)
    x = rng.normal(size=n)
    return {"x": x, "y": 3 * x + 0.1 * rng.normal(size=n)}


@pytest.mark.parametrize("column", ["object", "category"])
def test_half_a_sign_is_shown_by_its_code(column: str, tmp_path: Path) -> None:
    words = [HALF if row == 3 else f"word {row % 4}" for row in range(60)]
    text: Any = pd.Series(words, dtype=object)
    if column == "category":
        levels = pd.Index([HALF, *(f"word {own}" for own in range(4))], dtype=object)
        text = pd.Categorical.from_codes([levels.get_loc(own) for own in words], levels)
    report = likely.audit(pd.DataFrame({**numbers(), "word": text}))
    report.save(tmp_path)
    assert report.values is not None
    assert report.values.iloc[3, -1] == "half \\ud83d"
    assert json.loads((tmp_path / "summary.json").read_text(encoding="utf-8"))["rows"] == 60


def test_half_a_sign_in_names() -> None:
    frame = pd.DataFrame(numbers())
    frame.columns = pd.Index([HALF, "y"], dtype=object)
    report = likely.audit(frame, target=HALF)
    assert report.target == "half \\ud83d"
    table = pd.DataFrame({**numbers(), "name": pd.Series([f"{HALF} {row}" for row in range(60)], dtype=object)})
    assert likely.audit(table, id_column="name").names.called(2) == "name half \\ud83d 2"


def test_half_a_sign_in_classes() -> None:
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 2, 60)
    report = likely.audit(logits=4 * np.eye(2)[labels], labels=labels, classes=["a", HALF])
    assert "half \\ud83d" in report.findings[0].summary


def test_what_can_be_written_is_left_alone() -> None:
    frame = pd.DataFrame({"word": pd.Series(["größe", "😀", None, 3], dtype=object)})
    table = read_table(frame)
    assert table.frame["word"].tolist() == ["größe", "😀", None, 3]
    assert table.notes == ()


@pytest.mark.parametrize(
    "word", ["</script><script>alert(1)</script>", "<img src=x onerror=alert(1)>", "\0", "\u202e", "x" * 10**6]
)
def test_no_value_or_name_is_obeyed(word: str, tmp_path: Path) -> None:
    table = pd.DataFrame({**numbers(), "word": ["a", "b", "c"] * 20})
    table.loc[5, "word"] = word
    table.loc[5, "x"] = 900.0
    name = f"y {word[:99]}"
    report = likely.audit(table.rename(columns={"y": name}), target=name)
    page = report.save(tmp_path).read_text(encoding="utf-8")
    assert "<script>alert" not in page
    assert "<img src=x" not in page
    assert len(page) < 1e6


def test_a_name_unlike_all_others_is_answered_with_the_columns() -> None:
    with pytest.raises(ValueError, match=r"no column 'salary'; the columns are 'x', 'y'$"):
        likely.audit(numbers(), target="salary")
    wide = {f"column {own}": np.zeros(3) for own in range(9)}
    with pytest.raises(ValueError, match=r"'column 4' and 4 more$"):
        likely.audit(wide, target="salary")
    with pytest.raises(ValueError, match=r"did you mean 'x'\?"):
        likely.audit(numbers(), target="X")
