"""Student's t likelihood: heavier tails than the normal, for data with outliers."""

import math

import numpy as np
import torch
from scipy import special
from torch import Tensor, distributions as td
from torch.distributions import constraints

from likely._numerics.special import digamma_half_step, log1p_square, log_gamma_ratio
from likely.constraints import Exp
from likely.likelihoods._distribution import Array, Standardised, cdf_by_scipy, icdf_by_scipy, standardised
from likely.likelihoods._form import HALF_LOG_2PI, Value, functional_form
from likely.likelihoods._loss import ScaleLoss
from likely.likelihoods._record import Residuals, register
from likely.parameters._slot import Slot, half_power_of_t4, scale_slot

__all__ = ["StudentT", "StudentTLoss", "student_t_nll"]


@functional_form(constant=HALF_LOG_2PI, fused=True)
def student_t_nll(prediction: Tensor, target: Tensor, *, df: Value, scale: Value) -> Tensor:
    r"""Negative log-likelihood of Student's t distribution, whose heavy tails allow for outliers.

    For :math:`z = r / \sigma` and :math:`\nu > 0` degrees of freedom,

    .. math:: \ell = \tfrac{\nu + 1}{2} \log(1 + z^2 / \nu) + \log \sigma + \tfrac12 \log 2\pi
              - \left(\log \frac{\Gamma((\nu+1)/2)}{\Gamma(\nu/2)} - \tfrac12 \log \tfrac{\nu}{2}\right).

    The last bracket tends to zero as :math:`\nu` grows, which gives the normal; :math:`\nu = 1` is the Cauchy.
    Student's t is a normal whose scale is itself random.

    Args:
        prediction: where the density is centred, any shape.
        target: real numbers of a shape that broadcasts with the prediction's.
        df: positive degrees of freedom: a number, or a tensor that broadcasts to the prediction.
        scale: positive scale: a number, or a tensor that broadcasts to the prediction.
        reduction: ``"mean"`` (the default), ``"sum"`` or ``"none"``.
        full: whether terms that do not depend on any parameter are included; ``True`` by default.
        validate_args: whether tensor values are checked; by default (None) on the CPU only.

    Returns:
        A scalar, or one value per element under ``reduction="none"``.

    Raises:
        ValueError: shapes do not broadcast, a value is out of range, or the reduction is unknown.

    See Also:
        :class:`~likely.StudentTLoss`, the module with parameters that learn.

    >>> import torch
    >>> from likely.functional import normal_nll, student_t_nll
    >>> x, y = torch.zeros(2), torch.tensor([1.0, 30.0])
    >>> student_t_nll(x, y, df=1.0, scale=1.0), normal_nll(x, y, scale=1.0)
    (tensor(4.8931), tensor(226.1689))
    """
    z = (target - prediction) / scale
    return 0.5 * (df + 1) * log1p_square(z * df.rsqrt()) + scale.log() - log_gamma_ratio(0.5 * df, 0.5)


class StudentT(Standardised, td.StudentT, nll=student_t_nll, df=constraints.positive):
    """Student's t distribution of torch with ``cdf`` and ``icdf`` by SciPy, exact for a large ``df`` too.

    Args:
        df: positive degrees of freedom, a number or a tensor.
        loc: location, the centre; 0 by default.
        scale: positive scale; 1 by default.
        validate_args: whether parameters and values are checked; None (the default) follows torch's setting.

    >>> import torch
    >>> from likely.distributions import StudentT
    >>> d = StudentT(torch.tensor(3.0))
    >>> d.cdf(torch.tensor(1.0)), d.icdf(torch.tensor(0.975))
    (tensor(0.8045), tensor(3.1824))
    """

    expand = td.StudentT.expand

    def entropy(self) -> Tensor:
        """The differential entropy.

        Returns:
            Entropies in nats, in the batch shape.
        """
        x = 0.5 * self.df
        tails = (x + 0.5) * digamma_half_step(x) + HALF_LOG_2PI - log_gamma_ratio(x, 0.5)
        return tails + self.scale.log()

    def _tail(self, z: Tensor) -> Tensor:
        return cdf_by_scipy(_lower_tail, {0: self._standard()._density}, z, self.df)

    def _tail_quantile(self, p: Tensor) -> Tensor:
        return icdf_by_scipy(_lower_quantile, _lower_tail, self._standard()._density, p, self.df)

    def _standard(self) -> "StudentT":
        return StudentT(self.df, validate_args=False)


_POWER_LAW_LOG_RATIO = 20.0  # of -z and √df: the tail is a power of z to the last digit


def _lower_tail(z: Array, df: Array) -> Array:
    """P(T < z) for z ≤ 0; far out, where SciPy squares z, by the power law of the tail; near the middle, from there."""
    with np.errstate(over="ignore", divide="ignore"):
        log_ratio = np.log(-z) - 0.5 * np.log(df)
        power = np.exp(-df * np.maximum(log_ratio, 0.0) - np.log(df) - special.betaln(0.5 * df, 0.5))
        far, near = log_ratio > _POWER_LAW_LOG_RATIO, z > -1
        square = np.square(np.where(near, z, 0.0))
        middle = 0.5 - 0.5 * special.betainc(0.5, 0.5 * df, square / (df + square))
        return np.where(far, power, np.where(near, middle, special.stdtr(df, np.where(far, 0.0, z))))


def _lower_quantile(p: Array, df: Array) -> Array:
    """The z ≤ 0 with P(T < z) = p, for p from 0 to ½; far out by the power law, too."""
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        log_ratio = -(np.log(p) + np.log(df) + special.betaln(0.5 * df, 0.5)) / df
        far = log_ratio > _POWER_LAW_LOG_RATIO
        return -np.where(far, np.sqrt(df) * np.exp(log_ratio), np.abs(special.stdtrit(df, np.where(far, 0.5, p))))


class StudentTLoss(
    ScaleLoss, nll=student_t_nll, family=StudentT, df=Slot(Exp(), 4.0), scale=scale_slot(half_power_of_t4)
):
    r"""Student's t likelihood: a squared error that limits the effect of outliers, to a degree that learns.

    Both the degrees of freedom ``df`` and the ``scale`` learn by default; the scale starts from the first training
    batch.

    Args:
        df: degrees of freedom, starting at 4; the fewer, the heavier the tails: a number, which is fixed, or one of
            :class:`~likely.Fixed`, :class:`~likely.Global` (the default), :class:`~likely.Data` and
            :class:`~likely.Predicted`.
        scale: positive scale of the errors: a number, which is fixed, or one of :class:`~likely.Fixed`,
            :class:`~likely.Global` (the default), :class:`~likely.Data` and :class:`~likely.Predicted`.
        beta: from 0 (the default, the plain NLL) to 1; multiplies each term by ``scale ** (2 * beta)``, held constant
            (β-NLL), so that elements with a large predicted scale still count in the gradient of the mean.
        reduction: ``"mean"``, ``"sum"`` or ``"none"`` (one value per element).
        full: whether constants that do not depend on any parameter are included. ``True`` (the default) gives minus a
            log density; ``False`` leaves them out, as the losses of ``torch.nn`` do.
        multiplier: positive factor of the loss; the predictive distribution does not depend on it.
        validate_args: whether tensor values are checked; by default (None) on the CPU only, where that is cheap.

    See Also:
        :class:`~likely.NormalLoss`, :class:`~likely.SkewStudentTLoss`, :func:`~likely.functional.student_t_nll` (the
        function).

    >>> import torch, likely
    >>> loss_fn = likely.StudentTLoss(df=1.0)
    >>> loss_fn(torch.zeros(2), torch.tensor([1.0, 30.0]))
    tensor(4.6348, grad_fn=<...>)
    """


def _crps(distribution: StudentT, y: Array) -> Array:
    z, scale = standardised(distribution, y)
    return scale * standard_crps(z, distribution.df.numpy())[0]


def standard_crps(z: Array, df: Array) -> tuple[Array, Array]:
    """The score at scale one, and its value at z = 0: the usual formula, arranged to hold at and below df = 1 too.

    Both are infinite up to ½ degree of freedom.
    """
    infinite, df = df <= 0.5, np.maximum(df, 0.5)
    height = 1 / (np.sqrt(df) * special.beta(0.5, 0.5 * df))
    spread = log1p_square(torch.from_numpy(z / np.sqrt(df))).numpy()
    moment = height * df * 0.5 * spread * special.exprel(-0.5 * (df - 1) * spread)
    constant = 2 * df * height * _crps_shape(df)
    crps = np.abs(z) * (1 - 2 * _lower_tail(-np.abs(z), df)) - 2 * moment + constant
    return np.where(infinite, np.inf, crps), np.where(infinite, np.inf, constant)


def _crps_shape(df: Array) -> Array:
    """(1 - B(½, ν-½) / B(½, ν/2)) / (ν - 1), by a series of the logarithm where that is 0/0."""
    e = df - 1
    near = np.abs(e) < 1e-4
    slope = -math.log(2) + e * (math.pi**2 / 8 - e * 1.75 * float(special.zeta(3)))
    log_ratio = special.betaln(0.5, df - 0.5) - special.betaln(0.5, 0.5 * df)
    away = -np.expm1(log_ratio) / np.where(near, 1, e)
    return np.where(near, -slope * special.exprel(e * slope), away)


register(
    StudentTLoss,
    crps=_crps,
    residuals=Residuals(
        loss=lambda z, df: 0.5 * (df + 1) * np.log1p(z * z / df),
        weight=lambda z, df: (df + 1) / (df + z * z),
        deviation=lambda df: math.sqrt(df / (df - 2)) if df > 2 else math.inf,
        shape="df",
        start=4.0,
        shapes=tuple(np.geomspace(0.5, 64, 15)),
    ),
)
