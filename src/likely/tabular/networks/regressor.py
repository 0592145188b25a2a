"""A neural network regressor that predicts a distribution for every row."""

from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np
import torch
from sklearn.utils.validation import check_array, validate_data
from torch import Tensor
from torch.distributions import Categorical, Distribution, MixtureSameFamily

from likely._rows.columns import middle_and_spread
from likely._rows.sources import by_blocks, refuse_blocks
from likely._typing import Array, Floats, Values
from likely.likelihoods import LIKELIHOODS
from likely.metrics._predictive import central_interval
from likely.tabular._predictions import DistributionRegressor
from likely.tabular.networks.estimator import FLOATS, NetworkEstimator
from likely.tabular.networks.likelihood import NetworkLikelihood, Phi
from likely.tabular.networks.rows import TrainingRows, Units


@dataclass(eq=False, repr=False)
class NetworkRegressor(DistributionRegressor, NetworkEstimator):
    r"""A neural network regressor whose loss is a likelihood: it predicts a distribution :math:`p(y \mid x)` per row.

    By default five networks are trained by squared error, each without one fifth of the rows; each stops when the loss
    of its held-out rows stops falling, and their mean predicts. Then a scale is learned from the held-out residuals.
    It varies with the input by as much as the held-out gain exceeds its standard error. So learning the scale does not
    change the mean, and overfitted residuals do not make the scale too small.

    See also :class:`~likely.tabular.NetworkClassifier` for labels, :class:`~likely.tabular.LikelihoodRegressor` for
    tables with categories and missing values, and :class:`likely.NormalLoss`, the default loss.

    Args:
        model: None is a multilayer perceptron (MLP); or an ``nn.Module`` that maps standardized inputs of shape
            (rows, inputs) to predictions, or to ``(predictions, features)``; or a function of (inputs, outputs) that
            returns one.
        hidden: sizes of the hidden layers of the MLP; ``()`` is a linear model.
        objective: ``"two_stage"``, as above; ``"joint"``, the paper's, trains everything by one negative
            log-likelihood (NLL).
        cv: number of networks, each of which is trained without one fold; None trains one network on all rows for
            ``max_steps``.
        learning_rate: learning rate of AdamW.
        batch_size: rows per step; None takes all rows, as in the paper.
        max_steps: largest number of steps; training ends earlier when the held-out loss stops falling.
        device: torch device to train on, for example ``"cuda"``; None is the CPU.
        random_state: seed or generator; the same seed gives the same model.
        callbacks: functions that are called with a :class:`~likely.tabular.Progress`; training ends when one returns
            True.
        likelihood: name of a likelihood: ``"normal"``, ``"laplace"``, ``"student_t"``, ``"robust"`` (ρ) and others for
            real targets; further ones for positive targets, counts, shares and angles: see :mod:`likely.likelihoods`.
        scale: what the scale of a row's error, and any other parameter of the likelihood, depends on: ``"fixed"``,
            ``"global"`` (one value for all), ``"data"`` (one value per training row) or ``"predicted"`` (the input).

    Attributes:
        outlier_scores_: NLL of each training row, of shape (rows,), from networks that were trained without it.
        out_of_fold_: predicted mean of each training row, of shape (rows,) or (rows, targets), from networks that were
            trained without it.
        n_rows_read_: number of rows read: all of them, unless the table was not in memory.
        n_steps_: number of steps taken.
        best_steps_: step with the lowest held-out loss, one per network.

    >>> import numpy as np
    >>> from likely.tabular import NetworkRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-2, 2, size=(500, 1))
    >>> y = np.sin(2 * X[:, 0]) + np.where(X[:, 0] > 0, 0.5, 0.1) * rng.normal(size=500)
    >>> model = NetworkRegressor(max_steps=200, random_state=0).fit(X, y)
    >>> mean, std = model.predict([[-1.0], [1.0]], return_std=True)
    >>> mean.round(), std.round(1)
    (array([-1.,  1.]), array([0.1, 0.5]))
    """

    _per_target = True

    _: KW_ONLY
    likelihood: str = "normal"
    scale: str = "predicted"

    @by_blocks(width=lambda model, **_: model._targets_per_row(), arrays=lambda return_std: 1 + return_std)
    def predict(self, X: Any, return_std: bool = False) -> Any:
        """Predict the mean of each row's distribution.

        Args:
            X: table of shape (rows, inputs).
            return_std: whether to return the standard deviations too.

        Returns:
            Array of means, of shape (rows,) or (rows, targets); with ``return_std`` a pair of arrays, the means and
            the standard deviations.
        """
        location, phi = self._restored(X)
        mean = self._shaped(self._mean(location, phi))
        if not return_std:
            return mean
        return mean, self._shaped(self._mixed(location, phi).stddev)

    def predict_dist(self, X: Any) -> Distribution:
        """Predict the distribution of each row's target, the mixture of the networks' distributions.

        Args:
            X: table of shape (rows, inputs), in memory.

        Returns:
            A ``torch.distributions.Distribution`` of batch shape (rows,) or (rows, targets).

        Raises:
            ValueError: if X is not in memory.
        """
        refuse_blocks(X, "predict_dist", "predict or predict_interval")
        return self._mixed(*self._restored(X))

    @by_blocks(width=lambda model, **_: model._targets_per_row(), arrays=lambda **_: 2)
    def predict_interval(self, X: Any, coverage: float = 0.9) -> tuple[Array, Array]:
        """Predict the central interval that holds ``coverage`` of each row's distribution.

        Args:
            X: table of shape (rows, inputs).
            coverage: share of the distribution that the interval holds, in (0, 1).

        Returns:
            Two arrays, the lower and the upper ends, each of shape (rows,) or (rows, targets).
        """
        return central_interval(self.predict_dist(X), coverage)

    @by_blocks(width=lambda model, **_: model._targets_per_row())
    def predict_scale(self, X: Any) -> Array:
        """Predict the scale of each row, such as a normal's standard deviation, without the spread between networks.

        Args:
            X: table of shape (rows, inputs).

        Returns:
            Array of shape (rows,) or (rows, targets).

        Raises:
            ValueError: if the likelihood has no scale.
        """
        _, phi = self._restored(X)
        if "scale" not in phi:
            raise ValueError(f"the {self.likelihood} likelihood has no scale: call likelihood_parameters(X)")
        return self._shaped(phi["scale"].mean(0))

    def likelihood_parameters(self, X: Any) -> dict[str, Array]:
        """Predict each parameter of the likelihood for each row, averaged over the networks.

        Args:
            X: table of shape (rows, inputs), in memory.

        Returns:
            Dict from the name of a parameter, such as ``"scale"``, to an array of shape (rows,) or (rows, targets).
        """
        refuse_blocks(X, "likelihood_parameters", "predict or predict_scale")
        _, phi = self._restored(X)
        return {name: self._shaped(value.mean(0)) for name, value in phi.items()}

    def _restored(self, X: Any) -> tuple[Tensor, Phi]:
        """Locations and parameters in the target's units, (components, rows, targets)."""
        location, phi = self._components(X)
        units = self.target_units_
        spread = torch.from_numpy(units.spread)
        restored = {name: value * spread if name == "scale" else value for name, value in phi.items()}
        return location * spread + torch.from_numpy(units.centre), restored

    def _mean(self, location: Tensor, phi: Phi) -> Tensor:
        """The location of real targets, which exists for Cauchy tails too; the mean of all others."""
        if self._likelihood().record.start is None:
            return location.mean(0)
        mean = self._mixed(location, phi).mean
        return mean if self.several_targets_ else mean[:, None]

    def _mixed(self, location: Tensor, phi: Phi) -> Distribution:
        """The mixture of the components, which are the first axis, for each row (and target)."""
        several = self.several_targets_

        def components_last(value: Tensor) -> Tensor:
            return value.movedim(0, 2) if several else value[:, :, 0].movedim(0, 1)

        parts = self.training_.fitted.loss_fn.distribution_of
        if len(location) == 1:
            axis = 2 if several else 1
            single = {name: components_last(value).select(axis, 0) for name, value in phi.items()}
            return parts(components_last(location).select(axis, 0), single)
        components = parts(components_last(location), {name: components_last(value) for name, value in phi.items()})
        return MixtureSameFamily(Categorical(torch.ones_like(components_last(location))), components)

    def _targets_per_row(self) -> int | None:
        """The number of targets; None where predictions are of shape (rows,)."""
        return len(self.target_units_.centre) if self.several_targets_ else None

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags

    def _likelihood(self) -> NetworkLikelihood:
        names = [name for name in LIKELIHOODS if name != "softmax"]  # those of one predicted number per target
        if self.likelihood not in names:
            raise ValueError(f"likelihood must be one of {', '.join(names)}; got {self.likelihood!r}")
        return NetworkLikelihood.of(self.likelihood, "scale", self.scale)

    def _shaped(self, values: Tensor) -> Array:
        return np.asarray(values if self.several_targets_ or values.ndim == 1 else values[:, 0], dtype=np.float64)

    def _checked(self, X: Any, y: Any) -> tuple[Floats, Values]:
        options: dict[str, Any] = {"dtype": FLOATS, "multi_output": True, "y_numeric": True, "ensure_min_samples": 2}
        X, y = validate_data(self, X, y, **options)
        return X, check_array(y, dtype=np.float64, ensure_2d=False, input_name="y")

    def _goals(self, y: Values, weight: Array) -> tuple[Tensor, int]:
        self.several_targets_ = y.ndim > 1
        targets = y.reshape(len(y), -1)
        record = self._likelihood().record
        record.check_target(targets)
        if record.start is not None:
            self.target_units_ = Units(np.zeros(targets.shape[1]), np.ones(targets.shape[1]))
        elif self.likelihood == "normal":
            self.target_units_ = Units.standard(targets, weight)
        else:
            self.target_units_ = Units(*middle_and_spread(targets, weight))
        z = (targets - self.target_units_.centre) / self.target_units_.spread
        return torch.as_tensor(z, dtype=torch.float32), targets.shape[1]

    def _out_of_fold(self, prediction: Tensor, phi: Phi) -> Array:
        spread, centre = torch.from_numpy(self.target_units_.spread), torch.from_numpy(self.target_units_.centre)
        expanded = self.training_.likelihood.expanded
        rows = {name: expanded(name, value, prediction.shape)[None] for name, value in phi.items()}
        mean = self._mean((prediction * spread + centre)[None], rows)
        return np.asarray(mean if self.several_targets_ else mean[:, 0])

    def _row_scores(self, rows: TrainingRows, nll: Array) -> Array:
        return nll + float(np.log(self.target_units_.spread).mean())
