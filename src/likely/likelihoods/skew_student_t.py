"""Student's t likelihood with one scale per side, for heavy tails that are heavier on one side."""

import math

import numpy as np
import torch
from scipy import special
from torch import Tensor
from torch.distributions import constraints

from likely._numerics.special import log1p_square, log_cosh, log_gamma_ratio
from likely._validation import check_finite
from likely.constraints import Exp, Interval
from likely.likelihoods._distribution import Array, LocationScale, standardised
from likely.likelihoods._form import HALF_LOG_2PI, Value, functional_form
from likely.likelihoods._loss import ScaleLoss
from likely.likelihoods._record import register
from likely.likelihoods.student_t import StudentT, standard_crps
from likely.parameters._slot import Slot, half_power_of_t4, scale_slot

__all__ = ["SkewStudentT", "SkewStudentTLoss", "skew_student_t_nll"]

_POWER_LAW_LOG_RATIO = 20.0  # in logarithms: log(1 + x²) is 2 log x to the last digit


@functional_form(constant=HALF_LOG_2PI, skew=check_finite)
def skew_student_t_nll(prediction: Tensor, target: Tensor, *, df: Value, skew: Value, scale: Value) -> Tensor:
    r"""Negative log-likelihood of a two-piece Student t: one scale below the prediction, another above.

    The scale is :math:`\sigma e^{a}` above the prediction and :math:`\sigma e^{-a}` below it, for any real ``skew``
    :math:`a` (Fernández and Steel, 1998). With :math:`z` the residual divided by the scale of its side,

    .. math:: \ell = \tfrac{\nu + 1}{2} \log(1 + z^2 / \nu) + \log \sigma + \log\cosh a + \tfrac12 \log 2\pi
              - \left(\log \frac{\Gamma((\nu+1)/2)}{\Gamma(\nu/2)} - \tfrac12 \log \tfrac{\nu}{2}\right).

    The best prediction is the mode, and the target lies above it with probability :math:`1 / (1 + e^{-2a})`.
    :math:`a = 0` is :func:`student_t_nll`; as :math:`\nu` grows, the two-piece normal is left.

    Args:
        prediction: modes, any shape.
        target: real numbers of a shape that broadcasts with the prediction's.
        df: positive degrees of freedom: a number, or a tensor that broadcasts to the prediction.
        skew: half the logarithm of the ratio of the scales above and below: a number, or a tensor that broadcasts to
            the prediction.
        scale: positive scale: a number, or a tensor that broadcasts to the prediction.
        reduction: ``"mean"`` (the default), ``"sum"`` or ``"none"``.
        full: whether terms that do not depend on any parameter are included; ``True`` by default.
        validate_args: whether tensor values are checked; by default (None) on the CPU only.

    Returns:
        A scalar, or one value per element under ``reduction="none"``.

    Raises:
        ValueError: shapes do not broadcast, a value is out of range, or the reduction is unknown.

    See Also:
        :class:`~likely.SkewStudentTLoss`, the module with parameters that learn.

    >>> import torch
    >>> from likely.functional import skew_student_t_nll
    >>> x, y = torch.zeros(2), torch.tensor([5.0, -5.0])
    >>> skew_student_t_nll(x, y, df=4.0, skew=0.5, scale=1.0, reduction="none")
    tensor([4.0852, 8.3254])
    """
    residual = target - prediction
    side = torch.where(residual < 0, -skew, skew)  # the logarithm of the side's scale, less that of the scale
    log_width = scale.log() + side + 0.5 * df.log()
    far = residual.abs().log() - log_width > _POWER_LAW_LOG_RATIO
    log_ratio = torch.where(far, residual, 1.0).abs().log() - log_width
    half = _half(-side)
    ratio = torch.where(far, 0.0, residual) * half / scale * half * df.rsqrt()
    tail = torch.where(far, 2 * log_ratio, log1p_square(ratio))
    return 0.5 * (df + 1) * tail + scale.log() + log_cosh(skew) - log_gamma_ratio(0.5 * df, 0.5)


def _half(log_factor: Tensor) -> Tensor:
    """The root of a factor that may overflow: times zero, it is zero still."""
    return torch.exp((0.5 * log_factor).clamp(max=0.99 * _log_largest(log_factor)))


def _log_largest(x: Tensor) -> float:
    return math.log(torch.finfo(x.dtype).max)


class SkewStudentT(LocationScale, nll=skew_student_t_nll, df=constraints.positive, skew=constraints.real):
    r"""The two-piece Student t: scale :math:`\sigma e^{a}` above its mode ``loc``, :math:`\sigma e^{-a}` below it.

    ``cdf``, ``icdf`` and samples are differentiable in all parameters. As for Student's t, there is no mean for df ≤ 1,
    and the variance is infinite up to df = 2.

    Args:
        df: positive degrees of freedom, a number or a tensor.
        skew: real number :math:`a`, positive where the upper side is wider.
        loc: mode.
        scale: positive scale :math:`\sigma`.
        validate_args: whether parameters and values are checked; None (the default) follows torch's setting.

    >>> import torch
    >>> from likely.distributions import SkewStudentT
    >>> d = SkewStudentT(df=4.0, skew=0.5, loc=2.0, scale=1.0)
    >>> d.cdf(torch.tensor(2.0)), d.icdf(torch.tensor(0.5)), d.mean
    (tensor(0.2689), tensor(2.7223), tensor(3.0422))
    """

    df: Tensor
    skew: Tensor

    @property
    def mean(self) -> Tensor:
        """The mean, which is above ``loc`` for a positive skew; NaN for df ≤ 1, where there is none."""
        shift = self.loc + self.scale * 2 * torch.sinh(self.skew) * self._mean_size()
        return torch.where(self.df > 1, shift, torch.nan)

    def entropy(self) -> Tensor:
        """The differential entropy: that of Student's t plus log cosh of the skew.

        Returns:
            Entropies in nats, in the batch shape.
        """
        return self._symmetric().entropy() + self.scale.log() + log_cosh(self.skew)

    def _mean_size(self) -> Tensor:
        """E|T| of the standard t, for df > 1."""
        df = torch.where(self.df > 1, self.df, 2.0)
        return math.sqrt(2 / math.pi) * torch.exp(log_gamma_ratio(0.5 * df, 0.5)) * df / (df - 1)

    def _standard_variance(self) -> Tensor:
        df = torch.where(self.df > 2, self.df, 3.0)
        square = df / (df - 2)
        apart = 4 * torch.sinh(self.skew).square() * (square - self._mean_size().square())
        none = torch.where(self.df > 1, torch.inf, torch.nan)
        return torch.where(self.df > 2, square + apart, none)

    def _standard_cdf(self, z: Tensor) -> Tensor:
        side = torch.where(z < 0, -self.skew, self.skew)
        narrow = side.clamp(min=-0.5 * _log_largest(z))  # below, the side has no mass that a float could tell from zero
        beyond = 2 * torch.sigmoid(2 * side) * self._symmetric().cdf(torch.where(z < 0, z, -z) * torch.exp(-narrow))
        return torch.where(z < 0, beyond, torch.maximum(1 - beyond, torch.sigmoid(-2 * self.skew)))

    def _standard_icdf(self, p: Tensor) -> Tensor:
        inside = (p > 0) & (p < 1)
        ends = torch.where(p == 0, -torch.inf, torch.where(p == 1, torch.inf, torch.nan))
        p = torch.where(inside, p, 0.5)
        below = torch.sigmoid(-2 * self.skew)
        low = p < below
        side = torch.where(low, -self.skew, self.skew)
        beyond = 0.5 * torch.where(low, p, 1 - p) / torch.where(low, below, torch.sigmoid(2 * self.skew))
        size = self._symmetric().icdf(beyond) * _half(side) * _half(side)
        return torch.where(inside, torch.where(low, size, -size), ends)

    def _standard_rsample(self, shape: torch.Size) -> Tensor:
        with torch.no_grad():
            size = StudentT(self.df.expand(shape), validate_args=False).sample().abs()
            above = torch.rand_like(size) < torch.sigmoid(2 * self.skew)
            z = torch.where(above, size, -size) * torch.exp(torch.where(above, self.skew, -self.skew))
        return self._implicit(z)

    def _symmetric(self) -> StudentT:
        return StudentT(self.df, validate_args=False)


class SkewStudentTLoss(
    ScaleLoss,
    nll=skew_student_t_nll,
    family=SkewStudentT,
    df=Slot(Exp(), 4.0),
    skew=Slot(Interval(-3, 3), 0.0),
    scale=scale_slot(half_power_of_t4),
):
    r"""Student's t likelihood with one scale per side, for errors that are larger on one side.

    The degrees of freedom ``df``, the ``skew`` and the ``scale`` learn by default. A learned skew stays in (-3, 3),
    where the scales of the two sides differ by a factor of up to :math:`e^6 \approx 400`; a fixed one is any real
    number. The prediction is the mode; take mean and quantiles from ``distribution``.

    Args:
        df: degrees of freedom, starting at 4: a number, which is fixed, or one of :class:`~likely.Fixed`,
            :class:`~likely.Global` (the default), :class:`~likely.Data` and :class:`~likely.Predicted`.
        skew: half the logarithm of the ratio of the two sides' scales, starting at 0; positive where errors are larger
            upwards: a number, which is fixed, or one of :class:`~likely.Fixed`, :class:`~likely.Global` (the default),
            :class:`~likely.Data` and :class:`~likely.Predicted`.
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
        :class:`~likely.StudentTLoss`, :class:`~likely.AsymmetricLaplaceLoss`,
        :func:`~likely.functional.skew_student_t_nll` (the function).

    >>> import torch, likely
    >>> loss_fn = likely.SkewStudentTLoss(skew=0.5)
    >>> loss_fn(torch.zeros(2), torch.tensor([5.0, -5.0]))
    tensor(3.4555, grad_fn=<...>)
    """


def _crps(distribution: SkewStudentT, y: Array) -> Array:
    """From that of Student's t on the side where y lies: its CDF there is Student's, enlarged."""
    z, scale = standardised(distribution, y)
    size, skew, df = np.abs(z), distribution.skew.numpy(), distribution.df.numpy()
    side = np.where(z < 0, -skew, skew)
    narrow = np.maximum(side, -30.0)  # below, its own part is less than rounding
    along = np.minimum(size * np.exp(-narrow), np.finfo(np.float64).max)
    score, centre = standard_crps(along, np.where(df > 0.5, df, 1.0))
    score *= 2 * special.expit(2 * narrow) * np.exp(narrow)
    crps = score - (size + 2 * centre * np.exp(-side)) * np.tanh(side)
    return np.where(df > 0.5, scale * crps, np.inf)


register(SkewStudentTLoss, crps=_crps)
