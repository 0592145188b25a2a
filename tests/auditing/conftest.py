from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from likely.auditing import pipeline
from quick_audits import small_models_of
from quick_stacks import cut_short


@pytest.fixture(autouse=True)
def small_models(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Small models and few folds: these tests, but for those of targets, are about what an audit does, not how well."""
    small_models_of(monkeypatch)
    if "target" not in request.path.parts:
        cut_short(monkeypatch)


@pytest.fixture
def in_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[pd.DataFrame], str]:
    """Write a table to three files, which are read one after the other; models see every sixth row."""
    for name, value in (("AT_ONCE", 100), ("SAMPLE", 500), ("LEAST_SAMPLE", 500)):
        monkeypatch.setattr(pipeline, name, value)

    def write(table: pd.DataFrame) -> str:
        for number, part in enumerate(np.array_split(np.arange(len(table)), 3)):
            table.iloc[part].to_parquet(tmp_path / f"{number}.parquet", index=False)
        return str(tmp_path)

    return write
