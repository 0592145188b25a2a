"""Temperatures: one for all rows, or one per row, linear in its logits or features or from small networks."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from scipy import optimize
from torch import Tensor

from likely._rows.blocks import Rows
from likely._solvers.evidence import Evaluate, Solution, fit_linear
from likely._solvers.ridge import RATE
from likely._typing import Array
from likely.calibration._calibrator import Calibrator, Labels
from likely.calibration._row_factor import LINK, DeepCalibrator
from likely.likelihoods.softmax import tempered

_STEP = 0.5  # of the logarithm of 1/T, on the way to the first maximum
_BOUND = 25.0  # of the logarithm of 1/T; in units of the widest row where its width is extreme


class Inverse(NamedTuple):
    """A fitted 1/T; ``informed`` is False where the rows do not determine it: no spread in the logits, or no error."""

    value: float
    informed: bool


def fit_inverse_temperature(logits: Rows, y: Labels, weight: Array) -> Inverse:
    """Return the 1/T of highest likelihood, to about eight digits.

    For rows without a single error the likelihood has no maximum. There it is multiplied by Jeffreys' prior, and the
    first maximum from the hot side is taken: a colder one may depend on a single row. Logits without spread do not
    determine the temperature, and it stays at one.
    """
    labels, counts, total = torch.as_tensor(y), torch.as_tensor(weight), float(weight.sum())

    def sizes(rows: Any) -> Array:
        block = logits[rows]
        low, high = block.amin(1), block.amax(1)
        if not low.isfinite().all():  # -∞ rules a class out
            low = block.masked_fill(block == -math.inf, math.inf).amin(1)
        largest = torch.maximum(low.abs(), high.abs()).max()
        return np.array([float(largest), float((high - low).max()), torch.finfo(block.dtype).eps])

    largest, span, eps = logits.total(sizes, add=np.maximum)
    if span <= 4 * eps * largest:  # differences of the size of rounding errors
        return Inverse(1.0, False)
    # Squares of logits neither overflow nor vanish: rows of extreme widths are in units of the widest, a power of two.
    unit = 1.0 if 1e-9 < span < 1e9 else 2.0 ** -np.clip(math.frexp(span)[1], -1020, 1020)

    def sums(log_tau: float, stride: int = 1) -> tuple[float, ...]:
        """The loss, its slope and its curvature in τ, over every ``stride``-th row."""

        def of_block(rows: Any) -> tuple[float, ...]:
            block = logits[rows]
            if unit != 1:
                block = block * unit
            terms = tempered(block, labels[rows].to(block.device), math.exp(log_tau))
            return tuple(float(term.double().cpu() @ counts[rows]) for term in terms)

        return logits.total(of_block, stride=stride)

    log_tau, stride = 0.0, max(1, len(logits) // 2000)  # spread over the rows, which may be sorted
    for step in (stride, 1)[stride == 1 :]:
        for _ in range(60):
            loss, first, second = sums(log_tau, step)
            # Newton in τ; far from the optimum a step in log τ of at most one.
            move = -first / max(second, 1e-300) / math.exp(log_tau)
            move = math.log1p(move) if move > -0.5 else -1.0
            log_tau = min(max(log_tau + min(max(move, -1.0), 1.0), -_BOUND), _BOUND)  # finite for separated rows
            # Newton squares the error: what is below 1e-4 now is below 1e-8 after this step.
            if abs(move) < 1e-4:
                break
    informed = loss >= total * math.log1p(0.5 / (total + 0.5))  # as with half an error in n + 1 rows
    if not informed:

        def penalised(log_tau: float) -> float:
            loss, _, second = sums(log_tau)
            return loss - 0.5 * math.log(max(second, 1e-300))

        at = -math.log(span * unit) - 1
        here, beyond = penalised(at), penalised(at + _STEP)
        while beyond < here:
            at += _STEP
            here, beyond = beyond, penalised(at + _STEP)
        around = (at - _STEP, at + _STEP)
        log_tau = optimize.minimize_scalar(penalised, bounds=around, method="bounded", options={"xatol": 1e-9}).x
    return Inverse(math.exp(log_tau) * unit, informed)


class TemperatureCalibrator(Calibrator):
    """A calibrator that divides the logits of each row by one number; subclasses write ``_temperatures``."""

    def _calibrate(self, logits: Tensor, features: Tensor | None) -> Tensor:
        return logits / self._temperatures(logits, features).to(logits.dtype)[:, None]


class GlobalTemperature(TemperatureCalibrator):
    r"""Temperature scaling (Guo et al. 2017; Global Scaling, GS): one temperature for all rows.

    It maximises the likelihood of the held-out labels under :math:`\mathrm{softmax}(z / T)`, by Newton's method in
    :math:`1/T`, where the problem is convex: a start from 2,000 rows, then two passes over all of them, in blocks. If
    all rows are classified correctly, T would be 0; then the likelihood is multiplied by Jeffreys' prior. If all logits
    are equal, T is one.

    Args:
        inputs: ``"logits"``, or ``"probabilities"``, whose logarithm is taken.

    Attributes:
        temperature_: the temperature T.
        n_classes_: number of classes.

    Example:
        >>> import numpy as np
        >>> from likely.calibration import GlobalTemperature
        >>> rng = np.random.default_rng(0)
        >>> y = rng.integers(0, 3, 2000)
        >>> logits = 4 * (np.eye(3)[y] + rng.normal(size=(2000, 3)))     # four times too large
        >>> round(GlobalTemperature().fit(logits, y).temperature_)
        4

    See Also:
        :class:`LinearTemperature`, :class:`FeatureTemperature` and :class:`DeepTemperature`, with a temperature per
        row; :class:`GlobalScale` for regressors.
    """

    def _fit(self, logits: Rows, y: Labels, features: Rows | None, weight: Array) -> None:
        self.temperature_ = 1 / fit_inverse_temperature(logits, y, weight).value

    def _temperatures(self, logits: Tensor, features: Tensor | None) -> Tensor:
        return torch.full_like(logits[:, 0], self.temperature_)


class _RowTemperature(TemperatureCalibrator):
    """A temperature per row: 1/T = f(u)/T₀, relative to the global one. f(0) = 1: the start *is* Global Scaling."""

    _fit_factor: Callable[..., None]  # learns u of the columns; zero where the rows do not inform on temperatures
    _multiplier: Callable[[Tensor], Tensor]  # f(u) of each row

    def _fit(self, logits: Rows, y: Labels, features: Rows | None, weight: Array) -> None:
        inverse, labels = fit_inverse_temperature(logits, y, weight), torch.as_tensor(y)
        self.global_temperature_ = 1 / inverse.value

        def evaluate(rows: slice, u: Tensor) -> tuple[Tensor, Tensor, Tensor]:
            nll, first, second = tempered(logits[rows] * inverse.value, labels[rows].to(u.device), LINK(u))
            slope = LINK.slope(u)
            return nll, first * slope, second * slope.square()

        self._fit_factor(self._source(logits, features), evaluate, weight, y, inverse.informed)

    def _temperatures(self, logits: Tensor, features: Tensor | None) -> Tensor:
        return self.global_temperature_ / self._multiplier(self._source(logits, features)).to(logits)

    def _source(self, logits: Any, features: Any) -> Any:
        """Return the columns that are read: here the logits, without -∞."""
        return _finite(logits) if isinstance(logits, Tensor) else logits.mapped(lambda _, block: _finite(block))


def _finite(logits: Tensor) -> Tensor:
    """Replace -∞, which only excludes a class, by the row's lowest finite logit."""
    lowest = logits.masked_fill(logits == -torch.inf, torch.inf).amin(1, keepdim=True)
    return torch.maximum(logits, lowest)


@dataclass(kw_only=True, eq=False, repr=False)
class LinearTemperature(_RowTemperature):
    r"""Linear Scaling (LS): one temperature per row, linear in its logits, with Global Scaling as the fallback.

    :math:`1/T_i = f(b + w \cdot \tilde z_i) / T_0`, with the fitted global temperature :math:`T_0`, standardised logits
    (the row's lowest in place of -∞) and the shifted softplus f at .2. Where the data do not support temperatures that
    differ, w is zero and this *is* Global Scaling.

    Args:
        inputs: ``"logits"``, or ``"probabilities"``, whose logarithm is taken.
        penalty: ridge on w: ``"evidence"`` learns it, a number sets its strength, and None is the paper's unregularised
            method, which overfits small sets.

    Attributes:
        global_temperature_: the temperature :math:`T_0`.
        solution_: the line, with ``coef`` and ``intercept`` for columns standardised by ``mean`` and ``deviation``.
        precision_: strength of the ridge; ∞ where w is zero.
        n_iter_: passes over the rows.
        n_classes_: number of classes.

    Example:
        >>> import numpy as np
        >>> from likely.calibration import LinearTemperature
        >>> rng = np.random.default_rng(0)
        >>> y = rng.integers(0, 3, 4000)
        >>> hard = rng.random(4000) < 0.5                                # half of the rows, with larger logits
        >>> logits = 3 * np.eye(3)[y] + np.where(hard, 3, 1)[:, None] * rng.normal(size=(4000, 3)) + 4 * hard[:, None]
        >>> ls = LinearTemperature().fit(logits, y)
        >>> t = ls.temperature(logits)
        >>> bool(t[hard].mean() > 2 * t[~hard].mean())
        True

    See Also:
        :class:`FeatureTemperature`, linear in features; :class:`DeepTemperature`, from a network;
        :class:`GlobalTemperature`.
    """

    _directions = 0  # how many leading directions of the columns are read; 0 for all

    penalty: str | float | None = "evidence"

    def _fit_factor(self, source: Rows, evaluate: Evaluate, weight: Array, ties: Any, informed: bool) -> None:
        if informed or self.penalty != "evidence":
            self.solution_ = fit_linear(
                source, evaluate, rate=RATE, penalty=self.penalty, sample_weight=weight, directions=self._directions
            )
        else:  # without an error, or without spread, no row differs from the others
            none = np.zeros(source.shape[1])
            self.solution_ = Solution(none, np.ones_like(none), none, 0.0, np.inf, 0)
        self.precision_, self.n_iter_ = self.solution_.precision, self.solution_.n_iter

    def _multiplier(self, source: Tensor) -> Tensor:
        if source.shape[1] != len(self.solution_.coef):
            raise ValueError(f"features have {source.shape[1]} columns, the fit had {len(self.solution_.coef)}")
        return LINK(self.solution_(source))


class FeatureTemperature(LinearTemperature):
    """Linear Feature Scaling (LFS): one temperature per row, linear in the network's last features.

    As :class:`LinearTemperature`, with the features in place of the logits. Without regularisation it is the method
    that fails in the paper's table (ECE .173, Global Scaling .035): with 2048 features and a few thousand rows the fit
    memorises them. The learned ridge prevents that; where there are more than 128 features the fit uses their 128
    leading directions.

    Args:
        inputs: ``"logits"``, or ``"probabilities"``, whose logarithm is taken.
        penalty: ridge on w: ``"evidence"`` learns it, a number sets its strength, and None is the paper's unregularised
            method, which overfits small sets.

    Attributes:
        global_temperature_: the temperature :math:`T_0`.
        solution_: the line, with ``coef`` and ``intercept`` for columns standardised by ``mean`` and ``deviation``.
        precision_: strength of the ridge; ∞ where w is zero.
        n_iter_: passes over the rows.
        n_classes_: number of classes.

    Example:
        >>> import numpy as np
        >>> from likely.calibration import FeatureTemperature
        >>> rng = np.random.default_rng(0)
        >>> y, features = rng.integers(0, 3, 4000), rng.normal(size=(4000, 20))
        >>> noise = np.exp(features[:, :1])
        >>> logits = 3 * np.eye(3)[y] + noise * rng.normal(size=(4000, 3))
        >>> lfs = FeatureTemperature().fit(logits, y, features)
        >>> round(float(np.corrcoef(np.log(lfs.temperature(logits, features)), features[:, 0])[0, 1]), 1)
        1.0

    See Also:
        :class:`LinearTemperature`, linear in the logits; :class:`CalibratedModule`, which collects a network's
        features.
    """

    # The features of a network are redundant. On SVHN's 1024, 64 to 256 directions do as well as all of them, from 250
    # to 2,500 rows, in a tenth of the time.
    _directions = 128
    reads_features = True

    @property
    def n_features_(self) -> int:
        """The number of features."""
        return len(self.solution_.coef)

    def _source(self, logits: Any, features: Any) -> Any:
        if features is None:
            raise ValueError("FeatureTemperature needs features=, the input of the network's last layer")
        return features


@dataclass(kw_only=True, eq=False, repr=False)
class DeepTemperature(DeepCalibrator, _RowTemperature):
    r"""Deep Scaling (DS): one temperature per row from a small network, with Global Scaling as the fallback.

    :math:`1/T_i = f(N(\tilde x_i)) / T_0`, relative to the fitted global temperature, where x are the features if
    ``fit`` is given any, else the logits. N has one hidden layer of tanh units and a last layer that starts at zero,
    which *is* Global Scaling. Five networks are trained at once, each on four fifths of the rows, and their outputs
    averaged; the number of steps is the one with the greatest gain on the remaining fifths, less ``margin`` standard
    errors; it is zero if no gain exceeds them.

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

    reads_features = True

    def _fit(self, logits: Rows, y: Labels, features: Rows | None, weight: Array) -> None:
        self.n_features_ = 0 if features is None else features.shape[1]
        super()._fit(logits, y, features, weight)

    def _source(self, logits: Any, features: Any) -> Any:
        if not self.n_features_:
            return super()._source(logits, features)
        if features is None or features.shape[1] != self.n_features_:
            raise ValueError(f"this calibrator was fitted with {self.n_features_} features: pass features= here too")
        return features
