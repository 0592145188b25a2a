"""The Poisson likelihood of a count."""

import math
from typing import Any

import numpy as np
import torch
from scipy import special, stats
from torch import Tensor, distributions as td
from torch.distributions import Distribution, constraints

from likely._validation import check_counts, check_not_negative
from likely.likelihoods._distribution import EACH, Array, Exact, by_scipy, cdf, count_cdf
from likely.likelihoods._form import functional_form
from likely.likelihoods._loss import LikelihoodLoss, Phi
from likely.likelihoods._record import register
from likely.parameters._slot import ParameterLike

__all__ = ["Poisson", "PoissonLoss", "poisson_nll"]


def log_factorial(count: Tensor) -> Tensor:
    """Log y!, of counts that need not be whole."""
    return torch.lgamma(count + 1)


def within_floats(log_rate: Tensor) -> Tensor:
    """The log rate, where neither its exponential nor a count times it overflows; its gradient passes the ends."""
    highest = 0.9 * math.log(torch.finfo(torch.float32).max)
    return log_rate - (log_rate - log_rate.clamp(-1e30, highest)).detach()


@functional_form(constant=log_factorial, double=True, target=check_counts)
def poisson_nll(prediction: Tensor, target: Tensor, *, log_input: bool = True) -> Tensor:
    r"""Negative log-likelihood of a Poisson count, given the logarithm of its rate.

    :math:`\ell = \mu - y \log\mu + \log y!`, with :math:`\Gamma(y + 1)` for :math:`y!` where a count is not whole.
    Negative counts are refused on the CPU; on a GPU values are checked under ``validate_args=True`` only.

    Args:
        prediction: logarithms of rates, or the rates under ``log_input=False``; any shape.
        target: counts ≥ 0, which need not be whole, of a shape that broadcasts with the prediction's.
        log_input: whether predictions are logarithms of rates (the default); with ``False`` they are the rates.
        reduction: ``"mean"`` (the default), ``"sum"`` or ``"none"``.
        full: whether terms that do not depend on any parameter are included; ``True`` by default.
        validate_args: whether tensor values are checked; by default (None) on the CPU only.

    Returns:
        A scalar, or one value per element under ``reduction="none"``.

    Raises:
        ValueError: shapes do not broadcast, a value is out of range, or the reduction is unknown.

    See Also:
        :class:`~likely.PoissonLoss`, the module with parameters that learn.

    >>> import torch
    >>> from likely.functional import poisson_nll
    >>> poisson_nll(torch.tensor([0.0, 1.0]), torch.tensor([1.0, 3.0]))
    tensor(1.2550)
    """
    if not log_input:
        return prediction - torch.xlogy(target, prediction)
    log_rate = within_floats(prediction)
    return log_rate.exp() - target * log_rate


class Poisson(Exact, td.Poisson):
    """The Poisson distribution of torch with ``cdf`` and ``icdf`` by SciPy.

    Args:
        rate: mean ≥ 0.
        validate_args: whether parameters and values are checked; None (the default) follows torch's setting.

    >>> import torch
    >>> from likely.distributions import Poisson
    >>> d = Poisson(torch.tensor(3.0))
    >>> d.cdf(torch.tensor(2.0)), d.icdf(torch.tensor(0.9))
    (tensor(0.4232), tensor(5.))
    """

    def cdf(self, value: Tensor) -> Tensor:
        """P(X ≤ value), differentiable in the rate.

        Args:
            value: real numbers, of a shape that broadcasts with the batch.

        Returns:
            Probabilities, in the broadcast shape.
        """
        return count_cdf(special.pdtr, {1: lambda count: -self._density(count)}, value, self.rate)

    def icdf(self, value: Tensor) -> Tensor:
        """The smallest count with at least this probability at or below it.

        Args:
            value: probabilities from 0 to 1, of a shape that broadcasts with the batch.

        Returns:
            Counts, in the broadcast shape.
        """
        return by_scipy(stats.poisson.ppf, value, self.rate)

    def _nll(self, value: Tensor) -> Tensor:
        return poisson_nll(self.rate, value, log_input=False, **EACH)


class RateLoss(LikelihoodLoss):
    """Likelihoods of a target with a positive mean, which the prediction gives, or its logarithm."""

    def __init__(self, *values: ParameterLike, log_input: bool = True, eps: float = 0.0, **options: Any) -> None:
        super().__init__(*values, **options)
        check_not_negative("eps", eps)
        self.log_input, self.eps = log_input, eps

    def _options(self, reduction: str) -> dict[str, Any]:
        return {**super()._options(reduction), "log_input": self.log_input}

    def _nll(self, prediction: Tensor, target: Tensor, phi: Phi, reduction: str = "none") -> Tensor:
        if self.eps and not self.log_input:
            check_not_negative("prediction", prediction, self.validate_args)
            prediction = self._rate(prediction)
        return super()._nll(prediction, target, phi, reduction)

    def _mean(self, prediction: Tensor) -> Tensor:
        return self._rate(prediction)

    def _rate(self, prediction: Tensor) -> Tensor:
        if self.log_input:
            return prediction.exp()
        # In half precision the sum would lose eps.
        return (
            prediction.to(torch.promote_types(prediction.dtype, torch.float32)) + self.eps if self.eps else prediction
        )


class PoissonLoss(RateLoss, nll=poisson_nll, family=Poisson):
    r"""The Poisson likelihood of a count: :class:`torch.nn.PoissonNLLLoss` with its constant.

    It has no parameter that learns; :class:`~likely.NegativeBinomialLoss` adds one for the variance.

    Args:
        log_input: whether predictions are logarithms of rates; with ``False`` they are the rates.
        eps: added to the rate under ``log_input=False``, so that a rate of zero has a finite loss; 0 by default
            (:class:`torch.nn.PoissonNLLLoss`: 1e-8).
        reduction: ``"mean"``, ``"sum"`` or ``"none"`` (one value per element).
        full: whether constants that do not depend on any parameter are included. ``True`` (the default) gives minus a
            log density; ``False`` leaves them out, as the losses of ``torch.nn`` do.
        multiplier: positive factor of the loss; the predictive distribution does not depend on it.
        validate_args: whether tensor values are checked; by default (None) on the CPU only, where that is cheap.

    See Also:
        :class:`~likely.NegativeBinomialLoss`, :class:`~likely.ZeroInflatedPoissonLoss`,
        :func:`~likely.functional.poisson_nll` (the function).

    >>> import torch, likely
    >>> likely.PoissonLoss()(torch.tensor([0.0, 1.0]), torch.tensor([1.0, 3.0]))
    tensor(1.2550)
    """

    def distribution_of(self, prediction: Tensor, phi: Phi) -> Distribution:
        """The predictive distribution at given values of the parameters.

        Args:
            prediction: output of a model.
            phi: every parameter of the likelihood by name, as a tensor that broadcasts to the prediction.

        Returns:
            A :class:`torch.distributions.Distribution` with the prediction's shape as its batch.
        """
        return Poisson(self._rate(prediction))


def log_mean(y: Array, weight: Array) -> Array:
    """Return the logarithm of the weighted mean, a constant log rate to begin with."""
    return np.log(np.maximum(np.average(y, axis=0, weights=weight), 1e-3))


def _crps(distribution: Poisson, y: Array) -> Array:
    """Wei & Held (2014)."""
    rate, whole = distribution.rate.numpy(), np.floor(y)
    log_point = special.xlogy(whole.clip(0), rate) - rate - special.gammaln(whole.clip(0) + 1)
    point = np.where(whole < 0, 0.0, np.exp(log_point))
    spread = special.ive(0, 2 * rate) + special.ive(1, 2 * rate)
    return (y - rate) * (2 * cdf(distribution, y) - 1) + rate * (2 * point - spread)


register(PoissonLoss, support=constraints.nonnegative_integer, crps=_crps, start=log_mean)
