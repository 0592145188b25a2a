r"""Negative log-likelihoods as pure functions: the one place where a density is written down.

Everything broadcasts. ``full=True`` keeps every constant, so that the result is minus a log density;
``full=False`` drops those that no parameter can move, as the paper writes them. Half precision is computed in
float32. ``validate_args`` (default: on the CPU only) looks at tensor values too. Where a fused kernel exists
(``likely.kernels``), it computes loss and gradients in one pass over memory.
"""

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from likely import kernels
from likely._partition import log_partition
from likely._rho import rho
from likely._softmax import linear_softmax_nll, softmax_nll
from likely._special import log1p_square, log_gamma_ratio
from likely._validation import (
    check_counts,
    check_floating,
    check_not_negative,
    check_positive,
    check_reduction,
    check_shares,
    prepare,
    promote,
    reduce,
)

__all__ = [
    "bernoulli_nll",
    "huber_log_partition",
    "huber_nll",
    "laplace_nll",
    "linear_softmax_nll",
    "negative_binomial_nll",
    "normal_nll",
    "poisson_nll",
    "robust_log_partition",
    "robust_nll",
    "robust_rho",
    "softmax_nll",
    "student_t_nll",
]

Value = Tensor | float

_HALF_LOG_2PI = 0.5 * math.log(2 * math.pi)


def normal_nll(
    prediction: Tensor,
    target: Tensor,
    *,
    scale: Value,
    reduction: str = "mean",
    full: bool = True,
    validate_args: bool | None = None,
) -> Tensor:
    r"""The normal likelihood: squared error whose scale is free to move.

    For a residual :math:`r` and scale :math:`\sigma > 0`,
    :math:`\ell = r^2 / 2\sigma^2 + \log\sigma + \tfrac12 \log 2\pi`. Holding :math:`\sigma = 1` gives back half
    the squared error; at a fixed residual the best scale is :math:`\sigma = |r|`.

    >>> import torch
    >>> from likely.functional import normal_nll
    >>> normal_nll(torch.zeros(2), torch.tensor([1.0, 3.0]), scale=2.0)
    tensor(2.2371)
    >>> normal_nll(torch.zeros(2), torch.tensor([1.0, 3.0]), scale=1.0, full=False)
    tensor(2.5000)
    """
    constant = _HALF_LOG_2PI if full else 0.0
    return _location_nll("normal", prediction, target, constant, reduction, validate_args, scale=scale)


def laplace_nll(
    prediction: Tensor,
    target: Tensor,
    *,
    scale: Value,
    reduction: str = "mean",
    full: bool = True,
    validate_args: bool | None = None,
) -> Tensor:
    r"""The Laplace likelihood: absolute error whose scale is free to move.

    For a residual :math:`r` and scale :math:`b > 0`, :math:`\ell = |r|/b + \log b + \log 2`. Holding
    :math:`b = 1` gives back the L1 loss; at a fixed residual the best scale is :math:`b = |r|`, so a free
    scale is what prices an outlier.

    >>> import torch
    >>> from likely.functional import laplace_nll
    >>> laplace_nll(torch.zeros(2), torch.tensor([1.0, 3.0]), scale=1.0, full=False)
    tensor(2.)
    """
    constant = math.log(2) if full else 0.0
    return _location_nll("laplace", prediction, target, constant, reduction, validate_args, scale=scale)


def student_t_nll(
    prediction: Tensor,
    target: Tensor,
    *,
    df: Value,
    scale: Value,
    reduction: str = "mean",
    full: bool = True,
    validate_args: bool | None = None,
) -> Tensor:
    r"""Student's t: a normal whose scale was itself drawn at random, so that outliers are expected.

    For :math:`z = r / \sigma` and :math:`\nu > 0` degrees of freedom,

    .. math:: \ell = \tfrac{\nu + 1}{2} \log(1 + z^2 / \nu) + \log \sigma + \tfrac12 \log 2\pi
              - \left(\log \frac{\Gamma((\nu+1)/2)}{\Gamma(\nu/2)} - \tfrac12 \log \tfrac{\nu}{2}\right).

    The last bracket falls to zero as :math:`\nu` grows and the normal is left; :math:`\nu = 1` is the Cauchy.

    >>> import torch
    >>> from likely.functional import normal_nll, student_t_nll
    >>> x, y = torch.zeros(2), torch.tensor([1.0, 30.0])
    >>> student_t_nll(x, y, df=1.0, scale=1.0), normal_nll(x, y, scale=1.0)
    (tensor(4.8931), tensor(226.1689))
    """
    constant = _HALF_LOG_2PI if full else 0.0
    return _location_nll("student_t", prediction, target, constant, reduction, validate_args, scale=scale, df=df)


def _normal(prediction: Tensor, target: Tensor, scale: Tensor) -> Tensor:
    return 0.5 * ((target - prediction) / scale).square() + scale.log()


def _laplace(prediction: Tensor, target: Tensor, scale: Tensor) -> Tensor:
    return (target - prediction).abs() / scale + scale.log()


def _student_t(prediction: Tensor, target: Tensor, scale: Tensor, df: Tensor) -> Tensor:
    z = (target - prediction) / scale
    return 0.5 * (df + 1) * log1p_square(z * df.rsqrt()) + scale.log() - log_gamma_ratio(0.5 * df, 0.5)


def _robust(prediction: Tensor, target: Tensor, scale: Tensor, alpha: Tensor) -> Tensor:
    return rho((target - prediction) / scale, alpha) + scale.log() + log_partition(alpha)


_LOCATION: dict[str, Callable[..., Tensor]] = {
    "normal": _normal,
    "laplace": _laplace,
    "student_t": _student_t,
    "robust": _robust,
}
kernels.PLAIN.update(_LOCATION)
_CHECKS = {"scale": check_positive, "df": check_positive, "alpha": check_not_negative}


def _location_nll(
    kind: str,
    prediction: Tensor,
    target: Tensor,
    constant: float,
    reduction: str,
    validate_args: bool | None,
    **parameters: Value,
) -> Tensor:
    """By one kernel where there is one, else by the formula above."""
    check_reduction(reduction)
    given = dict(parameters)

    def check() -> None:
        for name, value in given.items():
            _CHECKS[name](name, value, validate_args)

    if isinstance(prediction, Tensor):
        dtype = torch.promote_types(prediction.dtype, torch.float32)
        numbers = {k: v for k, v in parameters.items() if not isinstance(v, Tensor)}
        # Not by |=, which torch.compile did not know before 2.7.
        parameters = {**parameters, **{k: prediction.new_full((), v, dtype=dtype) for k, v in numbers.items()}}
    inputs: tuple[Any, ...] = (prediction, target, *parameters.values())
    fused = kernels.applies(*inputs)
    if fused and prediction.device.type == "cpu" and reduction != "none":
        total = kernels.location_nll(kind, *inputs, constant=constant, reduction=reduction)
        # A parameter out of range makes the sum infinite or NaN: only then is a pass over memory to find it well spent.
        if not math.isfinite(total.item()):
            check()
        return total
    check()
    if not fused:
        inputs = prepare(prediction, target, **parameters)
        fused = kernels.applies(*inputs)
    if fused:
        return kernels.location_nll(kind, *inputs, constant=constant, reduction=reduction)
    nll = _LOCATION[kind](*inputs)
    return reduce(nll + constant if constant else nll, reduction)


def huber_nll(
    prediction: Tensor,
    target: Tensor,
    *,
    scale: Value,
    delta: Value = 1.345,
    reduction: str = "mean",
    full: bool = True,
    validate_args: bool | None = None,
) -> Tensor:
    r"""Huber's least favourable density: normal within ``delta`` scales of the prediction, Laplace beyond.

    :math:`\ell = H_\delta(r/\sigma) + \log\sigma + \log Z(\delta)` with :math:`H_\delta(z) = z^2/2` up to
    :math:`|z| = \delta` and :math:`\delta(|z| - \delta/2)` after. At the default ``delta`` it keeps 95% of the
    normal's efficiency. Nothing here is constant, so ``full`` changes nothing.

    >>> import torch
    >>> from likely.functional import huber_nll
    >>> huber_nll(torch.zeros(2), torch.tensor([1.0, 10.0]), scale=1.0)
    tensor(7.5013)
    """
    check_positive("scale", scale, validate_args)
    check_positive("delta", delta, validate_args)
    prediction, target, scale, delta = prepare(prediction, target, scale=scale, delta=delta)
    size = ((target - prediction) / scale).abs()
    inner = torch.minimum(size, delta)
    nll = inner * (size - 0.5 * inner) + scale.log() + huber_log_partition(delta)
    return reduce(nll, reduction)


def huber_log_partition(delta: Tensor) -> Tensor:
    r"""log Z(δ) of Huber's density.

    :math:`Z = \sqrt{2\pi}\,\mathrm{erf}(\delta/\sqrt2) + \tfrac2\delta e^{-\delta^2/2}`, from Laplace to normal.

    >>> import torch
    >>> from likely.functional import huber_log_partition
    >>> huber_log_partition(torch.tensor([0.01, 100.0]))
    tensor([5.2984, 0.9189])
    """
    centre = math.sqrt(2 * math.pi) * torch.erf(delta / math.sqrt(2))
    return torch.log(centre + 2 / delta * torch.exp(-0.5 * delta.square()))


def robust_nll(
    prediction: Tensor,
    target: Tensor,
    *,
    alpha: Value,
    scale: Value,
    reduction: str = "mean",
    full: bool = True,
    validate_args: bool | None = None,
) -> Tensor:
    r"""Barron's robust likelihood: one family from the Cauchy (α = 0) over the normal (α = 2) to lighter tails.

    :math:`\ell = \rho(r, \alpha, \sigma) + \log\sigma + \log Z(\alpha)`. The partition function keeps the shape
    honest: without it α would always fall. It needs :math:`\alpha \ge 0`; below that :math:`Z` diverges.
    Nothing here is constant, so ``full`` changes nothing.

    >>> import torch
    >>> from likely.functional import robust_nll
    >>> x, y = torch.zeros(2), torch.tensor([1.0, 30.0])
    >>> robust_nll(x, y, alpha=2.0, scale=1.0), robust_nll(x, y, alpha=0.0, scale=1.0)
    (tensor(226.1689), tensor(4.7498))
    """
    return _location_nll("robust", prediction, target, 0.0, reduction, validate_args, scale=scale, alpha=alpha)


def robust_rho(residual: Tensor, *, alpha: Value, scale: Value = 1.0) -> Tensor:
    r"""Barron's general loss, without its partition function, for every real α and ±∞.

    .. math:: \rho(r, \alpha, \sigma) = \frac{|\alpha-2|}\alpha
              \left(\left(\frac{(r/\sigma)^2}{|\alpha-2|} + 1\right)^{\alpha/2} - 1\right)

    with its limits: :math:`\log(1 + z^2/2)` at 0, :math:`z^2/2` at 2, :math:`\pm(e^{\pm z^2/2} - 1)` at ±∞.

    >>> import torch
    >>> from likely.functional import robust_rho
    >>> robust_rho(torch.tensor(3.0), alpha=torch.tensor([-torch.inf, -2.0, 0.0, 1.0, 2.0]))
    tensor([0.9889, 1.3846, 1.7047, 2.1623, 4.5000])
    """
    check_floating("residual", residual)
    check_positive("scale", scale)
    residual, alpha, scale = promote(residual, alpha=alpha, scale=scale)
    return rho(residual / scale, alpha)


def robust_log_partition(alpha: Value) -> Tensor:
    r"""log Z(α) of the robust likelihood, :math:`Z(\alpha) = \int e^{-\rho(x, \alpha, 1)}\,dx`.

    Right to rounding on :math:`[0, \infty]`, with its gradient; +∞ below zero, where the integral diverges.

    >>> import torch
    >>> from likely.functional import robust_log_partition
    >>> robust_log_partition(torch.tensor([0.0, 2.0, torch.inf])).exp()
    tensor([4.4429, 2.5066, 2.0244])
    """
    (alpha,) = promote(torch.as_tensor(alpha, dtype=None if isinstance(alpha, Tensor) else torch.get_default_dtype()))
    return log_partition(alpha)


def bernoulli_nll(
    logits: Tensor,
    target: Tensor,
    *,
    temperature: Value,
    reduction: str = "mean",
    validate_args: bool | None = None,
) -> Tensor:
    r"""The Bernoulli likelihood of a logit: binary cross-entropy whose temperature is free to move.

    :math:`\ell = \log(1 + e^{z/T}) - y z / T`, for labels :math:`y` from 0 to 1. Others are refused on the CPU; on a
    GPU, where values are looked at under ``validate_args=True`` only, the formula is applied to them as it stands.

    >>> import torch
    >>> from likely.functional import bernoulli_nll
    >>> bernoulli_nll(torch.tensor([3.0, 3.0]), torch.tensor([1.0, 0.0]), temperature=2.0)
    tensor(0.9514)
    """
    check_floating("logits", logits)
    check_positive("temperature", temperature, validate_args)
    check_shares("target", target, validate_args)
    logits, target, temperature = prepare(logits, target, temperature=temperature)
    z = logits / temperature
    return reduce(torch.logaddexp(z, torch.zeros_like(z)) - target * z, reduction)


def poisson_nll(
    prediction: Tensor,
    target: Tensor,
    *,
    log_input: bool = True,
    reduction: str = "mean",
    full: bool = True,
    validate_args: bool | None = None,
) -> Tensor:
    r"""The Poisson likelihood of a count, from the logarithm of its rate (or the rate: ``log_input=False``).

    :math:`\ell = \mu - y \log\mu + \log y!`, with :math:`\Gamma(y + 1)` for :math:`y!` where a count is not whole.
    Negative counts are refused on the CPU; on a GPU, where values are looked at under ``validate_args=True`` only,
    the formula is applied to them as it stands.

    >>> import torch
    >>> from likely.functional import poisson_nll
    >>> poisson_nll(torch.tensor([0.0, 1.0]), torch.tensor([1.0, 3.0]))
    tensor(1.2550)
    """
    check_counts("target", target, validate_args)
    prediction, target = prepare(prediction, target)
    if log_input:
        nll = prediction.exp() - target * prediction
    else:
        check_not_negative("prediction", prediction, validate_args)
        nll = prediction - torch.xlogy(target, prediction)
    return reduce(nll + torch.lgamma(target + 1) if full else nll, reduction)


def negative_binomial_nll(
    prediction: Tensor,
    target: Tensor,
    *,
    dispersion: Value,
    log_input: bool = True,
    reduction: str = "mean",
    full: bool = True,
    validate_args: bool | None = None,
) -> Tensor:
    r"""The negative binomial: a Poisson count whose variance :math:`\mu + \kappa\mu^2` is free to exceed its mean.

    ``prediction`` is :math:`\log\mu` (or :math:`\mu`: ``log_input=False``) and ``dispersion`` is
    :math:`\kappa > 0`. As it falls to zero the Poisson is left, without loss of accuracy.

    >>> import torch
    >>> from likely.functional import negative_binomial_nll
    >>> negative_binomial_nll(torch.tensor([0.0, 1.0]), torch.tensor([1.0, 3.0]), dispersion=1e-6)
    tensor(1.2550)
    """
    check_counts("target", target, validate_args)
    check_positive("dispersion", dispersion, validate_args)
    prediction, target, dispersion = prepare(prediction, target, dispersion=dispersion)
    if log_input:
        log_mean_power, spread = target * prediction, prediction + dispersion.log()
    else:
        check_not_negative("prediction", prediction, validate_args)
        log_mean_power, spread = torch.xlogy(target, prediction), (prediction * dispersion).log()
    count = dispersion.reciprocal()
    nll = (count + target) * torch.logaddexp(spread, torch.zeros_like(spread)) - log_mean_power
    nll = nll - log_gamma_ratio(count, target)
    return reduce(nll + torch.lgamma(target + 1) if full else nll, reduction)
