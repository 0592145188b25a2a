"""One temperature per row from small networks, as far as held-out rows support it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from likely._rows.blocks import Rows
from likely._typing import Array
from likely.calibration._row_factor import DeepCalibrator, few
from likely.calibration.classifiers._inverse import fit_inverse_temperature, relative
from likely.calibration.classifiers._rows import Labels
from likely.calibration.classifiers._temperature import TemperatureCalibrator, finite


@dataclass(kw_only=True, eq=False, repr=False)
class DeepTemperature(DeepCalibrator, TemperatureCalibrator):
    r"""Deep Scaling (DS): one temperature per row from a small network, with Global Scaling as the fallback.

    :math:`1/T_i = f(N(\tilde x_i)) / T_0`, relative to the fitted global temperature, where x are the features if
    ``fit`` is given any, else the logits. N has one hidden layer of tanh units and a last layer that starts at zero,
    which *is* Global Scaling. Five networks are trained at once, each on four fifths of the rows, and their outputs
    averaged; the number of steps is the one of greatest gain on the fifths left out, less ``margin`` standard errors:
    zero where no gain exceeds them.

    Args:
        inputs: ``"logits"``, or ``"probabilities"``, whose logarithm is taken.
        hidden: number of units of the hidden layer.
        max_iter: maximum number of training steps.
        learning_rate: step size of Adam.
        margin: number of standard errors that are subtracted from a gain on rows left out.
        random_state: seed of the first layer and of the folds.

    Attributes:
        global_temperature_: the temperature :math:`T_0`.
        networks_: weights of the five networks; None where Global Scaling is used.
        mean_: mean of each column that the networks read.
        deviation_: deviation of each of these columns.
        n_iter_: number of training steps that was chosen.
        gain_: gain in held-out NLL per row, less ``margin`` standard errors.
        n_features_: number of features; 0 where the networks read the logits.
        n_classes_: number of classes.

    Example:
        >>> import numpy as np
        >>> from likely.calibration import DeepTemperature
        >>> rng = np.random.default_rng(0)
        >>> y, features = rng.integers(0, 3, 500), rng.normal(size=(500, 2))
        >>> noise = np.exp(np.abs(features[:, :1]))                     # not linear in the features
        >>> logits = 3 * np.eye(3)[y] + noise * rng.normal(size=(500, 3))
        >>> ds = DeepTemperature().fit(logits, y, features)
        >>> low, high = ds.temperature(logits[:2], np.array([[0.0, 0.0], [1.5, 0.0]]))
        >>> bool(high > 1.5 * low)
        True

    See Also:
        :class:`FeatureTemperature`, linear; :class:`DeepScale` for regressors.
    """

    def _fit(self, logits: Rows, y: Labels, features: Rows | None, weight: Array) -> None:
        inverse = fit_inverse_temperature(logits, y, weight)
        self.global_temperature_ = 1 / inverse.value
        self.n_features_ = 0 if features is None else features.shape[1]
        source = logits if features is None else features
        rows = few(len(y), max(logits.shape[1], source.shape[1]))
        z, classes, weights = logits[rows], np.asarray(y[rows]), np.asarray(weight[rows])
        labels = torch.as_tensor(classes)

        def evaluate(u: Tensor) -> tuple[Tensor, Tensor]:
            return relative(z, labels.to(z.device), inverse.value, u)[:2]

        max_iter = self.max_iter if inverse.informed else 0
        self._fit_networks(finite(source[rows]), evaluate, weights, classes, max_iter)

    def _temperatures(self, logits: Tensor, features: Tensor | None) -> Tensor:
        if self.n_features_ and (features is None or features.shape[1] != self.n_features_):
            raise ValueError(f"this calibrator was fitted with {self.n_features_} features: give them here too")
        source = features if self.n_features_ and features is not None else logits
        return self.global_temperature_ / self._multiplier(finite(source)).to(logits)
