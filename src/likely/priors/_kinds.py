"""The normal, the Laplace, and the spike-and-slab prior."""

import math
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor, nn

from likely.constraints import Interval
from likely.functional import laplace_nll, normal_nll
from likely.parameters import Global
from likely.priors._base import Prior, Which

_SHARE = Interval(1e-4, 1 - 1e-4)  # its logarithms, and their slopes, stay finite


def _around_zero(nll: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """The negative log-prior of weights at a scale, by a likelihood."""

    def of_weights(weight: Tensor, scale: Tensor | float, **options: Any) -> Tensor:
        return nll(weight, torch.zeros_like(weight), scale=scale, validate_args=False, **options)

    return of_weights


_normal, _laplace = _around_zero(normal_nll), _around_zero(laplace_nll)


class NormalPrior(Prior):
    r"""Weight decay whose strength is learned: :math:`\theta \sim N(0, \sigma^2)` (the paper's D-Ridge).

    The best shared scale is :math:`\sigma^2 = \sum\theta^2/\gamma`, where γ is the number of directions that the data
    determines, not the number of weights.

    Args:
        model: module whose weights get the prior.
        per: which weights share a scale: ``"all"``, those of a ``"tensor"`` (the default), or none (``"element"``, one
            scale per weight).
        which: weights with the prior: a function ``(name, parameter) -> bool`` or a list of names; by default (None)
            all with two or more dimensions outside normalisation layers.
        method: how scales are learned: ``"evidence"`` (the default), or ``"map"``, the paper's joint minimum over
            weights and scales, which can collapse to zero.
        n: number of training rows, 1000 by default; the order of magnitude is enough.

    See Also:
        :class:`LaplacePrior`, which makes weights sparse.

    >>> import torch, likely
    >>> model = torch.nn.Linear(20, 1)
    >>> prior = likely.priors.NormalPrior(model, n=500)
    >>> optimizer = torch.optim.Adam([*model.parameters(), *prior.parameters()], lr=1e-2)
    >>> x, y = torch.randn(500, 20), torch.randn(500, 1)
    >>> loss = torch.nn.functional.mse_loss(model(x), y) + prior() / 500
    >>> loss.backward()
    >>> prior.scale["weight"].shape
    torch.Size([])
    """

    power = 2

    _nll = staticmethod(_normal)

    def _softened(self, weight: Tensor) -> Tensor:
        return torch.hypot(weight, torch.full_like(weight, self._epsilon(weight)))

    def _determined(self, spectrum: Tensor, scale: Tensor) -> Tensor:
        return spectrum * scale.square()


class LaplacePrior(Prior):
    r"""An L1 penalty whose strength is learned: :math:`\theta \sim \mathrm{Laplace}(0, b)` (the paper's D-LASSO).

    ``per="element"`` is the paper's M-LASSO: weights that matter get a wide scale and are hardly shrunk, the others
    tend to zero, and :meth:`~likely.priors.Prior.prune_` sets them to zero.

    Args:
        model: module whose weights get the prior.
        per: which weights share a scale: ``"all"``, those of a ``"tensor"`` (the default), or none (``"element"``, one
            scale per weight).
        which: weights with the prior: a function ``(name, parameter) -> bool`` or a list of names; by default (None)
            all with two or more dimensions outside normalisation layers.
        method: how scales are learned: ``"evidence"`` (the default), or ``"map"``, the paper's joint minimum over
            weights and scales, which can collapse to zero.
        n: number of training rows, 1000 by default; the order of magnitude is enough.

    See Also:
        :class:`NormalPrior`, :class:`SpikeSlabPrior`.

    >>> import torch, likely
    >>> model = torch.nn.Linear(20, 1)
    >>> prior = likely.priors.LaplacePrior(model, per="element", n=500)
    >>> prior.scale["weight"].shape
    torch.Size([1, 20])
    """

    power = 1

    _nll = staticmethod(_laplace)

    def _softened(self, weight: Tensor) -> Tensor:
        return weight.abs() + self._epsilon(weight)

    def _determined(self, spectrum: Tensor, scale: Tensor) -> Tensor:
        # The evidence of a weight that is zero is erfcx(1 / (b √(2e))) · √(π / 2e) / b, and 1 / (1 + √π x) ≈ erfcx(x).
        return scale * (spectrum * (2 / math.pi)).sqrt()


class SpikeSlabPrior(Prior):
    r"""Each weight is zero or normal: :math:`(1-\pi)\,\mathrm{Laplace}(0, ε) + \pi\,N(0, \sigma^2)`.

    The share π of weights in the slab and the slab's σ are learned. The spike does not learn, and the slab stays wider
    than the spike, so that the prior cannot collapse. Standardise inputs and targets: the width of the spike, .04 over
    the root of the number of inputs, is meant for them.

    Args:
        model: module whose weights get the prior.
        per: which weights share a scale: ``"all"``, or those of a ``"tensor"`` (the default).
        which: weights with the prior: a function ``(name, parameter) -> bool`` or a list of names; by default (None)
            all with two or more dimensions outside normalisation layers.
        method: weight of the prior: with ``"evidence"`` (the default) each weight counts by the information that the
            data has about it; with ``"map"`` each counts fully.
        n: number of training rows, 1000 by default; the order of magnitude is enough.

    Raises:
        ValueError: an option is unknown, or ``per="element"``.

    See Also:
        :class:`LaplacePrior`.

    >>> import torch, likely
    >>> prior = likely.priors.SpikeSlabPrior(torch.nn.Linear(20, 1), n=500)
    >>> [name for name, _ in prior.named_parameters()]
    ['scales.0.raw', 'inclusions.0.raw']
    >>> prior.inclusion()["weight"].shape
    torch.Size([1, 20])
    """

    power = 2

    def __init__(
        self,
        model: nn.Module,
        *,
        per: str = "tensor",
        which: Which = None,
        method: str = "evidence",
        n: int = 1000,
    ) -> None:
        if per == "element":
            raise ValueError("a spike and slab already decides for every weight: use per='tensor' or 'all'")
        super().__init__(model, per=per, which=which, n=n)
        if method not in ("evidence", "map"):
            raise ValueError(f"method must be 'evidence' or 'map'; got {method!r}")
        self.method = method
        inclusions = [Global(init=0.5, constraint=_SHARE) for _ in self.scales]
        self.inclusions = nn.ModuleList(inclusions).to(self._scales()[0].raw)

    @property
    def scale(self) -> dict[str, Tensor]:
        """The slab's scale for every weight tensor, by name."""
        return {name: value + self._epsilon(self.weights[name]) for name, value in self._spread(self._scales()).items()}

    @torch.no_grad()
    def inclusion(self) -> dict[str, Tensor]:
        """The probability that each weight comes from the slab.

        Returns:
            One tensor per weight tensor, by name, in its shape.
        """
        return {name: (slab - spike).sigmoid() for name, (spike, slab) in self._log_densities()}

    @torch.no_grad()
    def fit_(self) -> None:
        """One step of expectation-maximisation."""
        weights, included = self.weights, self.inclusion()
        for group, scale, share in zip(self._groups(), self._scales(), self._shares(), strict=True):
            mass = torch.cat([included[name].flatten() for name in group])
            squares = torch.cat([weights[name].to(mass).square().flatten() for name in group])
            wide = (mass * squares).sum() / mass.sum().clamp(min=1e-6)
            narrow = max(self._epsilon(weights[name]) for name in group)
            sound = wide.isfinite()  # weights that are NaN leave the scale unchanged
            scale.raw.copy_(torch.where(sound, (wide.sqrt() - narrow).clamp(min=narrow).log(), scale.raw))
            share.raw.copy_(torch.where(sound, _SHARE.inv(mass.mean().clamp(1e-3, 1 - 1e-3)), share.raw))

    @property
    def _by_evidence(self) -> bool:
        return False

    def _shared_terms(self) -> Iterator[Tensor]:
        weights = self.weights
        for name, (spike, slab) in self._log_densities():
            share = 1.0 if self.method == "map" else self._share(weights[name])
            yield -share * torch.logaddexp(spike, slab).sum()

    def _log_densities(self) -> Iterator[tuple[str, tuple[Tensor, Tensor]]]:
        weights, shares = self.weights, self._spread(self._shares())
        for name, slab in self.scale.items():
            weight, share = weights[name], shares[name]
            spike_nll = _laplace(weight, self._epsilon(weight), reduction="none")
            yield name, ((-share).log1p() - spike_nll, share.log() - _normal(weight, slab, reduction="none"))

    def _shares(self) -> list[Global]:
        return [share for share in self.inclusions if isinstance(share, Global)]

    def _is_zero(self, name: str, weight: Tensor) -> Tensor:
        return self.inclusion()[name] < 0.5
