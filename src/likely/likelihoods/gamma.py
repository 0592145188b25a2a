"""The Gamma likelihood of a positive target, from the logarithm of its mean; its concentration learns."""

import numpy as np
import torch
from scipy import special
from torch import Tensor, distributions as td
from torch.distributions import Distribution, constraints

from likely._numerics.special import exp_remainder, log_factorial_remainder, log_gamma_remainder, log_minus_digamma
from likely._validation import check_positive
from likely.constraints import Exp
from likely.likelihoods._distribution import EACH, Array, Exact, cdf, cdf_by_scipy, icdf_by_scipy
from likely.likelihoods._form import HALF_LOG_2PI, Value, functional_form
from likely.likelihoods._loss import Phi
from likely.likelihoods._record import register
from likely.likelihoods.poisson import RateLoss
from likely.parameters._slot import Moment, Slot

__all__ = ["Gamma", "GammaLoss", "gamma_nll"]


@functional_form(constant=lambda log_y: log_y + HALF_LOG_2PI, log_target=True, mean=check_positive)
def gamma_nll(prediction: Tensor, target: Tensor, *, concentration: Value, log_input: bool = True) -> Tensor:
    r"""Negative log-likelihood of a Gamma distribution of a positive target, given the logarithm of its mean.

    For :math:`u = \log(y / \mu)` and ``concentration`` :math:`\alpha > 0`, which makes the variance
    :math:`\mu^2 / \alpha`,

    .. math:: \ell = \alpha (e^u - 1 - u) + \log y + \log\Gamma(\alpha) - \alpha\log\alpha + \alpha.

    It keeps all digits as :math:`\alpha` grows and :math:`\log y` becomes normal;
    :math:`\alpha = 1` is the exponential distribution. Targets ≤ 0 are refused on the CPU; on a GPU
    values are checked under ``validate_args=True`` only, and such targets give NaN or infinity.

    Args:
        prediction: logarithms of means, or the means under ``log_input=False``; any shape.
        target: positive numbers of a shape that broadcasts with the prediction's.
        concentration: positive concentration: a number, or a tensor that broadcasts to the prediction.
        log_input: whether predictions are logarithms of means (the default); with ``False`` they are the means.
        reduction: ``"mean"`` (the default), ``"sum"`` or ``"none"``.
        full: whether terms that do not depend on any parameter are included; ``True`` by default.
        validate_args: whether tensor values are checked; by default (None) on the CPU only.

    Returns:
        A scalar, or one value per element under ``reduction="none"``.

    Raises:
        ValueError: shapes do not broadcast, a value is out of range, or the reduction is unknown.

    See Also:
        :class:`~likely.GammaLoss`, the module with parameters that learn.

    >>> import torch
    >>> from likely.functional import gamma_nll
    >>> gamma_nll(torch.zeros(2), torch.tensor([1.0, 3.0]), concentration=2.0)
    tensor(2.0644)
    """
    log_mean = prediction if log_input else prediction.log()
    return concentration * exp_remainder(target - log_mean) + log_gamma_remainder(concentration)


class Gamma(Exact, td.Gamma):
    """The Gamma distribution of torch with ``cdf`` and ``icdf`` by SciPy, differentiable in all parameters.

    Args:
        concentration: positive shape.
        rate: positive rate, one over the scale.
        validate_args: whether parameters and values are checked; None (the default) follows torch's setting.

    >>> import torch
    >>> from likely.distributions import Gamma
    >>> d = Gamma(torch.tensor(2.0), torch.tensor(0.5))
    >>> d.cdf(torch.tensor(4.0)), d.icdf(torch.tensor(0.5))
    (tensor(0.5940), tensor(3.3567))
    """

    def _nll(self, value: Tensor) -> Tensor:
        inside, shape = value > 0, self.concentration.double()  # single precision would round the logarithms
        at_zero = td.Gamma.log_prob(self, torch.where(inside, 1.0, value))
        mean, value = shape / self.rate, torch.where(inside, value, 1.0).double()
        nll = gamma_nll(mean, value, concentration=shape, log_input=False, **EACH)
        return torch.where(inside, nll, -at_zero.double()).to(self.rate)

    def entropy(self) -> Tensor:
        """The differential entropy, exact for a large concentration too.

        Returns:
            Entropies in nats, in the batch shape.
        """
        a = self.concentration
        return log_factorial_remainder(a) + (a - 1) * log_minus_digamma(a) + HALF_LOG_2PI - self.rate.log()

    def cdf(self, value: Tensor) -> Tensor:
        """P(X ≤ value).

        Args:
            value: real numbers, of a shape that broadcasts with the batch.

        Returns:
            Probabilities, in the broadcast shape.
        """
        x = self.rate * value.clamp(min=0)
        return cdf_by_scipy(_cdf, {0: self._standard()._density}, x, self.concentration)

    def icdf(self, value: Tensor) -> Tensor:
        """The quantile of a probability.

        Args:
            value: probabilities from 0 to 1, of a shape that broadcasts with the batch.

        Returns:
            Quantiles, in the broadcast shape.
        """
        return icdf_by_scipy(_icdf, _cdf, self._standard()._density, value, self.concentration) / self.rate

    def _standard(self) -> "Gamma":
        return Gamma(self.concentration, torch.ones_like(self.rate), validate_args=False)


_cdf, _icdf = (lambda x, a: special.gammainc(a, x)), (lambda p, a: special.gammaincinv(a, p))


# From the variance of the ratio of target and mean, 1 / α, of which one row contributes no more than 100.
_CONCENTRATION = Moment(torch.reciprocal, lambda mean, target: (target / mean - 1).square().clamp(max=100.0))


class GammaLoss(RateLoss, nll=gamma_nll, family=Gamma, concentration=Slot(Exp(), 1.0, start=_CONCENTRATION)):
    r"""The Gamma likelihood of a positive target, whose ``concentration`` learns: errors count as ratios.

    ``prediction`` is the logarithm of the mean, or the mean itself under ``log_input=False``; the standard deviation is
    the mean divided by :math:`\sqrt\alpha`.

    Args:
        concentration: positive concentration α, which starts from the first training batch: a number, which is fixed,
            or one of :class:`~likely.Fixed`, :class:`~likely.Global` (the default), :class:`~likely.Data` and
            :class:`~likely.Predicted`.
        log_input: whether predictions are logarithms of means; with ``False`` they are the means.
        eps: added to the mean under ``log_input=False``, so that a mean of zero has a finite loss; 0 by default.
        reduction: ``"mean"``, ``"sum"`` or ``"none"`` (one value per element).
        full: whether terms that do not depend on any parameter, :math:`\log y` among them, are included. ``True`` (the
            default) gives minus a log density.
        multiplier: positive factor of the loss; the predictive distribution does not depend on it.
        validate_args: whether tensor values are checked; by default (None) on the CPU only, where that is cheap.

    See Also:
        :class:`~likely.LogNormalLoss`, :class:`~likely.PoissonLoss`, :func:`~likely.functional.gamma_nll` (the
        function).

    >>> import torch
    >>> from likely.losses import GammaLoss
    >>> GammaLoss(concentration=2.0)(torch.zeros(2), torch.tensor([1.0, 3.0]))
    tensor(2.0644)
    """

    def distribution_of(self, prediction: Tensor, phi: Phi) -> Distribution:
        """The predictive distribution at given values of the parameters.

        Args:
            prediction: output of a model.
            phi: every parameter of the likelihood by name, as a tensor that broadcasts to the prediction.

        Returns:
            A :class:`torch.distributions.Distribution` with the prediction's shape as its batch.
        """
        return Gamma(phi["concentration"], phi["concentration"] / self._rate(prediction))


def _crps(distribution: Gamma, y: Array) -> Array:
    """Möller & Scheuerer (2015)."""
    shape, rate = distribution.concentration, distribution.rate
    longer = Gamma(shape + 1, rate, validate_args=False)
    distance = y * (2 * cdf(distribution, y) - 1) - (shape / rate).numpy() * (2 * cdf(longer, y) - 1)
    return distance - 1 / (rate.numpy() * special.beta(0.5, shape.numpy()))


def _start(y: Array, weight: Array) -> Array:
    return np.log(np.average(y, axis=0, weights=weight))


register(GammaLoss, support=constraints.positive, crps=_crps, start=_start)
