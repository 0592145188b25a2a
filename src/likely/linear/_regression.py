"""Linear regression under the prior of highest evidence."""

import math
from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np
from sklearn.base import clone

from likely._solvers.design import Design
from likely._typing import Array
from likely.linear._base import DynamicLinearModel
from likely.linear._ridge import DynamicRidge
from likely.linear._sparse import DynamicLasso, MultiLasso, SpikeSlabRegression

_PRIORS: dict[str, DynamicLinearModel] = {
    "normal": DynamicRidge(),
    "normal, shifted": DynamicRidge(prior_mean="learned"),
    "spike-slab": SpikeSlabRegression(),
    "laplace": DynamicLasso(),
    "laplace, each": MultiLasso(),
}
_AUTO = ("normal", "normal, shifted", "spike-slab")


@dataclass(eq=False, repr=False)
class DynamicRegression(DynamicLinearModel):
    """Linear regression that chooses the kind of prior by evidence and learns its scale.

    With ``prior="auto"`` a normal prior around zero, one around a learned mean, and a spike and slab are fitted; the
    model of highest evidence is used.

    Args:
        prior: ``"auto"``, or one of ``"normal"`` (:class:`DynamicRidge`), ``"normal, shifted"`` (the same with a
            learned mean), ``"spike-slab"`` (:class:`SpikeSlabRegression`), ``"laplace"`` (:class:`DynamicLasso`) and
            ``"laplace, each"`` (:class:`MultiLasso`). The last two have no evidence to be compared by.
        fit_intercept: whether to fit an intercept, which has no prior.
        penalty_weights: array of shape (d,) with a factor ≥ 0 per column by which its weight is penalised more or less;
            0 leaves the column unpenalised, None is one for all.

    Attributes:
        coef_: weights, shape (d,).
        intercept_: intercept.
        sigma_: standard deviation of the noise.
        prior_: name of the prior chosen.
        prior_scale_: scale of that prior, for columns of deviation one; one per weight for ``"laplace, each"``.
        evidences_: log evidence of each prior that was fitted, by name.
        best_: the model under the chosen prior, with its further attributes.
        n_iter_: iterations of that model.

    Example:
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

    See Also:
        :class:`DynamicLogisticRegression` for classes, :class:`RobustLinearRegression` for tables with outliers.
    """

    prior: str = "auto"
    _: KW_ONLY
    fit_intercept: bool = True
    penalty_weights: Any = None

    def _solve(self, design: Design) -> Array:
        if self.prior != "auto" and self.prior not in _PRIORS:
            raise ValueError(f"prior must be 'auto' or one of {', '.join(map(repr, _PRIORS))}; got {self.prior!r}")
        tried = _AUTO if self.prior == "auto" else (self.prior,)
        models = {name: clone(_PRIORS[name]) for name in tried}
        coefs: dict[str, Array] = {name: model._solve(design) for name, model in models.items()}
        self.evidences_ = {name: getattr(model, "evidence_", math.nan) for name, model in models.items()}
        # A learned mean is one more parameter, at the price of half the logarithm of the number of columns.
        price = {"normal, shifted": 0.5 * math.log(max(design.shape[1], 1))}
        values = [self.evidences_[name] - price.get(name, 0.0) for name in tried]
        self.prior_ = tried[int(np.argmax(values))]
        self.best_ = models[self.prior_]
        self.sigma_, self.prior_scale_, self.n_iter_ = self.best_.sigma_, self.best_.prior_scale_, self.best_.n_iter_
        self._posterior = self.best_._posterior
        return coefs[self.prior_]
