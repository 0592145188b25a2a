"""The negative binomial: a count whose variance may exceed its mean, by a dispersion that learns."""

import math

import numpy as np
import torch
from scipy import special, stats
from torch import Tensor, distributions as td
from torch.distributions import Distribution, constraints

from likely._numerics.special import log_gamma_ratio
from likely._validation import check_counts
from likely.constraints import Exp
from likely.likelihoods._distribution import EACH, Array, Exact, by_scipy, cdf, count_cdf, over_distinct
from likely.likelihoods._form import Value, functional_form
from likely.likelihoods._loss import Phi
from likely.likelihoods._record import register
from likely.likelihoods.poisson import RateLoss, log_factorial, log_mean, within_floats
from likely.parameters._slot import Moment, Slot

__all__ = ["NegativeBinomial", "NegativeBinomialLoss", "negative_binomial_nll"]


@functional_form(constant=log_factorial, double=True, target=check_counts)
def negative_binomial_nll(prediction: Tensor, target: Tensor, *, dispersion: Value, log_input: bool = True) -> Tensor:
    r"""Negative log-likelihood of a negative binomial count, whose variance is :math:`\mu + \kappa\mu^2`.

    ``prediction`` is :math:`\log\mu` (or :math:`\mu`: ``log_input=False``) and ``dispersion`` is
    :math:`\kappa > 0`. As it tends to zero the likelihood becomes the Poisson's, without loss of accuracy.

    Args:
        prediction: logarithms of means, or the means under ``log_input=False``; any shape.
        target: counts ≥ 0, which need not be whole, of a shape that broadcasts with the prediction's.
        dispersion: positive dispersion: a number, or a tensor that broadcasts to the prediction.
        log_input: whether predictions are logarithms of means (the default); with ``False`` they are the means.
        reduction: ``"mean"`` (the default), ``"sum"`` or ``"none"``.
        full: whether terms that do not depend on any parameter are included; ``True`` by default.
        validate_args: whether tensor values are checked; by default (None) on the CPU only.

    Returns:
        A scalar, or one value per element under ``reduction="none"``.

    Raises:
        ValueError: shapes do not broadcast, a value is out of range, or the reduction is unknown.

    See Also:
        :class:`~likely.NegativeBinomialLoss`, the module with parameters that learn.

    >>> import torch
    >>> from likely.functional import negative_binomial_nll
    >>> negative_binomial_nll(torch.tensor([0.0, 1.0]), torch.tensor([1.0, 3.0]), dispersion=1e-6)
    tensor(1.2550)
    """
    if log_input:
        log_rate = within_floats(prediction)
        log_mean_power, spread = target * log_rate, log_rate + dispersion.log()
    else:
        log_mean_power, spread = torch.xlogy(target, prediction), (prediction * dispersion).log()
    count = dispersion.reciprocal()
    nll = (count + target) * torch.logaddexp(spread, torch.zeros_like(spread)) - log_mean_power
    return nll - log_gamma_ratio(count, target)


class NegativeBinomial(Exact, td.NegativeBinomial):
    """The negative binomial distribution of torch with ``cdf`` and ``icdf`` by SciPy, exact for a large count too.

    Args:
        total_count: number of failures ≥ 0, not necessarily whole.
        probs: probability of success in [0, 1); give this or ``logits``.
        logits: log odds of success.
        validate_args: whether parameters and values are checked; None (the default) follows torch's setting.

    >>> import torch
    >>> from likely.distributions import NegativeBinomial
    >>> d = NegativeBinomial(torch.tensor(2.0), logits=torch.tensor(0.5))
    >>> d.cdf(torch.tensor(2.0)), d.icdf(torch.tensor(0.9))
    (tensor(0.4857), tensor(7.))
    """

    def cdf(self, value: Tensor) -> Tensor:
        """P(X ≤ value), differentiable in all parameters.

        Args:
            value: real numbers, of a shape that broadcasts with the batch.

        Returns:
            Probabilities, in the broadcast shape.
        """
        return count_cdf(
            lambda k, n, logits: special.betaincc(k + 1, n, special.expit(logits)),
            {2: lambda k: -(self.total_count + k) * self._density(k) * torch.sigmoid(self.logits)},
            value,
            self.total_count,
            self.logits,
        )

    def icdf(self, value: Tensor) -> Tensor:
        """The smallest count with at least this probability at or below it.

        Args:
            value: probabilities from 0 to 1, of a shape that broadcasts with the batch.

        Returns:
            Counts, in the broadcast shape.
        """
        return by_scipy(
            lambda p, n, logits: stats.nbinom.ppf(p, np.maximum(n, 1e-300), special.expit(-logits)),
            value,
            self.total_count,
            self.logits,
        )

    def _nll(self, value: Tensor) -> Tensor:
        none = self.total_count == 0
        count = torch.where(none, 1.0, self.total_count).double()
        nll = negative_binomial_nll(self.logits + count.log(), value, dispersion=count.reciprocal(), **EACH)
        return torch.where(none, torch.where(value == 0, 0.0, torch.inf), nll).to(self.logits)


# From the variance μ + κμ².
_DISPERSION = Moment(
    lambda ratio: ratio.clamp(0.01, 100.0),
    lambda mean, target: (target - mean).square() - mean,
    lambda mean, target: mean.square(),
)


class NegativeBinomialLoss(
    RateLoss,
    nll=negative_binomial_nll,
    family=NegativeBinomial,
    dispersion=Slot(Exp(), 1.0, start=_DISPERSION),
):
    r"""The negative binomial likelihood of a count, of variance :math:`\mu + \kappa\mu^2`; the ``dispersion`` κ learns.

    Args:
        dispersion: positive dispersion κ, which starts from the first training batch; 0 would be the Poisson: a number,
            which is fixed, or one of :class:`~likely.Fixed`, :class:`~likely.Global` (the default),
            :class:`~likely.Data` and :class:`~likely.Predicted`.
        log_input: whether predictions are logarithms of means; with ``False`` they are the means.
        eps: added to the mean under ``log_input=False``, so that a mean of zero has a finite loss; 0 by default.
        reduction: ``"mean"``, ``"sum"`` or ``"none"`` (one value per element).
        full: whether constants that do not depend on any parameter are included. ``True`` (the default) gives minus a
            log density; ``False`` leaves them out, as the losses of ``torch.nn`` do.
        multiplier: positive factor of the loss; the predictive distribution does not depend on it.
        validate_args: whether tensor values are checked; by default (None) on the CPU only, where that is cheap.

    See Also:
        :class:`~likely.PoissonLoss`, :class:`~likely.ZeroInflatedNegativeBinomialLoss`,
        :func:`~likely.functional.negative_binomial_nll` (the function).

    >>> import torch, likely
    >>> loss_fn = likely.NegativeBinomialLoss()
    >>> loss_fn.distribution(torch.tensor([2.0])).variance
    tensor([61.9872], grad_fn=<DivBackward0>)
    """

    def distribution_of(self, prediction: Tensor, phi: Phi) -> Distribution:
        """The predictive distribution at given values of the parameters.

        Args:
            prediction: output of a model.
            phi: every parameter of the likelihood by name, as a tensor that broadcasts to the prediction.

        Returns:
            A :class:`torch.distributions.Distribution` with the prediction's shape as its batch.
        """
        count, logits = count_and_logits(self._rate(prediction), phi["dispersion"])
        return NegativeBinomial(count, logits=logits)


def count_and_logits(rate: Tensor, dispersion: Tensor) -> tuple[Tensor, Tensor]:
    """1 / κ and the log odds, which lose digits far below zero: the count makes up for them, and the mean is exact."""
    logits = (rate * dispersion).clamp(min=torch.finfo(dispersion.dtype).tiny).log()
    return (rate * torch.exp(-logits) * dispersion).detach() / dispersion, logits


def _crps(distribution: NegativeBinomial, y: Array) -> Array:
    """E|X - y| in closed form; ½E|X - X'| by its Fourier integral, which no small dispersion harms."""
    count, odds = distribution.total_count.numpy(), np.exp(distribution.logits.numpy())
    mean = count * odds
    longer = NegativeBinomial(distribution.total_count + 1, logits=distribution.logits, validate_args=False)
    distance = y * (2 * cdf(distribution, y) - 1) - mean * (2 * cdf(longer, y - 1) - 1)
    count, spread = np.broadcast_arrays(count, odds * (1 + odds))
    half = over_distinct(_half_difference, count.ravel(), spread.ravel(), cells=1200)
    return distance - half.reshape(count.shape)


def _half_difference(count: Array, spread: Array) -> Array:
    """½E|X - X'| = ∫ (1 - |φ|²) / (2 sin²θ) dθ / π over [0, π/2], by the trapezoid rule in log tan θ."""
    step = 0.1
    log_tan = np.arange(-80, 40, step)
    sine = 1 / (1 + np.exp(-2 * log_tan))  # sin²θ
    fall = -np.expm1(-count[:, None] * np.log1p(4 * spread[:, None] * sine))
    # dθ = sin θ cos θ d(log tan θ)
    return (fall * 0.5 * np.exp(-log_tan)).sum(1) * step / math.pi


register(NegativeBinomialLoss, support=constraints.nonnegative_integer, crps=_crps, start=log_mean)
