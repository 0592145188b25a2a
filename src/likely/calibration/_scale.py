"""The base class of calibrators of regressors, the forecasts they are fitted to, and one factor for all scales."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import torch
from sklearn.base import BaseEstimator, clone
from sklearn.utils.validation import check_is_fitted
from torch import Tensor
from torch.distributions import Distribution

from likely._rows.blocks import Rows, like
from likely._rows.checks import all_or_nothing, row_weights
from likely._rows.contents import Keys, contents
from likely._rows.sources import by_blocks, refuse_blocks, spooled
from likely._solvers.evidence import Evaluate
from likely._typing import Array
from likely.calibration._held_out import HeldOutRows, check_features
from likely.calibration._row_factor import LINK
from likely.likelihoods import LIKELIHOODS, Likelihood
from likely.metrics._predictive import check_coverage

_ROUNDING = 8  # units in the last place by which a regressor of a constant is off
_LEAST = math.sqrt(torch.finfo(torch.float32).tiny)
KEPT_NUMBERS = 2**22  # maximum size of the rows that folds are made of, where rows are in blocks


@dataclass(frozen=True)
class Forecasts(HeldOutRows):
    """A regressor's predictions for some rows: means, and scales (the ``answers``; None without)."""

    mean: Tensor

    @classmethod
    def checked(cls, mean: Any, scale: Any, features: Any, y: Any = None, sample_weight: Any = None) -> Forecasts:
        """Return the rows of positive weight, after a check of every number; without targets, ``y`` is None."""
        table = spooled("mean", mean, scale=scale, features=features, y=y, sample_weight=sample_weight)
        mean, scale, features, y, sample_weight = table.arguments
        if table.mapped and mean.ndim > 1:
            remedy = "name the others by scale=, y=, features= and sample_weight="
            raise ValueError(f"the table must have one column left, the mean, and has {mean.shape[1]}: {remedy}")
        centre = _column("mean", mean)
        spread = None if scale is None else _column("scale", scale, like=centre)
        if spread is not None and not bool((spread > 0).all()):
            raise ValueError("scale must be positive in every row: clip it or drop these rows")
        extra = check_features(features, len(centre))
        target = None if y is None else _column("y", y, like=centre)
        return cls(spread, target, extra, row_weights(sample_weight, centre), centre, table=table).counted()

    @property
    def kept(self) -> int:
        return KEPT_NUMBERS // (3 + self.width) if self.table.mapped else len(self.weight)

    @property
    def scale(self) -> Tensor:
        """The regressor's scales, or ones."""
        return torch.ones_like(self.mean) if self.answers is None else self.answers

    @property
    def residuals(self) -> Rows:
        """The targets less the means, over the scales."""
        return Rows((self.y - self.mean) / self.scale)

    @property
    def rounding(self) -> float:
        """The largest rounding error of a mean, over the scale."""
        sizes = self.mean.double().abs() / self.scale
        return max(_ROUNDING * torch.finfo(self.mean.dtype).eps * float(sizes.max()), _LEAST)

    @property
    def width(self) -> int:
        """The number of features per row."""
        return 0 if self.features is None else self.features.shape[1]

    @property
    def source(self) -> Rows:
        """The features, if numbers, else the mean and, where the regressor has one, the log scale."""
        if self.features is not None:
            return self.features
        return Rows(torch.stack([self.mean] if self.answers is None else [self.mean, self.answers.log()], dim=1))

    def keys(self) -> Keys:
        return contents(Rows(self.mean[:, None]), self.features)

    def fit(self, step: Any) -> Any:
        if not hasattr(step, "_fit_rows"):
            raise TypeError(f"steps and candidates must be scale calibrators of likely.calibration, got {step!r}")
        return clone(step)._fit_rows(self)

    def after(self, fitted: Any) -> Forecasts:
        return replace(self, answers=fitted._scales(self))

    def nll(self, fitted: Any) -> Array:
        return -fitted._distribution(self).log_prob(self.y).double().cpu().numpy()


def _column(name: str, values: Any, like: Tensor | None = None) -> Tensor:
    numbers = values.detach() if isinstance(values, Tensor) else torch.from_numpy(np.array(values, dtype=np.float64))
    if numbers.ndim != 1 or (like is not None and numbers.shape != like.shape):
        rows = "(rows,)" if like is None else f"({len(like)},)"
        raise ValueError(f"{name} must hold one number per row, shape {rows}; got {tuple(numbers.shape)}")
    if len(numbers) == 0:
        raise ValueError(f"{name} has no rows")
    if not bool(numbers.isfinite().all()):
        raise ValueError(f"{name} holds NaN or infinities: clean it first")
    return numbers.to(like) if like is not None else numbers.to(torch.promote_types(numbers.dtype, torch.float32))


@dataclass(frozen=True)
class Family:
    """A likelihood -log p = log σ + |r/σ|ᵖ / p + constant, whose common scale has a closed form.

    At the best common scale the mean of |z|ᵖ = z ρ'(z) is one, and Fisher's information of log σ is p.
    """

    likelihood: Likelihood
    power: int

    def distribution(self, mean: Tensor, scale: Tensor) -> Distribution:
        """Return the forecast."""
        return self.likelihood.loss(validate_args=False).distribution_of(mean, {"scale": scale})

    def relative(self, z: Tensor, u: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return the NLL of residuals z at f(u) times the base scale, its slope in u and its curvature."""
        factor = LINK(u)
        slope = LINK.slope(u) / factor  # of log f
        nll = self.likelihood.nll(torch.zeros_like(z), z, scale=factor, reduction="none", validate_args=False)
        pull = (z / factor).abs() ** self.power
        return nll, slope * (1 - pull), self.power * slope.square()

    def evaluate_on(self, z: Any) -> Evaluate:
        """Return that function of some of the rows and their u."""
        return lambda rows, u: self.relative(z[rows].to(u), u)


FAMILIES = {name: Family(LIKELIHOODS[name], power) for name, power in (("normal", 2), ("laplace", 1))}


@dataclass(kw_only=True, eq=False, repr=False)
class ScaleCalibrator(BaseEstimator):
    """Base class of calibrators of regressors, which map predicted means and scales to calibrated distributions.

    Subclasses write ``_fit`` and ``_factor``. ``mean``, ``scale`` and ``y`` hold one number per row, in NumPy or torch;
    outputs are of the same kind, distributions torch's.

    Dask arrays, and tables of columns in files or in Dask frames, are read by blocks, and outputs are of the same kind.
    Of a table all columns but the mean are named: ``fit("held_out/", "scale", "y", features=["x1", "x2"])``.

    Args:
        likelihood: ``"normal"`` or ``"laplace"``; ``scale`` is its parameter, σ or b.

    Attributes:
        global_scale_: the factor for all scales of highest likelihood.
        has_scale_: whether ``fit`` was given scales.
        n_features_: number of features that ``fit`` was given.

    Example:
        >>> import numpy as np
        >>> from likely.calibration import GlobalScale
        >>> rng = np.random.default_rng(0)
        >>> mean = rng.normal(size=4000)
        >>> y = mean + 0.5 * rng.normal(size=4000)
        >>> gs = GlobalScale().fit(mean, None, y)
        >>> gs.predict_scale(mean[:2], None).round(2)
        array([0.5, 0.5])
        >>> lower, upper = gs.predict_interval(mean, None, coverage=0.9)
        >>> round(float(((lower < y) & (y < upper)).mean()), 2)
        0.9

    See Also:
        :class:`GlobalScale`, :class:`LinearScale`, :class:`DeepScale`, :class:`IsotonicScale`, :class:`AutoScale`.
    """

    reads_features = False  # whether the scale of a row may depend on its features

    likelihood: str = "normal"

    @all_or_nothing
    def fit(self, mean: Any, scale: Any, y: Any, features: Any = None, sample_weight: Any = None) -> Self:
        """Fit the calibrator to held-out rows.

        Args:
            mean: predicted means, shape (n,).
            scale: predicted scales, shape (n,), positive; None for a regressor without, for which all rows start from
                the same scale.
            y: targets, shape (n,).
            features: columns of shape (n, d), for the calibrators that read them; without any these read the mean and
                the log scale.
            sample_weight: weight per row, shape (n,); None for equal weights.

        Returns:
            The fitted calibrator itself.

        Raises:
            ValueError: shapes do not match, numbers are not finite, or scales are not positive.
        """
        if y is None:
            raise ValueError("y must hold one number per row: a scale is learned from targets")
        rows = Forecasts.checked(mean, scale, features, y, sample_weight)
        self.column_names_ = rows.table.columns
        return self._fit_rows(rows)

    def distribution(self, mean: Any, scale: Any, features: Any = None) -> Distribution:
        """Return the calibrated distribution of each row.

        Args:
            mean: predicted means, shape (n,), in memory.
            scale: predicted scales, shape (n,); None where the fit had none.
            features: columns of shape (n, d), where the fit had features.

        Returns:
            A torch distribution of batch shape (n,), with ``log_prob``, ``cdf``, ``icdf`` and ``sample``.

        Raises:
            ValueError: the rows are in blocks; :meth:`predict_scale` and :meth:`predict_interval` take these.
        """
        check_is_fitted(self)
        refuse_blocks(mean, "distribution", "predict_scale or predict_interval")
        return self._distribution(Forecasts.checked(mean, scale, features))

    @by_blocks(per_row="scale features", frames=False)
    def predict_scale(self, mean: Any, scale: Any, features: Any = None) -> Any:
        """Return the calibrated scale of each row; after an isotonic map, the standard deviation.

        Args:
            mean: predicted means, shape (n,).
            scale: predicted scales, shape (n,); None where the fit had none.
            features: columns of shape (n, d), where the fit had features.

        Returns:
            Scales of shape (n,), of the kind of ``mean``.
        """
        check_is_fitted(self)
        return like(self._scales(Forecasts.checked(mean, scale, features)), mean)

    @by_blocks(arrays=lambda **_: 2, per_row="scale features", frames=False)
    def predict_interval(self, mean: Any, scale: Any, features: Any = None, coverage: float = 0.9) -> tuple[Any, Any]:
        """Return the central interval of each row's calibrated distribution.

        Args:
            mean: predicted means, shape (n,).
            scale: predicted scales, shape (n,); None where the fit had none.
            features: columns of shape (n, d), where the fit had features.
            coverage: probability of the interval, in (0, 1).

        Returns:
            Lower and upper ends, each of shape (n,) and of the kind of ``mean``.
        """
        check_coverage(coverage)
        distribution = self.distribution(mean, scale, features)
        level = torch.tensor((1 - coverage) / 2, dtype=torch.float64).to(distribution.mean)
        return like(distribution.icdf(level), mean), like(distribution.icdf(1 - level), mean)

    @property
    def _family(self) -> Family:
        if self.likelihood not in list(FAMILIES):  # a list, which a file may have here, has no hash
            raise ValueError(f"likelihood must be one of {', '.join(map(repr, FAMILIES))}, got {self.likelihood!r}")
        return FAMILIES[self.likelihood]

    def _fit_rows(self, rows: Forecasts) -> Self:
        """Fit to rows that have been checked already, as the steps of a pipeline are."""
        residuals = rows.residuals
        self.has_scale_, self.n_features_ = rows.answers is not None, rows.width
        # Residuals that are all zero, or rounding errors, would give a scale of zero.
        self.global_scale_ = factor = max(common_scale(residuals, rows.weight, self._family.power), rows.rounding)
        self._fit(residuals.mapped(lambda _, block: block / factor), rows)
        return self

    def _distribution(self, rows: Forecasts) -> Distribution:
        return self._family.distribution(rows.mean, self._scales(rows))

    def _scales(self, rows: Forecasts) -> Tensor:
        if (rows.answers is not None) != self.has_scale_:
            raise ValueError(
                f"the calibrator was fitted with{'' if self.has_scale_ else 'out'} scales: use it in the same way"
            )
        width, fitted = rows.width, self.n_features_
        if width != fitted and (self.reads_features or (width and fitted)):
            raise ValueError(f"features have {width or 'no'} columns, the fit had {fitted or 'no'} columns")
        return rows.scale * self.global_scale_ * self._factor(rows)

    def _fit(self, z: Rows, rows: Forecasts) -> None:
        """Fit to the residuals in units of the globally scaled forecasts."""

    def _thinned(self, rows: Forecasts) -> tuple[Tensor, Forecasts]:
        """Return such residuals and their rows, in memory: all of them, or of rows in blocks as many as can be kept."""
        thinned = rows.thinned()
        return thinned.residuals.whole() / self.global_scale_, thinned

    def _factor(self, rows: Forecasts) -> Tensor | float:
        """Return the factor by which each row's globally calibrated scale is multiplied."""
        return 1.0


class GlobalScale(ScaleCalibrator):
    r"""Global Scaling (GS): one factor for all scales, that of highest likelihood, in closed form.

    For the normal it is the root mean square of :math:`r_i / \sigma_i`, for the Laplace their mean absolute value.

    Args:
        likelihood: ``"normal"`` or ``"laplace"``.

    Attributes:
        global_scale_: the factor.
        has_scale_: whether ``fit`` was given scales.

    Example:
        >>> import numpy as np
        >>> from likely.calibration import GlobalScale
        >>> rng = np.random.default_rng(0)
        >>> mean, scale = np.zeros(4000), np.exp(rng.normal(size=4000))
        >>> y = 3 * scale * rng.normal(size=4000)                    # three times as far off as predicted
        >>> round(GlobalScale().fit(mean, scale, y).global_scale_, 1)
        3.0

    See Also:
        :class:`LinearScale` and :class:`DeepScale`, with a factor per row; :class:`GlobalTemperature` for classifiers.
    """


def common_scale(z: Rows, weight: Array, power: int) -> float:
    """Return the factor of highest likelihood for all scales, in closed form, given the residuals."""
    weights = torch.as_tensor(weight)

    def sums(rows: Any) -> Tensor:
        sizes = z[rows].double().abs()
        return weights[rows].to(sizes) @ sizes.pow(power)

    return float((z.total(sums) / float(weight.sum())) ** (1 / power))
