r"""Losses that are likelihoods: ``nn.Module`` losses whose parameters can learn.

``loss_fn(prediction, target)`` is the negative log-likelihood. Each parameter of a likelihood is one of
:class:`~likely.Fixed` (or just a number), :class:`~likely.Global` (the default), :class:`~likely.Data` or
:class:`~likely.Predicted`; the last two need ``index=`` or ``features=`` in the call.
"""

from typing import Any

from torch import nn

from likely.likelihoods import *
from likely.likelihoods import (
    BernoulliLoss,
    HuberLoss,
    LaplaceLoss,
    LikelihoodLoss,
    NegativeBinomialLoss,
    NormalLoss,
    PoissonLoss,
    SoftmaxLoss,
    exported,
)
from likely.parameters import Global
from likely.parameters._slot import ParameterLike

__all__ = sorted(["LikelihoodLoss", "Slot", "from_torch", *exported(nn.Module)])


def __dir__() -> list[str]:
    return __all__


def from_torch(
    loss: nn.Module, *, full: bool | None = None, validate_args: bool | None = None, **parameters: ParameterLike
) -> LikelihoodLoss:
    r"""Convert a loss of ``torch.nn`` into the equivalent likelihood loss, whose parameter learns.

    ============================  =======================================  ==================================
    loss                          becomes                                  parameter, and where it starts
    ============================  =======================================  ==================================
    ``MSELoss``                   ``NormalLoss``, ``multiplier=2``         ``scale``, first batch
    ``L1Loss``                    ``LaplaceLoss``                          ``scale``, first batch
    ``HuberLoss(delta=d)``        ``HuberLoss(d)``                         ``scale``, first batch
    ``SmoothL1Loss(beta=b)``      ``HuberLoss(b)``, ``multiplier=1/b``     ``scale``, first batch
    ``CrossEntropyLoss``          ``SoftmaxLoss``                          ``temperature``, 1
    ``NLLLoss``                   ``SoftmaxLoss``, of log-probabilities    ``temperature``, 1
    ``BCEWithLogitsLoss``         ``BernoulliLoss``                        ``temperature``, 1
    ``BCELoss``                   ``BernoulliLoss(logits=False)``          ``temperature``, 1
    ``PoissonNLLLoss``            ``NegativeBinomialLoss``                 ``dispersion``, first batch
    ============================  =======================================  ==================================

    A scale starts from the residuals of the first training batch, so the unit of the target does not matter. With the
    parameter held at 1, as in ``from_torch(nn.MSELoss(), scale=1.0)``, the loss has the value and the gradients of the
    original; with ``scale=likely.Global(init=1.0)`` it has them before the first step. Half the squared error is the
    likelihood, and ``multiplier=2`` makes it the original. Weights, ``ignore_index``, ``label_smoothing``,
    ``reduction``, ``log_input`` and ``eps`` are carried over, and the result is on the device of the weights.

    Args:
        loss: instance of one of the classes above (not of a subclass).
        full: whether constants that do not depend on any parameter are included; by default (None) as in the original,
            if that has an option ``full``, otherwise ``False``.
        validate_args: whether tensor values are checked; by default (None) on the CPU only.
        **parameters: the likelihood's parameter by name, if it should not be one learned number: ``scale=1.0`` fixes
            it, ``temperature=likely.Predicted(64)`` predicts it from features. ``dispersion=0.0`` gives a
            ``PoissonLoss``.

    Returns:
        A :class:`~likely.LikelihoodLoss`, called like the original. Pass its parameters to the optimizer by
        :func:`likely.param_groups`.

    Raises:
        TypeError: the loss is none of those above, or the likelihood has no parameter of that name.

    >>> import torch, likely
    >>> logits, target = torch.tensor([[2.0, 0.0], [0.0, 1.0]]), torch.tensor([0, 0])
    >>> original = torch.nn.CrossEntropyLoss(weight=torch.tensor([1.0, 3.0]), label_smoothing=0.1)
    >>> loss_fn = likely.from_torch(original)
    >>> original(logits, target), loss_fn(logits, target)
    (tensor(0.8671), tensor(0.8671, grad_fn=<DivBackward0>))
    >>> likely.from_torch(torch.nn.MSELoss(), scale=1.0)(torch.zeros(2), torch.tensor([1.0, 3.0]))
    tensor(5.)
    """
    if type(loss) not in _KNOWN:
        names = ", ".join(kind.__name__ for kind in _KNOWN)
        raise TypeError(f"from_torch takes one of torch.nn's {names}; got {_described(loss)}")
    likelihood, options = _KNOWN[type(loss)]
    options = options | {name: getattr(loss, name) for name in _SAME_OPTIONS if hasattr(loss, name)}
    if isinstance(loss, nn.SmoothL1Loss):
        likelihood = HuberLoss if loss.beta else LaplaceLoss
        options |= {"delta": loss.beta, "multiplier": 1 / loss.beta} if loss.beta else {}
    if likelihood is NegativeBinomialLoss:
        dispersion = parameters.setdefault("dispersion", Global())
        if isinstance(dispersion, int | float) and dispersion == 0:
            likelihood, parameters = PoissonLoss, {k: v for k, v in parameters.items() if k != "dispersion"}
    full = bool(getattr(loss, "full", False)) if full is None else full
    options |= {"full": full, "validate_args": validate_args, **parameters}
    converted = likelihood(**options)
    weights = [weight for weight in loss.buffers() if weight is not None]
    return converted.to(weights[0].device) if weights else converted


def _described(loss: object) -> str:
    if isinstance(loss, type):
        return f"the class {loss.__name__}: make an instance, {loss.__name__}()"
    for kind in type(loss).__mro__[1:]:
        if kind in _KNOWN:
            return f"{type(loss).__name__}, a subclass of {kind.__name__} that may compute something else"
    return type(loss).__name__


_SAME_OPTIONS = (
    "reduction", "delta", "weight", "pos_weight", "ignore_index", "label_smoothing", "log_input", "eps",
)  # fmt: skip
_KNOWN: dict[type[nn.Module], tuple[type[LikelihoodLoss], dict[str, Any]]] = {
    nn.MSELoss: (NormalLoss, {"multiplier": 2.0}),
    nn.L1Loss: (LaplaceLoss, {}),
    nn.HuberLoss: (HuberLoss, {}),
    nn.SmoothL1Loss: (HuberLoss, {}),
    nn.CrossEntropyLoss: (SoftmaxLoss, {}),
    nn.NLLLoss: (SoftmaxLoss, {}),
    nn.BCEWithLogitsLoss: (BernoulliLoss, {}),
    nn.BCELoss: (BernoulliLoss, {"logits": False}),
    nn.PoissonNLLLoss: (NegativeBinomialLoss, {}),
}
