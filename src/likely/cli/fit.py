"""The work of `likely calibrate`: fit a calibrator to a model's outputs, score it, and save it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from likely._rows.reading.read_table import source_name
from likely._rows.sources import Source
from likely.calibration import compose, save
from likely.calibration._choice import METHODS, SCALE_METHODS, make_calibrator
from likely.cli.outputs import Names, Outputs, read_outputs
from likely.cli.paths import check_output, several_files
from likely.cli.scores import before, compared, fit, out_of_fold

MAX_FITTED_VALUES = 1 << 26  # numbers in the table that a calibrator is fitted to; of more, a sample of rows


def calibrate(
    data: str | Path,
    out: Path,
    names: Names,
    method: str,
    *,
    likelihood: str | None,
    cv: int,
    random_state: int,
    tell: Callable[[str, float], None],
) -> dict[str, Any]:
    """Fit a calibrator, score it on held-out rows, and save it; return what is printed."""
    if cv == 1:
        raise ValueError("--cv must be 0, or 2 or more")
    source = several_files(data)
    check_output(out, {"DATA": data}, source)
    outputs = _sample(source, Path(data).name, names) if source else read_outputs(Path(data), names, truth=True)
    calibrator = _made(method, outputs, likelihood, random_state)
    _check_rows(outputs, cv)
    if outputs.are_probabilities:
        calibrator.set_params(inputs="probabilities")
    about = {**outputs.about(source_name(data)), "task": outputs.task, "method": method}
    with _naming_the_row(outputs, method):
        tell("fitting", 0.0)
        fitted = fit(calibrator, outputs)
        if hasattr(fitted, "name_"):  # of the best of several, which may have been averaged with others
            about["chosen"] = list(getattr(fitted, "members_", [fitted.name_]))
        about["random_state"] = random_state
        if cv:
            about |= _judged(calibrator, outputs, cv, random_state, tell)
    save(fitted, out, about=about)
    return about | {"out": str(out)}


def _sample(source: Source, name: str, names: Names) -> Outputs:
    """A regular sample of the rows with their labels or targets, and a note about it."""
    stride = max(1, -(-len(source) * source.width // MAX_FITTED_VALUES))
    (table,) = source.every(stride)
    outputs = read_outputs(Path(name), names, truth=True, table=table)
    if stride == 1:
        return outputs
    note = f"Fitted on {len(outputs):,} of {len(source):,} rows, one in {stride:,}."
    return replace(outputs, notes=(*outputs.notes, note))


def _made(method: str, outputs: Outputs, likelihood: str | None, random_state: int) -> Any:
    """The calibrator of that name, or the composition of several."""
    classifier = outputs.task == "classification"
    if classifier and likelihood is not None:
        raise ValueError("--likelihood is for regressors, and these are the outputs of a classifier")
    known = METHODS if classifier else SCALE_METHODS
    names = method.split("+")
    if not set(names) <= set(known):
        raise ValueError(
            f"--method for {outputs.task} must be one of {', '.join(known)}, or several joined by +; got {method}"
        )
    if "feature" in names and outputs.features is None:
        raise ValueError("--method feature needs features, and the file has none: name them by --features")
    parts = [
        make_calibrator(name) if classifier else SCALE_METHODS[name](likelihood=likelihood or "normal")
        for name in names
    ]
    for part in parts:
        if "random_state" in part.get_params():
            part.set_params(random_state=random_state)
    if len(parts) == 1:
        return parts[0]
    return compose(*parts)


def _check_rows(outputs: Outputs, cv: int) -> None:
    assert outputs.truth is not None
    if len(outputs) < max(2 * cv, 2):
        raise ValueError(f"there are {len(outputs)} rows, and {cv} folds need {2 * cv}: choose fewer with --cv")
    if outputs.task == "classification" and bool((outputs.truth == outputs.truth[0]).all()):
        raise ValueError(f"all {len(outputs)} labels are {outputs.truth[0]}: calibration needs at least two classes")


@contextmanager
def _naming_the_row(outputs: Outputs, method: str) -> Iterator[None]:
    """If a fit fails, name the row that is probably the reason."""
    try:
        yield
    except (ValueError, ArithmeticError) as error:
        if (row := outputs.unusual_row()) is None:
            raise
        raise ValueError(f"{row}, which makes --method {method} fail: {error}") from None


def _judged(
    calibrator: Any, outputs: Outputs, cv: int, random_state: int, tell: Callable[[str, float], None]
) -> dict[str, Any]:
    """Cross-validated scores."""

    def tell_fold(fold: int) -> None:
        tell(f"fold {fold + 1} of {cv}", (1 + fold) / (1 + cv))

    new = out_of_fold(calibrator, outputs, cv, random_state, tell_fold)
    judged = f"Cross-validated: each row is scored by a fit to the other {cv - 1} of {cv} folds."
    return compared(before(outputs, calibrator), new) | {"judged": judged}
