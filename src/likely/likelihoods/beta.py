"""The Beta likelihood of a share between 0 and 1, whose concentration learns."""

import math

import numpy as np
import torch
from scipy import special
from torch import Tensor, distributions as td
from torch.distributions import Distribution, constraints
from torch.nn.functional import logsigmoid

from likely._numerics.special import log_factorial_remainder, log_minus_digamma
from likely._validation import check_shares, may_look
from likely.constraints import Exp
from likely.likelihoods._distribution import EACH, Array, Exact, cdf_by_scipy, icdf_by_scipy
from likely.likelihoods._form import HALF_LOG_2PI, Value, functional_form
from likely.likelihoods._loss import LikelihoodLoss, Phi
from likely.likelihoods._record import register
from likely.parameters._slot import Moment, Slot

__all__ = ["Beta", "BetaLoss", "beta_nll"]


def _check_inside(name: str, target: Tensor, validate_args: bool | None) -> None:
    check_shares(name, target, validate_args)
    if may_look(target, validate_args) and bool(((target == 0) | (target == 1)).any()):
        raise ValueError(
            f"{name} holds 0 or 1, where the Beta density is zero or infinite: move all targets inside, such as by "
            "(y * (n - 1) + 0.5) / n for n rows, or use BernoulliLoss, which takes shares"
        )


@functional_form(constant=lambda y: y.log() + torch.log1p(-y), target=_check_inside)
def beta_nll(prediction: Tensor, target: Tensor, *, concentration: Value) -> Tensor:
    r"""Negative log-likelihood of a Beta distribution of a share in (0, 1), given the logit of its mean.

    With the mean :math:`m = \sigma(x)` and the ``concentration`` :math:`\varphi = \alpha + \beta > 0`, it is
    :math:`\ell = \log B(\varphi m, \varphi (1 - m)) - (\varphi m - 1) \log y - (\varphi (1 - m) - 1) \log(1 - y)`,
    of variance :math:`m (1 - m) / (1 + \varphi)`; it is accurate at any concentration. At 0 and 1 the density is zero
    or infinite, so these targets are refused on the CPU; on a GPU values are checked under
    ``validate_args=True`` only, and such targets make the loss infinite or NaN. ``full=False`` leaves out
    :math:`\log y (1 - y)`, which does not depend on any parameter.

    Args:
        prediction: logits of means, any shape.
        target: shares between 0 and 1 of a shape that broadcasts with the prediction's.
        concentration: positive concentration: a number, or a tensor that broadcasts to the prediction.
        reduction: ``"mean"`` (the default), ``"sum"`` or ``"none"``.
        full: whether terms that do not depend on any parameter are included; ``True`` by default.
        validate_args: whether tensor values are checked; by default (None) on the CPU only.

    Returns:
        A scalar, or one value per element under ``reduction="none"``.

    Raises:
        ValueError: shapes do not broadcast, a value is out of range, or the reduction is unknown.

    See Also:
        :class:`~likely.BetaLoss`, the module with parameters that learn.

    >>> import torch
    >>> from likely.functional import beta_nll
    >>> beta_nll(torch.tensor([0.0, 1.0]), torch.tensor([0.4, 0.9]), concentration=5.0)
    tensor(-0.6555)
    """
    x, y = prediction.clamp(-1e30, 1e30), target  # beyond, sums of its logarithms would overflow
    mean, rest = logsigmoid(x).exp(), logsigmoid(-x).exp()  # whose slopes are exact in both tails, the sigmoid's not
    excess = torch.where(x > 0, (1 - y) - rest, mean - y)  # of the mean, taken at the end that has more digits
    divergence = mean * _log_ratio(logsigmoid(x), y, excess) + rest * _log_ratio(logsigmoid(-x), 1 - y, -excess)
    nll = concentration * divergence - logsigmoid(x) - logsigmoid(-x) - concentration.log() + HALF_LOG_2PI
    return nll + _remainders(concentration * mean, concentration * rest, concentration)


def _remainders(alpha: Tensor, beta: Tensor, total: Tensor) -> Tensor:
    """What is left of log B(α, β) when all that grows faster has been paired."""
    return log_factorial_remainder(alpha) + log_factorial_remainder(beta) - log_factorial_remainder(total)


def _log_ratio(log_mean: Tensor, y: Tensor, excess: Tensor) -> Tensor:
    """log(mean / y), by its excess over y where the difference of the logarithms would cancel."""
    near = excess.abs() < 0.5 * y
    return torch.where(near, torch.log1p(torch.where(near, excess, 0.0) / y), log_mean - y.log())


class Beta(Exact, td.Beta):
    """The Beta distribution of torch with ``cdf`` and ``icdf`` by SciPy, exact at any concentration.

    Args:
        concentration1: positive first parameter, often called alpha.
        concentration0: positive second parameter, often called beta.
        validate_args: whether parameters and values are checked; None (the default) follows torch's setting.

    >>> import torch
    >>> from likely.distributions import Beta
    >>> d = Beta(torch.tensor(2.0), torch.tensor(3.0))
    >>> d.cdf(torch.tensor(0.5)), d.icdf(torch.tensor(0.9))
    (tensor(0.6875), tensor(0.6795))
    """

    def _nll(self, value: Tensor) -> Tensor:
        logit = self.concentration1.log() - self.concentration0.log()
        total = self.concentration1 + self.concentration0
        return beta_nll(logit, value, concentration=total, **EACH)

    def entropy(self) -> Tensor:
        """The differential entropy.

        Returns:
            Entropies in nats, in the batch shape.
        """
        a, b = self._shapes()
        below, above, total = (log_minus_digamma(shape) for shape in (a, b, a + b))
        slopes = (a - 1) * (below - total) + (b - 1) * (above - total)
        return slopes + _remainders(a, b, a + b) + HALF_LOG_2PI - (a + b).log()

    def cdf(self, value: Tensor) -> Tensor:
        """P(X ≤ value), differentiable in the value and both parameters.

        Args:
            value: real numbers, of a shape that broadcasts with the batch.

        Returns:
            Probabilities, in the broadcast shape.
        """
        inside = value.clamp(0, 1)
        return cdf_by_scipy(_cdf, {0: self._density}, inside, *self._shapes())

    def icdf(self, value: Tensor) -> Tensor:
        """The quantile of a probability.

        Args:
            value: probabilities from 0 to 1, of a shape that broadcasts with the batch.

        Returns:
            Quantiles, in the broadcast shape.
        """
        return icdf_by_scipy(_icdf, _cdf, self._density, value, *self._shapes())

    def _shapes(self) -> tuple[Tensor, Tensor]:
        return self.concentration1, self.concentration0

    def _density(self, value: Tensor) -> Tensor:
        tiny = torch.finfo(value.dtype).eps
        return super()._density(value.clamp(tiny, 1 - tiny))


_cdf, _icdf = (lambda x, a, b: special.betainc(a, b, x)), (lambda p, a, b: special.betaincinv(a, b, p))


# From the variance m (1 - m) / (φ + 1) about a mean of m.
_CONCENTRATION = Moment(
    lambda ratio: (1 / ratio - 1).clamp(min=0.1),
    lambda mean, target: (target - mean).square(),
    lambda mean, target: mean * (1 - mean),
)


class BetaLoss(LikelihoodLoss, nll=beta_nll, family=Beta, concentration=Slot(Exp(), 2.0, start=_CONCENTRATION)):
    r"""The Beta likelihood of a share in (0, 1); ``prediction`` is the logit of its mean, the ``concentration`` learns.

    At a concentration of 2 a mean of one half gives the uniform distribution. Targets of 0 and 1 are
    refused: move all targets inside, for example by ``(y * (n - 1) + 0.5) / n`` for n rows.

    Args:
        concentration: positive concentration, which starts from the first training batch; the larger, the narrower: a
            number, which is fixed, or one of :class:`~likely.Fixed`, :class:`~likely.Global` (the default),
            :class:`~likely.Data` and :class:`~likely.Predicted`.
        reduction: ``"mean"``, ``"sum"`` or ``"none"`` (one value per element).
        full: whether :math:`\log y (1 - y)`, which does not depend on any parameter, is included. ``True`` (the
            default) gives minus a log density.
        multiplier: positive factor of the loss; the predictive distribution does not depend on it.
        validate_args: whether tensor values are checked; by default (None) on the CPU only, where that is cheap.

    See Also:
        :class:`~likely.BernoulliLoss`, :func:`~likely.functional.beta_nll` (the function).

    >>> import torch
    >>> from likely.losses import BetaLoss
    >>> BetaLoss()(torch.tensor([0.0, 1.0]), torch.tensor([0.4, 0.9]))
    tensor(-0.6854, grad_fn=<...>)
    """

    def _mean(self, prediction: Tensor) -> Tensor:
        return prediction.sigmoid()

    def distribution_of(self, prediction: Tensor, phi: Phi) -> Distribution:
        """The predictive distribution at given values of the parameters.

        Args:
            prediction: output of a model.
            phi: every parameter of the likelihood by name, as a tensor that broadcasts to the prediction.

        Returns:
            A :class:`torch.distributions.Distribution` with the prediction's shape as its batch.
        """
        shapes = (phi["concentration"] * torch.sigmoid(x) for x in (prediction, -prediction))
        return Beta(*(shape.clamp(min=torch.finfo(shape.dtype).tiny) for shape in shapes))


def _crps(distribution: Beta, y: Array) -> Array:
    """Jordan, Krüger & Lerch (2019), with the ratio of Beta functions in a form that no concentration harms."""
    a, b = (shape.numpy() for shape in distribution._shapes())
    mean, inside = a / (a + b), y.clip(0, 1)
    distance = y * (2 * special.betainc(a, b, inside) - 1) + mean * (1 - 2 * special.betainc(a + 1, b, inside))

    def together(times: float) -> Array:
        alpha, beta = (times * shape for shape in distribution._shapes())
        return _remainders(alpha, beta, alpha + beta).numpy()

    half = mean * b / (a + b) * np.exp(together(2) - 2 * together(1)) / math.sqrt(2 * math.pi)
    return distance - half


def _start(y: Array, weight: Array) -> Array:
    return special.logit(np.average(y, axis=0, weights=weight))


register(BetaLoss, support=constraints.unit_interval, crps=_crps, start=_start)
