"""One scale per row: linear in its features, or from small networks."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from likely._rows.blocks import Rows
from likely._rows.contents import contents
from likely._rows.folds import fold_numbers, splits_of
from likely._solvers.evidence import Solution, fit_linear
from likely._solvers.ridge import RATE
from likely._solvers.selection import held_out_gain
from likely.calibration._row_factor import LINK, DeepCalibrator, few
from likely.calibration.regressors._rows import Forecasts
from likely.calibration.regressors._scale import ScaleCalibrator, common_scale

_FOLDS = 5


@dataclass(kw_only=True, eq=False, repr=False)
class LinearScale(ScaleCalibrator):
    r"""Linear Scaling (LS): one scale per row, linear in its features, that falls back to Global Scaling.

    :math:`\sigma_i' = c\,\sigma_i\,f(b + w \cdot \tilde x_i)` with the fitted global factor c, standardised features
    and the shifted softplus f at .2. Without features it reads the row's mean and log scale. The ridge on w is learned
    by evidence. Evidence trusts the likelihood, and residuals may have tails it does not
    know; so b and w are multiplied by the share, from 0 to 1, of greatest gain on rows held out in five folds, less
    ``margin`` standard errors of it. Where no gain is sure, this *is* Global Scaling. New rows have their features, and
    their scales, taken within the ranges met in the fit. ``penalty=None`` is the unregularised method, whose NLL blows
    up on small sets.

    >>> import numpy as np
    >>> from likely.calibration import LinearScale
    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=(4000, 3))
    >>> noise = np.log1p(np.exp(2 * x[:, 0]))                    # from .1 to 4
    >>> mean, y = np.zeros(4000), noise * rng.normal(size=4000)
    >>> ls = LinearScale().fit(mean, None, y, features=x)
    >>> round(float(np.corrcoef(ls.predict_scale(mean, None, features=x), noise)[0, 1]), 2)
    0.97
    """

    _reads_features = True

    penalty: str | float | None = "evidence"
    margin: float = 1.0

    def _fit(self, z: Tensor, rows: Forecasts) -> None:
        solution = self._solve(z, rows)
        self.share_ = 1.0
        if self.penalty == "evidence" and solution.coef.any():
            some = rows.thinned()  # where rows are elsewhere, as many as can be kept say how sure the gain is
            self.share_ = self._sure_share(z if some is rows else some.residuals / self.global_scale_, some)
        self.solution_ = replace(solution, coef=self.share_ * solution.coef, intercept=self.share_ * solution.intercept)
        self.precision_, self.n_iter_ = solution.precision, solution.n_iter
        self.met_ = MetRanges.of(self.solution_, rows.source)

    def _solve(self, z: Tensor, rows: Forecasts) -> Solution:
        family = self._family

        def evaluate(part: slice, u: Tensor) -> tuple[Tensor, Tensor, Tensor]:
            return family.relative(z[part].to(u), u)

        return fit_linear(
            rows.source, evaluate, rate=RATE, quasi=False, penalty=self.penalty, sample_weight=rows.weight
        )

    def _sure_share(self, z: Tensor, rows: Forecasts) -> float:
        """The share of u of greatest sure gain on rows held out."""
        if rows.count < 2 * _FOLDS:
            return 0.0
        shares = torch.linspace(0, 1, 11)
        gains = torch.zeros(len(shares), len(z), dtype=torch.float64)
        folds = fold_numbers(contents(rows.source, rounded=True), _FOLDS, ties=z.double().cpu().numpy())
        for kept, fold in splits_of(folds):
            known = rows.taken(kept)
            base = common_scale(z[kept], known.weight, self._family.power)
            solution = self._solve(z[kept] / base, known)
            u = MetRanges.of(solution, known.source).u(solution, rows.source.taken(fold).whole())
            own = (z[fold] / base).to(u)
            losses = torch.stack([self._family.relative(own, share * u)[0] for share in shares.to(u)])
            gains[:, fold] = (losses[0] - losses).double().cpu()
        return float(shares[int(np.argmax([held_out_gain(gain, rows.weight).sure(self.margin) for gain in gains]))])

    def _factor(self, rows: Forecasts) -> Tensor | float:
        if not self.solution_.coef.any():
            return 1.0
        u = torch.cat([self.met_.u(self.solution_, x) for _, x in rows.source.read()])
        return LINK(u.to(rows.mean))


class MetRanges(NamedTuple):
    """The ranges met in the fit of a line: those of the features, and that of u."""

    low: Tensor
    high: Tensor
    range: tuple[float, float]

    @classmethod
    def of(cls, solution: Solution, source: Rows) -> MetRanges:
        """Return the ranges of rows that a solution was fitted to."""

        def ends(rows: Any) -> tuple[Tensor, Tensor]:
            x = source[rows]
            u = solution(x)
            return torch.stack([-x.amin(0), x.amax(0)]), torch.stack([-u.min(), u.max()])

        (low, high), (least, most) = source.total(ends, add=_maxima)
        return cls(-low, high, (float(-least), float(most)))

    def u(self, solution: Solution, x: Tensor) -> Tensor:
        """u within its range, of features within theirs: a line is no guide beyond the rows it was drawn through."""
        inside = torch.minimum(torch.maximum(x, self.low.to(x)), self.high.to(x))
        return solution(inside).clamp(*self.range)


def _maxima(left: tuple[Tensor, Tensor], right: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
    return torch.maximum(left[0], right[0]), torch.maximum(left[1], right[1])


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
        some = few(len(source), max(self.hidden, source.shape[1]))
        errors = z[some].float()

        def evaluate(u: Tensor) -> tuple[Tensor, Tensor]:
            return family.relative(errors, u)[:2]

        self._fit_networks(source[some], evaluate, np.asarray(rows.weight[some]), errors.cpu().numpy(), self.max_iter)

    def _factor(self, rows: Forecasts) -> Tensor | float:
        return self._multiplier(rows.source.whole()).to(rows.mean)
