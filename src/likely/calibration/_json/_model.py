"""Fitted calibrators as plain JSON: numbers that any language reads, and no code in them."""

from __future__ import annotations

import inspect
import math
import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from likely._files import replacing
from likely.calibration._composition import Composed
from likely.calibration._json._fields import Record
from likely.calibration._json._learned import LEARNED, inside, read, write
from likely.calibration._json._text import laid_out, parsed
from likely.calibration.classifiers._base import INPUTS, Calibrator
from likely.calibration.classifiers._temperature import FeatureTemperature
from likely.calibration.regressors._scale import FAMILIES

FORMAT = 1
_DEPTH = 20  # of calibrators within calibrators
_KINDS = {kind.__name__: kind for kind in LEARNED}


def save(calibrator: Any, path: str | os.PathLike[str], *, about: dict[str, Any] | None = None) -> None:
    """Write a fitted calibrator to a JSON file that :func:`load`, or a program in any language, reads.

    The calibrators of classifiers and of regressors in this package can be saved; a :class:`CalibratedClassifier` or
    the like cannot, since the model in it may be anything. Numbers come back exactly. ``about`` is for notes of
    yours. A file that is there already is replaced at once or not at all.

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
    """
    text, target = to_json(calibrator, about), Path(path)
    try:
        with replacing(target) as beside:
            beside.write_text(text, encoding="utf-8")
    except OSError as error:
        raise OSError(error.errno, f"{error.strerror}; the model was not saved", str(path)) from error


def load(path: str | os.PathLike[str]) -> Any:
    """The fitted calibrator in a file that :func:`save` or ``likely calibrate`` wrote.

    What is no such file, or was cut short, or comes from a later format, is refused in words. Nothing in the file
    is run: it holds numbers. An :class:`AutoCalibrator` comes back with its members as candidates.

    >>> import tempfile, pathlib
    >>> from likely import calibration
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "settings.json")
    ...     _ = path.write_text('{"colour": "red"}')
    ...     calibration.load(path)
    Traceback (most recent call last):
    ...
    ValueError: settings.json is no calibrated model of likely: it has no 'format'
    """
    file = Path(path)
    if not file.is_file():
        raise FileNotFoundError(f"{path} is not a file" if file.exists() else f"{path} does not exist")
    try:
        text = file.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:
        raise ValueError(f"{file.name} is no calibrated model of likely: it is not text") from None
    return from_json(text, file.name)


def to_json(calibrator: Any, about: dict[str, Any] | None = None) -> str:
    """The text of the file."""
    record = _written(calibrator)
    whole = {"format": FORMAT, "likely": _version(), **needs(calibrator)}
    return laid_out(whole | ({"about": about} if about else {}) | {"calibrator": record}) + "\n"


def needs(calibrator: Any) -> dict[str, Any]:
    """What a fitted calibrator has to be given."""
    parts = _innermost(calibrator)
    features = max(map(_features_of, parts))
    if isinstance(calibrator, Calibrator):
        inputs, classes = calibrator.inputs, int(calibrator.n_classes_)
        return {"kind": "classifier", "inputs": inputs, "classes": classes, "features": features}
    return {"kind": "regressor", "scale": bool(parts[0].has_scale_), "features": features}


def _innermost(calibrator: Any) -> list[Any]:
    return [part for inner in inside(calibrator) for part in _innermost(inner)] or [calibrator]


def _features_of(calibrator: Any) -> int:
    """How many features per row it reads; 0 for none."""
    if isinstance(calibrator, FeatureTemperature):
        return len(calibrator.solution_.coef)
    return int(calibrator.n_features_) if "features" in LEARNED[type(calibrator)] else 0


def from_json(text: str, name: str = "the text") -> Any:
    """The fitted calibrator again."""
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
    """The outermost record, of a format that is known."""
    for field in ("format", "likely", "kind"):
        if not isinstance(content, dict) or field not in content:
            lack = f"it has no {field!r}" if isinstance(content, dict) else "it is not an object"
            raise ValueError(f"{name} is no calibrated model of likely: {lack}")
    whole = Record(content, name)
    if (form := whole.whole("format", 1)) > FORMAT:
        writer = whole.text("likely")
        raise ValueError(
            f"{name} has format {form}, written by likely {writer}; this is likely {_version()}, "
            f"which reads format {FORMAT}: install a later one"
        )
    if whole.text("kind") not in ("classifier", "regressor"):
        raise ValueError(f"{name}: 'kind' must be classifier or regressor, found {whole.text('kind')!r}")
    whole.classes = whole.whole("classes", 2) if whole.text("kind") == "classifier" else 0
    return whole


def _version() -> str:
    # The package is a floor above this file, which may not import it; but it is there whenever this is.
    return str(sys.modules["likely"].__version__)


def _written(calibrator: Any) -> dict[str, Any]:
    kind = type(calibrator)
    if kind not in LEARNED:
        inner = " Its calibrator_ can be saved." if hasattr(calibrator, "calibrator_") else ""
        raise TypeError(f"{kind.__name__} is none of likely's calibrators, and only those can be saved.{inner}")
    check_is_fitted(calibrator)
    named = {name: _plain(value) for name, value in calibrator.get_params(deep=False).items()}
    # What a file cannot say, such as a random generator, is left at its default.
    parameters = {name: value for name, value in named.items() if name != "inputs" and value is not NotImplemented}
    return {"method": kind.__name__, "parameters": parameters, **write(calibrator, _written)}


def _again(record: Record, whole: Record, depth: int = 0) -> Any:
    if depth > _DEPTH:
        raise ValueError(f"{whole.name} is no calibrated model of likely: calibrators are nested too deeply in it")
    method, kind = record.text("method"), whole.text("kind")
    record.name = f"{record.name} ({method})"
    if method not in _KINDS or issubclass(_KINDS[method], Calibrator) != (kind == "classifier"):
        raise ValueError(f"{record.name}: likely {_version()} knows no {kind} method of that name")
    calibrator = _unfitted(_KINDS[method], record.record("parameters"))
    likelihood = getattr(calibrator, "likelihood", "normal")
    if likelihood not in list(FAMILIES):  # a list, which a file may have here, has no hash
        raise ValueError(f"{record.name}: 'likelihood' must be {' or '.join(FAMILIES)}, found {likelihood!r}")
    record.again = lambda inner: _again(inner, whole, depth + 1)
    read(calibrator, record)
    return calibrator


def _unfitted(kind: type, parameters: Record) -> Any:
    unknown = set(parameters.content) - (set(inspect.signature(kind).parameters) - {"steps", "inputs"})
    if unknown or any(_plain(value) is NotImplemented for value in parameters.content.values()):
        raise ValueError(f"{parameters.name} are not those of {kind.__name__}: {sorted(parameters.content)}")
    steps: dict[str, Any] = {"steps": []} if issubclass(kind, Composed) else {}
    return kind(**steps, **parameters.content)


def _plain(value: Any) -> Any:
    """The value in JSON's types, or NotImplemented."""
    value = value.item() if isinstance(value, np.generic) else value
    if isinstance(value, list) and all(isinstance(each, str) for each in value) and value:
        return value
    plain = value is None or isinstance(value, bool | int | str) or (isinstance(value, float) and math.isfinite(value))
    return value if plain else NotImplemented
