"""A single network for a table of mixed columns, with the paper's objectives."""

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
    """A network, and how a table is converted to its inputs."""

    columns: Columns
    views: Views
    network: Any
    settings: dict[str, Any]

    @classmethod
    def fit(cls, estimator: Any, X: Any, y: Array, weight: Array, seed: int) -> Self:
        """Fit a network with the arguments of an estimator."""
        columns = Columns.learn(X, weight)
        folds = np.zeros(len(weight), dtype=np.intp)
        plain = columns(X)
        views, smooth = Views.learn(plain, columns.categories, None, weight, folds, "cpu")
        settings = {
            "likelihood": "normal" if estimator.likelihood == "auto" else estimator.likelihood,
            "objective": {"data": "joint", "auto": "two_stage"}.get(estimator.objective, estimator.objective),
            "scale": "data" if estimator.objective == "data" else estimator.scale,
            "shape": "global" if estimator.objective == "data" else None,
        }
        model = None if isinstance(estimator.model, str) else estimator.model
        cv = 5 if estimator.cv is None else estimator.cv
        network = NetworkRegressor(
            model,
            **settings,
            cv=cv,
            device=estimator.device,
            random_state=seed,
            n_jobs=estimator.n_jobs,
            verbose=estimator.verbose,
        )
        network.fit(smooth[0].numpy(), y, sample_weight=weight)
        return cls(columns, views, network, settings)

    def inputs(self, X: Any) -> Array:
        """Convert a table to the inputs of the network."""
        return np.asarray(self.views(self.columns(X))[0])

    def predict(self, X: Any, return_std: bool) -> Any:
        """Predict the mean of each row, and the standard deviation if ``return_std``."""
        return self.network.predict(self.inputs(X), return_std=return_std)

    def predict_dist(self, X: Any) -> Any:
        """Predict the distribution of each row."""
        return self.network.predict_dist(self.inputs(X))

    def conformity(self, X: Any, y: Array) -> Array:
        """Return the distance of each target's level from ½, in the shape of the targets."""
        return level_conformity(self.predict_dist(X), y)

    def interval(self, X: Any, reach: list[float]) -> tuple[Array, Array]:
        """Return the ends of the intervals of levels ½ ± ``reach``, one reach per target."""
        ends = [level_interval(self.predict_dist(X), target_reach) for target_reach in reach]
        if len(reach) == 1:
            return ends[0]
        lower, upper = (np.stack([end[:, j] for j, end in enumerate(side)], 1) for side in zip(*ends, strict=True))
        return lower, upper

    @property
    def out_of_fold(self) -> Array:
        """The out-of-fold prediction of each training row."""
        return np.asarray(self.network.out_of_fold_)

    @property
    def outlier_scores(self) -> Array:
        """The out-of-fold NLL of each training row."""
        return np.asarray(self.network.outlier_scores_)

    def summary(self) -> dict[str, Any]:
        """Return the settings, in JSON's types."""
        return {"rows": len(self.outlier_scores), "network": self.settings, "steps": int(self.network.n_steps_)}
