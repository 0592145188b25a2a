"""Fitted calibrators as plain JSON: numbers that any language reads, and no code."""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from likely._files import replacing
from likely._saving.record import (
    Record,
    check_format,
    laid_out,
    package_version,
    parsed,
    unfitted,
    written_parameters,
)
from likely._solvers.evidence import Solution
from likely._typing import Array
from likely.calibration._calibrator import INPUTS, Calibrator
from likely.calibration._choice import (
    METHODS,
    SCALE_METHODS,
    AutoCalibrator,
    AutoScale,
    Composed,
    Composition,
    ScalePipeline,
)
from likely.calibration._classic import Polygon, Sigmoid
from likely.calibration._isotonic import Tails
from likely.calibration._row_factor import Networks
from likely.calibration._row_scale import MetRanges
from likely.calibration._scale import FAMILIES
from likely.calibration._temperature import LinearTemperature

FORMAT = 1
_DEPTH = 20  # of calibrators within calibrators
NOT_PARAMETERS = ("inputs", "steps")  # arguments that are fields of their own
_KINDS = {kind.__name__: kind for kind in (*METHODS.values(), *SCALE_METHODS.values(), Composition, ScalePipeline)}
# The fields of what each calibrator learns, in a record of its file.
_TEMPERATURE, _SCALE = ("global_temperature",), ("has_scale", "global_scale")
_CURVES = ("temperature", "share", "curves")
_LINE, _DEEP = ("solution", "precision", "n_iter"), ("features", "mean", "deviation", "n_iter", "gain", "networks")
LEARNED: dict[str, tuple[str, ...]] = {
    "GlobalTemperature": ("temperature",),
    "LinearTemperature": (*_TEMPERATURE, *_LINE),
    "FeatureTemperature": (*_TEMPERATURE, *_LINE),
    "DeepTemperature": (*_TEMPERATURE, *_DEEP),
    "VectorScaling": (*_TEMPERATURE, "factors", "bias", "precision"),
    "StructuredMatrixScaling": (*_TEMPERATURE, "factors", "bias", "mixing", "precision"),
    "PlattScaling": _CURVES,
    "IsotonicCalibration": _CURVES,
    "Composition": ("steps",),
    "AutoCalibrator": ("best", "scores", "behind", "members"),
    "GlobalScale": _SCALE,
    "LinearScale": (*_SCALE, "features", *_LINE, "share", "met"),
    "DeepScale": (*_SCALE, *_DEEP),
    "IsotonicScale": (*_SCALE, "tails", "firmness", "levels"),
    "ScalePipeline": ("steps",),
    "AutoScale": ("best", "scores", "behind", "calibrator"),
}
_ATTRIBUTES = {"features": "n_features_", "best": "name_", "steps": "fitted_"}  # others have their field's name
_SPREAD = ("solution", "met")  # their fields are those of the record itself


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
    return load_with_notes(path)[0]


def load_with_notes(path: str | os.PathLike[str]) -> tuple[Any, Any]:
    """Return the fitted calibrator in a file, and the notes stored with it, in which anything may be."""
    file = Path(path)
    if not file.is_file():
        raise FileNotFoundError(f"{path} is not a file" if file.exists() else f"{path} does not exist")
    try:
        text = file.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:
        raise ValueError(f"{file.name} is not a calibrated model of likely: it is not text") from None
    return from_json(text, file.name), parsed(text, file.name).get("about")


def to_json(calibrator: Any, about: dict[str, Any] | None = None) -> str:
    """Return the text of the file."""
    record = _written(calibrator)
    whole = {"format": FORMAT, "likely": package_version(), **needs(calibrator)}
    return laid_out(whole | ({"about": about} if about else {}) | {"calibrator": record}) + "\n"


def needs(calibrator: Any) -> dict[str, Any]:
    """Return the inputs that a fitted calibrator needs."""
    parts = _innermost(calibrator)
    reading = [part for part in parts if isinstance(part, Calibrator) or "features" in LEARNED[type(part).__name__]]
    features = max((getattr(part, "n_features_", 0) for part in reading), default=0)
    if isinstance(calibrator, Calibrator):
        inputs, classes = calibrator.inputs, int(calibrator.n_classes_)
        return {"kind": "classifier", "inputs": inputs, "classes": classes, "features": features}
    return {"kind": "regressor", "scale": bool(parts[0].has_scale_), "features": features}


def _innermost(calibrator: Any) -> list[Any]:
    return [part for inner in _inside(calibrator).values() for part in _innermost(inner)] or [calibrator]


def _inside(calibrator: Any) -> dict[str, Any]:
    """Return the fitted calibrators that a calibrator consists of, by name; none for most."""
    if isinstance(calibrator, Composed):
        return {name: step for (name, _), step in zip(calibrator.steps, calibrator.fitted_, strict=True)}
    if isinstance(calibrator, AutoCalibrator):
        return calibrator.members_
    return {calibrator.name_: calibrator.calibrator_} if isinstance(calibrator, AutoScale) else {}


def _written(calibrator: Any) -> dict[str, Any]:
    """Return the record of a calibrator, in JSON's types."""
    method = type(calibrator).__name__
    if _KINDS.get(method) is not type(calibrator):
        inner = " Its calibrator_ can be saved." if hasattr(calibrator, "calibrator_") else ""
        raise TypeError(f"{method} is not a calibrator of likely, and only those can be saved.{inner}")
    check_is_fitted(calibrator)
    record: dict[str, Any] = {"method": method, "parameters": written_parameters(calibrator, without=NOT_PARAMETERS)}
    for field in LEARNED[method]:
        if field in ("steps", "members"):
            record[field] = [{"name": name, **_written(part)} for name, part in _inside(calibrator).items()]
            continue
        value = getattr(calibrator, _ATTRIBUTES.get(field, f"{field}_"))
        record |= _plain(value) if field in _SPREAD else {field: _plain(value)}
    return record


def _plain(value: Any) -> Any:
    """Return the value in JSON's types, with null for ∞."""
    if type(value).__name__ in _KINDS:
        return _written(value)
    if isinstance(value, Tensor | np.ndarray | np.generic):
        return _plain(value.tolist())
    if hasattr(value, "_asdict"):
        return _plain(value._asdict())
    if isinstance(value, dict):
        return {name: _plain(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(part) for part in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def from_json(text: str, name: str = "the text") -> Any:
    """Return the fitted calibrator in a text."""
    content = parsed(text, name)
    for field in ("format", "likely", "kind"):
        if not isinstance(content, dict) or field not in content:
            lack = f"it has no {field!r}" if isinstance(content, dict) else "it is not an object"
            raise ValueError(f"{name} is not a calibrated model of likely: {lack}")
    whole = Record(content, name)
    check_format(whole, FORMAT)
    if whole.text("kind") not in ("classifier", "regressor"):
        raise ValueError(f"{name}: 'kind' must be classifier or regressor, found {whole.text('kind')!r}")
    whole.classes = whole.whole("classes", 2) if whole.text("kind") == "classifier" else 0
    calibrator = _again(whole.record("calibrator"), whole)
    if whole.classes:
        calibrator.inputs = whole.text("inputs")
        if calibrator.inputs not in INPUTS:
            raise ValueError(f"{name}: 'inputs' must be logits or probabilities, found {calibrator.inputs!r}")
    for field, needed in needs(calibrator).items():
        if whole.value(field) != needed:
            raise ValueError(f"{name}: {field!r} is {whole.value(field)!r}, but its calibrator needs {needed!r}")
    return calibrator


def _again(record: Record, whole: Record, depth: int = 0) -> Any:
    """Return the fitted calibrator of a record."""
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
    if isinstance(calibrator, LinearTemperature):
        record.columns = record.classes if method == "LinearTemperature" else len(record.array("coef", None))
    elif "features" in LEARNED[method]:
        record.columns = record.whole("features") or record.classes or 1 + record.truth("has_scale")
    learned = LEARNED[method]
    if learned == _CURVES and "share" not in record.content:  # written before curves were mixed with a temperature
        learned = ("curves",)
    for field in learned:
        setattr(calibrator, _ATTRIBUTES.get(field, f"{field}_"), _READERS[field](record, field))
    if record.classes:
        calibrator.n_classes_ = record.classes
    if isinstance(calibrator, Composed):
        names = [step.text("name") for step in record.records("steps")]
        calibrator.steps = [(name, clone(step)) for name, step in zip(names, calibrator.fitted_, strict=True)]
    elif isinstance(calibrator, AutoCalibrator):
        calibrator.candidates = {name: clone(member) for name, member in calibrator.members_.items()}
    return calibrator


def _check_order(record: Record, low: Array, high: Array, fields: str) -> None:
    if (low > high).any():
        raise ValueError(f"{record.name}: {fields} must be a lower and then an upper end, found the reverse")


def _interval(record: Record, field: str) -> tuple[float, float]:
    low, high = record.array(field, 2)
    _check_order(record, low, high, repr(field))
    return float(low), float(high)


def _built(kind: Any, record: Record) -> Any:
    """Return an object whose parts are fields of a record."""
    return kind(*(_READERS[name](record, name) for name in kind.__annotations__))


def _met(record: Record, field: str) -> MetRanges:
    low, high = record.per_column("low"), record.per_column("high")
    _check_order(record, low, high, "'low' and 'high'")
    return MetRanges(torch.as_tensor(low), torch.as_tensor(high), _interval(record, "range"))


def _networks(record: Record, field: str) -> Networks | None:
    if record.whole("n_iter") == 0:
        return None
    layers = record.record(field)
    inputs = layers.array("first", None, record.columns, None)
    n, _, hidden = inputs.shape
    arrays = inputs, layers.array("shift", n, hidden), layers.array("last", n, hidden), layers.array("bias", n)
    first, shift, last, bias = (torch.as_tensor(array).float() for array in arrays)
    return Networks(first, shift, last, bias, _interval(layers, "range"))


def _curve(curve: Record) -> Any:
    if "slope" in curve.content:
        return _built(Sigmoid, curve)
    odds = curve.array("odds", None)
    probability = curve.array("probability", len(odds), positive=True)
    if (np.diff(odds) <= 0).any() or (np.diff(probability) < 0).any() or probability[-1] > 1:
        raise ValueError(f"{curve.name}: 'odds' must rise, and 'probability' not fall or exceed one")
    return Polygon(odds, probability)


def _levels(record: Record, field: str) -> Array:
    levels = record.array(field, None)
    if len(levels) < 2 or levels[0] != 0 or (np.diff(levels) < 0).any() or abs(levels[-1] - 1) > 1e-9:
        raise ValueError(f"{record.name}: {field!r} must rise from 0 to 1")
    return levels


def _by_name(record: Record, field: str) -> dict[str, float]:
    numbers = record.record(field)
    return {name: numbers.limit(name) for name in numbers.content}


def _members(record: Record, field: str) -> dict[str, Any]:
    members = {member.text("name"): record.again(member) for member in record.records(field)}
    if len(members) < len(record.records(field)):
        raise ValueError(f"{record.name}: the names of {field!r} must differ")
    return members


def _precision(record: Record, field: str) -> Any:
    return record.limits(field) if isinstance(record.value(field), list) else record.limit(field)


def _per_class(record: Record, field: str) -> Array:
    return record.array(field, record.classes)


_READERS: dict[str, Callable[[Record, str], Any]] = {  # each returns the checked value of a field
    **dict.fromkeys(("temperature", "global_temperature", "global_scale", "df", "scale"), Record.positive),
    **dict.fromkeys(("share", "slope", "intercept"), Record.number),
    **dict.fromkeys(("mean", "coef"), Record.per_column),
    **dict.fromkeys(("features", "n_iter"), Record.whole),
    **dict.fromkeys(("gain", "firmness"), Record.limit),
    **dict.fromkeys(("factors", "bias"), _per_class),
    **dict.fromkeys(("scores", "behind"), _by_name),
    "best": Record.text,
    "has_scale": Record.truth,
    "deviation": lambda record, field: record.per_column(field, positive=True),
    "mixing": lambda record, field: record.array(field, record.classes, record.classes),
    "precision": _precision,
    "solution": lambda record, _: _built(Solution, record),
    "met": _met,
    "networks": _networks,
    "tails": lambda record, field: _built(Tails, record.record(field)) if record.value(field) is not None else None,
    "levels": _levels,
    "curves": lambda record, field: [_curve(curve) for curve in record.records(field, record.classes)],
    "steps": lambda record, field: [record.again(step) for step in record.records(field)],
    "members": _members,
    "calibrator": lambda record, field: record.again(record.record(field)),
}
