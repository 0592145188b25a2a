"""What every entry of the report owes its reader."""

from experiments.entries import Result


def check_presentable(result: Result) -> None:
    assert result.notes.endswith(".")
    assert "nan" not in result.notes
    for picture in result.pictures:
        assert picture.svg.startswith("<?xml")
        assert picture.alt.endswith(".")
        assert picture.caption.endswith(".")
    for table in result.tables:
        assert table.caption.endswith(".")
        assert table.frame.index.is_unique
