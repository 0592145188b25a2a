"""A distribution whose CDF is transformed by a monotone map."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import torch
from torch import Tensor
from torch.distributions import Distribution, Laplace, Normal, constraints

from likely.distributions import StudentT


class Recalibrated(Distribution):
    r"""A location-scale distribution whose CDF F is transformed by a monotone map R: its CDF is :math:`R(F(y))`.

    R is linear between its ``levels`` at even knots of [0, 1], so the density :math:`R'(F(y))\,f(y)` is positive
    wherever f is, tails included, and quantiles are exact.

    Args:
        base: the distribution of CDF F.
        levels: values of R at even knots, rising from 0 to 1, shape (k,).
        validate_args: whether torch checks values; None for torch's default.

    Example:
        >>> import torch
        >>> from likely.calibration import Recalibrated
        >>> skewed = Recalibrated(torch.distributions.Normal(0.0, 1.0), torch.tensor([0.0, 0.2, 1.0]))
        >>> skewed.cdf(torch.tensor(0.0))                            # a fifth below the old median
        tensor(0.2000)
        >>> skewed.icdf(torch.tensor(0.2)).abs() < 1e-6
        tensor(True)
        >>> skewed.mean
        tensor(0.4787)

    See Also:
        :class:`IsotonicScale`, which learns the levels.
    """

    arg_constraints: dict[str, constraints.Constraint] = {}  # noqa: RUF012 (torch's own spelling)
    support = constraints.real

    def __init__(self, base: Normal | Laplace | StudentT, levels: Tensor, validate_args: bool | None = None) -> None:
        self.base, self.levels = base, levels
        super().__init__(base.batch_shape, validate_args=validate_args)

    def cdf(self, value: Tensor) -> Tensor:
        """Return :math:`R(F(y))`.

        Args:
            value: numbers y that broadcast with the batch shape.

        Returns:
            Tensor of probabilities.
        """
        position, bin = self._locate(self.base.cdf(value))
        return torch.lerp(self.levels[bin], self.levels[bin + 1], position - bin)

    def icdf(self, value: Tensor) -> Tensor:
        """Return the quantile at each probability.

        Args:
            value: probabilities that broadcast with the batch shape.

        Returns:
            Tensor of quantiles.
        """
        return self.base.icdf(self._straight(torch.as_tensor(value).to(self.levels)))

    def log_prob(self, value: Tensor) -> Tensor:
        r"""Return the log density, :math:`\log f(y) + \log R'(F(y))`.

        Args:
            value: numbers y that broadcast with the batch shape.

        Returns:
            Tensor of log densities.
        """
        _, bin = self._locate(self.base.cdf(value))
        slope = self.levels.diff() * (len(self.levels) - 1)
        base: Tensor = self.base.log_prob(value)
        return base + slope.log()[bin]

    def sample(self, sample_shape: Any = ()) -> Tensor:
        """Draw samples by the inverse CDF.

        Args:
            sample_shape: shape of the samples per distribution.

        Returns:
            Tensor of shape ``sample_shape`` + batch shape.
        """
        shape = self._extended_shape(torch.Size(sample_shape))
        draws = self._straight(torch.rand(shape, dtype=self.levels.dtype, device=self.levels.device))
        # Away from 0 and 1, whose quantiles are infinite.
        tiny = torch.finfo(draws.dtype).eps
        return self.base.icdf(draws.clamp(tiny, 1 - tiny))

    def expand(self, batch_shape: Any, _instance: Any = None) -> Recalibrated:
        """Return the same distribution over a larger batch.

        Args:
            batch_shape: the new batch shape.
            _instance: not used.

        Returns:
            The expanded distribution.
        """
        return Recalibrated(self.base.expand(torch.Size(batch_shape)), self.levels)

    @property
    def mean(self) -> Tensor:
        """The mean, location plus scale times that of the standardised distribution."""
        return self.base.loc + self.base.scale * self._moments[0]

    @property
    def variance(self) -> Tensor:
        """The variance, squared scale times that of the standardised distribution."""
        return self.base.scale.square() * self._moments[1]

    @cached_property
    def _moments(self) -> tuple[float, float]:
        r"""Mean and variance of z = (y - loc) / scale, by the partial moments of the base up to each knot.

        With :math:`A(z) = \int_{-\infty}^z t f(t)\,dt`, the second one is :math:`z A(z) - \int A`: closed forms all.
        """
        if not isinstance(self.base, Normal | Laplace | StudentT):
            raise NotImplementedError(f"moments are known for Normal, Laplace and likely's StudentT, not {self.base}")
        levels = self.levels.double().cpu()
        df = self.base.df.flatten()[:1].double().cpu() if isinstance(self.base, StudentT) else levels.new_zeros(1)
        place = torch.zeros_like(df), torch.ones_like(df)
        standard: Any = StudentT(df, *place) if isinstance(self.base, StudentT) else type(self.base)(*place)
        shares = torch.linspace(0, 1, len(levels), dtype=torch.float64)[1:-1]
        z = standard.icdf(shares)
        density = standard.log_prob(z).exp()
        if isinstance(self.base, StudentT):
            first = -(df + z.square()) / (df - 1) * density if df > 1 else torch.full_like(z, torch.nan)
            # With two degrees of freedom or fewer the last part, beyond all knots, is infinite whatever these are.
            second = ((df - 1) * z * first + df * shares) / (df - 2).clamp(min=1e-9)
        elif isinstance(self.base, Laplace):
            first = -(1 + z.abs()) * density
            second = z * first + shares + torch.where(z < 0, -first, 1 + first)
        else:
            first, second = -density, shares - z * density
        ends = torch.stack([place[0], standard.variance])
        partial = torch.cat([torch.zeros_like(ends), torch.stack([first, second]), ends], dim=1)
        slope = levels.diff() * (len(levels) - 1)
        mean, square = ((partial.diff() * slope).sum(1) / (levels[-1] - levels[0])).tolist()
        return mean, square - mean**2

    def _straight(self, level: Tensor) -> Tensor:
        """Return the inverse of R."""
        bin = torch.searchsorted(self.levels, level.contiguous(), right=True).sub(1).clamp(0, len(self.levels) - 2)
        below, mass = self.levels[bin], self.levels[bin + 1] - self.levels[bin]
        inside = torch.where(mass > 0, (level - below) / mass, 0.5)
        return (bin + inside) / (len(self.levels) - 1)

    def _locate(self, probability: Tensor) -> tuple[Tensor, Tensor]:
        position = probability * (len(self.levels) - 1)
        return position, position.floor().long().clamp(0, len(self.levels) - 2)
