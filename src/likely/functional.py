r"""Negative log-likelihoods as pure functions, one per file of :mod:`likely.likelihoods`.

Predictions, targets and parameters broadcast. ``reduction`` is ``"mean"``, ``"sum"`` or ``"none"``. ``full=True``
includes every constant, so that the result is minus a log density; ``full=False`` drops the terms that do not depend on
any parameter, as the paper does. ``validate_args`` checks tensor values too; by default this is done on the CPU only.
Half precision is computed in float32. Where a fused kernel exists, it computes loss and gradients in one pass over
memory.
"""

from types import FunctionType

from likely.likelihoods import *
from likely.likelihoods import exported

__all__ = exported(FunctionType)


def __dir__() -> list[str]:
    return __all__
