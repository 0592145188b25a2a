"""Fitted calibrators as plain JSON: numbers that any language reads, and no code."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from sklearn.utils.validation import check_is_fitted

from likely._files import replacing
from likely._saving.parameters import check_format, package_version, unfitted, written_parameters
from likely._saving.record import Record
from likely._saving.text import laid_out, parsed
from likely.calibration._compose import Composed
from likely.calibration._saved_fields import LEARNED, inside, read, write
from likely.calibration.classifiers._base import INPUTS, Calibrator
from likely.calibration.classifiers._temperature import FeatureTemperature
from likely.calibration.regressors._scale import FAMILIES

FORMAT = 1
_DEPTH = 20  # of calibrators within calibrators
NOT_PARAMETERS = ("inputs", "steps")  # arguments that are fields of their own
_KINDS = {kind.__name__: kind for kind in LEARNED}


def save(calibrator: Any, path: str | os.PathLike[str], *, about: dict[str, Any] | None = None) -> None:
    """Write a fitted calibrator to a JSON file that :func:`load`, or a program in any language, reads.

    Numbers are restored exactly. An existing file is replaced in one move, or not at all.

    Args:
        calibrator: fitted calibrator of a classifier or a regressor from this package. A :class:`CalibratedClassifier`,
            :class:`CalibratedRegressor` or :class:`CalibratedModule` cannot be saved, since it holds a model of any
            kind; its ``calibrator_`` (of the module, ``calibrator``) can.
        path: path of the file.
        about: notes to store with it, in JSON's types; None for none.

    Raises:
        TypeError: the calibrator is not one of this package.
        OSError: the file cannot be written.

    Example:
        >>> import tempfile, pathlib
        >>> import numpy as np
        >>> from likely import calibration
        >>> rng = np.random.default_rng(0)
        >>> y = rng.integers(0, 3, 500)
        >>> logits = 4 * (np.eye(3)[y] + rng.normal(size=(500, 3)))
        >>> fitted = calibration.GlobalTemperature().fit(logits, y)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = pathlib.Path(folder, "model.json")
        ...     calibration.save(fitted, path, about={"network": "a small one"})
        ...     again = calibration.load(path)
        >>> again.temperature_ == fitted.temperature_
        True

    See Also:
        :func:`load`.
    """
    text, target = to_json(calibrator, about), Path(path)
    try:
        with replacing(target) as beside:
            beside.write_text(text, encoding="utf-8")
    except OSError as error:
        raise OSError(error.errno, f"{error.strerror}; the model was not saved", str(path)) from error


def load(path: str | os.PathLike[str]) -> Any:
    """Read a fitted calibrator from a file that :func:`save` or ``likely calibrate`` wrote.

    The file holds numbers; no code in it is run. An :class:`AutoCalibrator` is restored with its members as candidates.

    Args:
        path: path of the file.

    Returns:
        The fitted calibrator.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: the file is not one of these, is truncated, or has a format of a later version.

    Example:
        >>> import tempfile, pathlib
        >>> from likely import calibration
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = pathlib.Path(folder, "settings.json")
        ...     _ = path.write_text('{"colour": "red"}')
        ...     calibration.load(path)
        Traceback (most recent call last):
        ...
        ValueError: settings.json is not a calibrated model of likely: it has no 'format'

    See Also:
        :func:`save`.
    """
    file = Path(path)
    if not file.is_file():
        raise FileNotFoundError(f"{path} is not a file" if file.exists() else f"{path} does not exist")
    try:
        text = file.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:
        raise ValueError(f"{file.name} is not a calibrated model of likely: it is not text") from None
    return from_json(text, file.name)


def to_json(calibrator: Any, about: dict[str, Any] | None = None) -> str:
    """Return the text of the file."""
    record = _written(calibrator)
    whole = {"format": FORMAT, "likely": package_version(), **needs(calibrator)}
    return laid_out(whole | ({"about": about} if about else {}) | {"calibrator": record}) + "\n"


def needs(calibrator: Any) -> dict[str, Any]:
    """Return the inputs that a fitted calibrator needs."""
    parts = _innermost(calibrator)
    features = max(map(_features_of, parts))
    if isinstance(calibrator, Calibrator):
        inputs, classes = calibrator.inputs, int(calibrator.n_classes_)
        return {"kind": "classifier", "inputs": inputs, "classes": classes, "features": features}
    return {"kind": "regressor", "scale": bool(parts[0].has_scale_), "features": features}


def _innermost(calibrator: Any) -> list[Any]:
    return [part for inner in inside(calibrator) for part in _innermost(inner)] or [calibrator]


def _features_of(calibrator: Any) -> int:
    """Return the number of features per row that a calibrator reads; 0 for none."""
    if isinstance(calibrator, FeatureTemperature):
        return len(calibrator.solution_.coef)
    return int(calibrator.n_features_) if "features" in LEARNED[type(calibrator)] else 0


def from_json(text: str, name: str = "the text") -> Any:
    """Return the fitted calibrator in a text."""
    whole = _whole(parsed(text, name), name)
    calibrator = _again(whole.record("calibrator"), whole)
    if whole.classes:
        calibrator.inputs = whole.text("inputs")
        if calibrator.inputs not in INPUTS:
            raise ValueError(f"{name}: 'inputs' must be logits or probabilities, found {calibrator.inputs!r}")
    for field, needed in needs(calibrator).items():
        if whole.value(field) != needed:
            raise ValueError(f"{name}: {field!r} is {whole.value(field)!r}, but its calibrator needs {needed!r}")
    return calibrator


def _whole(content: Any, name: str) -> Record:
    """Return the outermost record, of a known format."""
    for field in ("format", "likely", "kind"):
        if not isinstance(content, dict) or field not in content:
            lack = f"it has no {field!r}" if isinstance(content, dict) else "it is not an object"
            raise ValueError(f"{name} is not a calibrated model of likely: {lack}")
    whole = Record(content, name)
    check_format(whole, FORMAT)
    if whole.text("kind") not in ("classifier", "regressor"):
        raise ValueError(f"{name}: 'kind' must be classifier or regressor, found {whole.text('kind')!r}")
    whole.classes = whole.whole("classes", 2) if whole.text("kind") == "classifier" else 0
    return whole


def _written(calibrator: Any) -> dict[str, Any]:
    kind = type(calibrator)
    if kind not in LEARNED:
        inner = " Its calibrator_ can be saved." if hasattr(calibrator, "calibrator_") else ""
        raise TypeError(f"{kind.__name__} is not a calibrator of likely, and only those can be saved.{inner}")
    check_is_fitted(calibrator)
    parameters = written_parameters(calibrator, without=NOT_PARAMETERS)
    return {"method": kind.__name__, "parameters": parameters, **write(calibrator, _written)}


def _again(record: Record, whole: Record, depth: int = 0) -> Any:
    if depth > _DEPTH:
        raise ValueError(f"{whole.name} is not a calibrated model of likely: calibrators are nested too deeply in it")
    method, kind = record.text("method"), whole.text("kind")
    record.name = f"{record.name} ({method})"
    if method not in _KINDS or issubclass(_KINDS[method], Calibrator) != (kind == "classifier"):
        raise ValueError(f"{record.name}: likely {package_version()} has no {kind} method of that name")
    steps: dict[str, Any] = {"steps": []} if issubclass(_KINDS[method], Composed) else {}
    calibrator = unfitted(_KINDS[method], record.record("parameters"), **steps)
    likelihood = getattr(calibrator, "likelihood", "normal")
    if likelihood not in list(FAMILIES):  # a list, which a file may have here, has no hash
        raise ValueError(f"{record.name}: 'likelihood' must be {' or '.join(FAMILIES)}, found {likelihood!r}")
    record.again = lambda inner: _again(inner, whole, depth + 1)
    read(calibrator, record)
    return calibrator
