"""A loss split into the part that recalibration can remove and the part that it cannot."""

from typing import NamedTuple

import numpy as np
from scipy import special

from likely.metrics._blocks import all_rows
from likely.metrics._input import (
    Array,
    Input,
    as_labels,
    as_logits,
    as_weight,
    check_choice,
    classified,
    relative,
)
from likely.metrics.classification import brier_score

__all__ = ["CalibrationRefinement", "calibration_refinement"]

_LARGEST = 1e3  # inverse temperatures are sought between this and its reciprocal


class CalibrationRefinement(NamedTuple):
    """The two parts of a loss that :func:`calibration_refinement` returns.

    Args:
        calibration: the part that a recalibration removes.
        refinement: the loss that remains after it.

    Example:
        >>> from likely.metrics import CalibrationRefinement
        >>> CalibrationRefinement(calibration=0.25, refinement=0.5).total
        0.75
    """

    calibration: float
    refinement: float

    @property
    def total(self) -> float:
        """The loss before recalibration."""
        return self.calibration + self.refinement


@all_rows("it fits a recalibration to folds of them; pass a sample of the rows, in memory")
def calibration_refinement(
    y_true: Input,
    y_prob: Input | None = None,
    *,
    logits: Input | None = None,
    loss: str = "nll",
    cv: int | None = 5,
    random_state: int = 0,
    sample_weight: Input | None = None,
) -> CalibrationRefinement:
    r"""Split a loss into calibration error, which recalibration removes, and refinement error (Berta et al., 2025).

    .. math:: \underbrace{\mathcal L(f)}_\text{total} = \underbrace{\mathcal L(f) - \min_g \mathcal L(g \circ f)}
              _\text{calibration} + \underbrace{\min_g \mathcal L(g \circ f)}_\text{refinement}

    The minimum runs over temperatures, :math:`g(p) \propto p^{1/T}`, with T by maximum likelihood. Of two models that
    can be recalibrated, the one with the lower refinement error is the better. A fitted *g* is mixed with the uniform
    distribution at weight 1/(n + 1), so that a single unexpected label does not cost infinity. Where nothing can be
    removed the calibration part is noise and may be slightly negative.

    Args:
        y_true: class numbers 0 … C - 1, shape (n,).
        y_prob: class probabilities, shape (n, C), or (n,) with the probability of class 1.
        logits: logits, shape (n, C), or (n,) with the logit of class 1, in place of ``y_prob``.
        loss: ``"nll"``, or ``"brier"`` (scaled as in :func:`brier_score`).
        cv: number of shuffled folds; *g* is fitted without the fold that it is judged on. None fits and judges on the
            same rows, which is optimistic and, for the NLL, never negative.
        random_state: seed of the folds.
        sample_weight: weight per row, shape (n,); None for equal weights.

    Returns:
        A :class:`CalibrationRefinement`, the pair (calibration, refinement), whose ``total`` is the loss.

    Raises:
        ValueError: not exactly one of ``y_prob`` and ``logits`` is given, or there are fewer than two folds.

    Example:
        >>> import numpy as np
        >>> from likely.metrics import calibration_refinement
        >>> rng = np.random.default_rng(0)
        >>> z = 2 * rng.normal(size=4000)
        >>> y = rng.random(4000) < 1 / (1 + np.exp(-z))
        >>> calm, bold = (calibration_refinement(y, 1 / (1 + np.exp(-s * z))) for s in (1, 3))
        >>> f"{calm.calibration:.3f} {calm.refinement:.3f}, {bold.calibration:.3f} {bold.refinement:.3f}"
        '-0.000 0.460, 0.222 0.460'

    See Also:
        :func:`expected_calibration_error`, :func:`brier_decomposition`, :mod:`likely.calibration`.
    """
    check_choice("loss", loss, ("nll", "brier"))
    labels, log_prob, weight = _log_probabilities(y_true, y_prob, logits, sample_weight)
    counted = weight > 0
    labels, log_prob, weight = labels[counted], log_prob[counted], relative(weight[counted])
    before = _loss(log_prob, labels, weight, loss)
    if cv is None:
        after = _tempered(log_prob, labels, weight, log_prob)
    else:
        after = _cross_fitted(log_prob, labels, weight, cv, random_state)
    refinement = _loss(after, labels, weight, loss)
    return CalibrationRefinement(before - refinement, refinement)


def _log_probabilities(
    y_true: Input, y_prob: Input | None, logits: Input | None, sample_weight: Input | None
) -> tuple[Array, Array, Array]:
    if (y_prob is None) == (logits is None):
        raise ValueError("give either y_prob or logits=")
    if y_prob is not None:
        data = classified(y_true, y_prob, sample_weight)
        with np.errstate(divide="ignore"):
            return data.labels, np.log(data.probabilities.astype(np.float64)), data.weight
    assert logits is not None
    z = as_logits(logits)
    if z.ndim == 1:
        z = np.stack([np.zeros_like(z), z], 1)
    return (
        as_labels(y_true, *z.shape),
        special.log_softmax(z.astype(np.float64), axis=1),
        as_weight(sample_weight, len(z)),
    )


def _loss(log_prob: Array, labels: Array, weight: Array, loss: str) -> float:
    if loss == "brier":
        return float(brier_score(labels, np.exp(log_prob), sample_weight=weight))
    return float(np.dot(-log_prob[np.arange(len(labels)), labels], weight) / weight.sum())


def _cross_fitted(log_prob: Array, labels: Array, weight: Array, cv: int, random_state: int) -> Array:
    from sklearn.model_selection import KFold

    rows, classes = log_prob.shape
    if cv < 2 or rows < 2:
        raise ValueError(f"cross-fitting needs cv ≥ 2 and two rows, got cv={cv} and {rows} rows: pass cv=None")
    after = np.empty_like(log_prob)
    for train, test in KFold(min(cv, rows), shuffle=True, random_state=random_state).split(log_prob):
        fitted = _tempered(log_prob[train], labels[train], weight[train], log_prob[test])
        size = weight[train].sum() ** 2 / np.square(weight[train]).sum()
        after[test] = np.logaddexp(fitted + np.log(size / (size + 1)), -np.log(classes * (size + 1)))
    return after


def _tempered(log_prob: Array, labels: Array, weight: Array, new: Array) -> Array:
    """Return ``new`` to the β of highest likelihood, at which the model's mean logit equals that of the labels."""
    from scipy.optimize import brentq

    lowest = np.log(np.finfo(np.float64).tiny)  # a probability of zero, so that β still has an effect
    z = np.maximum(log_prob, lowest)
    observed = np.dot(weight, z[np.arange(len(labels)), labels])

    def slope(log_beta: float) -> float:
        return float(np.dot(weight, (special.softmax(np.exp(log_beta) * z, axis=1) * z).sum(1)) - observed)

    end = np.log(_LARGEST)
    if slope(end) <= 0:
        log_beta = end if slope(-end) < 0 else 0.0  # flat throughout: every β is as good
    else:
        log_beta = -end if slope(-end) >= 0 else brentq(slope, -end, end, xtol=1e-5)
    return special.log_softmax(np.exp(log_beta) * np.maximum(new, lowest), axis=1)
