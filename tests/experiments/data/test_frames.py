"""Tables that packages ship come without what gives their target away."""

import numpy as np
import pandas as pd
import pytest

from experiments.data import Frame, _frames, list_frames, load_frame
from experiments.data._frame_sources import SOURCES


@pytest.fixture
def shipped(monkeypatch: pytest.MonkeyPatch, tmp_path) -> None:
    """A package with one table, of which one row has no target."""
    (tmp_path / "shippedtables").mkdir()
    (tmp_path / "shippedtables" / "__init__.py").write_text("raise ImportError('it needs more than its data do')")
    rows = "day,colour,count,leak,size\n2020-01-02,red,1,1,2.5\n2020-01-03,,2,2,\n,blue,,3,1\n"
    (tmp_path / "shippedtables" / "rows.csv").write_text(rows)
    monkeypatch.syspath_prepend(tmp_path)
    source = _frames.Source("shippedtables", "rows.csv", "count", "counts", ("leak",), ("day",))
    missing = _frames.Source("nosuchpackage", "rows.csv", "count", "counts")
    monkeypatch.setattr(_frames, "SOURCES", {"rows": source, "none": missing})


@pytest.mark.usefixtures("shipped")
def test_a_table_comes_with_gaps_and_dates_and_without_leaks() -> None:
    frame = load_frame("rows")
    assert list(frame.X.columns) == ["day", "colour", "size"]
    assert frame.X["day"].tolist() == [pd.Timestamp("2020-01-02"), pd.Timestamp("2020-01-03")]
    assert frame.X.isna().sum().tolist() == [0, 1, 1]
    np.testing.assert_array_equal(frame.y, [1.0, 2.0])


@pytest.mark.usefixtures("shipped")
def test_a_table_whose_package_is_not_installed_is_left_out_and_refused_by_name() -> None:
    assert list_frames() == list_frames("counts") == ["rows"]
    assert list_frames("classes") == []
    with pytest.raises(FileNotFoundError, match="'none' comes with the package nosuchpackage"):
        load_frame("none")


def test_two_tables_in_five_are_chosen_on_in_every_task() -> None:
    frames = [Frame(name, pd.DataFrame(), np.zeros(0), source.task) for name, source in SOURCES.items()]
    for task in ("regression", "classes", "counts"):
        share = np.mean([frame.chosen_on for frame in frames if frame.task == task])
        assert 0.2 <= share <= 0.6, task


@pytest.mark.parametrize("name", list_frames())
def test_an_installed_table_has_its_columns(name: str) -> None:
    frame = load_frame(name)
    assert len(frame.X) == len(frame.y) >= 250
    assert not np.isnan(frame.y).any()
    if frame.task == "counts":
        assert (frame.y == np.floor(frame.y)).all()
        assert frame.y.min() >= 0
