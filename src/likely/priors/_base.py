"""The base class of priors: the weights, their scales, and the two objectives."""

import copy
import math
import warnings
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any, ClassVar

import torch
from torch import Tensor, distributed, nn
from torch.distributions.transforms import ExpTransform
from torch.nn.parameter import is_lazy

from likely._solvers.ridge import settled_log_scale
from likely._validation import check_positive, may_look
from likely.parameters import Global

Which = Callable[[str, nn.Parameter], bool] | Iterable[str] | None


def select(model: nn.Module, which: Which) -> list[str]:
    """Names of the chosen parameters, a shared one once."""
    if not isinstance(model, nn.Module):
        raise TypeError(f"model must be an nn.Module, got {type(model).__name__}")
    named = dict(model.named_parameters())
    lazy = [name for name, parameter in named.items() if is_lazy(parameter)]
    if lazy:
        raise ValueError(f"{', '.join(lazy)} have no shape yet: run the model once before giving it a prior")
    if isinstance(which, str):
        raise TypeError(f"which must be a list of names, got the string {which!r}")
    if callable(which):
        chosen = [name for name, parameter in named.items() if which(name, parameter)]
    elif which is not None:
        every = dict(model.named_parameters(remove_duplicate=False))
        wanted = list(which)
        missing = [name for name in wanted if name not in every]
        if missing:
            raise ValueError(f"the model has no parameter {', '.join(missing)}; it has {', '.join(named)}")
        chosen = list({id(every[name]): name for name in reversed(wanted)}.values())[::-1]
    else:
        norms = {id(p) for m in model.modules() if "Norm" in type(m).__name__ for p in m.parameters(recurse=False)}
        chosen = [name for name, p in named.items() if p.ndim >= 2 and p.requires_grad and id(p) not in norms]
    if not chosen:
        raise ValueError(
            "no parameter is selected: by default a prior applies to parameters that have two or more dimensions, "
            "require gradients and lie outside normalisation layers; select others by which="
        )
    whole = [name for name in chosen if not model.get_parameter(name).is_floating_point()]
    if whole:
        raise TypeError(f"{', '.join(whole)} must be floating point to have a prior")
    return chosen


def fan_in(weight: Tensor) -> int:
    """The number of inputs per output of a weight tensor; 1 for a bias."""
    return max(1, weight.numel() // weight.shape[0]) if weight.ndim > 1 else 1


_DIRECTIONS = 1024  # rows that `observe` uses: it bounds the cost and the number of directions
_LATE = (
    "in the units of these rows the prior was too narrow, and has held the weights near zero: call observe before the "
    "first step, or standardise inputs and targets"
)
_COLLAPSED = 0.03  # of the initial scale, which is reached only in a collapse


class Prior(nn.Module):
    """Base class of the priors: calling one returns the negative log-prior of a model's weights.

    ``prior.parameters()`` are the scales, not the weights. Pass them to the optimizer without weight decay.

    Args:
        model: module whose weights get the prior.
        per: which weights share a scale: ``"all"``, those of a ``"tensor"`` (the default), or none (``"element"``, one
            scale per weight, which takes inputs and targets to be standardised).
        which: weights with the prior: a function ``(name, parameter) -> bool`` or a list of names; by default (None)
            all with two or more dimensions outside normalisation layers.
        method: how scales are learned: ``"evidence"`` (the default), or ``"map"``, the paper's joint minimum over
            weights and scales, which can collapse to zero.
        n: number of training rows, 1000 by default; the order of magnitude is enough.

    Attributes:
        scales: one :class:`~likely.Global` per shared scale.

    Raises:
        ValueError: an option is unknown, or no weight is selected.

    See Also:
        :class:`NormalPrior`, :class:`LaplacePrior`, :class:`SpikeSlabPrior`.

    >>> import torch, likely
    >>> from likely.priors import NormalPrior
    >>> model = torch.nn.Sequential(torch.nn.Linear(3, 8), torch.nn.LayerNorm(8), torch.nn.Linear(8, 1))
    >>> prior = NormalPrior(model)
    >>> list(prior.scale), [name for name, _ in prior.named_parameters()]
    (['0.weight', '2.weight'], ['scales.0.raw', 'scales.1.raw'])
    """

    power: ClassVar[int]
    spectrum: Tensor
    observed: Tensor
    _nll: Callable[..., Tensor]  # of weights at a scale
    _softened: Callable[[Tensor], Tensor]  # the size of a weight under the hyperprior: never below ε
    # The ratio of the prior's width to that of the likelihood in each direction of a spectrum, to the ``power``.
    _determined: Callable[[Tensor, Tensor], Tensor]

    def __init__(
        self,
        model: nn.Module,
        *,
        per: str = "tensor",
        which: Which = None,
        method: str = "evidence",
        n: int = 1000,
    ) -> None:
        super().__init__()
        if type(self) is Prior:
            raise TypeError("use NormalPrior, LaplacePrior or SpikeSlabPrior")
        if per not in ("all", "tensor", "element"):
            raise ValueError(f"per must be 'all', 'tensor' or 'element'; got {per!r}")
        if method not in ("evidence", "map"):
            raise ValueError(f"method must be 'evidence' or 'map'; got {method!r}")
        check_positive("n", n)
        self.per, self.method, self.n = per, method, n
        self._model = (model,)  # in a tuple, so that the model's parameters are not registered here too
        self._names = tuple(select(model, which))
        self._warned = method != "map"
        weights = self.weights
        first = next(iter(weights.values()))
        kind = torch.empty(0, dtype=torch.promote_types(first.dtype, torch.float32), device=first.device)
        shapes = [weight.shape for weight in weights.values()] if per == "element" else [()] * len(self._groups())
        self.scales = nn.ModuleList(Global(tuple(s), init=1.0, constraint=ExpTransform()) for s in shapes).to(kind)
        # Until rows are observed, the information about each input direction is that of n standardised rows.
        known = [sum(fan_in(weights[name]) for name in group) for group in self._groups()]
        spectrum = torch.tensor([[float(n)] * min(k, _DIRECTIONS) + [0.0] * (_DIRECTIONS - k) for k in known])
        self.register_buffer("spectrum", spectrum.to(kind) if self._by_evidence else torch.empty(0))
        self.register_buffer("observed", torch.tensor(False))
        # The evidence starts from wide scales: narrow ones would hold the weights near zero from the start.
        if method == "map":
            self.fit_()
        self._start = [float(s.value.detach().mean()) for s in self._scales()] if method == "map" else []

    @property
    def weights(self) -> dict[str, nn.Parameter]:
        """The model's parameters that have this prior, by name."""
        return {name: self._model[0].get_parameter(name) for name in self._names}

    @property
    def scale(self) -> dict[str, Tensor]:
        """The scale of every weight tensor, by name, with gradient."""
        return self._spread(self._scales())

    def forward(self) -> Tensor:
        """Compute the negative log-prior of the weights; divide it by the number of rows and add it to a mean loss.

        Returns:
            A scalar, in nats.
        """
        terms = list(self._element_terms() if self.per == "element" else self._shared_terms())
        if not self._warned:
            self._warn_of_collapse()
        return torch.stack(terms).sum()

    def _shared_terms(self) -> Iterator[Tensor]:
        weights = self.weights
        for i, (group, scale) in enumerate(zip(self._groups(), self._scales(), strict=True)):
            value, count = scale.value, sum(weights[name].numel() for name in group)
            for name in group:
                yield self._nll(weights[name], value, reduction="sum", full=not self._by_evidence)
            if self._by_evidence:
                yield torch.log1p(self._determined(self.spectrum[i], value)).sum() / self.power - count * value.log()

    def _element_terms(self) -> Iterator[Tensor]:
        exact = self.method == "map"
        for weight, scale in zip(self.weights.values(), self._scales(), strict=True):
            wide = weight.to(torch.promote_types(weight.dtype, torch.float32))
            size, share = (wide, 1.0) if exact else (self._softened(wide), self._share(wide))
            yield share * self._nll(size, scale.value, reduction="sum", full=exact)

    @torch.no_grad()
    def fit_(self) -> None:
        """Set every scale to its optimum for the present weights, in closed form or by a few fixed-point steps."""
        every = self.weights
        for i, (group, scale) in enumerate(zip(self._groups(), self._scales(), strict=True)):
            weights = [every[name].to(scale.raw.dtype) for name in group]
            log_scale = self._best_log_scale(weights, scale.raw, i)
            # Weights that are all zero, or NaN, do not determine their scale, which is left unchanged.
            scale.raw.copy_(torch.where(log_scale.isfinite(), log_scale, scale.raw))

    def _best_log_scale(self, weights: list[Tensor], log_scale: Tensor, index: int) -> Tensor:
        if self.per == "element":
            size = weights[0].abs() if self.method == "map" else self._softened(weights[0]).abs()
            return size.clamp(min=torch.finfo(size.dtype).tiny).log()
        total = torch.stack([weight.abs().pow(self.power).sum() for weight in weights]).sum()
        if self._by_evidence:
            return settled_log_scale(log_scale, total, partial(self._determined, self.spectrum[index]), self.power)
        return (total / sum(weight.numel() for weight in weights)).log() / self.power

    def observe(self, rows: Tensor, n: int | None = None) -> None:
        """Estimate from the losses of some rows how many directions the data determines, then fit the shared scales.

        Call it before the first step, from which the prior learns the units of the data, and then once in ten epochs.
        Under DDP every process must call it. It has no effect on the scales under
        ``per="element"`` and ``method="map"``.

        Args:
            rows: unreduced losses of one batch, with gradient. The first 1024 are used, each at the cost of a backward
                pass and a copy of the weights; more rows determine more directions.
            n: number of training rows; by default (None) that of the constructor.

        Raises:
            ValueError: a loss or its gradient is not finite, or there are no rows.

        >>> import torch, likely
        >>> _ = torch.manual_seed(0)
        >>> model = torch.nn.Linear(50, 1)
        >>> prior = likely.priors.NormalPrior(model, n=40)
        >>> x = torch.randn(40, 50)
        >>> prior.observe(likely.NormalLoss(reduction="none")(model(x), x[:, :1]), n=40)
        >>> int((prior.spectrum > 1e-3).sum())  # 40 rows determine 40 of 50 directions
        40
        """
        n = self.n if n is None else n
        check_positive("n", n)
        if not self._by_evidence:
            self.n = n
            return
        spectrum = self._information(rows.flatten()[:_DIRECTIONS], n)
        if distributed.is_available() and distributed.is_initialized():
            distributed.all_reduce(spectrum)
            spectrum /= distributed.get_world_size()
        self.n = n
        self.spectrum.copy_(spectrum)
        before = [scale.raw.detach().clone() for scale in self._scales()]
        self.fit_()
        with torch.no_grad():  # by a factor of e at most, because the weights have yet to follow
            for scale, old, known in zip(self._scales(), before, spectrum, strict=True):
                most = self._determined(known.max(), old.exp())
                if not self.observed and 0 < most < 1:
                    # In the units of the data this scale is too narrow for the weights to show what it should be.
                    scale.raw.copy_(old + (n**0.5 / most ** (1 / self.power)).log())
                    if old.any():  # it has been trained
                        warnings.warn(_LATE, UserWarning, stacklevel=2)
                else:
                    scale.raw.copy_(torch.clamp(scale.raw, old - 1, old + 1))
            self.observed.fill_(True)

    def _information(self, losses: Tensor, n: int) -> Tensor:
        """The eigenvalues of the rows' Gram matrix of gradients per group: the Fisher information of n such rows."""
        weights = self.weights
        one_hot = torch.eye(len(losses), dtype=losses.dtype, device=losses.device)
        gradients = torch.autograd.grad(
            losses, list(weights.values()), one_hot, retain_graph=True, allow_unused=True, is_grads_batched=True
        )
        by_name = {name: g.flatten(1) for name, g in zip(weights, gradients, strict=True) if g is not None}
        if not len(losses) or not all(bool(gradient.isfinite().all()) for gradient in by_name.values()):
            raise ValueError("rows must be finite losses with finite gradients, at least one: leave out the others")
        spectrum = torch.zeros_like(self.spectrum)
        for values, group in zip(spectrum, self._groups(), strict=True):
            parts = [by_name[name].to(values) for name in group if name in by_name]
            if parts:
                gradient = torch.cat(parts, dim=1)
                gram = gradient @ gradient.T if len(gradient) <= gradient.shape[1] else gradient.T @ gradient
                values[: len(gram)] = torch.linalg.eigvalsh(gram.double()).clamp(min=0) * (n / len(losses))
        return spectrum

    @torch.no_grad()
    def weight_decay(self, n: int | None = None) -> dict[str, Tensor]:
        r"""The equivalent fixed penalty: λ of :math:`\frac\lambda2\theta^2` or :math:`\lambda|\theta|`.

        For a normal prior it is torch's ``weight_decay`` for a loss that is the mean of ``n`` terms.

        Args:
            n: number of terms in the mean; by default (None) the number of training rows.

        Returns:
            One tensor per weight tensor, by name. It is a scalar or, under ``per="element"``, has one value per weight.

        >>> import torch, likely
        >>> prior = likely.priors.NormalPrior(torch.nn.Linear(3, 1), method="map")
        >>> prior.scales[0].raw.data.fill_(0.5).exp()
        tensor(1.6487)
        >>> prior.weight_decay(n=100)
        {'weight': tensor(0.0037)}
        """
        weights = self.weights
        softened = self.per == "element" and self.method == "evidence"
        return {
            name: (self._share(weights[name]) if softened else 1.0) / (value**self.power * (n or self.n))
            for name, value in self.scale.items()
        }

    @torch.no_grad()
    def prune_(self, threshold: float | None = None) -> float:
        """Set to zero, in place, the weights that the prior has shrunk to zero, or those below a threshold.

        Args:
            threshold: size below which weights are set to zero. By default (None) the prior decides: with
                ``per="element"`` weights below the ε of the hyperprior, which is less than a tenth of the usual initial
                size; for a :class:`SpikeSlabPrior` those more likely from the spike.

        Returns:
            The fraction of weights that are zero.

        Raises:
            ValueError: scales are shared, and there is no threshold.

        >>> import torch, likely
        >>> prior = likely.priors.LaplacePrior(torch.nn.Linear(64, 10), per="element")
        >>> 0 < prior.prune_() < 0.2
        True
        """
        zeros = total = 0
        for name, weight in self.weights.items():
            if threshold is None:
                weight.masked_fill_(self._is_zero(name, weight), 0.0)
            else:
                weight.masked_fill_(weight.abs() < threshold, 0.0)
            zeros, total = zeros + int((weight == 0).sum()), total + weight.numel()
        return zeros / total

    def extra_repr(self) -> str:
        """Show the options in ``repr``.

        Returns:
            ``name=value`` pairs, separated by commas.
        """
        return f"{len(self._names)} tensors, per={self.per!r}, method={self.method!r}, n={self.n}"

    @property
    def _by_evidence(self) -> bool:
        return self.per != "element" and self.method == "evidence"

    def _scales(self) -> list[Global]:
        return [scale for scale in self.scales if isinstance(scale, Global)]

    def _spread(self, parameters: list[Global]) -> dict[str, Tensor]:
        """The values of parameters, one per group, under the names of the weights."""
        values = [parameter.value for parameter in parameters]
        return dict(zip(self._names, values * len(self._names) if self.per == "all" else values, strict=True))

    def _groups(self) -> list[tuple[str, ...]]:
        return [self._names] if self.per == "all" else [(name,) for name in self._names]

    def _epsilon(self, weight: Tensor) -> float:
        return 0.04 / math.sqrt(fan_in(weight))

    def _share(self, weight: Tensor) -> float:
        """The factor of a weight's penalty at which the gradient at zero (share / ε) is the universal threshold.

        The information of a row about a layer is divided among its outputs: n / outputs per weight.
        """
        total = sum(w.numel() for w in self.weights.values())
        information = self.n * fan_in(weight) / weight.numel()
        return self._epsilon(weight) * math.sqrt(2 * information * math.log(max(total, 2)))

    def _is_zero(self, name: str, weight: Tensor) -> Tensor:
        if self.per != "element":
            raise ValueError("a shared scale does not show which weights are zero: give a threshold, or per='element'")
        return weight.abs() < self._epsilon(weight)

    def _warn_of_collapse(self) -> None:
        for (name, value), start in zip(self.scale.items(), self._start * len(self._names), strict=False):
            if not may_look(value, None):
                return
            middle = float(value.detach().median())
            if middle < _COLLAPSED * start:
                self._warned = True
                warnings.warn(
                    f"{type(self).__name__} collapses: the scale of {name} has fallen from {start:.3g} to {middle:.3g} "
                    "and the weights with it, because method='map' has no lower bound; use method='evidence'",
                    UserWarning,
                    stacklevel=4,
                )
                return

    def __deepcopy__(self, memo: dict[int, Any]) -> "Prior":
        if id(self._model[0]) not in memo:
            raise RuntimeError(
                "a prior belongs to its model: copy both at once, the model first, as in copy.deepcopy((model, prior))"
            )
        new = type(self).__new__(type(self))
        memo[id(self)] = new
        new.__dict__.update(copy.deepcopy(self.__dict__, memo))
        return new
