"""Every likelihood of the registry, with what is known about it from elsewhere: the rows of the contract.

A likelihood that is registered is a row with its parameters near their starts; ``KNOWN`` adds references.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import torch
from scipy import stats
from torch import Tensor, distributions as td

import likely
from likely.likelihoods import LIKELIHOODS as REGISTRY

Value = float | tuple[float, ...]  # numbers on a further last axis, where a parameter has one


@dataclass(frozen=True)
class Likelihood:
    name: str
    nll: Callable[..., Tensor]
    loss: Callable[..., likely.LikelihoodLoss]
    phi: dict[str, Value]  # an interior value of every parameter
    support: str = "real"  # real, positive, unit, angle, count, binary, class or ordered
    reference: Callable[..., Any] | None = None  # (prediction, **phi) -> torch's own distribution, or SciPy's
    best: Callable[[Tensor], float] | None = None  # residuals -> the constant scale that fits them best
    plain: Callable[[Tensor, Tensor], Tensor] | None = None  # the familiar loss at phi = 1, constants apart
    options: dict[str, Any] = field(default_factory=dict)

    def draw(self, *shape: int, dtype: torch.dtype = torch.float64) -> tuple[Tensor, Tensor]:
        """A prediction and a target of this likelihood's kind."""
        prediction = torch.randn(*shape, dtype=dtype)
        if self.support == "class":
            outer = shape[:1] + shape[2:] if len(shape) > 1 else ()
            return prediction, torch.randint(0, shape[min(1, len(shape) - 1)], outer)
        if self.support == "binary":
            return prediction, torch.randint(0, 2, shape).to(dtype)
        if self.support == "count":
            return prediction, torch.poisson(2 * torch.rand(*shape)).to(dtype)
        if self.support == "real":
            return prediction, prediction + 1.5 * torch.randn(*shape, dtype=dtype)
        phi = {name: full((), value) for name, value in self.phi.items()}
        drawn = self.loss(**phi, validate_args=False).distribution(prediction.double()).sample().to(dtype)
        # A share that half precision rounds to 0 or 1 has no Beta density.
        return prediction, drawn.clamp(0.02, 0.98) if self.support == "unit" else drawn

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class OfScipy:
    """A distribution of SciPy that can be asked as those of torch are."""

    frozen: Any

    def log_prob(self, value: Tensor) -> Tensor:
        return torch.as_tensor(self.frozen.logpdf(value.numpy()))


def axes(value: Value) -> tuple[int, ...]:
    """The further axes of a parameter's value."""
    return (len(value),) if isinstance(value, tuple) else ()


def full(shape: Any, value: Value, dtype: torch.dtype = torch.float64) -> Tensor:
    """``torch.full``, with the value's own axes last."""
    return torch.tensor(value, dtype=dtype).expand((*shape, *axes(value))).clone()


class Inflated:
    """A count that is zero with a probability of its own, by the plain formula."""

    def __init__(self, base: td.Distribution, inflation: float) -> None:
        self.base, self.inflation = base, inflation

    def log_prob(self, y: Tensor) -> Tensor:
        return (self.inflation * (y == 0) + (1 - self.inflation) * self.base.log_prob(y).exp()).log()


class TwoPieceT:
    """Student's t with a scale on either side of its mode, by the plain formula."""

    def __init__(self, loc: Tensor, df: float, skew: float, scale: float) -> None:
        self.loc, self.df, self.below, self.above = loc, df, scale * math.exp(-skew), scale * math.exp(skew)

    def log_prob(self, y: Tensor) -> Tensor:
        residual = (y - self.loc).numpy()
        side = np.where(residual < 0, self.below, self.above)
        return torch.as_tensor(stats.t.logpdf(residual / side, self.df) + math.log(2 / (self.below + self.above)))


def mean_of(f: Callable[[Tensor], Tensor]) -> Callable[[Tensor], float]:
    return lambda residual: f(residual).mean().item()


# By the constraint that targets satisfy, where the distribution does not tell.
SUPPORTS = {"Real": "real", "GreaterThan": "positive", "GreaterThanEq": "positive", "IntegerGreaterThan": "count"}
BY_NAME = {"softmax": "class", "bernoulli": "binary", "beta": "unit", "von_mises": "angle", "ordinal": "ordered"}

# name -> one or several rows: parameters inside their ranges, references, and the familiar loss.
KNOWN: dict[str, list[dict[str, Any]]] = {
    "normal": [
        {
            "phi": {"scale": 0.7},
            "reference": lambda x, scale: td.Normal(x, scale),
            "best": lambda r: r.square().mean().sqrt().item(),
            "plain": lambda x, y: 0.5 * (x - y).square(),
        }
    ],
    "laplace": [
        {
            "phi": {"scale": 0.7},
            "reference": lambda x, scale: td.Laplace(x, scale),
            "best": mean_of(torch.abs),
            "plain": lambda x, y: (x - y).abs(),
        }
    ],
    "student_t": [{"phi": {"df": 2.5, "scale": 0.7}, "reference": lambda x, df, scale: td.StudentT(df, x, scale)}],
    "skew_student_t": [
        {
            "phi": {"df": 2.5, "skew": 0.4, "scale": 0.7},
            "reference": lambda x, df, skew, scale: TwoPieceT(x, df, skew, scale),
        },
        {
            "name": "skew_student_t_left",
            "phi": {"df": 6.0, "skew": -1.3, "scale": 0.7},
            "reference": lambda x, df, skew, scale: TwoPieceT(x, df, skew, scale),
        },
    ],
    "huber": [
        {
            "phi": {"delta": 1.345, "scale": 0.7},
            "plain": lambda x, y: torch.nn.functional.huber_loss(x, y, reduction="none", delta=1.345),
        }
    ],
    "robust": [
        {"phi": {"alpha": 1.3, "scale": 0.7}},
        {"name": "robust_heavy", "phi": {"alpha": 0.4, "scale": 0.7}},
        {"name": "robust_light", "phi": {"alpha": 2.7, "scale": 0.7}},
    ],
    "logistic": [
        {
            "phi": {"scale": 0.7},
            "reference": lambda x, scale: OfScipy(stats.logistic(x.numpy(), scale)),
            "plain": lambda x, y: 2 * torch.log(torch.cosh(0.5 * (x - y))),
        }
    ],
    "asymmetric_laplace": [
        {
            "phi": {"quantile": 0.3, "scale": 0.7},
            "reference": lambda x, quantile, scale: OfScipy(
                stats.laplace_asymmetric(
                    (quantile / (1 - quantile)) ** 0.5, x.numpy(), scale / (quantile * (1 - quantile)) ** 0.5
                )
            ),
            "plain": lambda x, y: torch.maximum(0.3 * (y - x), 0.7 * (x - y)),
        }
    ],
    "gamma": [
        {
            "phi": {"concentration": 2.5},
            "reference": lambda x, concentration: td.Gamma(concentration, concentration / x.exp()),
            "plain": lambda x, y: x + y / x.exp(),
        }
    ],
    "log_normal": [
        {
            "phi": {"scale": 0.7},
            "reference": lambda x, scale: td.LogNormal(x, scale),
            "plain": lambda x, y: 0.5 * (x - y.log()).square() + y.log(),
        }
    ],
    "softmax": [
        {
            "phi": {"temperature": 1.7},
            "reference": lambda x, temperature: td.Categorical(logits=x.movedim(1, -1) / temperature),
            "plain": lambda x, y: torch.nn.functional.cross_entropy(x, y, reduction="none"),
        }
    ],
    "bernoulli": [
        {
            "phi": {"temperature": 1.7},
            "reference": lambda x, temperature: td.Bernoulli(logits=x / temperature),
            "plain": lambda x, y: torch.nn.functional.binary_cross_entropy_with_logits(x, y, reduction="none"),
        }
    ],
    "poisson": [
        {
            "reference": lambda x: td.Poisson(x.exp()),
            "plain": lambda x, y: torch.nn.functional.poisson_nll_loss(x, y, reduction="none") + torch.lgamma(y + 1),
        }
    ],
    "negative_binomial": [
        {
            "phi": {"dispersion": 0.6},
            "reference": lambda x, dispersion: td.NegativeBinomial(
                1 / torch.tensor(dispersion), logits=x + torch.tensor(dispersion).log()
            ),
        }
    ],
    "von_mises": [
        {
            "phi": {"concentration": 2.3},
            "reference": lambda x, concentration: td.VonMises(x, torch.tensor(concentration, dtype=x.dtype)),
        }
    ],
    "beta": [
        {
            "phi": {"concentration": 5.0},
            "reference": lambda x, concentration: td.Beta(concentration * x.sigmoid(), concentration * (-x).sigmoid()),
        }
    ],
    "ordinal": [
        {
            "loss": partial(likely.losses.OrdinalLoss, classes=4),
            "phi": {"cutpoints": (-1.2, 0.1, 2.0)},
            "reference": lambda x, cutpoints: td.Categorical(
                probs=torch.sigmoid(torch.tensor((*cutpoints, math.inf)) - x[..., None]).diff(
                    prepend=torch.zeros(*x.shape, 1)
                )
            ),
        }
    ],
    "zero_inflated_poisson": [
        {"phi": {"inflation": 0.3}, "reference": lambda x, inflation: Inflated(td.Poisson(x.exp()), inflation)}
    ],
    "zero_inflated_negative_binomial": [
        {
            "phi": {"dispersion": 0.6, "inflation": 0.3},
            "reference": lambda x, dispersion, inflation: Inflated(
                td.NegativeBinomial(torch.tensor(1 / dispersion), logits=x + math.log(dispersion)), inflation
            ),
        }
    ],
}


def rows(name: str) -> list[Likelihood]:
    record = REGISTRY[name]
    support = BY_NAME.get(name) or SUPPORTS[type(record.support).__name__.lstrip("_")]
    starts = {slot: 0.9 * description.init for slot, description in record.loss.slots.items()}
    common = {"name": name, "nll": record.nll, "loss": record.loss, "phi": starts, "support": support}
    return [Likelihood(**{**common, **known}) for known in KNOWN.get(name, [{}])]


LIKELIHOODS = [row for name in REGISTRY for row in rows(name)]
