"""Calibrators in sequence: of logits, or of a regressor's scales."""

from __future__ import annotations

import functools
from dataclasses import KW_ONLY, dataclass
from typing import Any, Self

from sklearn.utils.metaestimators import _BaseComposition
from torch import Tensor
from torch.distributions import Distribution

from likely.calibration._held_out import Chain, CrossFits, HeldOutRows
from likely.calibration.classifiers._base import Calibrator
from likely.calibration.regressors._isotonic import IsotonicScale
from likely.calibration.regressors._scale import Forecasts, ScaleCalibrator


class Composed(_BaseComposition):
    """Named calibrators in sequence, each fitted to the outputs of the chain before it."""

    steps: list[tuple[str, Any]]
    cv: int | None

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters, those of the steps as ``name__parameter``.

        Args:
            deep: whether to include the steps' parameters.

        Returns:
            Dictionary from names to values.
        """
        return self._get_params("steps", deep=deep)

    def set_params(self, **params: Any) -> Self:
        """Set parameters, those of the steps as ``name__parameter``.

        Args:
            **params: new values by name.

        Returns:
            The estimator itself.
        """
        self._set_params("steps", **params)
        return self

    @property
    def chain(self) -> Chain:
        """The steps without their names."""
        return tuple(step for _, step in self.steps)

    def _fit_rows(self, rows: HeldOutRows) -> Self:
        if not self.steps:
            raise ValueError("there are no steps: give at least one calibrator")
        if any(isinstance(step, IsotonicScale) for step in self.chain[:-1]):
            raise ValueError("IsotonicScale changes the whole distribution, so it comes last")
        self.fitted_ = CrossFits(rows, cv=self.cv).fitted(self.chain)
        return self


@dataclass(eq=False, repr=False)
class Composition(Composed, Calibrator):
    """Calibrators in sequence, each fitted to the logits that the one before returns. Created by :func:`compose`.

    Args:
        steps: list of pairs (name, calibrator), the first one first.
        inputs: ``"logits"``, or ``"probabilities"``, whose logarithm is taken.
        cv: number of folds whose held-out logits the next step is fitted to; None for the logits of the same rows.

    Attributes:
        fitted_: list of the fitted steps.
        n_classes_: number of classes.

    Example:
        >>> from likely.calibration import GlobalTemperature, VectorScaling, compose
        >>> [name for name, _ in compose(VectorScaling(), GlobalTemperature()).steps]
        ['vectorscaling', 'globaltemperature']

    See Also:
        :func:`compose`, :class:`AutoCalibrator`; :class:`ScalePipeline` for regressors.
    """

    steps: list[tuple[str, Any]]
    _: KW_ONLY
    cv: int | None = 5

    def _calibrate(self, logits: Tensor, features: Tensor | None) -> Tensor:
        for step in self.fitted_:
            logits = step._calibrate(logits, features)
        return logits

    def _temperatures(self, logits: Tensor, features: Tensor | None) -> Tensor:
        total = logits.new_ones(len(logits))
        for step in self.fitted_:
            total = total * step._temperatures(logits, features)
            logits = step._calibrate(logits, features)
        return total


class ScalePipeline(Composed, ScaleCalibrator):
    """Scale calibrators in sequence: each starts from the scales of the one before. Created by :func:`compose`.

    Only the last may be an :class:`IsotonicScale`, which changes more than scales. A step's scales for the rows it was
    fitted to are too good, so the next step is fitted to scales of rows held out in ``cv`` folds.

    Args:
        steps: list of pairs (name, calibrator), the first one first.
        cv: number of folds; None for the scales of the same rows.

    Attributes:
        fitted_: list of the fitted steps.

    Example:
        >>> import numpy as np
        >>> from likely.calibration import IsotonicScale, LinearScale, compose
        >>> rng = np.random.default_rng(0)
        >>> x = rng.normal(size=(2000, 2))
        >>> mean, y = np.zeros(2000), np.exp(x[:, 0]) * rng.standard_t(3, size=2000)
        >>> both = compose(LinearScale(), IsotonicScale()).fit(mean, None, y, features=x)
        >>> lower, upper = both.predict_interval(mean, None, features=x, coverage=0.5)
        >>> round(float(((lower < y) & (y < upper)).mean()), 1)
        0.5

    See Also:
        :func:`compose`, :class:`AutoScale`; :class:`Composition` for classifiers.
    """

    def __init__(self, steps: list[tuple[str, Any]], *, cv: int | None = 5) -> None:
        self.steps = steps
        self.cv = cv

    def _distribution(self, rows: Forecasts) -> Distribution:
        *before, last = self.fitted_
        return last._distribution(functools.reduce(Forecasts.after, before, rows))

    def _scales(self, rows: Forecasts) -> Tensor:
        return functools.reduce(Forecasts.after, self.fitted_, rows).scale


def compose(*calibrators: Calibrator | ScaleCalibrator, cv: int | None = 5) -> Any:
    """Put calibrators in sequence, each fitted to the logits, or the scales, that the one before returns.

    Features go to every step that reads them. A step's outputs for the rows it was fitted to are too good, and a
    temperature fitted to them is too low; so the next step is fitted to outputs of rows held out in ``cv`` folds. The
    steps can be set and read as those of a scikit-learn pipeline; ``set_params(inputs="probabilities")`` makes the
    first step read probabilities.

    Args:
        *calibrators: the steps, the first one first: calibrators of logits, or of scales, of which only the last may
            be an :class:`IsotonicScale`.
        cv: number of folds; None, or logits too many to keep in memory, for the outputs of the same rows.

    Returns:
        An unfitted :class:`Composition` of calibrators of logits, or :class:`ScalePipeline` of calibrators of scales.

    Example:
        >>> import numpy as np
        >>> from likely.calibration import IsotonicScale, LinearScale, LinearTemperature, VectorScaling, compose
        >>> both = compose(VectorScaling(), LinearTemperature())
        >>> both.get_params()["lineartemperature__penalty"]
        'evidence'
        >>> rng = np.random.default_rng(0)
        >>> y = rng.integers(0, 3, 500)
        >>> logits = 4 * (np.eye(3)[y] + rng.normal(size=(500, 3))) + [2, 0, 0]
        >>> both.fit(logits, y).predict_proba(logits[:1]).round(1)
        array([[0., 0., 1.]])
        >>> [name for name, _ in compose(LinearScale(), IsotonicScale()).steps]
        ['linearscale', 'isotonicscale']

    See Also:
        :class:`AutoCalibrator` and :class:`AutoScale`, which compare compositions.
    """
    kinds = [type(calibrator).__name__.lower() for calibrator in calibrators]
    names = [kind if kinds.count(kind) == 1 else f"{kind}-{i + 1}" for i, kind in enumerate(kinds)]
    of_scales = any(isinstance(calibrator, ScaleCalibrator) for calibrator in calibrators)
    return (ScalePipeline if of_scales else Composition)(list(zip(names, calibrators, strict=True)), cv=cv)
