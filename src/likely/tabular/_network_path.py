"""The paper's settings for a table as it comes: a network whose likelihood's parameters learn with it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from likely._typing import Array
from likely.likelihoods import LIKELIHOODS
from likely.tabular._choice import NAMED
from likely.tabular._columns import Columns
from likely.tabular._conformal import level_conformity, level_interval
from likely.tabular._network_regressor import NetworkRegressor
from likely.tabular._views import Views

OBJECTIVES = ("joint", "data", "beta", "faithful", "two_stage")
NETWORK_LIKELIHOODS = tuple(name for name in LIKELIHOODS if name not in (*NAMED, "softmax"))


@dataclass(frozen=True)
class NetworkPath:
    """A network, and how it reads a table."""

    columns: Columns
    views: Views
    network: Any
    settings: dict[str, Any]

    @classmethod
    def fit(cls, own: Any, X: Any, y: Array, weight: Array, seed: int) -> Self:
        """With the arguments of an estimator."""
        columns = Columns.learn(X, weight)
        folds = np.zeros(len(weight), dtype=np.intp)
        plain = columns(X)
        views, smooth = Views.learn(plain, columns.categories, None, weight, folds, "cpu")
        settings = {
            "likelihood": "normal" if own.likelihood == "auto" else own.likelihood,
            "objective": {"data": "joint", "auto": "two_stage"}.get(own.objective, own.objective),
            "scale": "data" if own.objective == "data" else own.scale,
            "shape": "global" if own.objective == "data" else None,
        }
        model = None if isinstance(own.model, str) else own.model
        cv = 5 if own.cv is None else own.cv
        network = NetworkRegressor(
            model, **settings, cv=cv, device=own.device, random_state=seed, n_jobs=own.n_jobs, verbose=own.verbose
        )
        network.fit(smooth[0].numpy(), y, sample_weight=weight)
        return cls(columns, views, network, settings)

    def inputs(self, X: Any) -> Array:
        """What the network reads."""
        return np.asarray(self.views(self.columns(X))[0])

    def predict(self, X: Any, return_std: bool) -> Any:
        """As the network does."""
        return self.network.predict(self.inputs(X), return_std=return_std)

    def predict_dist(self, X: Any) -> Any:
        """As the network does."""
        return self.network.predict_dist(self.inputs(X))

    def conformity(self, X: Any, y: Array) -> Array:
        """How far the level of each target is off the middle, of the shape of the targets."""
        return level_conformity(self.predict_dist(X), y)

    def interval(self, X: Any, reach: list[float]) -> tuple[Array, Array]:
        """The targets whose levels are so far off the middle, each target by its own reach."""
        ends = [level_interval(self.predict_dist(X), own) for own in reach]
        if len(reach) == 1:
            return ends[0]
        lower, upper = (np.stack([own[:, j] for j, own in enumerate(side)], 1) for side in zip(*ends, strict=True))
        return lower, upper

    @property
    def out_of_fold(self) -> Array:
        """The prediction of each training row."""
        return np.asarray(self.network.out_of_fold_)

    @property
    def outlier_scores(self) -> Array:
        """The NLL of each training row."""
        return np.asarray(self.network.outlier_scores_)

    def summary(self) -> dict[str, Any]:
        """What was chosen."""
        return {"rows": len(self.outlier_scores), "network": self.settings, "steps": int(self.network.n_steps_)}
