r"""Negative log-likelihoods as pure functions, one per file of :mod:`likely.likelihoods`.

Everything broadcasts. ``full=True`` keeps every constant, so that the result is minus a log density;
``full=False`` drops those that no parameter can move, as the paper writes them. Half precision is computed in
float32. ``validate_args`` (default: on the CPU only) looks at tensor values too. Where a fused kernel exists
(``likely.kernels``), it computes loss and gradients in one pass over memory.
"""

from types import FunctionType

from likely.likelihoods import *
from likely.likelihoods import exported

__all__ = exported(FunctionType)


def __dir__() -> list[str]:
    return __all__
