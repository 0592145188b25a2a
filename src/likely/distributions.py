r"""Distributions that torch does not have, or has without a CDF or quantiles."""

from torch.distributions import Distribution

from likely.likelihoods import *
from likely.likelihoods import exported

__all__ = exported(Distribution)


def __dir__() -> list[str]:
    return __all__
