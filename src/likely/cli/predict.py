"""The work of `likely predict`: apply a calibrator to a model's outputs, and write what it predicts."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np

from likely._files import replacing
from likely._rows.reading.read_table import source_name
from likely.calibration import Calibrator, load
from likely.calibration._saved import needs
from likely.cli.outputs import Names, Outputs, read_outputs
from likely.cli.paths import check_output, several_files

ENDINGS = (".npz", ".csv", ".parquet")


def predict(model: Path, data: str | Path, out: Path, names: Names, *, coverage: float | None) -> dict[str, Any]:
    """Apply a calibrator to the outputs in a file, and write its predictions; return what is printed."""
    if coverage is not None and not 0 < coverage < 1:
        raise ValueError(f"--coverage must be between 0 and 1, got {coverage}")
    if out.suffix.lower() not in ENDINGS:
        raise ValueError(f"--out must end in {', '.join(ENDINGS[:-1])} or {ENDINGS[-1]}, got {out.name}")
    source = several_files(data)
    if source and out.suffix.lower() != ".parquet":
        raise ValueError(
            f"predictions for several files are written as Parquet: --out must end in .parquet, got {out.name}"
        )
    check_output(out, {"MODEL": model, "DATA": data}, source)
    fitted = load(model)
    predictor = _Predictor(fitted, model.name, source_name(data), names, coverage or 0.9)
    predictor.check_options(coverage)
    if source:
        parts = source.each(predictor.of_block)
    else:
        parts = iter([predictor.of(read_outputs(Path(data), names, task=predictor.task, truth=False))])
    about = _written(parts, out, source_name(data))
    return about | {"method": type(fitted).__name__, "out": str(out)}


class _Part(NamedTuple):
    """The predictions for a block of rows, and what is printed about it."""

    arrays: dict[str, Any]
    about: dict[str, Any]


@dataclass(frozen=True)
class _Predictor:
    """A calibrator that answers a file of outputs, or a block of several files; it can be pickled."""

    fitted: Any
    model: str
    data: str
    names: Names
    coverage: float

    @property
    def task(self) -> str:
        return "classification" if isinstance(self.fitted, Calibrator) else "regression"

    def check_options(self, coverage: float | None) -> None:
        """Raise an error for options that a model of this kind would ignore."""
        if self.task == "classification" and coverage is not None:
            raise ValueError(f"--coverage is for regressors, and {self.model} belongs to a classifier")
        if self.names.task() not in (None, self.task):
            raise ValueError(f"{self.model} does {self.task}: name its outputs only, by --logits or --mean and --scale")

    def of_block(self, frame: Any) -> _Part:
        """The predictions for a block of several files."""
        return self.of(read_outputs(Path(self.data), self.names, task=self.task, truth=False, table=frame))

    def of(self, outputs: Outputs) -> _Part:
        """The predictions for a file of outputs."""
        outputs = self._needed(outputs)
        arrays = self._arrays(outputs)
        for name, array in arrays.items():  # a CSV would show NaN as an empty cell
            rows = np.flatnonzero(np.isnan(array).reshape(len(array), -1).any(1))
            if len(rows):
                raise ValueError(
                    f"{self.model} predicts NaN as {name} of row {rows[0]} ({len(rows)} such rows): nothing is written"
                )
        return _Part(arrays, outputs.about(self.data))

    def _needed(self, outputs: Outputs) -> Outputs:
        """The outputs that the model reads; an error where one is missing."""
        wanted = needs(self.fitted)
        if "classes" in wanted and outputs.predicted.shape[1] != wanted["classes"]:
            raise ValueError(
                f"{self.model} was fitted to {wanted['classes']} classes, {self.data} has {outputs.predicted.shape[1]}"
            )
        if "inputs" in wanted and (wanted["inputs"] == "probabilities") != outputs.are_probabilities:
            has = "probabilities" if outputs.are_probabilities else "logits"
            raise ValueError(f"{self.model} was fitted to {wanted['inputs']}, and {self.data} has {has}")
        columns = wanted["features"]
        width = 0 if outputs.features is None else math.prod(outputs.features.shape[1:])
        if columns and width != columns:
            has = f"has {width}" if width else "has none, or under another name: name them by --features"
            raise ValueError(f"{self.model} reads {columns} features per row; {self.data} {has}")
        if wanted.get("scale") and outputs.scale is None:
            raise ValueError(f"{self.model} reads the regressor's scales; {self.data} has none: name them by --scale")
        scale = outputs.scale if wanted.get("scale") else None
        return replace(outputs, features=outputs.features if columns else None, scale=scale)

    def _arrays(self, outputs: Outputs) -> dict[str, Any]:
        fitted = self.fitted
        if isinstance(fitted, Calibrator):
            probabilities = fitted.predict_proba(outputs.predicted, outputs.features)
            return {"predicted": probabilities.argmax(1), "probabilities": probabilities}
        rows = (outputs.predicted, outputs.scale, outputs.features)
        lower, upper = fitted.predict_interval(*rows, self.coverage)
        return {"mean": outputs.predicted, "scale": fitted.predict_scale(*rows), "lower": lower, "upper": upper}


def _written(parts: Iterator[_Part], out: Path, data: str) -> dict[str, Any]:
    """Write the predictions to a file that replaces OUT at the end; return what is printed."""
    with replacing(out) as beside:
        if out.suffix.lower() == ".parquet":
            abouts = _write_parquet(parts, beside)
        else:
            part = next(parts)
            abouts = [part.about]
            with beside.open("wb") as file:
                _write_one(part.arrays, file, out.suffix.lower())
        if not abouts:
            raise ValueError(f"{data} has no rows")
    return abouts[0] | {"rows": sum(about["rows"] for about in abouts)}


def _write_one(arrays: dict[str, Any], file: BinaryIO, ending: str) -> None:
    if ending == ".npz":
        np.savez(file, **arrays)
    else:
        import pandas as pd

        pd.DataFrame(_columns(arrays)).to_csv(file, index=False)


def _write_parquet(parts: Iterator[_Part], beside: Path) -> list[dict[str, Any]]:
    """Write one part at a time, and return what is printed about each."""
    import pyarrow as pa
    from pyarrow import parquet

    writer, abouts = None, []
    try:
        for part in parts:
            table = pa.table(_columns(part.arrays))
            writer = writer or parquet.ParquetWriter(beside, table.schema)
            writer.write_table(table.cast(writer.schema))
            abouts.append(part.about)
    finally:
        if writer is not None:
            writer.close()
    return abouts


def _columns(arrays: dict[str, Any]) -> dict[str, Any]:
    """One column per number of a row."""
    columns = dict(arrays)
    for k, column in enumerate(columns.pop("probabilities", np.empty((0, 0))).T):
        columns[f"probability_{k}"] = np.ascontiguousarray(column)
    return columns
