"""The work of `likely predict`: apply a calibrator to a model's outputs, and write what it predicts."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from likely._files import replacing, write_parquet
from likely._rows.reading.read_table import source_name
from likely.calibration import Calibrator, load_with_notes, needs
from likely.cli.outputs import Names, Outputs, check_output, read_outputs, several_files, task_of


def predict(model: Path, data: str | Path, out: Path, names: Names, *, coverage: float | None) -> dict[str, Any]:
    """Apply a calibrator to the outputs in a file, and write its predictions; return what is printed."""
    ending = out.suffix.lower()
    source = several_files(data)
    endings = (".parquet",) if source else (".npz", ".csv", ".parquet")
    if ending not in endings:
        raise ValueError(f"--out must end in {' or '.join(endings)}, got {out.name}")
    check_output(out, {"MODEL": model, "DATA": data}, source)
    fitted, notes = load_with_notes(model)
    listed: Any = notes.get("class_names") if isinstance(notes, dict) else None
    named = isinstance(listed, list) and len(listed) == needs(fitted).get("classes")
    class_names = tuple(map(str, listed)) if named else ()
    predictor = _Predictor(fitted, model.name, Path(data), names, coverage or 0.9, class_names)
    if predictor.task == "classification" and coverage is not None:
        raise ValueError(f"--coverage is for regressors, and {model.name} belongs to a classifier")
    if task_of(names) not in (None, predictor.task):
        raise ValueError(
            f"{model.name} does {predictor.task}: name its outputs only, by --logits or --mean and --scale"
        )
    abouts: list[dict[str, Any]] = []

    def predictions() -> Iterator[dict[str, Any]]:
        for arrays, about in source.each(predictor) if source else [predictor()]:
            abouts.append(about)
            yield arrays if ending == ".npz" else _columns(arrays, class_names)

    with replacing(out) as beside:
        if ending == ".parquet":
            write_parquet(predictions(), beside)
        else:
            (arrays,) = predictions()
            with beside.open("wb") as file:
                if ending == ".npz":
                    np.savez(file, **arrays)
                else:
                    pd.DataFrame(arrays).to_csv(file, index=False)
        if not abouts:
            raise ValueError(f"{source_name(data)} has no rows")
    rows = sum(about["rows"] for about in abouts)
    method = type(fitted).__name__
    if predictor.task == "regression":
        method += f", with {100 * predictor.coverage:g}% intervals"
    return {**abouts[0], "rows": rows, "method": method, "out": str(out)}


@dataclass(frozen=True)
class _Predictor:
    """A calibrator that answers a file of outputs, or a block of several files; it can be pickled."""

    fitted: Any
    model: str
    data: Path
    names: Names
    coverage: float
    class_names: tuple[str, ...]

    @property
    def task(self) -> str:
        return "classification" if isinstance(self.fitted, Calibrator) else "regression"

    def __call__(self, block: Any = None) -> tuple[dict[str, Any], dict[str, Any]]:
        """The predictions for the file, or for a block of several, and what is printed about it."""
        outputs = read_outputs(
            self.data, self.names, task=self.task, truth=False, table=block, class_names=self.class_names
        )
        arrays = self._arrays(self._needed(outputs))
        for name, array in arrays.items():
            if pd.isna(array).any():  # a CSV would show an empty cell
                raise ValueError(f"{self.model} predicts NaN as {name}: nothing is written")
        return arrays, outputs.about(source_name(self.data))

    def _needed(self, outputs: Outputs) -> Outputs:
        """The outputs that the model reads; an error where one is missing."""
        wanted, data = needs(self.fitted), source_name(self.data)
        if self.task == "classification":
            inputs = "probabilities" if outputs.are_probabilities else "logits"
            if wanted["inputs"] != inputs:
                raise ValueError(f"{self.model} was fitted to {wanted['inputs']}, and {data} has {inputs}")
        columns = wanted["features"]
        width = 0 if outputs.features is None else math.prod(outputs.features.shape[1:])
        if columns and width != columns:
            has = f"has {width}" if width else "has none, or under another name: name them by --features"
            raise ValueError(f"{self.model} reads {columns} features per row; {data} {has}")
        if wanted.get("scale") and outputs.scale is None:
            raise ValueError(f"{self.model} reads the regressor's scales; {data} has none: name them by --scale")
        scale = outputs.scale if wanted.get("scale") else None
        return replace(outputs, features=outputs.features if columns else None, scale=scale)

    def _arrays(self, outputs: Outputs) -> dict[str, Any]:
        if self.task == "classification":
            probabilities = self.fitted.predict_proba(outputs.predicted, outputs.features)
            predicted = probabilities.argmax(1)
            names = np.array(self.class_names)[predicted] if self.class_names else predicted
            return {"predicted": names, "probabilities": probabilities}
        rows = (outputs.predicted, outputs.scale, outputs.features)
        lower, upper = self.fitted.predict_interval(*rows, self.coverage)
        return {"mean": outputs.predicted, "scale": self.fitted.predict_scale(*rows), "lower": lower, "upper": upper}


def _columns(arrays: dict[str, Any], class_names: tuple[str, ...]) -> dict[str, Any]:
    """One column per number of a row."""
    columns = dict(arrays)
    for k, column in enumerate(columns.pop("probabilities", np.empty((0, 0))).T):
        columns[f"probability_{class_names[k] if class_names else k}"] = column
    return columns
