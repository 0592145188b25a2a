"""Every likelihood once, with what is known about it from elsewhere: the rows of the contract."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from torch import distributions as td

import likely
from likely import functional as F


@dataclass(frozen=True)
class Likelihood:
    name: str
    nll: Callable[..., Tensor]
    loss: type[likely.LikelihoodLoss]
    phi: dict[str, float]  # an interior value of every parameter
    support: str = "real"  # real, count, class or binary
    reference: Callable[..., td.Distribution] | None = None  # (prediction, **phi) -> torch's own distribution
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
        return prediction, prediction + 1.5 * torch.randn(*shape, dtype=dtype)

    def __str__(self) -> str:
        return self.name


def mean_of(f: Callable[[Tensor], Tensor]) -> Callable[[Tensor], float]:
    return lambda residual: f(residual).mean().item()


LIKELIHOODS = [
    Likelihood(
        "normal",
        F.normal_nll,
        likely.NormalLoss,
        {"scale": 0.7},
        reference=lambda x, scale: td.Normal(x, scale),
        best=lambda r: r.square().mean().sqrt().item(),
        plain=lambda x, y: 0.5 * (x - y).square(),
    ),
    Likelihood(
        "laplace",
        F.laplace_nll,
        likely.LaplaceLoss,
        {"scale": 0.7},
        reference=lambda x, scale: td.Laplace(x, scale),
        best=mean_of(torch.abs),
        plain=lambda x, y: (x - y).abs(),
    ),
    Likelihood(
        "student_t",
        F.student_t_nll,
        likely.StudentTLoss,
        {"df": 2.5, "scale": 0.7},
        reference=lambda x, df, scale: td.StudentT(df, x, scale),
    ),
    Likelihood(
        "huber",
        F.huber_nll,
        likely.HuberLoss,
        {"delta": 1.345, "scale": 0.7},
        plain=lambda x, y: torch.nn.functional.huber_loss(x, y, reduction="none", delta=1.345),
    ),
    Likelihood("robust", F.robust_nll, likely.RobustLoss, {"alpha": 1.3, "scale": 0.7}),
    Likelihood("robust_heavy", F.robust_nll, likely.RobustLoss, {"alpha": 0.4, "scale": 0.7}),
    Likelihood("robust_light", F.robust_nll, likely.RobustLoss, {"alpha": 2.7, "scale": 0.7}),
    Likelihood(
        "softmax",
        F.softmax_nll,
        likely.SoftmaxLoss,
        {"temperature": 1.7},
        support="class",
        reference=lambda x, temperature: td.Categorical(logits=x.movedim(1, -1) / temperature),
        plain=lambda x, y: torch.nn.functional.cross_entropy(x, y, reduction="none"),
    ),
    Likelihood(
        "bernoulli",
        F.bernoulli_nll,
        likely.BernoulliLoss,
        {"temperature": 1.7},
        support="binary",
        reference=lambda x, temperature: td.Bernoulli(logits=x / temperature),
        plain=lambda x, y: torch.nn.functional.binary_cross_entropy_with_logits(x, y, reduction="none"),
    ),
    Likelihood(
        "poisson",
        F.poisson_nll,
        likely.PoissonLoss,
        {},
        support="count",
        reference=lambda x: td.Poisson(x.exp()),
        plain=lambda x, y: torch.nn.functional.poisson_nll_loss(x, y, reduction="none") + torch.lgamma(y + 1),
    ),
    Likelihood(
        "negative_binomial",
        F.negative_binomial_nll,
        likely.NegativeBinomialLoss,
        {"dispersion": 0.6},
        support="count",
        reference=lambda x, dispersion: td.NegativeBinomial(
            1 / torch.tensor(dispersion), logits=x + torch.tensor(dispersion).log()
        ),
    ),
]
