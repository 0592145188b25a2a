"""Scale calibrators one after the other, and the choice among them by cross-validated likelihood."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, clone
from sklearn.utils.validation import check_is_fitted
from torch import Tensor
from torch.distributions import Distribution

from likely._rows.blocks import Rows
from likely._validation import all_or_nothing
from likely.calibration._base import check_weight
from likely.calibration._deep_scale import DeepScale
from likely.calibration._held_out import contents, deal_by_content, sure
from likely.calibration._isotonic_scale import IsotonicScale
from likely.calibration._scale import GlobalScale, LinearScale, ScaleCalibrator


class _Delegate(BaseEstimator):
    """A calibrator that answers as the last fitted one does, with the scale that one expects."""

    def distribution(self, mean: Any, scale: Any, features: Any = None) -> Distribution:
        """The calibrated distribution of every row: log_prob, cdf, icdf, sample."""
        last, own = self._last(mean, scale, features)
        answer: Distribution = last.distribution(mean, own, features)
        return answer

    def predict_scale(self, mean: Any, scale: Any, features: Any = None) -> Any:
        """The calibrated scale of every row."""
        last, own = self._last(mean, scale, features)
        return last.predict_scale(mean, own, features)

    def predict_interval(self, mean: Any, scale: Any, features: Any = None, coverage: float = 0.9) -> tuple[Any, Any]:
        """The lower and upper ends of the central interval that holds ``coverage`` of each row's distribution."""
        last, own = self._last(mean, scale, features)
        lower, upper = last.predict_interval(mean, own, features, coverage)
        return lower, upper

    def _last(self, mean: Any, scale: Any, features: Any) -> tuple[Any, Any]:
        raise TypeError("use ScalePipeline or AutoScale")


class ScalePipeline(_Delegate):
    """Scale calibrators in a row: each starts from the scales of the one before.

    :func:`compose_scales` makes one. Only the last may be an :class:`IsotonicScale`, which changes more than scales.
    A step's scales for its own rows fit them too well, so the next step is fitted on scales of rows held out in ``cv``
    folds (``None``: on the scales as they are).

    >>> import numpy as np
    >>> from likely.calibration import IsotonicScale, LinearScale, ScalePipeline
    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=(2000, 2))
    >>> mean, y = np.zeros(2000), np.exp(x[:, 0]) * rng.standard_t(3, size=2000)
    >>> both = ScalePipeline([LinearScale(), IsotonicScale()]).fit(mean, None, y, features=x)
    >>> lower, upper = both.predict_interval(mean, None, features=x, coverage=0.5)
    >>> round(float(((lower < y) & (y < upper)).mean()), 1)
    0.5
    """

    def __init__(self, steps: list[Any], *, cv: int | None = 5) -> None:
        self.steps = steps
        self.cv = cv

    @all_or_nothing
    def fit(self, mean: Any, scale: Any, y: Any, features: Any = None, sample_weight: Any = None) -> Self:
        """Fit the steps one by one."""
        if not self.steps:
            raise ValueError("steps is empty: give one calibrator or more")
        if any(isinstance(step, IsotonicScale) for step in self.steps[:-1]):
            raise ValueError("IsotonicScale bends the whole distribution, so it comes last")
        self.steps_: list[Any] = []
        mean, scale, y, features, sample_weight = _counted(mean, scale, y, features, sample_weight)
        for step in self.steps:
            rows = (mean, scale, y, features, sample_weight)
            self.steps_.append(clone(step).fit(*rows))
            if len(self.steps_) < len(self.steps):
                scale = self._passed_on(self.steps_[-1], rows)
        return self

    def _passed_on(self, step: Any, rows: tuple[Any, ...]) -> Any:
        """The scales the next step is fitted on."""
        scale = step.predict_scale(rows[0], rows[1], rows[3])
        if self.cv is not None and len(scale) >= 2 * self.cv:
            for kept, out in _splits(rows, self.cv):
                part = clone(step).fit(*(_take(column, kept) for column in rows))
                mean, own, _, features, _ = (_take(column, out) for column in rows)
                scale[out] = part.predict_scale(mean, own, features)
        return scale

    def _last(self, mean: Any, scale: Any, features: Any) -> tuple[Any, Any]:
        check_is_fitted(self)
        for step in self.steps_[:-1]:
            scale = step.predict_scale(mean, scale, features)
        return self.steps_[-1], scale


def compose_scales(*calibrators: Any, cv: int | None = 5) -> ScalePipeline:
    """Scale calibrators in a row, the first one first; see :class:`ScalePipeline`.

    >>> from likely.calibration import IsotonicScale, LinearScale, compose_scales
    >>> compose_scales(LinearScale(), IsotonicScale())
    ScalePipeline(steps=[LinearScale(), IsotonicScale()])
    """
    return ScalePipeline(list(calibrators), cv=cv)


class AutoScale(_Delegate):
    """The scale calibrator of lowest cross-validated NLL, simplest first.

    The candidates are Global, Linear and Deep Scaling, then each of these with isotonic recalibration behind it; a
    later one must beat the best so far by a standard error of the paired difference. ``candidates`` narrows them,
    say to leave out the slow networks; ``choice_`` names the winner, ``scores_`` has every candidate's NLL.

    >>> import numpy as np
    >>> from likely.calibration import AutoScale
    >>> rng = np.random.default_rng(0)
    >>> mean = rng.normal(size=500)
    >>> AutoScale(candidates=["global", "linear", "isotonic"]).fit(mean, None, mean + rng.normal(size=500)).choice_
    'global'
    """

    def __init__(self, *, candidates: list[str] | None = None, cv: int = 5, likelihood: str = "normal") -> None:
        self.candidates = candidates
        self.cv = cv
        self.likelihood = likelihood

    @all_or_nothing
    def fit(self, mean: Any, scale: Any, y: Any, features: Any = None, sample_weight: Any = None) -> Self:
        """Score the candidates on rows left out, then fit the winner on all of them."""
        candidates = self._candidates()
        rows = _counted(mean, scale, y, features, sample_weight)
        y = rows[2]
        self.choice_, self.scores_ = next(iter(candidates)), {}
        # All rows are read once before any are left out, so that bad input fails with its own message.
        GlobalScale(likelihood=self.likelihood).fit(*rows)
        weight = np.ones(len(y)) if rows[-1] is None else rows[-1]
        folds = min(self.cv, len(y))
        if folds > 1:
            splits = _splits(rows, folds)
            losses = {name: _held_out(candidate, rows, splits) for name, candidate in candidates.items()}
            self.scores_ = {name: float(np.average(loss, weights=weight)) for name, loss in losses.items()}
            count = torch.as_tensor(weight)
            for name, loss in losses.items():
                if sure(torch.as_tensor(losses[self.choice_] - loss), 1.0, count) > 0:
                    self.choice_ = name
        self.calibrator_ = candidates[self.choice_].fit(*rows)
        return self

    def _candidates(self) -> dict[str, Any]:
        kinds = {"global": GlobalScale, "linear": LinearScale, "deep": DeepScale}
        plain: dict[str, Any] = {name: kind(likelihood=self.likelihood) for name, kind in kinds.items()}
        bent: dict[str, Any] = {"isotonic": IsotonicScale(likelihood=self.likelihood)}
        # Deep Scaling is held in check by rows left out already; to leave out more would take long.
        for name, folds in (("linear", 5), ("deep", None)):
            bent[f"{name}+isotonic"] = compose_scales(clone(plain[name]), clone(bent["isotonic"]), cv=folds)
        known = plain | bent
        chosen = list(known) if self.candidates is None else self.candidates
        if not chosen or not set(chosen) <= set(known):
            raise ValueError(f"candidates must be some of {', '.join(known)}; got {self.candidates!r}")
        return {name: known[name] for name in known if name in chosen}

    def _last(self, mean: Any, scale: Any, features: Any) -> tuple[Any, Any]:
        check_is_fitted(self)
        return self.calibrator_, scale


def _held_out(candidate: Any, rows: tuple[Any, ...], splits: list[Any]) -> NDArray[np.float64]:
    """The NLL of every row under the candidate fitted without it."""
    loss = np.empty(len(rows[0]))
    for kept, out in splits:
        fitted = clone(candidate).fit(*(_take(part, kept) for part in rows))
        mean, scale, y, features, _ = (_take(part, out) for part in rows)
        distribution = fitted.distribution(mean, scale, features)
        nll = -distribution.log_prob(torch.as_tensor(y).to(distribution.mean))
        loss[out] = nll.double().cpu().numpy()
    return loss


def _counted(mean: Any, scale: Any, y: Any, features: Any, sample_weight: Any) -> tuple[Any, ...]:
    """The rows of positive weight, and how many rows each counts for; frames and views of any layout as arrays."""
    weight = check_weight(sample_weight, len(y))
    mean, scale, y, features = (
        part if part is None or isinstance(part, Tensor) else np.ascontiguousarray(part)
        for part in (mean, scale, y, features)
    )
    rows = (mean, scale, y, features, weight)
    if weight is None or weight.all():
        return rows
    return tuple(_take(part, np.flatnonzero(weight)) for part in rows)


def _splits(rows: tuple[Any, ...], folds: int) -> list[tuple[NDArray[np.int64], NDArray[np.int64]]]:
    mean, _, y, features, _ = (None if part is None else torch.as_tensor(part).detach() for part in rows)
    assert mean is not None
    assert y is not None
    keys = contents(Rows(mean[:, None]), None if features is None else Rows(features))
    parts = deal_by_content(keys, folds, 0, y.double().cpu().numpy())
    return [(np.setdiff1d(np.arange(len(y)), part), part) for part in parts]


def _take(part: Any, rows: NDArray[np.intp]) -> Any:
    if part is None:
        return None
    return part[torch.as_tensor(rows, device=part.device)] if isinstance(part, Tensor) else np.asarray(part)[rows]


SCALE_METHODS: dict[str, type[ScaleCalibrator] | type[_Delegate]] = {
    "global": GlobalScale,
    "linear": LinearScale,
    "deep": DeepScale,
    "isotonic": IsotonicScale,
    "auto": AutoScale,
}
