"""Student's t: a normal that expects outliers."""

import math
from typing import Any, Unpack

import numpy as np
import torch
from scipy import special
from torch import Tensor
from torch import distributions as td

from likely._special import log1p_square, log_gamma_ratio
from likely.constraints import ShiftedSoftplus
from likely.likelihoods._distribution import cdf_by_scipy, icdf_by_scipy
from likely.likelihoods._form import HALF_LOG_2PI, How, Value, functional_form
from likely.likelihoods._loss import SCALE, ParameterLike, ScaleLoss, Slot
from likely.likelihoods._numeric import Array, standardised
from likely.likelihoods._record import Residuals, register

__all__ = ["StudentT", "StudentTLoss", "student_t_nll"]


@functional_form(constant=HALF_LOG_2PI, fused=True)
def student_t_nll(prediction: Tensor, target: Tensor, *, df: Value, scale: Value, **how: Unpack[How]) -> Tensor:
    r"""Student's t: a normal whose scale was itself drawn at random, so that outliers are expected.

    For :math:`z = r / \sigma` and :math:`\nu > 0` degrees of freedom,

    .. math:: \ell = \tfrac{\nu + 1}{2} \log(1 + z^2 / \nu) + \log \sigma + \tfrac12 \log 2\pi
              - \left(\log \frac{\Gamma((\nu+1)/2)}{\Gamma(\nu/2)} - \tfrac12 \log \tfrac{\nu}{2}\right).

    The last bracket falls to zero as :math:`\nu` grows and the normal is left; :math:`\nu = 1` is the Cauchy.

    Args:
        prediction: where the density is centred, any shape.
        target: real numbers of a shape that broadcasts with the prediction's.
        df: positive degrees of freedom: a number, or a tensor that broadcasts to the prediction.
        scale: positive scale: a number, or a tensor that broadcasts to the prediction.

    >>> import torch
    >>> from likely.functional import normal_nll, student_t_nll
    >>> x, y = torch.zeros(2), torch.tensor([1.0, 30.0])
    >>> student_t_nll(x, y, df=1.0, scale=1.0), normal_nll(x, y, scale=1.0)
    (tensor(4.8931), tensor(226.1689))
    """
    z = (target - prediction) / scale
    return 0.5 * (df + 1) * log1p_square(z * df.rsqrt()) + scale.log() - log_gamma_ratio(0.5 * df, 0.5)


class StudentT(td.StudentT):
    """torch's Student t with the ``cdf`` and ``icdf`` it lacks (scipy's, with gradients in all but ``df``).

    >>> import torch
    >>> from likely.distributions import StudentT
    >>> d = StudentT(torch.tensor(3.0))
    >>> d.cdf(torch.tensor(1.0)), d.icdf(torch.tensor(0.975))
    (tensor(0.8045), tensor(3.1824))
    """

    def cdf(self, value: Tensor) -> Tensor:
        """P(X ≤ value)."""
        z = (value - self.loc) / self.scale
        return cdf_by_scipy(_cdf, self._standard_density, z, self.df)

    def icdf(self, value: Tensor) -> Tensor:
        """The quantile of a probability."""
        return self.loc + self.scale * icdf_by_scipy(_icdf, self._standard_density, value, self.df)

    def _standard_density(self, z: Tensor) -> Tensor:
        nll = student_t_nll(torch.zeros_like(z), z, df=self.df, scale=1.0, reduction="none", validate_args=False)
        return torch.exp(-nll)


# Beyond this many √df the tail is a power of z to the last digit. SciPy squares z there, and loses it.
_FAR = 1e9


def upper_tail(z: Array, df: Array) -> Array:
    """P(T > z) for z ≥ 0."""
    with np.errstate(over="ignore"):
        ratio = z / np.sqrt(df)
        power = np.exp(-df * np.log(np.maximum(ratio, 1.0)) - np.log(df) - special.betaln(0.5 * df, 0.5))
        return np.where(ratio > _FAR, power, special.stdtr(df, -np.minimum(z, _FAR * np.sqrt(df))))


def upper_quantile(p: Array, df: Array) -> Array:
    """The z ≥ 0 with P(T > z) = p, for p from 0 to ½."""
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        log_ratio = -(np.log(p) + np.log(df) + special.betaln(0.5 * df, 0.5)) / df
        far = log_ratio > math.log(_FAR)
        return np.where(far, np.sqrt(df) * np.exp(log_ratio), np.abs(special.stdtrit(df, np.where(far, 0.5, p))))


def _cdf(z: Array, df: Array) -> Array:
    tail = upper_tail(np.abs(z), df)
    return np.where(z < 0, tail, 1 - tail)


def _icdf(p: Array, df: Array) -> Array:
    return np.where(p < 0.5, -1.0, 1.0) * upper_quantile(np.minimum(p, 1 - p), df)


class StudentTLoss(ScaleLoss, nll=student_t_nll, family=StudentT, df=Slot(ShiftedSoftplus(0.01), 4.0), scale=SCALE):
    r"""Student's t: a squared error that forgives outliers, by as much as the data asks for.

    Both the degrees of freedom ``df`` (from 4) and the ``scale`` learn.

    Args:
        df: degrees of freedom, starting at 4; the fewer, the heavier the tails: a number, which is fixed, or one of
            :class:`~likely.Fixed`, :class:`~likely.Global` (the default), :class:`~likely.Data` and
            :class:`~likely.Predicted`.
        scale: positive scale of the errors: a number, which is fixed, or one of :class:`~likely.Fixed`,
            :class:`~likely.Global` (the default), :class:`~likely.Data` and :class:`~likely.Predicted`.
        **options: ``beta`` from 0 (the default) to 1, which multiplies each term by the scale to the power 2β, held
            constant (β-NLL); ``reduction``, ``full``, ``multiplier`` and ``validate_args`` of
            :class:`~likely.LikelihoodLoss`.

    >>> import torch, likely
    >>> loss_fn = likely.StudentTLoss(df=1.0)
    >>> loss_fn(torch.zeros(2), torch.tensor([1.0, 30.0]))
    tensor(4.8931, grad_fn=<...>)
    """

    def __init__(self, df: ParameterLike = None, scale: ParameterLike = None, **options: Any) -> None:
        super().__init__(df=df, scale=scale, **options)


def _crps(distribution: StudentT, y: Array) -> Array:
    z, scale = standardised(distribution, y)
    return np.asarray(scale * standard_crps(z, distribution.df.numpy())[0])


def standard_crps(z: Array, df: Array) -> tuple[Array, Array]:
    """The score at scale one, and its value at z = 0: the usual formula, arranged to hold at and below df = 1 too.

    Both are infinite up to ½ degree of freedom.
    """
    infinite, df = df <= 0.5, np.maximum(df, 0.5)
    height = 1 / (np.sqrt(df) * special.beta(0.5, 0.5 * df))
    spread = log1p_square(torch.from_numpy(z / np.sqrt(df))).numpy()
    moment = height * df * 0.5 * spread * special.exprel(-0.5 * (df - 1) * spread)
    constant = 2 * df * height * _crps_shape(df)
    crps = z * (2 * _cdf(z, df) - 1) - 2 * moment + constant
    return np.where(infinite, np.inf, crps), np.where(infinite, np.inf, constant)


def _crps_shape(df: Array) -> Array:
    """(1 - B(½, ν-½) / B(½, ν/2)) / (ν - 1), by a series of the logarithm where that is 0/0."""
    e = df - 1
    near = np.abs(e) < 1e-4
    slope = -math.log(2) + e * (math.pi**2 / 8 - e * 1.75 * float(special.zeta(3)))
    log_ratio = special.betaln(0.5, df - 0.5) - special.betaln(0.5, 0.5 * df)
    away = -np.expm1(log_ratio) / np.where(near, 1, e)
    return np.asarray(np.where(near, -slope * special.exprel(e * slope), away))


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
