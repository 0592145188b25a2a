"""Fitted calibrators as plain JSON: numbers that any language reads, and no code."""

import json
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
from sklearn.utils.validation import check_is_fitted

from likely._files import replacing
from likely._saving.codec import SMALLEST, Codec, NumberForm, RecordReader, RecordWriter, Unsaved, shown
from likely._saving.header import new_header, parsed, reading, whole
from likely._solvers.evidence import Solution
from likely._typing import FilePath
from likely.calibration._calibrator import Calibrator
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

# Numbers less than the smallest one with all digits must not divide others, which would overflow.
_POSITIVE, _ANY = NumberForm(low=SMALLEST), NumberForm(None, 0.0, np.inf)
NUMBERS = {  # C stands for classes, d for columns, n for networks and h for their hidden units
    **dict.fromkeys(("temperature_", "global_temperature_", "global_scale_", "df", "scale"), _POSITIVE),
    "share_": NumberForm(low=0.0, high=1.0),
    **dict.fromkeys(("precision", "precision_"), _ANY),
    **dict.fromkeys(("factors_", "bias_"), NumberForm("C")),
    "mixing_": NumberForm(None),
    **dict.fromkeys(("mean", "mean_", "coef"), NumberForm("d")),
    **dict.fromkeys(("deviation", "deviation_"), NumberForm("d", low=SMALLEST)),
    "first": NumberForm("ndh"),
    **dict.fromkeys(("shift", "last"), NumberForm("nh")),
    "bias": NumberForm("n"),
    "range": NumberForm("r", rising=True),
    "columns": NumberForm("rd", rising=True),
    "odds": NumberForm("k", rising=True),
    "probability": NumberForm("k", SMALLEST, 1.0, rising=True),
    "levels_": NumberForm("l", 0.0, 1.0 + 1e-9, rising=True),
}


def _refused(value: Any) -> NoReturn:
    inner = " Its calibrator_ can be saved." if hasattr(value, "calibrator_") else ""
    raise Unsaved(f"{type(value).__name__} is not a calibrator of likely, and only those can be saved.{inner}")


def _codec(*classes: type) -> Codec:
    return Codec({kind.__name__: kind for kind in classes}, _refused, NUMBERS)


CODECS = {
    "classifier": _codec(*METHODS.values(), Composition, Solution, Networks, Sigmoid, Polygon),
    "regressor": _codec(*SCALE_METHODS.values(), ScalePipeline, Solution, Networks, MetRanges, Tails),
}


def save(calibrator: Any, path: FilePath, *, about: dict[str, Any] | None = None) -> None:
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


def load(path: FilePath) -> Any:
    """Read a fitted calibrator from a file that :func:`save` or ``likely calibrate`` wrote.

    The file holds numbers; no code in it is run. Arguments that JSON cannot hold, such as a random generator or a
    candidate of your own, have their defaults again.

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
        ValueError: settings.json is not read: it is not a model of likely: it has no 'format'

    See Also:
        :func:`save`.
    """
    return load_with_notes(path)[0]


def load_with_notes(path: FilePath) -> tuple[Any, Any]:
    """Return the fitted calibrator in a file, and the notes stored with it, in which anything may be."""
    file = Path(path)
    with reading(file):
        try:
            text = file.read_text(encoding="utf-8-sig")
        except UnicodeDecodeError:
            raise ValueError("it is not a model of likely: it is not text") from None
        content = parsed(text)
        return _restored(content), content.get("about")


def to_json(calibrator: Any, about: dict[str, Any] | None = None) -> str:
    """Return the text of the file."""
    if type(calibrator) not in {kind for codec in CODECS.values() for kind in codec.classes.values()}:
        _refused(calibrator)
    check_is_fitted(calibrator)
    needed = needs(calibrator)
    record = RecordWriter(CODECS[needed["kind"]]).write(calibrator)
    content = {**new_header(), **needed, **({"about": about} if about else {}), "calibrator": record}
    return json.dumps(content, allow_nan=False, ensure_ascii=False, indent=1) + "\n"


def needs(calibrator: Any) -> dict[str, Any]:
    """Return the inputs that a fitted calibrator needs."""
    parts = _innermost(calibrator)
    features = max((part.n_features_ for part in parts if part.reads_features), default=0)
    if isinstance(calibrator, Calibrator):
        inputs, classes = calibrator.inputs, int(calibrator.n_classes_)
        return {"kind": "classifier", "inputs": inputs, "classes": classes, "features": features}
    return {"kind": "regressor", "scale": bool(parts[0].has_scale_), "features": features}


def _innermost(calibrator: Any) -> list[Any]:
    """Return the fitted calibrators that a calibrator consists of; most are their own."""
    if isinstance(calibrator, Composed):
        inside = calibrator.fitted_
    elif isinstance(calibrator, AutoCalibrator):
        inside = list(calibrator.members_.values())
    elif isinstance(calibrator, AutoScale):
        inside = [calibrator.calibrator_]
    else:
        return [calibrator]
    if not inside:
        raise ValueError(f"its {type(calibrator).__name__} consists of no calibrators")
    return [part for inner in inside for part in _innermost(inner)]


def _restored(content: dict[str, Any]) -> Any:
    """Return the fitted calibrator in the content of a file."""
    if content.get("kind") not in list(CODECS):
        raise ValueError(f"'kind' must be classifier or regressor, found {shown(content.get('kind'))}")
    features, sizes = whole(content, "features"), {}
    if content["kind"] == "classifier":
        sizes["C"] = whole(content, "classes", 2)
    calibrator = RecordReader(CODECS[content["kind"]], {}, sizes).read(content.get("calibrator"))
    for field, needed in needs(calibrator).items():
        if content.get(field) != needed:
            raise ValueError(f"{field!r} is {shown(content.get(field))}, but its calibrator needs {shown(needed)}")
    # Parts that do not fit together make a prediction fail.
    columns = np.zeros((1, features)) if features else None
    if sizes:
        calibrator.predict_proba(np.full((1, sizes["C"]), 1 / sizes["C"]), columns)
    else:
        calibrator.predict_interval(np.zeros(1), np.ones(1) if content["scale"] else None, columns)
    return calibrator
