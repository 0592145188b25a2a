"""What a likelihood is made of, and the registry that everything else reads.

A file of this package writes one likelihood down and registers it. Losses, distributions, scores, estimators, the
contract test and the reference find it there by name, so a new likelihood is one new file and one line in
``likelihoods/__init__.py``.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.distributions import Distribution, constraints

from likely._typing import Array
from likely.likelihoods._loss import LikelihoodLoss


@dataclass(frozen=True)
class Residuals:
    r"""What iteratively reweighted least squares asks of a symmetric density of :math:`z = r / \sigma`.

    Args:
        loss: :math:`\rho(z)`, the NLL less its constants, of ``(z, shape)``.
        weight: :math:`\rho'(z) / z`: what a row weighs in the least squares whose parabola touches the loss.
        deviation: standard deviation at scale one, of ``shape``; infinite where the tails are too heavy.
        shape: name of the shape parameter, such as ``"df"``; None where the density has none.
        start: shape to begin with.
        shapes: shapes to choose from where the shape is learned.
        largest: largest shape whose loss grows no faster than a parabola.
    """

    loss: Callable[[Array, float], Array]
    weight: Callable[[Array, float], Array]
    deviation: Callable[[float], float]
    shape: str | None = None
    start: float = 0.0
    shapes: tuple[float, ...] = ()
    largest: float = np.inf


@dataclass(frozen=True)
class Likelihood:
    """Everything about one likelihood.

    Args:
        loss: module whose parameters learn; it has the functional form and the distribution.
        support: where targets lie, one of ``torch.distributions.constraints``.
        crps: continuous ranked probability score of ``(distribution, y)`` in NumPy and float64; None for quadrature.
        start: constant prediction to begin with, of ``(y, weight)`` along the first axis; None where the target is
            shifted and scaled to standard units instead.
        residuals: what reweighting solvers ask, where the density is symmetric.
        parameter_axes: further axes of parameters that depend on the targets, such as one cut point per class.
    """

    loss: type[LikelihoodLoss]
    support: Any = constraints.real
    crps: Callable[[Any, Array], Array] | None = None
    start: Callable[[Array, Array], Array] | None = None
    residuals: Residuals | None = None
    parameter_axes: Callable[[Array], Mapping[str, tuple[int, ...]]] | None = None

    @property
    def nll(self) -> Callable[..., Tensor]:
        """The functional form, ``nll(prediction, target, **parameters)``."""
        return self.loss.nll

    @property
    def name(self) -> str:
        """What users call it, such as ``"student_t"`` for ``student_t_nll``."""
        return self.nll.__name__.removesuffix("_nll")

    @property
    def distribution(self) -> type[Distribution]:
        """The torch distribution of a prediction."""
        return self.loss.family

    def __str__(self) -> str:
        return self.name

    def __reduce__(self) -> tuple[Callable[[str], "Likelihood"], tuple[str]]:
        """Pickled by name, as a class is: the registry has the functions."""
        return _registered, (self.name,)

    def check_target(self, y: Array) -> None:
        """Refuse targets that this likelihood gives no probability.

        Args:
            y: targets of any shape.

        Raises:
            ValueError: a target lies outside the support.
        """
        inside = self.support.check(torch.as_tensor(y))
        if not bool(inside.all()):
            odd = torch.as_tensor(y)[~inside].flatten()[0].item()
            raise ValueError(
                f"the {self.name} likelihood is for targets in {self.support}, and y holds {odd:.6g}: choose another "
                "likelihood, or transform y"
            )


LIKELIHOODS: dict[str, Likelihood] = {}


def _registered(name: str) -> Likelihood:
    return LIKELIHOODS[name]


def register(loss: type[LikelihoodLoss], **parts: Any) -> Likelihood:
    """Add a likelihood to the registry.

    Args:
        loss: its loss module; the name of its functional form must be new.
        **parts: what else :class:`Likelihood` holds.

    Returns:
        Its record.
    """
    if not isinstance(loss, type) or not hasattr(loss, "nll") or not hasattr(loss, "family"):
        raise TypeError("register takes a loss class that names its nll and its family, and the rest by keyword")
    likelihood = Likelihood(loss, **parts)
    known = LIKELIHOODS.get(likelihood.name)
    if known and (known.loss.__module__, known.loss.__name__) != (loss.__module__, loss.__name__):  # or loaded again
        raise ValueError(
            f"there is a likelihood called {likelihood.name!r} already: give {loss.__name__} a functional form (nll=…) "
            "of another name"
        )
    LIKELIHOODS[likelihood.name] = likelihood
    return likelihood
