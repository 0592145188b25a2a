"""The prior that the evidence prefers."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from sklearn.base import clone

from likely._solvers.design import Design
from likely._typing import Array
from likely.linear._base import DynamicLinearModel
from likely.linear._lasso import DynamicLasso, MultiLasso
from likely.linear._ridge import DynamicRidge
from likely.linear._spike_slab import SpikeSlabRegression

_PRIORS: dict[str, DynamicLinearModel] = {
    "normal": DynamicRidge(),
    "normal, shifted": DynamicRidge(prior_mean="learned"),
    "spike-slab": SpikeSlabRegression(),
    "laplace": DynamicLasso(),
    "laplace, each": MultiLasso(),
}
_AUTO = ("normal", "normal, shifted", "spike-slab")


class DynamicRegression(DynamicLinearModel):
    r"""Linear regression that learns its prior, and which kind of prior it is.

    ``prior="auto"`` fits a normal prior around zero, one around a learned mean, and a spike and slab, and takes the one
    of most evidence. A name takes that one: ``"normal"``, ``"normal, shifted"``, ``"spike-slab"``, ``"laplace"``
    or ``"laplace, each"`` (the last two have no evidence to be compared by).

    Learned: ``coef_``, ``intercept_``, ``sigma_``, ``prior_scale_``, ``prior_`` (the name), ``evidences_`` (of each
    prior tried), ``best_`` (the model).

    >>> import numpy as np
    >>> from likely.linear import DynamicRegression
    >>> rng = np.random.default_rng(0)
    >>> X, w = rng.normal(size=(200, 100)), np.zeros(100)
    >>> w[:3] = 2, -1, 1
    >>> model = DynamicRegression().fit(X, X @ w + rng.normal(size=200))
    >>> model.prior_
    'spike-slab'
    >>> bool(model.evidences_["spike-slab"] > model.evidences_["normal"] + 50)
    True
    """

    def __init__(self, prior: str = "auto", *, fit_intercept: bool = True, penalty_weights: Any = None) -> None:
        super().__init__(fit_intercept=fit_intercept, penalty_weights=penalty_weights)
        self.prior = prior

    def _solve(self, design: Design) -> Array:
        if self.prior != "auto" and self.prior not in _PRIORS:
            raise ValueError(f"prior must be 'auto' or one of {', '.join(map(repr, _PRIORS))}; got {self.prior!r}")
        tried = _AUTO if self.prior == "auto" else (self.prior,)
        models = {name: clone(_PRIORS[name]) for name in tried}
        coefs: dict[str, Array] = {name: model._solve(design) for name, model in models.items()}
        self.evidences_ = {name: getattr(model, "evidence_", math.nan) for name, model in models.items()}
        # A learned mean is one parameter more, and costs what a parameter costs.
        price = {"normal, shifted": 0.5 * math.log(max(design.shape[1], 1))}
        values = [self.evidences_[name] - price.get(name, 0.0) for name in tried]
        self.prior_ = tried[int(np.argmax(values))]
        self.best_ = models[self.prior_]
        self.sigma_, self.prior_scale_, self.n_iter_ = self.best_.sigma_, self.best_.prior_scale_, self.best_.n_iter_
        self._posterior = self.best_._posterior
        return coefs[self.prior_]
