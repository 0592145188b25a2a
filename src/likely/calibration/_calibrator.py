"""The base class of calibrators of classifiers, maps from logits to logits, and the rows that they are fitted to."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, clone
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from likely._rows.blocks import Rows, like
from likely._rows.checks import all_or_nothing, row_weights
from likely._rows.contents import Keys, contents
from likely._rows.sources import by_blocks, spooled
from likely._typing import Array, Values
from likely.calibration._held_out import HeldOutRows, check_features
from likely.functional import softmax_nll

Labels = NDArray[np.int64]
KEPT_NUMBERS = 2**22  # maximum number of calibrated logits kept between two steps; more are recomputed at every pass
_HOPELESS = 1e6  # nats; an excluded true class costs ∞, which would hide all other differences of candidates


@dataclass(frozen=True)
class LabelledLogits(HeldOutRows):
    """Logits (the answers), labels, and features as :class:`~likely._rows.blocks.Rows`."""

    @classmethod
    def checked(
        cls, inputs: Any, y: Any, features: Any, sample_weight: Any, *, probabilities: bool = False
    ) -> LabelledLogits:
        """Return the rows of positive weight, after checks."""
        table = spooled("logits", inputs, y=y, features=features, sample_weight=sample_weight)
        inputs, y, features, sample_weight = table.arguments
        logits = check_logits(inputs, probabilities=probabilities)
        weight, extra = row_weights(sample_weight, logits), check_features(features, len(logits))
        return cls(logits, check_labels(y, logits), extra, weight, table=table).counted()

    @property
    def classes(self) -> int:
        """The number of classes."""
        return int(self.answers.shape[1])

    @property
    def kept(self) -> int:
        return KEPT_NUMBERS // self.classes

    def keys(self) -> Keys:
        # A constant added to the logits of a row is none to softmax.
        return contents(self.answers.mapped(lambda _, z: z - z.amax(1, True)), self.features)

    def fit(self, step: Any) -> Any:
        if step.inputs != "logits":
            kind = type(step).__name__
            raise ValueError(
                f"{kind} has inputs={step.inputs!r}, but steps receive logits: set inputs= of the composition"
            )
        fitted = clone(step)
        fitted.n_classes_ = self.classes
        return fitted._fit_rows(self)

    def after(self, fitted: Any) -> LabelledLogits:
        features = self.features
        logits = self.answers.mapped(lambda rows, z: fitted._calibrate(z, None if features is None else features[rows]))
        return replace(self, answers=Rows(logits.whole()) if self.few else logits)

    def nll(self, fitted: Any) -> Array:
        losses = []
        for part, logits in self.after(fitted).answers.read():
            labels = torch.as_tensor(self.y[part], device=logits.device)
            loss = softmax_nll(logits.double(), labels, temperature=1.0, reduction="none", validate_args=False)
            losses.append(loss.clamp(max=_HOPELESS).cpu())
        return torch.cat(losses).numpy()


def check_logits(logits: Any, *, probabilities: bool = False) -> Rows:
    """Return rows of logits, after a check of every value, block by block."""
    name = "probabilities" if probabilities else "logits"
    rows = _as_rows(logits, name)
    if len(rows) == 0:
        raise ValueError(f"{name} have no rows")
    for part, block in rows.read():
        # NaN and +∞ pass through a maximum.
        whole = (block >= 0).all(1) & ((block.sum(1) - 1).abs() < 1e-2) if probabilities else block.amax(1).isfinite()
        if not bool(whole.all()):
            row = f"row {part.start + int((~whole).nonzero()[0])} (counted from 0)"
            if probabilities:
                rule = "probabilities must be ≥ 0 and sum to one in every row"
                raise ValueError(f"{rule}, which {row} does not: for logits set inputs='logits'")
            raise ValueError(f"logits hold NaN or +∞, or nothing but -∞, in {row}: drop it or clean it first")
    if not probabilities:
        return rows
    # Of a probability of zero the logarithm of the smallest positive number is taken.
    return rows.mapped(lambda _, p: p.clamp(min=torch.finfo(p.dtype).tiny).log())


def _as_rows(logits: Any, name: str) -> Rows:
    array = logits if isinstance(logits, Tensor) or hasattr(logits, "dtype") else np.asarray(logits)
    if getattr(array, "ndim", 0) != 2 or array.shape[1] < 2:
        raise ValueError(f"{name} must have the shape (rows, classes) with two classes or more, got {array.shape}")
    return Rows(array if isinstance(array, Tensor) or array.dtype.kind == "f" else array.astype(np.float64))


def check_truths(labels: Values, classes: int) -> None:
    """Raise an error for labels that are true or false where there are more classes than two."""
    if labels.dtype.kind == "b" and classes > 2:
        raise ValueError(f"y holds booleans, but there are {classes} classes: give class numbers or names")


def check_labels(y: Any, logits: Rows) -> Labels:
    """Return labels as integers 0 … C-1, one per row."""
    labels = y.detach().cpu().numpy() if isinstance(y, Tensor) else np.asarray(y)
    if labels.shape != (len(logits),):
        raise ValueError(f"y must hold one label per row, shape ({len(logits)},); got {labels.shape}")
    check_truths(labels, logits.shape[1])
    odd = labels != np.floor(labels) if labels.dtype.kind in "iubf" else np.ones(len(labels), dtype=bool)
    for row in np.flatnonzero(odd):
        wrong = f"and row {row} holds {labels[row]}: encode labels with sklearn's LabelEncoder"
        raise ValueError(f"y must hold class numbers 0, 1, …, {wrong}")
    whole = labels.astype(np.int64)
    if whole.min() < 0 or whole.max() >= logits.shape[1]:
        raise ValueError(
            f"y holds classes {whole.min()} to {whole.max()}, but the logits have classes 0 to {logits.shape[1] - 1}"
        )
    return whole


INPUTS = ("logits", "probabilities")


by_logits = functools.partial(by_blocks, per_row="features", frames=False)


def _classes(calibrator: Calibrator) -> int:
    check_is_fitted(calibrator)
    return int(calibrator.n_classes_)


@dataclass(kw_only=True, eq=False, repr=False)
class Calibrator(BaseEstimator):
    """Base class of calibrators, which map a classifier's logits to calibrated ones.

    Subclasses write ``_fit`` and ``_calibrate``. Arrays may be NumPy's (memory-mapped ones too) or torch tensors on any
    device, of any float type; outputs are of the same kind. Every calibrator maps logits to logits, so that calibrators
    can be composed.

    Tables may be larger than memory: Dask arrays and frames, and paths of Parquet, Feather or CSV files. A fit reads
    them once, into temporary files, and outputs are of the same kind (for files, arrays). Labels, features and weights
    may then be names of columns: ``fit("held_out/", "label", features=["x1", "x2"])``.

    Args:
        inputs: what all methods are given as ``logits``: ``"logits"``, or ``"probabilities"``, whose logarithm is
            taken.

    Attributes:
        n_classes_: number C of classes.

    Example:
        >>> import numpy as np
        >>> from likely.calibration import GlobalTemperature
        >>> rng = np.random.default_rng(0)
        >>> y = rng.integers(0, 3, 500)
        >>> logits = 4 * (np.eye(3)[y] + rng.normal(size=(500, 3)))
        >>> calibrated = GlobalTemperature().fit(logits, y)
        >>> calibrated.predict_proba(logits[:2]).round(2)
        array([[0.02, 0.01, 0.96],
               [0.26, 0.29, 0.46]])

    See Also:
        :class:`GlobalTemperature`, :class:`LinearTemperature`, :class:`FeatureTemperature`, :class:`VectorScaling`,
        :class:`AutoCalibrator`.
    """

    reads_features = False  # whether the temperature of a row may depend on its features

    inputs: str = "logits"

    @all_or_nothing
    def fit(self, logits: Any, y: Any, features: Any = None, sample_weight: Any = None) -> Self:
        """Fit the calibrator to held-out rows.

        Args:
            logits: logits of shape (n, C), or probabilities with ``inputs="probabilities"``.
            y: class numbers 0 … C - 1, shape (n,).
            features: further columns of shape (n, d), such as the input of the network's last layer, for the
                calibrators that read them.
            sample_weight: weight per row, shape (n,); None for equal weights.

        Returns:
            The fitted calibrator itself.

        Raises:
            ValueError: shapes do not match, labels are not class numbers, or logits hold NaN or +∞.
        """
        rows = LabelledLogits.checked(logits, y, features, sample_weight, probabilities=self._probabilities)
        self.column_names_, self.n_classes_ = rows.table.columns, rows.classes
        return self._fit_rows(rows)

    @property
    def classes_(self) -> Labels:
        """The classes, 0 … C-1."""
        return np.arange(self.n_classes_)

    @by_logits(_classes)
    def transform(self, logits: Any, features: Any = None) -> Any:
        """Return calibrated logits.

        Args:
            logits: logits of shape (n, C), or probabilities with ``inputs="probabilities"``.
            features: columns of shape (n, d), where the calibrator was fitted with features.

        Returns:
            Logits of shape (n, C), of the kind of the input.
        """
        return self._by_blocks(self._calibrate, logits, features)

    @by_logits(_classes)
    def predict_proba(self, logits: Any, features: Any = None) -> Any:
        """Return calibrated probabilities.

        Args:
            logits: logits of shape (n, C), or probabilities with ``inputs="probabilities"``.
            features: columns of shape (n, d), where the calibrator was fitted with features.

        Returns:
            Probabilities of shape (n, C), of the kind of the input.
        """
        return self._by_blocks(lambda z, x: torch.softmax(self._calibrate(z, x), dim=1), logits, features)

    @by_logits(dtype=lambda _: np.int64)
    def predict(self, logits: Any, features: Any = None) -> Any:
        """Return the most probable class of each row.

        Args:
            logits: logits of shape (n, C), or probabilities with ``inputs="probabilities"``.
            features: columns of shape (n, d), where the calibrator was fitted with features.

        Returns:
            Class numbers of shape (n,), of the kind of the input.
        """
        return self._by_blocks(lambda z, x: self._calibrate(z, x).argmax(1), logits, features)

    @by_logits()
    def temperature(self, logits: Any, features: Any = None) -> Any:
        """Return the temperature that divides the logits of each row.

        Args:
            logits: logits of shape (n, C), or probabilities with ``inputs="probabilities"``.
            features: columns of shape (n, d), where the calibrator was fitted with features.

        Returns:
            Temperatures of shape (n,), of the kind of the input.

        Raises:
            AttributeError: the calibrator does more than divide the logits, or consists of several.
        """
        return self._by_blocks(self._temperatures, logits, features)

    def _by_blocks(self, compute: Callable[[Tensor, Tensor | None], Tensor], logits: Any, features: Any) -> Any:
        check_is_fitted(self)
        rows = check_logits(logits, probabilities=self._probabilities)
        if rows.shape[1] != self.n_classes_:
            raise ValueError(f"logits have {rows.shape[1]} classes, the calibrator was fitted on {self.n_classes_}")
        extra = check_features(features, len(rows))
        parts = [compute(block, extra[part] if extra else None) for part, block in rows.read()]
        return like(torch.cat(parts), logits)

    def _fit_rows(self, rows: LabelledLogits) -> Self:
        """Fit to rows that have been checked already, as the steps of a composition are."""
        self._fit(rows.answers, rows.y, rows.features, rows.weight)
        return self

    @property
    def _probabilities(self) -> bool:
        if self.inputs not in INPUTS:
            raise ValueError(f"inputs must be 'logits' or 'probabilities', got {self.inputs!r}")
        return self.inputs == "probabilities"

    def _fit(self, logits: Rows, y: Labels, features: Rows | None, weight: Array) -> None:
        raise TypeError("use one of the calibrators in likely.calibration")

    def _calibrate(self, logits: Tensor, features: Tensor | None) -> Tensor:
        raise TypeError("use one of the calibrators in likely.calibration")

    def _temperatures(self, logits: Tensor, features: Tensor | None) -> Tensor:
        name = type(self).__name__
        raise AttributeError(f"{name} has no temperature: it does more than divide the logits, or consists of several")
