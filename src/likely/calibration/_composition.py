"""Calibrators in sequence, and the choice among several, for classifiers and regressors."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Self

import numpy as np
from sklearn.base import clone
from sklearn.utils.metaestimators import _BaseComposition

from likely._solvers.selection import held_out_gain
from likely._typing import Array
from likely.calibration._held_out import Chain, CrossFits, HeldOutRows

# Nats per row: candidates that fall back to the same map differ by rounding, which can be many standard errors.
_ALIKE = 1e-6


class Composed(_BaseComposition):
    """Named calibrators in sequence; subclasses pass their rows to ``_fit_steps``."""

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

    def _fit_steps(self, rows: HeldOutRows) -> None:
        if not self.steps:
            raise ValueError("there are no steps: give at least one calibrator")
        self.fitted_ = CrossFits(rows, cv=self.cv).fitted(self.chain)


def named(calibrators: Iterable[Any]) -> list[tuple[str, Any]]:
    """Return calibrators with the names of their classes, numbered where a class occurs twice."""
    calibrators = list(calibrators)
    kinds = [type(calibrator).__name__.lower() for calibrator in calibrators]
    names = [kind if kinds.count(kind) == 1 else f"{kind}-{i + 1}" for i, kind in enumerate(kinds)]
    return list(zip(names, calibrators, strict=True))


class AutomaticChoice:
    """Candidates compared by their losses on held-out rows, simplest first."""

    cv: int
    n_jobs: int | None

    def _compare(
        self, candidates: Mapping[str, Any], rows: HeldOutRows, random_state: int = 0
    ) -> tuple[CrossFits[Any], dict[str, Array]]:
        """Score the candidates; return the fits and the losses, none where no rows can be held out.

        ``name_`` is the candidate of lowest loss, or the first, which is the simplest, where there are no losses.
        """
        cv = max(2, min(self.cv, int(rows.count) // 2)) if self.cv > 1 else None  # at least two rows per fold
        fits = CrossFits(rows, cv=cv, random_state=random_state, n_jobs=self.n_jobs)
        self.name_, self.scores_, self.behind_ = next(iter(candidates)), {}, {}
        if not fits.splits:
            return fits, {}
        losses = {name: fits.losses(_chain_of(candidate)) for name, candidate in candidates.items()}
        scores = {name: float(np.average(loss, weights=rows.weight)) for name, loss in losses.items()}
        best = min(scores, key=lambda name: scores[name])
        self.name_, self.scores_ = best, scores
        self.behind_ = {
            name: held_out_gain(loss - losses[best], rows.weight).errors
            if scores[name] - scores[best] > _ALIKE
            else 0.0
            for name, loss in losses.items()
        }
        return fits, losses


def refitted(candidate: Any, fits: CrossFits[Any]) -> Any:
    """Return the candidate fitted on all rows."""
    fitted = fits.fitted(_chain_of(candidate))
    if not isinstance(candidate, Composed):
        return fitted[0]
    whole = clone(candidate)
    whole.fitted_ = fitted
    return whole


def _chain_of(calibrator: Any) -> Chain:
    return calibrator.chain if isinstance(calibrator, Composed) else (calibrator,)
