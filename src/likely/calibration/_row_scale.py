"""One scale per row: linear in its features, or from small networks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from likely._numerics.significance import held_out_gain
from likely._rows.blocks import Rows
from likely._rows.contents import contents, fold_numbers, splits_of
from likely._solvers.evidence import Solution, fit_linear
from likely._solvers.ridge import RATE
from likely._typing import Array
from likely.calibration._row_factor import LINK, DeepCalibrator
from likely.calibration._scale import Forecasts, ScaleCalibrator, common_scale

_FOLDS = 5


@dataclass(kw_only=True, eq=False, repr=False)
class LinearScale(ScaleCalibrator):
    r"""Linear Scaling (LS): one scale per row, linear in its features, with Global Scaling as the fallback.

    :math:`\sigma_i' = c\,\sigma_i\,f(b + w \cdot \tilde x_i)` with the fitted global factor c, standardised features
    and the shifted softplus f at .2. Without features it uses the row's mean and log scale. Since the residuals may
    have heavier tails than the likelihood, for which the evidence is too optimistic, b and w are multiplied by
    the factor from 0 to 1 with the greatest gain on rows held out in five folds, less ``margin`` standard errors. If no
    gain exceeds them, this *is* Global Scaling. For new rows features and scales are clipped to
    the ranges seen in the fit.

    Args:
        likelihood: ``"normal"`` or ``"laplace"``.
        penalty: ridge on w: ``"evidence"`` learns it, a number sets its strength, and None is the unregularised method,
            whose NLL can become very large on small sets.
        margin: number of standard errors that are subtracted from a held-out gain.

    Attributes:
        global_scale_: the factor c.
        solution_: the line, with ``coef`` and ``intercept`` for columns standardised by ``mean`` and ``deviation``.
        share_: share of the line that held-out rows support.
        precision_: strength of the ridge; ∞ where w is zero.
        n_iter_: passes over the rows.
        met_: ranges of the features and of the line in the fit.
        n_features_: number of features; 0 without.
        has_scale_: whether ``fit`` was given scales.

    Example:
        >>> import numpy as np
        >>> from likely.calibration import LinearScale
        >>> rng = np.random.default_rng(0)
        >>> x = rng.normal(size=(4000, 3))
        >>> noise = np.log1p(np.exp(2 * x[:, 0]))                    # from .1 to 4
        >>> mean, y = np.zeros(4000), noise * rng.normal(size=4000)
        >>> ls = LinearScale().fit(mean, None, y, features=x)
        >>> round(float(np.corrcoef(ls.predict_scale(mean, None, features=x), noise)[0, 1]), 2)
        0.97

    See Also:
        :class:`DeepScale`, from a network; :class:`GlobalScale`; :class:`LinearTemperature` for classifiers.
    """

    reads_features = True

    penalty: str | float | None = "evidence"
    margin: float = 1.0

    def _fit(self, z: Rows, rows: Forecasts) -> None:
        solution = self._solve(z, rows)
        self.share_ = 1.0
        if self.penalty == "evidence" and solution.coef.any():
            self.share_ = self._sure_share(*self._thinned(rows))
        share = self.share_
        self.solution_ = solution._replace(coef=share * solution.coef, intercept=share * solution.intercept)
        self.precision_, self.n_iter_ = solution.precision, solution.n_iter
        self.met_ = MetRanges.of(self.solution_, rows.source)

    def _solve(self, z: Any, rows: Forecasts) -> Solution:
        evaluate = self._family.evaluate_on(z)
        return fit_linear(
            rows.source, evaluate, rate=RATE, quasi=False, penalty=self.penalty, sample_weight=rows.weight
        )

    def _sure_share(self, z: Tensor, rows: Forecasts) -> float:
        """Return the share of u with the greatest held-out gain less its standard errors."""
        if rows.count < 2 * _FOLDS:
            return 0.0
        shares = torch.linspace(0, 1, 11)
        gains = torch.zeros(len(shares), len(z), dtype=torch.float64)
        folds = fold_numbers(contents(rows.source), _FOLDS, ties=z.double().cpu().numpy())
        for train, fold in splits_of(folds):
            training = rows.at(train)
            base = common_scale(Rows(z[train]), training.weight, self._family.power)
            solution = self._solve(z[train] / base, training)
            u = MetRanges.of(solution, training.source).u(solution, rows.source[fold])
            residuals = (z[fold] / base).to(u)
            losses = torch.stack([self._family.relative(residuals, share * u)[0] for share in shares.to(u)])
            gains[:, fold] = (losses[0] - losses).double().cpu()
        return float(shares[int(np.argmax([held_out_gain(gain, rows.weight).sure(self.margin) for gain in gains]))])

    def _factor(self, rows: Forecasts) -> Tensor | float:
        if not self.solution_.coef.any():
            return 1.0
        u = torch.cat([self.met_.u(self.solution_, x) for _, x in rows.source.read()])
        return LINK(u.to(rows.mean))


class MetRanges(NamedTuple):
    """The ranges of the features, and of u, in the fit of a line."""

    columns: Array  # of shape (2, columns): the lower and the upper ends
    range: Array  # of u, of shape (2,)

    @classmethod
    def of(cls, solution: Solution, source: Rows) -> MetRanges:
        """Return the ranges of rows that a solution was fitted to."""

        def ends(rows: Any) -> Tensor:
            columns = torch.column_stack([source[rows], solution(source[rows])])
            return torch.stack([-columns.amin(0), columns.amax(0)])

        negative, high = source.total(ends, add=torch.maximum)
        both = torch.stack([-negative, high]).cpu().numpy()
        return cls(both[:, :-1], both[:, -1].astype(np.float64))

    def u(self, solution: Solution, x: Tensor) -> Tensor:
        """Return u within its range, of features within theirs: a line does not extrapolate."""
        low, high = torch.as_tensor(self.columns).to(x)
        return solution(torch.minimum(torch.maximum(x, low), high)).clamp(*self.range)


@dataclass(kw_only=True, eq=False, repr=False)
class DeepScale(DeepCalibrator, ScaleCalibrator):
    r"""Deep Scaling (DS): one scale per row from a small network, with Global Scaling as the fallback.

    :math:`\sigma_i' = c\,\sigma_i\,f(N(\tilde x_i))` with one hidden layer of tanh units and a last layer that starts
    at zero, which *is* Global Scaling. Five networks are trained at once, each on four fifths of the rows, and their
    outputs averaged; the number of steps is the one with the greatest gain on the remaining fifths, less ``margin``
    standard errors; it is zero if no gain exceeds them. Without features the networks read the row's mean
    and log scale.

    Args:
        likelihood: ``"normal"`` or ``"laplace"``.
        hidden: number of units of the hidden layer.
        max_iter: maximum number of training steps.
        learning_rate: step size of Adam.
        margin: number of standard errors that are subtracted from a gain on rows left out.
        random_state: seed of the first layer and of the folds.

    Attributes:
        global_scale_: the factor c.
        networks_: weights of the five networks; None where Global Scaling is used.
        mean_: mean of each column that the networks read.
        deviation_: deviation of each of these columns.
        n_iter_: number of training steps that was chosen.
        gain_: gain in held-out NLL per row, less ``margin`` standard errors.
        n_features_: number of features; 0 without.
        has_scale_: whether ``fit`` was given scales.

    Example:
        >>> import numpy as np
        >>> from likely.calibration import DeepScale
        >>> rng = np.random.default_rng(0)
        >>> x = rng.uniform(-2, 2, size=(1000, 1))
        >>> noise = 0.5 + x[:, 0] ** 2                               # not linear in x
        >>> mean, y = np.zeros(1000), noise * rng.normal(size=1000)
        >>> ds = DeepScale(max_iter=200).fit(mean, None, y, features=x)
        >>> bool(np.corrcoef(ds.predict_scale(mean, None, features=x), noise)[0, 1] > 0.9)
        True

    See Also:
        :class:`LinearScale`; :class:`DeepTemperature` for classifiers.
    """

    reads_features = True

    def _fit(self, z: Rows, rows: Forecasts) -> None:
        self._fit_factor(rows.source, self._family.evaluate_on(z), rows.weight, z)

    def _factor(self, rows: Forecasts) -> Tensor | float:
        return self._multiplier(rows.source.whole()).to(rows.mean)
