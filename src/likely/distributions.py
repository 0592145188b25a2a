r"""Distributions of likelihoods that torch lacks, or has without a CDF or quantiles."""

from torch.distributions import Distribution

from likely.likelihoods import *
from likely.likelihoods import exported

__all__ = exported(Distribution)


def __dir__() -> list[str]:
    return __all__
