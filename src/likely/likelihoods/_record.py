"""The record of a likelihood, and the registry of all likelihoods.

Each file of this package defines one likelihood and registers it. Losses, distributions, scores, estimators, the
contract test and the reference look it up by name, so a new likelihood is one new file and one line in
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
    r"""Functions of a symmetric density of :math:`z = r / \sigma` for iteratively reweighted least squares.

    Args:
        loss: :math:`\rho(z)`, the NLL without its constants, as a function of ``(z, shape)``.
        weight: :math:`\rho'(z) / z`, the weight of a row in the least-squares problem, as a function of ``(z, shape)``.
        deviation: standard deviation at scale one as a function of ``shape``; infinite where the tails are too heavy.
        shape: name of the shape parameter, such as ``"df"``; None (the default) if the density has none.
        start: initial shape.
        shapes: candidate values where the shape is learned.
        largest: largest shape whose loss grows no faster than a parabola; infinite by default.

    >>> from likely.likelihoods import LIKELIHOODS
    >>> residuals = LIKELIHOODS["student_t"].residuals
    >>> residuals.shape, residuals.weight(10.0, 4.0)
    ('df', 0.04807692307692308)
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
    """One likelihood: its loss, functional form, distribution, score and starting values.

    Args:
        loss: loss class; it names the functional form and the distribution.
        support: set of possible targets, one of ``torch.distributions.constraints``; real numbers by default.
        crps: continuous ranked probability score as a function of ``(distribution, y)`` in NumPy and float64; None (the
            default) computes it by quadrature.
        start: initial constant prediction as a function of ``(y, weight)``, along the first axis; None (the default)
            standardises the target instead.
        residuals: functions for reweighting solvers, where the density is symmetric; None by default.
        parameter_axes: function of the targets that returns additional axes of parameters by name, such as one cut
            point per class; None by default.

    >>> from likely.likelihoods import LIKELIHOODS
    >>> likelihood = LIKELIHOODS["gamma"]
    >>> likelihood.name, likelihood.loss.__name__, likelihood.support
    ('gamma', 'GammaLoss', GreaterThan(lower_bound=0.0))
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
        """The name in the registry, such as ``"student_t"`` for ``student_t_nll``."""
        return self.nll.__name__.removesuffix("_nll")

    @property
    def distribution(self) -> type[Distribution]:
        """The torch distribution of a prediction."""
        return self.loss.family

    def __str__(self) -> str:
        return self.name

    def __reduce__(self) -> tuple[Callable[[str], "Likelihood"], tuple[str]]:
        """Pickled by name, as a class is; the functions are looked up in the registry."""
        return _registered, (self.name,)

    def check_target(self, y: Array) -> None:
        """Raise an error if a target lies outside the support.

        Args:
            y: targets of any shape.

        Raises:
            ValueError: a target lies outside the support.
        """
        inside = self.support.check(torch.as_tensor(y))
        if not bool(inside.all()):
            outside = torch.as_tensor(y)[~inside].flatten()[0].item()
            raise ValueError(
                f"the {self.name} likelihood is for targets in {self.support}, and y holds {outside:.6g}: choose "
                "another likelihood, or transform y"
            )


LIKELIHOODS: dict[str, Likelihood] = {}


def _registered(name: str) -> Likelihood:
    return LIKELIHOODS[name]


def register(loss: type[LikelihoodLoss], **parts: Any) -> Likelihood:
    """Add a likelihood to the registry.

    Args:
        loss: loss class; the name of its functional form must be new.
        **parts: further fields of :class:`Likelihood` by name: ``support``, ``crps``, ``start``, ``residuals`` and
            ``parameter_axes``.

    Returns:
        The record, a :class:`Likelihood`.

    Raises:
        TypeError: ``loss`` is not a loss class with a functional form and a distribution.
        ValueError: another likelihood has the same name.

    >>> import torch
    >>> from likely.likelihoods import LIKELIHOODS, LikelihoodLoss, functional_form, register
    >>> @functional_form()
    ... def unit_nll(prediction, target):
    ...     return 0.5 * (target - prediction) ** 2
    >>> class UnitLoss(LikelihoodLoss, nll=unit_nll, family=torch.distributions.Normal):
    ...     pass
    >>> register(UnitLoss).name
    'unit'
    >>> del LIKELIHOODS["unit"]
    """
    if not isinstance(loss, type) or not hasattr(loss, "nll") or not hasattr(loss, "family"):
        raise TypeError("register takes a loss class that names its nll and its family, and the rest by keyword")
    likelihood = Likelihood(loss, **parts)
    other = LIKELIHOODS.get(likelihood.name)
    if other and (other.loss.__module__, other.loss.__name__) != (loss.__module__, loss.__name__):  # not a reload
        raise ValueError(
            f"there is a likelihood called {likelihood.name!r} already: give {loss.__name__} a functional form (nll=…) "
            "of another name"
        )
    LIKELIHOODS[likelihood.name] = likelihood
    return likelihood
