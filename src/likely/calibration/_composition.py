"""Calibrators one after the other: what compositions of either kind share."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Self

from sklearn.utils.metaestimators import _BaseComposition

from likely.calibration._cross_fit import Chain, CrossFits
from likely.calibration._held_out import HeldOutRows


class Composed(_BaseComposition):
    """Named calibrators in a row; subclasses pass their rows to ``_fit_steps``."""

    steps: list[tuple[str, Any]]
    cv: int | None

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters, those of the steps as ``name__parameter``."""
        params: dict[str, Any] = self._get_params("steps", deep=deep)
        return params

    def set_params(self, **params: Any) -> Self:
        """Set parameters, those of the steps as ``name__parameter``."""
        self._set_params("steps", **params)
        return self

    @property
    def chain(self) -> Chain:
        """The steps without their names."""
        return tuple(step for _, step in self.steps)

    def _fit_steps(self, rows: HeldOutRows) -> None:
        if not self.steps:
            raise ValueError("there are no steps: give at least one calibrator")
        self.fitted_ = CrossFits(rows, cv=self.cv, random_state=0).fitted(self.chain)


def chain_of(calibrator: Any) -> Chain:
    """Return the steps of a composition, or the calibrator alone."""
    return calibrator.chain if isinstance(calibrator, Composed) else (calibrator,)


def named(calibrators: Iterable[Any]) -> list[tuple[str, Any]]:
    """Return calibrators with the names of their classes, numbered where one is there twice."""
    calibrators = list(calibrators)
    kinds = [type(calibrator).__name__.lower() for calibrator in calibrators]
    names = [kind if kinds.count(kind) == 1 else f"{kind}-{i + 1}" for i, kind in enumerate(kinds)]
    return list(zip(names, calibrators, strict=True))
