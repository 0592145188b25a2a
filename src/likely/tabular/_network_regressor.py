"""A regressor that says how sure it is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import RegressorMixin
from sklearn.utils.validation import check_array, validate_data
from torch import Tensor
from torch.distributions import Categorical, Distribution, MixtureSameFamily

from likely._solvers.training import Progress
from likely._typing import Array
from likely.likelihoods import LIKELIHOODS
from likely.likelihoods._numeric import quantile
from likely.tabular._base import FLOATS, LikelihoodModel
from likely.tabular._by_blocks import by_blocks, refuse_blocks
from likely.tabular._likelihoods import Likelihood
from likely.tabular._rows import Rows, Units


class NetworkRegressor(RegressorMixin, LikelihoodModel):
    r"""A network whose loss is a likelihood: it predicts a distribution, :math:`p(y \mid x)`, for every row.

    By default five networks are trained by squared error, each blind to a fifth of the rows; they stop when the rows
    they have not seen stop gaining, and their mean predicts. Then a scale is learned from the residuals of rows that
    were left out, and varies with the input as far as left-out rows surely gain by it. So the mean is never worse for
    the scale, and the scale has not been fooled by a fit.

    Args:
        model: None for an MLP; an ``nn.Module`` that maps (rows, inputs) in standard units to predictions, or to
            ``(predictions, features)``; or a function of (inputs, outputs) that makes one.
        hidden: units of each hidden layer of the MLP; ``()`` is a linear model.
        likelihood: name of a likelihood: ``"normal"``, ``"laplace"``, ``"student_t"``, ``"robust"`` (ρ) and others for
            real targets; further ones for positive targets, counts, shares and angles: see :mod:`likely.likelihoods`.
        scale: what the scale of a row's error (or a dispersion or concentration) depends on: ``"fixed"``,
            ``"global"`` (one value for all), ``"data"`` (one value per training row) or ``"predicted"`` (the input).
        shape: the same for all other parameters of the likelihood, such as degrees of freedom; None: as ``scale``.
        objective: ``"two_stage"``, as above; ``"joint"``, the paper's: everything at once down one NLL; ``"beta"``,
            that NLL tempered by β = .5; ``"faithful"``, the mean by squared error, the scale without touching it.
        cv: number of networks, each of which is trained without one fold; None trains one network on all rows for
            ``max_steps``.
        ensemble: number of such models from different seeds, whose distributions are mixed; trained through joblib.
        optimizer: ``"adamw"``, ``"adam"``, ``"sgd"``, ``"rmsprop"`` or a class of ``torch.optim``.
        learning_rate: learning rate of the optimizer.
        weight_decay: weight decay of the optimizer.
        dropout: share of the hidden units dropped in training.
        batch_size: rows per step; None for all of them, as in the paper.
        max_steps: largest number of steps.
        patience: number of steps without a gain on the left-out rows after which training ends.
        device: where to train, for example ``"cuda"``.
        random_state: seed or generator; the same seed gives the same model.
        callbacks: functions of a :class:`~likely.tabular.Progress`; one that returns True ends the training.
        checkpoint: file from which a killed fit goes on when it is called again.
        n_jobs: number of members of an ensemble trained at once, as joblib counts.
        verbose: whether to draw a progress bar.

    Attributes:
        outlier_scores_: the NLL of every training row by networks that have not seen it.
        out_of_fold_: the prediction for every training row by networks that have not seen it.
        n_rows_read_: how many rows were read: all, but for a table that is not in memory.
        n_steps_, best_steps_: steps taken, and the step each network was best at.

    >>> import numpy as np
    >>> from likely.tabular import NetworkRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-2, 2, size=(1000, 1))
    >>> y = np.sin(2 * X[:, 0]) + np.where(X[:, 0] > 0, 0.5, 0.1) * rng.normal(size=1000)
    >>> model = NetworkRegressor(max_steps=400, random_state=0).fit(X, y)
    >>> mean, std = model.predict([[-1.0], [1.0]], return_std=True)
    >>> mean.round(), std.round(1)
    (array([-1.,  1.]), array([0.1, 0.5]))
    """

    def __init__(
        self,
        model: Any = None,
        *,
        hidden: Sequence[int] = (64, 64),
        likelihood: str = "normal",
        scale: str = "predicted",
        shape: str | None = None,
        objective: str = "two_stage",
        cv: int | None = 5,
        ensemble: int | None = None,
        optimizer: Any = "adamw",
        learning_rate: float = 0.01,
        weight_decay: float = 0.1,
        dropout: float = 0.1,
        batch_size: int | None = 256,
        max_steps: int = 2000,
        patience: int = 150,
        device: Any = None,
        random_state: Any = None,
        callbacks: Sequence[Callable[[Progress], Any]] | None = None,
        checkpoint: Any = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.model = model
        self.hidden = hidden
        self.likelihood = likelihood
        self.scale = scale
        self.shape = shape
        self.objective = objective
        self.cv = cv
        self.ensemble = ensemble
        self.optimizer = optimizer
        self.learning_rate = learning_rate
        self.weight_decay = weight_decay
        self.dropout = dropout
        self.batch_size = batch_size
        self.max_steps = max_steps
        self.patience = patience
        self.device = device
        self.random_state = random_state
        self.callbacks = callbacks
        self.checkpoint = checkpoint
        self.n_jobs = n_jobs
        self.verbose = verbose

    @by_blocks(parts=lambda return_std: 1 + return_std)
    def predict(self, X: Any, return_std: bool = False) -> Any:
        """The mean of each row's distribution; with ``return_std`` also its standard deviation."""
        location, phi = self._restored(X)
        mean = self._shaped(self._mean(location, phi))
        if not return_std:
            return mean
        return mean, self._shaped(self._mixed(location, phi).stddev)

    def predict_dist(self, X: Any) -> Distribution:
        """Each row's distribution, as torch's; of several models their mixture."""
        refuse_blocks(X, "predict_dist", "predict or predict_interval")
        return self._mixed(*self._restored(X))

    @by_blocks(parts=lambda **_: 2)
    def predict_interval(self, X: Any, coverage: float = 0.9) -> tuple[Array, Array]:
        """The lower and upper ends of the central interval that holds ``coverage`` of each row's distribution."""
        if not 0 < coverage < 1:
            raise ValueError(f"coverage must lie in (0, 1), got {coverage}")
        distribution = self.predict_dist(X)
        lower, upper = (quantile(distribution, (1 + sign * coverage) / 2) for sign in (-1, 1))
        return lower, upper

    @by_blocks()
    def predict_scale(self, X: Any) -> Array:
        """Each row's scale: a normal's standard deviation, without the spread between models."""
        _, phi = self._restored(X)
        if "scale" not in phi:
            raise ValueError(f"the {self.likelihood} likelihood has no scale: call likelihood_parameters(X)")
        return self._shaped(phi["scale"].mean(0))

    def likelihood_parameters(self, X: Any) -> dict[str, Array]:
        """Each parameter of the likelihood for each row, averaged over models."""
        refuse_blocks(X, "likelihood_parameters", "predict or predict_scale")
        _, phi = self._restored(X)
        return {name: self._shaped(value.mean(0)) for name, value in phi.items()}

    @by_blocks(beside=("y",))
    def outlier_score(self, X: Any, y: Any) -> Array:
        """The NLL of every target: the higher, the less it fits. For training rows see ``outlier_scores_``."""
        distribution = self.predict_dist(X)
        targets = torch.tensor(np.asarray(y, dtype=np.float64)).reshape(distribution.batch_shape)
        nll = -distribution.log_prob(targets)
        return np.asarray(nll if nll.ndim == 1 else nll.mean(-1))

    def _width(self, method: str, **_: Any) -> int | None:
        """How many numbers a method returns per row; None for one that has no axis of its own."""
        return int(self.out_of_fold_.shape[1]) if self._many() and method != "outlier_score" else None

    def _restored(self, X: Any) -> tuple[Tensor, dict[str, Tensor]]:
        """Locations and parameters in the target's units, (components, rows, targets)."""
        location, phi = self._components(X)
        units = self._parts()[0].target_units_
        spread = torch.from_numpy(units.spread)
        restored = {name: value * spread if name == "scale" else value for name, value in phi.items()}
        return location * spread + torch.from_numpy(units.centre), restored

    def _mean(self, location: Tensor, phi: dict[str, Tensor]) -> Tensor:
        """Real numbers are predicted by their location, which also Cauchy's tails have; others by their mean."""
        if self._likelihood().record.start is None:
            return location.mean(0)
        mean = self._mixed(location, phi).mean
        return mean if self._many() else mean[:, None]

    def _mixed(self, location: Tensor, phi: dict[str, Tensor]) -> Distribution:
        """The mixture of the components, which are the first axis, for each row (and target)."""
        many = self._many()

        def behind(value: Tensor) -> Tensor:
            return value.movedim(0, 2) if many else value[:, :, 0].movedim(0, 1)

        parts = self._parts()[0].training_.fitted.loss_fn._distribution
        if len(location) == 1:
            axis = 2 if many else 1
            single = {name: behind(value).select(axis, 0) for name, value in phi.items()}
            return parts(behind(location).select(axis, 0), single)
        components = parts(behind(location), {name: behind(value) for name, value in phi.items()})
        return MixtureSameFamily(Categorical(torch.ones_like(behind(location))), components)

    def _likelihood(self) -> Likelihood:
        names = [name for name in LIKELIHOODS if name != "softmax"]  # those of one predicted number per target
        if self.likelihood not in names:
            raise ValueError(f"likelihood must be one of {', '.join(names)}; got {self.likelihood!r}")
        return Likelihood.of(self.likelihood, scale=self.scale, shape=self.shape or self.scale)

    def _many(self) -> bool:
        return bool(self._parts()[0].several_targets_)

    def _shaped(self, values: Tensor) -> Array:
        return np.asarray(values if self._many() or values.ndim == 1 else values[:, 0], dtype=np.float64)

    def _checked(self, X: Any, y: Any, *, reset: bool) -> tuple[NDArray[np.floating], NDArray[Any]]:
        X, y = validate_data(
            self,
            X,
            y,
            reset=reset,
            dtype=FLOATS,
            multi_output=True,
            y_numeric=True,
            ensure_min_samples=2 if reset else 1,
        )
        return X, check_array(y, dtype=np.float64, ensure_2d=False, input_name="y")

    def _rows(self, X: NDArray[np.floating], y: NDArray[Any], weight: Array, *, reset: bool) -> Rows:
        targets = y.reshape(len(y), -1)
        record = self._likelihood().record
        record.check_target(targets)
        if reset:
            self.several_targets_ = y.ndim > 1
            self.units_ = Units.standard(X, weight)
            if record.start is not None:
                self.target_units_ = Units(np.zeros(targets.shape[1]), np.ones(targets.shape[1]))
            elif self.likelihood == "normal":
                self.target_units_ = Units.standard(targets, weight)
            else:
                self.target_units_ = Units.robust(targets, weight)
        elif targets.shape[1] != len(self.target_units_.centre):
            raise ValueError(f"y has {targets.shape[1]} targets, the first rows had {len(self.target_units_.centre)}")
        device = torch.device(self.device or "cpu")
        z = (targets - self.target_units_.centre) / self.target_units_.spread
        own = torch.as_tensor(weight, dtype=torch.float32, device=device)
        goal = torch.as_tensor(z, dtype=torch.float32, device=device)
        return Rows(self.units_.inputs(X, device), goal, own, targets.shape[1])

    def _out_of_fold(self, prediction: Tensor, phi: dict[str, Tensor]) -> Array:
        spread, centre = torch.from_numpy(self.target_units_.spread), torch.from_numpy(self.target_units_.centre)
        expanded = self.training_.likelihood.expanded
        rows = {name: expanded(name, value, prediction.shape)[None] for name, value in phi.items()}
        mean = self._mean((prediction * spread + centre)[None], rows)
        return np.asarray(mean if self.several_targets_ else mean[:, 0])

    def _row_scores(self, rows: Rows, nll: Array) -> Array:
        return nll + float(np.log(self.target_units_.spread).mean())

    def _phi_shape(self, prediction: Tensor) -> torch.Size:
        return prediction.shape

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        tags.non_deterministic = False
        return tags
