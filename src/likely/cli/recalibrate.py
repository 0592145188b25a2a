"""The work of `likely calibrate` and `likely predict`: fit a calibrator to a file of outputs, and apply it."""

from __future__ import annotations

import io
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from likely._destination import keep_inputs, writable, write_together
from likely._files import replacing
from likely._solvers.selection import held_out_gain
from likely.auditing._read import source_name
from likely.calibration import Calibrator, compose, load, save
from likely.calibration._methods import METHODS, SCALE_METHODS, make_calibrator
from likely.calibration._saved import needs
from likely.cli.outputs import Names, Outputs, read_outputs
from likely.cli.paths import Outside
from likely.cli.scores import Scores, after, before, fit, out_of_fold, rows_after, rows_before, summed_up

ENDINGS = (".npz", ".csv", ".parquet")


def calibrate(
    data: str | Path,
    out: Path,
    names: Names,
    method: str,
    *,
    likelihood: str | None,
    folds: int,
    seed: int,
    tell: Callable[[str, float], None],
) -> dict[str, Any]:
    """Fit a calibrator, score it on held-out rows, and save it; return what is printed."""
    if folds == 1:
        raise ValueError("--folds must be 0, or 2 or more")
    table = Outside.of(data)
    _check_output(out, {"DATA": None if table else data, **names.files()}, table)
    outputs = table.sample(names) if table else read_outputs(Path(data), names, truth=True)
    names.check_used(outputs.task)
    if outputs.task == "classification" and likelihood is not None:
        raise ValueError("--likelihood is for regressors, and these are the outputs of a classifier")
    calibrator = _made(method, outputs, likelihood or "normal", seed)
    _check_rows(outputs, folds)
    if names.probabilities:
        calibrator.set_params(inputs="probabilities")
    about = {**_about(source_name(data), outputs), "task": outputs.task, "method": method}
    with _naming_the_row(outputs, method):
        tell("fitting", 0.0)
        fitted = fit(calibrator, outputs)
        if hasattr(fitted, "name_"):  # of the best of several, which may have been averaged with others
            about["chosen"] = list(getattr(fitted, "members_", [fitted.name_]))
        about["seed"] = seed
        if folds:
            about |= _judged(calibrator, outputs, folds, seed, tell)
    save(fitted, out, about=about)
    return about | {"out": str(out)}


def predict(
    model: Path, data: str | Path, out: Path, names: Names, *, coverage: float | None, quantiles: str | None
) -> dict[str, Any]:
    """Apply a calibrator to the outputs in a file, and write its predictions; return what is printed."""
    levels = _levels(quantiles)
    if out.suffix.lower() not in ENDINGS:
        raise ValueError(f"--out must end in {', '.join(ENDINGS[:-1])} or {ENDINGS[-1]}, got {out.name}")
    table = Outside.of(data)
    if table and out.suffix.lower() != ".parquet":
        raise ValueError(
            f"predictions for several files are written as Parquet: --out must end in .parquet, got {out.name}"
        )
    if coverage is not None and not 0 < coverage < 1:
        raise ValueError(f"--coverage must be between 0 and 1, got {coverage}")
    _check_output(out, {"MODEL": model, "DATA": None if table else data, **names.files()}, table)
    fitted = load(model)
    classifier = isinstance(fitted, Calibrator)
    for option, value in (("--coverage", coverage), ("--quantiles", quantiles)):
        if classifier and value is not None:
            raise ValueError(f"{option} is for regressors, and {model.name} belongs to a classifier")
    task = "classification" if classifier else "regression"
    names.check_used(task)
    names = replace(names, task=task, probabilities=classifier and fitted.inputs == "probabilities")
    answer = _Answer(fitted, model, source_name(data), names, coverage or 0.9, levels)
    if table:
        return _predict_blocks(table, answer, out)
    outputs, answers = answer(read_outputs(Path(data), names, truth=False))
    about = {**_about(source_name(data), outputs), "method": type(fitted).__name__}
    if outputs.truth is not None:
        about |= _compared(before(outputs, fitted), after(fitted, outputs)) | answer.judged
    _write(out, answers)
    return about | {"out": str(out)}


@dataclass(frozen=True)
class _Answer:
    """The predictions of a calibrator for outputs, in one file or in a block of several."""

    fitted: Any
    model: Path
    name: str
    names: Names
    coverage: float
    levels: list[float]

    def __call__(self, outputs: Outputs) -> tuple[Outputs, dict[str, Any]]:
        outputs = _fitting(outputs, self.fitted, self.model, self.name)
        answers = _answers(self.fitted, outputs, self.coverage, self.levels)
        _check_answers(answers, self.model)
        return outputs, answers

    def block(self, frame: Any) -> dict[str, Any]:
        """The columns to write for a block, and its scores."""
        outputs, answers = self(read_outputs(Path(self.name), self.names, truth=False, table=frame))
        judged = outputs.truth is not None
        return {
            "columns": _flat(answers),
            "before": rows_before(outputs, self.fitted) if judged else None,
            "after": rows_after(self.fitted, outputs) if judged else None,
            "about": _about(self.name, outputs),
        }

    @property
    def judged(self) -> dict[str, Any]:
        """The caveat of the scores."""
        return {"judged": f"These scores are valid only if {self.model.name} was fitted to other rows."}


def _predict_blocks(table: Outside, answer: _Answer, out: Path) -> dict[str, Any]:
    """Write the predictions for a table in blocks, one block at a time, to a file that replaces OUT at the end."""
    import pyarrow as pa
    from pyarrow import parquet

    writer: Any = None
    rows, parts = 0, []
    with replacing(out) as beside:
        try:
            for part in table.source.each(answer.block):
                columns = pa.table(part.pop("columns"))
                writer = writer or parquet.ParquetWriter(beside, columns.schema)
                writer.write_table(columns.cast(writer.schema))
                rows += len(columns)
                parts.append(part)
        finally:
            if writer is not None:
                writer.close()
        if not rows:
            raise ValueError(f"{answer.name} has no rows")
    about = parts[0]["about"] | {"rows": rows, "method": type(answer.fitted).__name__}
    if parts[0]["after"] is not None:
        old, new = (
            None
            if parts[0][when] is None
            else summed_up(answer.fitted, np.concatenate([part[when] for part in parts], 1))
            for when in ("before", "after")
        )
        assert new is not None
        about |= _compared(old, new) | answer.judged
    return about | {"out": str(out)}


def _check_output(out: Path, inputs: dict[str, Any], table: Outside | None = None) -> None:
    """Raise an error, before any work, if OUT is one of the inputs or a folder, or cannot be written."""
    for path in table.source.paths if table else ():
        keep_inputs([out], {"DATA": path})
    for option in inputs if table else ():
        if option.startswith("--"):
            raise ValueError(
                f"{option} names a separate file, which works with a single file of outputs only: put it into the table"
            )
    if not out.parent.is_dir():
        raise FileNotFoundError(f"the folder {out.parent} of --out does not exist")
    keep_inputs([out], inputs)
    if not out.exists() or out.is_file():  # otherwise a pipe or a device, which is written to directly
        with writable(out.parent):
            pass


def _made(method: str, outputs: Outputs, likelihood: str, seed: int) -> Any:
    """The calibrator of that name, or the composition of several."""
    classifier = outputs.task == "classification"
    known = METHODS if classifier else SCALE_METHODS
    names = method.split("+")
    if not set(names) <= set(known):
        raise ValueError(
            f"--method for {outputs.task} must be one of {', '.join(known)}, or several joined by +; got {method}"
        )
    if "feature" in names and outputs.features is None:
        raise ValueError("--method feature needs features, and the file has none: name them by --features")
    parts = [make_calibrator(name) if classifier else SCALE_METHODS[name](likelihood=likelihood) for name in names]
    for part in parts:
        if "random_state" in part.get_params():
            part.set_params(random_state=seed)
    if len(parts) == 1:
        return parts[0]
    return compose(*parts)


def _check_rows(outputs: Outputs, folds: int) -> None:
    assert outputs.truth is not None
    if len(outputs) < max(2 * folds, 2):
        raise ValueError(
            f"there are {len(outputs)} rows, and {folds} folds need {2 * folds}: choose fewer with --folds"
        )
    if outputs.task == "classification" and bool((outputs.truth == outputs.truth[0]).all()):
        raise ValueError(f"all {len(outputs)} labels are {outputs.truth[0]}: calibration needs at least two classes")


def _fitting(outputs: Outputs, fitted: Any, model: Path, data: str) -> Outputs:
    """The outputs that the model reads; an error where one is missing."""
    wanted = needs(fitted)
    if "classes" in wanted and outputs.predicted.shape[1] != wanted["classes"]:
        raise ValueError(
            f"{model.name} was fitted to {wanted['classes']} classes, {data} has {outputs.predicted.shape[1]}"
        )
    columns = wanted["features"]
    width = 0 if outputs.features is None else math.prod(outputs.features.shape[1:])
    if columns and width != columns:
        has = f"has {width}" if width else "has none, or under another name: name them by --features"
        raise ValueError(f"{model.name} reads {columns} features per row; {data} {has}")
    if wanted.get("scale") and outputs.scale is None:
        raise ValueError(f"{model.name} reads the regressor's scales; {data} has none: name them by --scale")
    scale = outputs.scale if wanted.get("scale") else None
    return replace(outputs, features=outputs.features if columns else None, scale=scale)


def _answers(fitted: Any, outputs: Outputs, coverage: float, levels: list[float]) -> dict[str, Any]:
    if isinstance(fitted, Calibrator):
        probabilities = fitted.predict_proba(outputs.predicted, outputs.features)
        return {"predicted": probabilities.argmax(1), "probabilities": probabilities}
    rows = (outputs.predicted, outputs.scale, outputs.features)
    lower, upper = fitted.predict_interval(*rows, coverage)
    answers = {"mean": outputs.predicted, "scale": fitted.predict_scale(*rows), "lower": lower, "upper": upper}
    if levels:
        distribution = fitted.distribution(*rows)
        ends = [distribution.icdf(torch.full_like(distribution.mean, level)).numpy() for level in levels]
        answers |= {"levels": np.array(levels), "quantiles": np.stack(ends, axis=1)}
    return answers


def _judged(
    calibrator: Any, outputs: Outputs, folds: int, seed: int, tell: Callable[[str, float], None]
) -> dict[str, Any]:
    """Cross-validated scores."""
    new = out_of_fold(
        calibrator, outputs, folds, seed, lambda fold: tell(f"fold {fold + 1} of {folds}", (1 + fold) / (1 + folds))
    )
    judged = f"Cross-validated: each row is scored by a fit to the other {folds - 1} of {folds} folds."
    return _compared(before(outputs, calibrator), new) | {"judged": judged}


@contextmanager
def _naming_the_row(outputs: Outputs, method: str) -> Iterator[None]:
    """If a fit fails, name the row that is probably the reason."""
    try:
        yield
    except (ValueError, ArithmeticError) as error:
        if (row := outputs.unusual_row()) is None:
            raise
        raise ValueError(f"{row}, which makes --method {method} fail: {error}") from None


def _check_answers(answers: dict[str, Any], model: Path) -> None:
    """Raise an error instead of writing NaN, which a CSV would show as an empty cell."""
    for name, array in answers.items():
        rows = np.flatnonzero(np.isnan(array).reshape(len(array), -1).any(1))
        if len(rows):
            raise ValueError(
                f"{model.name} predicts NaN as {name} of row {rows[0]} ({len(rows)} such rows): nothing is written"
            )


def _write(out: Path, answers: dict[str, Any]) -> None:
    buffer = io.BytesIO()
    if out.suffix.lower() == ".npz":
        np.savez(buffer, **answers)
    else:
        import pandas as pd

        frame = pd.DataFrame(_flat(answers))
        if out.suffix.lower() == ".csv":
            frame.to_csv(buffer, index=False)
        else:
            frame.to_parquet(buffer, index=False)
    write_together({out: buffer.getvalue()})


def _flat(answers: dict[str, Any]) -> dict[str, Any]:
    """One column per number of a row."""
    levels = answers.get("levels", ())
    columns: dict[str, Any] = {}
    for name, array in answers.items():
        if name == "levels":
            continue
        if array.ndim == 1:
            columns[name] = array
        elif name == "probabilities":
            columns |= {f"probability_{k}": np.ascontiguousarray(column) for k, column in enumerate(array.T)}
        else:
            ends = zip(levels, array.T, strict=True)
            columns |= {f"quantile_{level:g}": np.ascontiguousarray(column) for level, column in ends}
    return columns


def _about(data: str, outputs: Outputs) -> dict[str, Any]:
    classes = {"classes": int(outputs.predicted.shape[1])} if outputs.task == "classification" else {}
    features = 0 if outputs.features is None else int(outputs.features.shape[-1])
    notes = {"notes": list(outputs.notes)} if outputs.notes else {}
    return {"data": data, "rows": len(outputs), **classes, "features": features, **notes}


def _compared(old: Scores | None, new: Scores) -> dict[str, Any]:
    if old is None:
        return {"after": _finite(new.told)}
    scores = {"before": _finite(old.told), "after": _finite(new.told)}
    if not (np.isfinite(old.nll).all() and np.isfinite(new.nll).all()):  # a label of probability zero
        return scores
    gain = held_out_gain(old.nll - new.nll)
    return scores | {"gain": {"NLL": gain.total / len(new.nll), "error": gain.error / len(new.nll)}}


def _finite(scores: dict[str, float]) -> dict[str, float | None]:
    """The scores, with None for infinity, which JSON does not have."""
    return {name: value if math.isfinite(value) else None for name, value in scores.items()}


def _levels(quantiles: str | None) -> list[float]:
    try:
        levels = [float(part) for part in quantiles.split(",")] if quantiles else []
    except ValueError:
        levels = [math.nan]
    if not all(0 < level < 1 for level in levels):
        raise ValueError(f"--quantiles must be numbers between 0 and 1 separated by commas, got {quantiles}")
    return levels
