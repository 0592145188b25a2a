"""The log-normal likelihood of a positive target: a normal of its logarithm, whose scale learns."""

import math

import numpy as np
import torch
from scipy import special
from torch import Tensor, distributions as td
from torch.distributions import constraints

from likely._numerics.special import normal_cdf
from likely.likelihoods._distribution import EACH, Array, Exact
from likely.likelihoods._form import HALF_LOG_2PI, Value, functional_form
from likely.likelihoods._loss import ScaleLoss
from likely.likelihoods._record import register
from likely.likelihoods.normal import normal_nll
from likely.parameters._slot import Moment, scale_slot

__all__ = ["LogNormal", "LogNormalLoss", "log_normal_nll"]


@functional_form(constant=lambda log_y: log_y + HALF_LOG_2PI, log_target=True)
def log_normal_nll(prediction: Tensor, target: Tensor, *, scale: Value) -> Tensor:
    r"""Negative log-likelihood of a log-normal distribution: the squared error of the target's logarithm.

    ``prediction`` is the mean of :math:`\log y`, so :math:`e^{prediction}` is the median of :math:`y`, and for
    :math:`r = \log y - prediction`, :math:`\ell = r^2 / 2\sigma^2 + \log\sigma + \log y + \tfrac12 \log 2\pi`.
    Targets ≤ 0 are refused on the CPU; on a GPU values are checked under ``validate_args=True`` only, and such targets
    give NaN or infinity.

    Args:
        prediction: means of the target's logarithm, any shape.
        target: positive numbers of a shape that broadcasts with the prediction's.
        scale: positive standard deviation of the target's logarithm: a number, or a tensor that broadcasts to the
            prediction.
        reduction: ``"mean"``, ``"sum"`` or ``"none"``.
        full: whether terms that do not depend on any parameter, :math:`\log y` among them, are included.
        validate_args: whether tensor values are checked; by default on the CPU only.

    Returns:
        A scalar, or one value per element under ``reduction="none"``.

    See Also:
        :class:`~likely.LogNormalLoss`, the module with parameters that learn.

    >>> import torch
    >>> from likely.functional import log_normal_nll
    >>> log_normal_nll(torch.zeros(2), torch.tensor([1.0, 10.0]), scale=2.0)
    tensor(3.0947)
    """
    return normal_nll(prediction, target, scale=scale, **EACH, full=False)


class LogNormal(Exact, td.LogNormal):
    """The log-normal distribution of torch with a ``cdf`` that is 0 up to 0 and accurate in the lower tail.

    Logarithms are taken in double precision: in single, a narrow distribution of large numbers would lose its digits.

    Args:
        loc: mean of the logarithm.
        scale: positive standard deviation of the logarithm.
        validate_args: whether parameters and values are checked; None (the default) follows torch's setting.

    >>> import torch
    >>> from likely.distributions import LogNormal
    >>> d = LogNormal(torch.tensor(0.0), torch.tensor(1.0))
    >>> d.cdf(torch.tensor([-1.0, 1.0])), d.icdf(torch.tensor(0.975))
    (tensor([0.0000, 0.5000]), tensor(7.0991))
    """

    def _nll(self, value: Tensor) -> Tensor:
        loc, scale, inside = self.loc.double(), self.scale.double(), value > 0
        nll = log_normal_nll(loc, torch.where(inside, value, 1.0).double(), scale=scale, **EACH)
        return torch.where(inside, nll, torch.inf).to(self.loc)

    def cdf(self, value: Tensor) -> Tensor:
        """P(X ≤ value), differentiable in the value and all parameters.

        Args:
            value: real numbers, of a shape that broadcasts with the batch.

        Returns:
            Probabilities, in the broadcast shape.
        """
        inside = value > 0
        z = (torch.where(inside, value, 1.0).double().log() - self.loc) / self.scale
        return torch.where(inside, normal_cdf(z), 0.0).to(self.loc)

    def icdf(self, value: Tensor) -> Tensor:
        """The quantile of a probability, differentiable in it and all parameters.

        Args:
            value: probabilities from 0 to 1, of a shape that broadcasts with the batch.

        Returns:
            Quantiles, in the broadcast shape.
        """
        return torch.exp(self.loc + self.scale * torch.special.ndtri(value))

    @property
    def variance(self) -> Tensor:
        """The variance, exact for small scales too."""
        squared = self.scale.square()
        return torch.expm1(squared) * torch.exp(2 * self.loc + squared)


_SCALE = scale_slot(Moment(torch.sqrt, lambda location, target: (target.log() - location).square()))


class LogNormalLoss(ScaleLoss, nll=log_normal_nll, family=LogNormal, scale=_SCALE):
    r"""The log-normal likelihood of a positive target: :class:`NormalLoss` of its logarithm, in units of the target.

    ``prediction`` is the mean of :math:`\log y` and ``scale`` its standard deviation, so errors are measured as ratios.
    The term :math:`\log y` makes the loss comparable with that of other likelihoods of :math:`y`.

    Args:
        scale: positive standard deviation of the target's logarithm: a number, which is fixed, or one of
            :class:`~likely.Fixed`, :class:`~likely.Global` (the default), :class:`~likely.Data` and
            :class:`~likely.Predicted`.
        beta: from 0 (the default, the plain NLL) to 1; multiplies each term by ``scale ** (2 * beta)``, held constant
            (β-NLL), so that elements with a large predicted scale still count in the gradient of the mean.
        reduction: ``"mean"``, ``"sum"`` or ``"none"`` (one value per element).
        full: whether terms that do not depend on any parameter, :math:`\log y` among them, are included. ``True`` (the
            default) gives minus a log density.
        multiplier: positive factor of the loss; the predictive distribution does not depend on it.
        validate_args: whether tensor values are checked; by default (None) on the CPU only, where that is cheap.

    See Also:
        :class:`~likely.GammaLoss`, :class:`~likely.NormalLoss`, :func:`~likely.functional.log_normal_nll` (the
        function).

    >>> import torch
    >>> from likely.losses import LogNormalLoss
    >>> LogNormalLoss(scale=2.0)(torch.zeros(2), torch.tensor([1.0, 10.0]))
    tensor(3.0947)
    """


def _crps(distribution: LogNormal, y: Array) -> Array:
    """Baran & Lerch (2015); tails as logarithms, so that no large scale overflows before the score does."""
    loc, scale = distribution.loc.numpy(), distribution.scale.numpy()
    z = (np.log(np.where(y > 0, y, 1.0)) - loc) / scale
    z = np.where(y > 0, z, -np.inf)
    log_mean = loc + 0.5 * scale**2
    below = np.exp(log_mean + special.log_ndtr(z - scale)) - np.exp(log_mean + special.log_ndtr(-scale / math.sqrt(2)))
    return y * (2 * special.ndtr(z) - 1) - 2 * below


def _start(y: Array, weight: Array) -> Array:
    return np.average(np.log(y), axis=0, weights=weight)


register(LogNormalLoss, support=constraints.positive, crps=_crps, start=_start)
