"""Zero-inflated counts: zero with some probability, otherwise Poisson or negative binomial."""

from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor
from torch.distributions import Distribution, constraints

from likely._validation import check_counts, check_shares
from likely.constraints import Interval
from likely.likelihoods._distribution import EACH, Array, Exact, OfForm
from likely.likelihoods._form import Value, functional_form
from likely.likelihoods._loss import Phi
from likely.likelihoods._record import LIKELIHOODS, register
from likely.likelihoods.negative_binomial import (
    NegativeBinomial,
    NegativeBinomialLoss,
    count_and_logits,
    negative_binomial_nll,
)
from likely.likelihoods.poisson import Poisson, RateLoss, log_factorial, log_mean, poisson_nll
from likely.parameters._slot import Slot

__all__ = [
    "ZeroInflatedNegativeBinomial",
    "ZeroInflatedNegativeBinomialLoss",
    "ZeroInflatedPoisson",
    "ZeroInflatedPoissonLoss",
    "zero_inflated_negative_binomial_nll",
    "zero_inflated_poisson_nll",
]
INFLATION = Slot(Interval(0, 1), 0.1)
_EACH: dict[str, Any] = {**EACH, "full": False}


def _check_share(name: str, value: Value, validate_args: bool | None) -> None:
    if isinstance(value, Tensor):
        check_shares(name, value, validate_args)
    elif not 0 <= value <= 1:
        raise ValueError(f"{name} must lie in [0, 1], got {value}")


@functional_form(constant=log_factorial, double=True, target=check_counts, inflation=_check_share)
def zero_inflated_poisson_nll(
    prediction: Tensor, target: Tensor, *, inflation: Value, log_input: bool = True
) -> Tensor:
    r"""Negative log-likelihood of a count that is zero with probability ``inflation``, and else Poisson.

    With :math:`\pi` for the inflation, :math:`P(0) = \pi + (1 - \pi) e^{-\mu}` and
    :math:`P(y) = (1 - \pi) e^{-\mu} \mu^y / y!` above. ``prediction`` is :math:`\log\mu` (or :math:`\mu`:
    ``log_input=False``), the mean of the Poisson part.

    Args:
        prediction: logarithms of means, or the means under ``log_input=False``; any shape.
        target: counts ≥ 0, which need not be whole, of a shape that broadcasts with the prediction's.
        inflation: share of the further zeros, from 0 to 1: a number, or a tensor that broadcasts to the prediction.
        log_input: whether predictions are logarithms of means; with ``False`` they are the means.
        reduction: ``"mean"`` (the default), ``"sum"`` or ``"none"``.
        full: whether terms that do not depend on any parameter are included; ``True`` by default.
        validate_args: whether tensor values are checked; by default (None) on the CPU only.

    Returns:
        A scalar, or one value per element under ``reduction="none"``.

    Raises:
        ValueError: shapes do not broadcast, a value is out of range, or the reduction is unknown.

    See Also:
        :class:`~likely.ZeroInflatedPoissonLoss`, the module with parameters that learn.

    >>> import torch
    >>> from likely.functional import zero_inflated_poisson_nll
    >>> zero_inflated_poisson_nll(torch.tensor([0.0, 1.0]), torch.tensor([0.0, 3.0]), inflation=0.5)
    tensor(1.2915)
    """
    return _inflated(poisson_nll(prediction, target, log_input=log_input, **_EACH), target, inflation)


@functional_form(constant=log_factorial, double=True, target=check_counts, inflation=_check_share)
def zero_inflated_negative_binomial_nll(
    prediction: Tensor,
    target: Tensor,
    *,
    dispersion: Value,
    inflation: Value,
    log_input: bool = True,
) -> Tensor:
    r"""Negative log-likelihood of a count that is zero with some probability, and else negative binomial.

    The count is zero with probability ``inflation``; otherwise it has mean :math:`\mu` and variance :math:`\mu +
    \kappa\mu^2`, where ``prediction`` is :math:`\log\mu` (or :math:`\mu`: ``log_input=False``) and ``dispersion`` is
    :math:`\kappa > 0`.

    Args:
        prediction: logarithms of means, or the means under ``log_input=False``; any shape.
        target: counts ≥ 0, which need not be whole, of a shape that broadcasts with the prediction's.
        dispersion: positive dispersion: a number, or a tensor that broadcasts to the prediction.
        inflation: share of the further zeros, from 0 to 1: a number, or a tensor that broadcasts to the prediction.
        log_input: whether predictions are logarithms of means; with ``False`` they are the means.
        reduction: ``"mean"`` (the default), ``"sum"`` or ``"none"``.
        full: whether terms that do not depend on any parameter are included; ``True`` by default.
        validate_args: whether tensor values are checked; by default (None) on the CPU only.

    Returns:
        A scalar, or one value per element under ``reduction="none"``.

    Raises:
        ValueError: shapes do not broadcast, a value is out of range, or the reduction is unknown.

    See Also:
        :class:`~likely.ZeroInflatedNegativeBinomialLoss`, the module with parameters that learn.

    >>> import torch
    >>> from likely.functional import zero_inflated_negative_binomial_nll
    >>> x, y = torch.tensor([0.0, 1.0]), torch.tensor([0.0, 3.0])
    >>> zero_inflated_negative_binomial_nll(x, y, dispersion=1e-6, inflation=0.5)
    tensor(1.2915)
    """
    nll = negative_binomial_nll(prediction, target, dispersion=dispersion, log_input=log_input, **_EACH)
    return _inflated(nll, target, inflation)


def _inflated(nll: Tensor, target: Tensor, inflation: Tensor) -> Tensor:
    """-log(π [y = 0] + (1 - π) e^-nll), in whichever form does not cancel."""
    zero = target == 0
    # What a branch does not use is replaced by something harmless: its slope may be infinite.
    above = nll - torch.log1p(-torch.where(zero, 0.0, inflation))
    none = torch.where(zero, nll, 0.0)
    # torch takes expm1(x) + 1 for the slope of expm1, which cancels.
    more = torch.where(none > 1, 1 - torch.exp(-none), -torch.expm1(-none.clamp(max=1)))
    likely_zero = (1 - inflation) * more <= 0.5
    near = -torch.log1p((torch.where(likely_zero, inflation, 1.0) - 1) * more)
    share = torch.where(likely_zero, 0.5, inflation)
    reason = share.clamp(min=torch.finfo(share.dtype).tiny).log()
    count = torch.log1p(-share) - none
    far = -torch.where(share > 0, torch.logaddexp(reason, count), count)
    return torch.where(zero, torch.where(likely_zero, near, far), above)


class _ZeroInflated(OfForm):
    """A count that is zero with a probability of its own, and otherwise follows ``base``."""

    arg_constraints: ClassVar = {"inflation": constraints.unit_interval}
    support = constraints.nonnegative_integer

    def __init__(self, base: Exact, inflation: Any, validate_args: bool | None) -> None:
        self.inflation = torch.as_tensor(inflation, dtype=base.mean.dtype, device=base.mean.device)
        shape = torch.broadcast_shapes(base.batch_shape, self.inflation.shape)
        self.base, self.inflation = base.expand(shape), self.inflation.expand(shape)
        super().__init__(shape, validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        """The same distribution with parameters expanded to a larger batch.

        Args:
            batch_shape: the new batch shape, to which the old one broadcasts.
            _instance: for internal use by torch.

        Returns:
            A new distribution of the same class.
        """
        new = super().expand(batch_shape, _instance)
        new.base = self.base.expand(batch_shape)
        return new

    @property
    def mean(self) -> Tensor:
        """The mean, zeros of either kind included."""
        return (1 - self.inflation) * self.base.mean

    @property
    def variance(self) -> Tensor:
        """The variance."""
        return (1 - self.inflation) * (self.base.variance + self.inflation * self.base.mean.square())

    def _nll(self, value: Tensor) -> Tensor:
        return _inflated(self.base._nll(value), value, self.inflation)

    def cdf(self, value: Tensor) -> Tensor:
        """P(X ≤ value).

        Args:
            value: real numbers, of a shape that broadcasts with the batch.

        Returns:
            Probabilities, in the broadcast shape.
        """
        return torch.where(value < 0, 0.0, self.inflation + (1 - self.inflation) * self.base.cdf(value))

    def icdf(self, value: Tensor) -> Tensor:
        """The smallest count with at least this probability at or below it.

        Args:
            value: probabilities from 0 to 1, of a shape that broadcasts with the batch.

        Returns:
            Counts, in the broadcast shape.
        """
        # In single precision the share would lose what is left of a probability near 1.
        value, share = value.double(), self.inflation.double()
        count = self.base.icdf(((value - share) / (1 - share)).clamp(0, 1)).clamp(min=0)
        count = torch.where(self.cdf(count - 1) >= value, count - 1, count)  # the share above was rounded
        return torch.where(self.cdf(count) < value, count + 1, count).clamp(min=0).to(self.inflation)

    def sample(self, sample_shape: Any = ()) -> Tensor:
        """Draw counts, without gradients.

        Args:
            sample_shape: shape of independent draws, () by default.

        Returns:
            Counts, in the shape ``sample_shape + batch_shape``.
        """
        with torch.no_grad():
            count = self.base.sample(sample_shape)
            return torch.where(torch.rand_like(count) < self.inflation, 0.0, count)


class ZeroInflatedPoisson(_ZeroInflated):
    """The distribution of a count that is zero with probability ``inflation``, and otherwise Poisson.

    Args:
        rate: mean of the Poisson part.
        inflation: probability of the additional zeros, from 0 to 1.
        validate_args: whether parameters and values are checked; None (the default) follows torch's setting.

    >>> import torch
    >>> from likely.distributions import ZeroInflatedPoisson
    >>> d = ZeroInflatedPoisson(torch.tensor(3.0), 0.5)
    >>> d.mean, d.cdf(torch.tensor(0.0)), d.icdf(torch.tensor(0.9))
    (tensor(1.5000), tensor(0.5249), tensor(4.))
    """

    def __init__(self, rate: Tensor, inflation: Tensor | float, validate_args: bool | None = None) -> None:
        super().__init__(Poisson(rate, validate_args), inflation, validate_args)


class ZeroInflatedNegativeBinomial(_ZeroInflated):
    """The distribution of a count that is zero with probability ``inflation``, and otherwise negative binomial.

    Args:
        total_count: number of failures of the negative binomial part.
        logits: log odds of success of that part.
        inflation: probability of the additional zeros, from 0 to 1.
        validate_args: whether parameters and values are checked; None (the default) follows torch's setting.

    >>> import torch
    >>> from likely.distributions import ZeroInflatedNegativeBinomial
    >>> d = ZeroInflatedNegativeBinomial(torch.tensor(2.0), torch.tensor(0.5), 0.5)
    >>> d.mean, d.cdf(torch.tensor(0.0)), d.icdf(torch.tensor(0.9))
    (tensor(1.6487), tensor(0.5713), tensor(5.))
    """

    def __init__(
        self, total_count: Tensor, logits: Tensor, inflation: Tensor | float, validate_args: bool | None = None
    ) -> None:
        base = NegativeBinomial(total_count, logits=logits, validate_args=validate_args)
        super().__init__(base, inflation, validate_args)


class ZeroInflatedPoissonLoss(RateLoss, nll=zero_inflated_poisson_nll, family=ZeroInflatedPoisson, inflation=INFLATION):
    r"""The zero-inflated Poisson likelihood of a count; the ``inflation``, the share of additional zeros, learns.

    Args:
        inflation: share of the further zeros, starting at 0.1: a number, which is fixed, or one of
            :class:`~likely.Fixed`, :class:`~likely.Global` (the default), :class:`~likely.Data` and
            :class:`~likely.Predicted`.
        log_input: whether predictions are logarithms of means; with ``False`` they are the means.
        eps: added to the mean under ``log_input=False``, so that a mean of zero has a finite loss; 0 by default.
        reduction: ``"mean"``, ``"sum"`` or ``"none"`` (one value per element).
        full: whether constants that do not depend on any parameter are included. ``True`` (the default) gives minus a
            log density; ``False`` leaves them out, as the losses of ``torch.nn`` do.
        multiplier: positive factor of the loss; the predictive distribution does not depend on it.
        validate_args: whether tensor values are checked; by default (None) on the CPU only, where that is cheap.

    See Also:
        :class:`~likely.PoissonLoss`, :class:`~likely.ZeroInflatedNegativeBinomialLoss`,
        :func:`~likely.functional.zero_inflated_poisson_nll` (the function).

    >>> import torch
    >>> from likely.losses import ZeroInflatedPoissonLoss
    >>> loss_fn = ZeroInflatedPoissonLoss()
    >>> loss_fn.distribution(torch.tensor([2.0])).mean
    tensor([6.6502], grad_fn=<MulBackward0>)
    """

    def distribution_of(self, prediction: Tensor, phi: Phi) -> Distribution:
        """The predictive distribution at given values of the parameters.

        Args:
            prediction: output of a model.
            phi: every parameter of the likelihood by name, as a tensor that broadcasts to the prediction.

        Returns:
            A :class:`torch.distributions.Distribution` with the prediction's shape as its batch.
        """
        return ZeroInflatedPoisson(self._rate(prediction), phi["inflation"])


class ZeroInflatedNegativeBinomialLoss(
    RateLoss,
    nll=zero_inflated_negative_binomial_nll,
    family=ZeroInflatedNegativeBinomial,
    **NegativeBinomialLoss.slots,
    inflation=INFLATION,
):
    r"""The zero-inflated negative binomial likelihood of a count; the ``dispersion`` and the ``inflation`` learn.

    Args:
        dispersion: positive dispersion κ, which starts from the first training batch: a number, which is fixed, or one
            of :class:`~likely.Fixed`, :class:`~likely.Global` (the default), :class:`~likely.Data` and
            :class:`~likely.Predicted`.
        inflation: share of the further zeros, starting at 0.1: a number, which is fixed, or one of
            :class:`~likely.Fixed`, :class:`~likely.Global` (the default), :class:`~likely.Data` and
            :class:`~likely.Predicted`.
        log_input: whether predictions are logarithms of means; with ``False`` they are the means.
        eps: added to the mean under ``log_input=False``, so that a mean of zero has a finite loss; 0 by default.
        reduction: ``"mean"``, ``"sum"`` or ``"none"`` (one value per element).
        full: whether constants that do not depend on any parameter are included. ``True`` (the default) gives minus a
            log density; ``False`` leaves them out, as the losses of ``torch.nn`` do.
        multiplier: positive factor of the loss; the predictive distribution does not depend on it.
        validate_args: whether tensor values are checked; by default (None) on the CPU only, where that is cheap.

    See Also:
        :class:`~likely.NegativeBinomialLoss`, :class:`~likely.ZeroInflatedPoissonLoss`,
        :func:`~likely.functional.zero_inflated_negative_binomial_nll` (the function).

    >>> import torch
    >>> from likely.losses import ZeroInflatedNegativeBinomialLoss
    >>> loss_fn = ZeroInflatedNegativeBinomialLoss()
    >>> loss_fn.distribution(torch.tensor([2.0])).mean
    tensor([6.6502], grad_fn=<MulBackward0>)
    """

    def distribution_of(self, prediction: Tensor, phi: Phi) -> Distribution:
        """The predictive distribution at given values of the parameters.

        Args:
            prediction: output of a model.
            phi: every parameter of the likelihood by name, as a tensor that broadcasts to the prediction.

        Returns:
            A :class:`torch.distributions.Distribution` with the prediction's shape as its batch.
        """
        parts = count_and_logits(self._rate(prediction), phi["dispersion"])
        return ZeroInflatedNegativeBinomial(*parts, phi["inflation"])


def _crps(distribution: _ZeroInflated, y: Array) -> Array:
    """π|y| + (1 - π)(C(y) - π C(0)) for the base's score C, because C(0) = E B - ½E|B - B'|."""
    base = "poisson" if isinstance(distribution.base, Poisson) else "negative_binomial"
    score, share = LIKELIHOODS[base].crps, distribution.inflation.numpy()
    assert score is not None
    at_zero = score(distribution.base, np.zeros_like(y))
    return share * np.abs(y) + (1 - share) * (score(distribution.base, y) - share * at_zero)


for _loss in (ZeroInflatedPoissonLoss, ZeroInflatedNegativeBinomialLoss):
    register(_loss, support=constraints.nonnegative_integer, crps=_crps, start=log_mean)
