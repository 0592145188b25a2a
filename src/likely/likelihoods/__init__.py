r"""Likelihoods, one file each: density, parameters, functional form, loss, distribution, CRPS.

:mod:`likely.functional`, :mod:`likely.losses` and :mod:`likely.distributions` re-export what is defined here, and
``LIKELIHOODS`` maps names to likelihoods. A new one is one file in this folder and one line in its ``__init__``.

>>> from likely.likelihoods import LIKELIHOODS
>>> LIKELIHOODS["normal"].loss.__name__, list(LIKELIHOODS["student_t"].loss.slots)
('NormalLoss', ['df', 'scale'])
"""

from types import FunctionType

from likely.likelihoods._form import functional_form as functional_form
from likely.likelihoods._loss import LikelihoodLoss as LikelihoodLoss
from likely.likelihoods._record import (
    LIKELIHOODS as LIKELIHOODS,
    Likelihood as Likelihood,
    Residuals as Residuals,
    register as register,
)
from likely.parameters._slot import Slot as Slot
from likely.likelihoods.normal import *
from likely.likelihoods.laplace import *
from likely.likelihoods.student_t import *
from likely.likelihoods.skew_student_t import *
from likely.likelihoods.huber import *
from likely.likelihoods.robust import *
from likely.likelihoods.logistic import *
from likely.likelihoods.asymmetric_laplace import *
from likely.likelihoods.softmax import *
from likely.likelihoods.bernoulli import *
from likely.likelihoods.poisson import *
from likely.likelihoods.negative_binomial import *
from likely.likelihoods.gamma import *
from likely.likelihoods.log_normal import *
from likely.likelihoods.zero_inflated import *
from likely.likelihoods.beta import *
from likely.likelihoods.ordinal import *
from likely.likelihoods.von_mises import *
from likely.likelihoods.linear_softmax import *
from likely.likelihoods.multi_task import *


def exported(kind: type) -> list[str]:
    """List the public names of one kind, for the module that re-exports them.

    Args:
        kind: class whose subclasses are listed, or the type of functions.

    Returns:
        Names in alphabetical order.
    """

    def belongs(thing: object) -> bool:
        public = getattr(thing, "__module__", "").startswith(f"{__name__}.") and "._" not in thing.__module__
        is_function = isinstance(thing, FunctionType)
        return public and (is_function if kind is FunctionType else not is_function and issubclass(thing, kind))  # type: ignore[arg-type]

    return sorted(name for name, thing in globals().items() if belongs(thing))
