"""How many files of the package a CSV passes through: those in which a function is entered during an audit."""

import inspect
import sys
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import pandas as pd

import likely

PACKAGE = str(Path(likely.__file__).parent)


class Entered:
    """While active, the files of the package in which a function is entered, but for what an import runs."""

    def __enter__(self) -> set[str]:
        self.files: set[str] = set()
        self.imports = 0
        sys.setprofile(self._note)
        return self.files

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)

    def _note(self, frame: FrameType, event: str, _: Any) -> None:
        code = frame.f_code
        if code.co_name == "<module>" and event in ("call", "return"):
            self.imports += 1 if event == "call" else -1
        if event != "call" or self.imports or code.co_filename in self.files:
            return
        if code.co_flags & inspect.CO_OPTIMIZED and code.co_filename.startswith(PACKAGE):  # a class body is no function
            self.files.add(code.co_filename)


def test_a_csv_passes_through_few_files(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    age, hours, kind = rng.normal(40, 9, 300), rng.gamma(4, 9, 300), rng.choice(["shop", "farm", "office"], 300)
    pay = 0.3 * age + 0.2 * hours + 4.0 * (kind == "office") + rng.normal(size=300)
    frame = pd.DataFrame({"age": age.round(1), "hours": hours.round(), "kind": kind, "pay": pay.round(2)})
    frame.to_csv(tmp_path / "table.csv", index=False)
    audit, counts = likely.audit, {}
    for target in (None, "kind", "pay"):
        with Entered() as files:
            audit(tmp_path / "table.csv", target)
        counts[target] = len(files)
    assert counts[None] <= 35
    assert counts["kind"] <= 42
    assert counts["pay"] <= 64
