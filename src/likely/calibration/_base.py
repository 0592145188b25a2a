"""What calibrators of classifiers share: one interface, one set of checks, and maps from logits to logits."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from likely._rows.blocks import Rows
from likely._validation import all_or_nothing, row_counts

INPUTS = ("logits", "probabilities")


class Calibrator(BaseEstimator):
    """Maps a classifier's logits to better ones. Subclasses write ``_fit`` and ``_calibrate``.

    ``inputs`` says what is handed in: ``"logits"`` or ``"probabilities"`` (whose logarithm is then taken). Arrays
    may be NumPy's (memory-mapped ones too) or torch tensors on any device, in any float type; answers come back in
    kind. Whatever a calibrator does, it does to logits, so that calibrators compose.

    >>> import numpy as np
    >>> from likely.calibration import GlobalTemperature
    >>> rng = np.random.default_rng(0)
    >>> y = rng.integers(0, 3, 500)
    >>> logits = 4 * (np.eye(3)[y] + rng.normal(size=(500, 3)))
    >>> calibrated = GlobalTemperature().fit(logits, y)
    >>> calibrated.predict_proba(logits[:2]).round(2)
    array([[0.02, 0.01, 0.96],
           [0.26, 0.29, 0.46]])
    """

    def __init__(self, *, inputs: str = "logits") -> None:
        self.inputs = inputs

    @all_or_nothing
    def fit(self, logits: Any, y: Any, features: Any = None, sample_weight: Any = None) -> Self:
        """Learn from held-out rows: their logits, labels 0 … C-1 and, for some calibrators, features."""
        rows = self._rows(logits)
        labels = check_labels(y, rows)
        weight, extra = check_weight(sample_weight, len(rows)), check_features(features, len(rows))
        if weight is not None and not weight.all():  # a row of no weight is no row
            counted = np.flatnonzero(weight)
            rows, labels, weight = rows.taken(counted), labels[counted], weight[counted]
            extra = None if extra is None else extra.taken(counted)
        return self._fit_checked(rows, labels, extra, weight)

    def transform(self, logits: Any, features: Any = None) -> Any:
        """Calibrated logits."""
        check_is_fitted(self)
        rows = self._rows(logits)
        if rows.shape[1] != self.n_classes_:
            raise ValueError(f"logits have {rows.shape[1]} classes, the calibrator was fitted on {self.n_classes_}")
        extra = check_features(features, len(rows))
        parts = [self._calibrate(rows[part], extra[part] if extra else None) for part in rows.blocks()]
        return like(torch.cat(parts), logits)

    def predict_proba(self, logits: Any, features: Any = None) -> Any:
        """Calibrated probabilities."""
        calibrated = torch.as_tensor(self.transform(logits, features))
        return like(torch.softmax(calibrated, dim=1), logits)

    def predict(self, logits: Any, features: Any = None) -> Any:
        """The most probable class."""
        return like(torch.as_tensor(self.transform(logits, features)).argmax(1), logits)

    def temperature(self, logits: Any, features: Any = None) -> Any:
        """What each row's logits are divided by."""
        raise AttributeError(f"{type(self).__name__} has no temperature: it does more than divide the logits")

    def _fit_checked(
        self, logits: Rows, y: NDArray[np.int64], features: Rows | None, weight: NDArray[np.float64] | None
    ) -> Self:
        """Fit on rows that have been checked already, as the steps of a composition are."""
        self.n_classes_ = logits.shape[1]
        self.classes_ = np.arange(self.n_classes_)
        self._fit(logits, y, features, weight)
        return self

    def _rows(self, logits: Any) -> Rows:
        if self.inputs not in INPUTS:
            raise ValueError(f"inputs must be 'logits' or 'probabilities', got {self.inputs!r}")
        return check_logits(logits, probabilities=self.inputs == "probabilities")

    def _fit(
        self, logits: Rows, y: NDArray[np.int64], features: Rows | None, weight: NDArray[np.float64] | None
    ) -> None:
        raise TypeError("use one of the calibrators in likely.calibration")

    def _calibrate(self, logits: Tensor, features: Tensor | None) -> Tensor:
        raise TypeError("use one of the calibrators in likely.calibration")


class LogRows(Rows):
    """Probabilities, read as their logarithms; zeros become the smallest positive number."""

    def __getitem__(self, rows: slice) -> Tensor:
        part = super().__getitem__(rows)
        return part.clamp(min=torch.finfo(part.dtype).tiny).log()


def check_logits(logits: Any, *, probabilities: bool = False) -> Rows:
    """Rows of logits, after a look at every value, block by block."""
    array = logits if isinstance(logits, Tensor) or hasattr(logits, "dtype") else np.asarray(logits)
    name = "probabilities" if probabilities else "logits"
    if getattr(array, "ndim", 0) != 2 or array.shape[1] < 2:
        raise ValueError(f"{name} must have the shape (rows, classes) with two classes or more, got {array.shape}")
    if not isinstance(array, Tensor) and array.dtype.kind != "f":
        array = np.asarray(array, dtype=np.float64)
    if len(array) == 0:
        raise ValueError(f"{name} have no rows")
    rows = (LogRows if probabilities else Rows)(array)
    plain = Rows(array)
    for part in rows.blocks():
        block = plain[part]
        # NaN and +∞ pass through a maximum.
        whole = (block >= 0).all(1) & ((block.sum(1) - 1).abs() < 1e-2) if probabilities else block.amax(1).isfinite()
        if not bool(whole.all()):
            row = f"row {part.start + int((~whole).nonzero()[0])} (counted from 0)"
            if probabilities:
                rule = "probabilities must be ≥ 0 and sum to one in every row"
                raise ValueError(f"{rule}, which {row} does not: for logits say inputs='logits'")
            raise ValueError(f"logits hold NaN or +∞, or nothing but -∞, in {row}: drop it or clean it first")
    return rows


def check_labels(y: Any, logits: Rows) -> NDArray[np.int64]:
    """Labels as integers 0 … C-1, one per row."""
    labels = y.detach().cpu().numpy() if isinstance(y, Tensor) else np.asarray(y)
    if labels.shape != (len(logits),):
        raise ValueError(f"y must hold one label per row, shape ({len(logits)},); got {labels.shape}")
    if labels.dtype.kind not in "iub" and not _are_whole(labels):
        raise ValueError("y must hold class numbers 0, 1, …: encode labels with sklearn's LabelEncoder")
    whole = labels.astype(np.int64)
    if whole.min() < 0 or whole.max() >= logits.shape[1]:
        raise ValueError(
            f"y holds classes {whole.min()} to {whole.max()}, but the logits have classes 0 to {logits.shape[1] - 1}"
        )
    return whole


def _are_whole(labels: NDArray[Any]) -> bool:
    try:
        numbers = labels.astype(np.float64)
    except (TypeError, ValueError):
        return False
    return labels.dtype.kind not in "US" and bool(np.isfinite(numbers).all() and (numbers == np.floor(numbers)).all())


def check_weight(sample_weight: Any, n: int) -> NDArray[np.float64] | None:
    """How many rows each row counts for, as :func:`~likely._validation.row_counts` reads the weights given."""
    if sample_weight is None:
        return None
    given = sample_weight.detach().cpu() if isinstance(sample_weight, Tensor) else sample_weight
    weight = np.asarray(given, dtype=np.float64)
    if weight.shape != (n,):
        raise ValueError(f"sample_weight must hold one weight per row, shape ({n},); got {weight.shape}")
    if not (np.isfinite(weight).all() and (weight >= 0).all() and weight.any()):
        raise ValueError("sample_weight must be finite, ≥ 0 and not zero everywhere")
    return row_counts(weight)


def check_features(features: Any, n: int) -> Rows | None:
    """Rows of finite features."""
    if features is None:
        return None
    array = features if isinstance(features, Tensor) or hasattr(features, "dtype") else np.asarray(features)
    if not isinstance(array, Tensor) and array.dtype.kind != "f":
        array = np.asarray(array, dtype=np.float64)
    if array.ndim != 2 or len(array) != n:
        raise ValueError(
            f"features must have the shape ({n}, d), a row for each row of logits; got {tuple(array.shape)}"
        )
    rows = Rows(array)
    if not all(bool(rows[part].isfinite().all()) for part in rows.blocks()):
        raise ValueError("features hold NaN or infinities: impute or clean them first")
    return rows


def like(result: Tensor, given: Any) -> Any:
    """A tensor for a tensor, a NumPy array for everything else."""
    return result if isinstance(given, Tensor) else result.cpu().numpy()
