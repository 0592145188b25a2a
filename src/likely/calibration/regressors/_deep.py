"""Deep Scaling: one scale per row by a small network, kept only as far as held-out rows agree with it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from torch import Tensor

from likely.calibration._deep_network import DeepCalibrator, few
from likely.calibration.regressors._rows import Forecasts
from likely.calibration.regressors._scale import ScaleCalibrator


@dataclass(kw_only=True, eq=False, repr=False)
class DeepScale(DeepCalibrator, ScaleCalibrator):
    r"""Deep Scaling (DS): one scale per row from a small network, that falls back to Global Scaling.

    :math:`\sigma_i' = c\,\sigma_i\,f(N(\tilde x_i))` with one hidden layer of tanh units and a last layer that starts
    at zero, which *is* Global Scaling. Five networks are trained at once, each on four fifths of the rows; the number
    of steps is the one of greatest gain on the fifths left out, less ``margin`` standard errors of it: zero where no
    gain is sure. The answer is the mean of the five. Same rows, same answer: the seed is fixed.

    Args:
        hidden: units of the hidden layer.
        max_iter: training steps at most.
        learning_rate: step size of Adam.
        margin: standard errors by which a gain on rows left out must exceed zero.
        likelihood: ``"normal"`` or ``"laplace"``.
        random_state: seed of the first layer and of the folds.

    >>> import numpy as np
    >>> from likely.calibration import DeepScale
    >>> rng = np.random.default_rng(0)
    >>> x = rng.uniform(-2, 2, size=(1000, 1))
    >>> noise = 0.5 + x[:, 0] ** 2                               # no line can follow this
    >>> mean, y = np.zeros(1000), noise * rng.normal(size=1000)
    >>> ds = DeepScale(max_iter=200).fit(mean, None, y, features=x)
    >>> bool(np.corrcoef(ds.predict_scale(mean, None, features=x), noise)[0, 1] > 0.9)
    True
    """

    _reads_features = True

    def _fit(self, z: Tensor, rows: Forecasts) -> None:
        source, family = rows.source, self._family
        weights = np.ones(len(source)) if rows.weight is None else rows.weight
        some = few(len(source), max(self.hidden, source.shape[1]))
        errors = z[some].float()

        def evaluate(u: Tensor) -> tuple[Tensor, Tensor]:
            return family.relative(errors, u)[:2]

        self._fit_networks(source[some], evaluate, weights[some], errors.cpu().numpy(), self.max_iter)

    def _factor(self, rows: Forecasts) -> Tensor | float:
        return self._multiplier(rows.source.whole()).to(rows.mean)
