"""The base class of likelihood losses: slots for parameters, the forward pass, reductions and weights."""

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.distributions import Distribution

from likely._kernels import KINDS, Job, Layout, Location, available, is_readable, no_transform_active
from likely._standardize import unchanged_on_error
from likely._training_checks import OptimizerCheck, ValueCheck
from likely._validation import (
    check_floating,
    check_positive,
    check_real,
    check_reduction,
    check_same_shape,
    fits,
    unscriptable,
)
from likely.likelihoods._fused import Fused, FusedPath, same_device
from likely.likelihoods._row_weights import Features, along, harmless_features, kept_rows, row_weight, weighted
from likely.parameters import Data, Fixed, Global, Parameter, Predicted
from likely.parameters._slot import ParameterLike, Slot, aligned, as_parameter, fit_shared, may_start

Phi = dict[str, Any]


class LikelihoodLoss(nn.Module):
    r"""Base class of all likelihood losses: ``loss_fn(prediction, target)`` is a negative log-likelihood.

    A subclass names its functional form ``nll``, the ``family`` of its distribution and a :class:`Slot` for each of its
    parameters: ``class GumbelLoss(LikelihoodLoss, nll=…, family=…, scale=Slot(…))``. If the family does not take the
    prediction as ``loc`` and the parameters by name, the subclass defines ``distribution_of(prediction, phi)``.

    Args:
        *values: the likelihood's parameters, in the order of its slots; or by name, as below.
        reduction: ``"mean"``, ``"sum"`` or ``"none"`` (one value per element), as in ``torch.nn``.
        full: whether constants that do not depend on any parameter are included. ``True`` (the default) gives minus a
            log density; ``False`` leaves them out, as the losses of ``torch.nn`` do.
        multiplier: positive factor of the loss, 1 by default: ``NormalLoss(1.0, full=False, multiplier=2.0)`` is the
            squared error. It changes neither the optimum nor :meth:`distribution`.
        validate_args: whether tensor values are checked; by default (None) on the CPU only, where that is cheap.
        **parameters: the likelihood's parameters by name, such as ``scale``: a number, which is fixed, or one of
            :class:`~likely.Fixed`, :class:`~likely.Global` (the default), :class:`~likely.Data` and
            :class:`~likely.Predicted`.

    Raises:
        TypeError: the likelihood has no parameter of that name.
        ValueError: a parameter or an option is out of range.

    See Also:
        :func:`~likely.param_groups`, which passes the parameters to an optimizer.

    >>> import torch, likely
    >>> loss_fn = likely.NormalLoss()
    >>> isinstance(loss_fn, likely.LikelihoodLoss), list(loss_fn.state_dict())
    (True, ['scale.raw', 'scale.started'])
    """

    slots: ClassVar[Mapping[str, Slot]] = {}
    nll: ClassVar[Callable[..., Tensor]]
    family: ClassVar[type[Distribution]]
    beta: float = 0.0
    __signature__: ClassVar[inspect.Signature]
    _harmless: ClassVar[float] = 0.5  # allowed as prediction and as target
    _fused: ClassVar[Fused | None] = None
    _formula: ClassVar[Callable[..., Tensor] | None] = None  # of the NLL per element, where there is a kernel too

    def __init_subclass__(
        cls,
        *,
        nll: Callable[..., Tensor] | None = None,
        family: type[Distribution] | None = None,
        **slots: Slot,
    ) -> None:
        super().__init_subclass__()
        # Not inherited, because a subclass may change what the kernel computes.
        cls._fused = getattr(nll, "fused", None)
        cls._formula = getattr(nll, "__wrapped__", None) if cls._fused else None
        attributes = {"nll": nll and staticmethod(nll), "family": family, "slots": slots}
        for name, value in attributes.items():
            if value:  # otherwise inherited
                setattr(cls, name, value)
        cls.__signature__ = _signature(cls)

    def __init__(
        self,
        *values: ParameterLike,
        reduction: str = "mean",
        full: bool = True,
        multiplier: float = 1.0,
        validate_args: bool | None = None,
        **parameters: Any,
    ) -> None:
        super().__init__()
        check_reduction(reduction)
        check_positive("multiplier", multiplier)
        self.reduction, self.full, self.validate_args = reduction, full, validate_args
        self.multiplier = float(multiplier)
        self._optimizer_check, self.value_check, self._fused_path = OptimizerCheck(), ValueCheck(), FusedPath()
        self._begun = False  # whether no parameter waits for the first batch
        if unknown := parameters.keys() - self.slots.keys():
            known = ", ".join(inspect.signature(type(self)).parameters)
            raise TypeError(f"{type(self).__name__} has no parameter {', '.join(unknown)}; it has {known}")
        parameters = _of_slots(self.slots).bind(*values, **parameters).arguments
        for name, slot in self.slots.items():
            parameter = as_parameter(name, parameters.get(name, slot.default), slot)
            parameter.follows_errors = any(other.start for other in self.slots.values())
            setattr(self, name, parameter)

    def forward(
        self,
        prediction: Tensor,
        target: Tensor,
        *,
        features: Features = None,
        index: Tensor | None = None,
        sample_weight: Tensor | None = None,
    ) -> Tensor:
        r"""Compute the negative log-likelihood, reduced; a weighted mean is :math:`\sum w \ell / \sum w`.

        Args:
            prediction: output of the model, such as means or logits, in floating point.
            target: true values of the same shape (class numbers: without the class axis).
            features: inputs of Predicted parameters, shape (batch, …, width), or a mapping from names of parameters to
                such tensors; None by default.
            index: row numbers of this batch in the training set, shape (batch,), for Data parameters; None by default.
            sample_weight: weights ≥ 0, one per row, or of any shape that matches the loss from its first axis on; None
                (the default) weights all rows equally.

        Returns:
            A scalar, or one value per element under ``reduction="none"``.

        Raises:
            TypeError: an argument is not a tensor of the right dtype.
            ValueError: shapes do not match, a value is out of range, or ``features`` or ``index`` is missing.
            RuntimeError: a Data parameter without ``fallback`` is used in evaluation mode.
        """
        rest = {"features": features, "index": index, "sample_weight": sample_weight}
        if torch.compiler.is_compiling():
            from likely.likelihoods._compiled import compiled_loss  # which loads the compiler

            return compiled_loss(self, prediction, target, **rest)
        if self.training and not self._begun:
            if not self._waiting():
                self._begun = True
            elif may_start(prediction):
                return self._first(prediction, target, rest)
        checked = self.training and not torch._C._are_functorch_transforms_active()
        if checked:
            self._optimizer_check.warn_if_not_optimized(self, prediction)
        due = checked and self.value_check.due()
        first = self.value_check.steps == 1  # when no values of parameters are inspected
        if sample_weight is None and self._can_fuse(prediction, target) and (first or not due or prediction.is_cuda):
            loss = self._fused_path.run(self, prediction, target, features, index)
            if loss is not None:
                if due and first:
                    self.value_check.warn_if_collapsed(self, {}, prediction, target)
                return loss
        with self._unchanged_on_error():
            return self._by_form(prediction, target, **rest, due=due)

    def _load_from_state_dict(self, *args: Any) -> None:
        super()._load_from_state_dict(*args)
        self._begun = False  # the state may be one of before the first batch

    def _waiting(self) -> list[Any]:
        """The parameters that wait for the first batch."""
        return [self._modules[name] for name in self.slots if self._modules[name].waiting]  # type: ignore[union-attr]

    def _first(self, prediction: Tensor, target: Tensor, rest: dict[str, Any]) -> Tensor:
        """The loss of the first batch, from which parameters start; if it is refused, they start from the next."""
        waiting = self._waiting()
        before = [parameter.level().detach().clone() for parameter in waiting]
        self.start(prediction, target, sample_weight=rest["sample_weight"])
        for parameter in waiting:  # those that this batch gives no start keep their initial value for it
            parameter.waiting = False
        if torch.compiler.is_compiling():
            return self.forward(prediction, target, **rest)
        loss = None
        try:
            loss = self.forward(prediction, target, **rest)
        finally:
            with torch.no_grad():
                for parameter, level in zip(waiting, before, strict=True):
                    if loss is None:
                        parameter.level().copy_(level)
                        parameter.started.fill_(False)
                    parameter.waiting = not bool(parameter.started)
            self._begun = False
        return loss

    @torch.no_grad()
    def start(self, prediction: Tensor, target: Tensor, *, sample_weight: Tensor | None = None) -> None:
        """Set the initial value of the parameters whose ``init`` was left open, from a batch.

        Not needed before training, which begins by calling it with the first batch: each scale starts at its estimate
        from the residuals, per target, channel or pixel as the parameter is. Call it to start from other rows, such as
        all of them, or before ``torch.compile`` or a CUDA graph, which is then compiled or captured once.

        Args:
            prediction: output of the model, as in :meth:`forward`.
            target: true values, as in :meth:`forward`.
            sample_weight: as in :meth:`forward`; rows of weight zero take no part.

        >>> import torch, likely
        >>> loss_fn = likely.NormalLoss()
        >>> loss_fn.start(torch.zeros(2), torch.tensor([3000.0, 4000.0]))
        >>> loss_fn.scale.value
        tensor(3535.5352, grad_fn=<...>)
        """
        self._check(prediction, target)
        wide = torch.float32 if prediction.device.type == "mps" else torch.float64  # which has no float64
        mean, target = self._mean(prediction.to(wide)), target.to(wide)
        weight = None if sample_weight is None else row_weight(sample_weight, mean.shape, self.validate_args).to(wide)
        for name, slot in self.slots.items():
            parameter: Parameter = getattr(self, name)
            if slot.start is None or not parameter.from_data or not fits(torch.Size(parameter.shape), mean.shape):
                continue
            value = slot.start.estimate(mean, target, weight, parameter.shape)
            if torch.compiler.is_compiling() or bool(value.isfinite().all()):
                parameter.begin(value)

    @torch.enable_grad()
    def calibrate(self, batches: Iterable[Any]) -> None:
        """Set the parameters that all rows share exactly at their maximum likelihood, given the predictions.

        Call it at the end of training, on the training rows or, better, on held-out ones.

        Args:
            batches: pairs ``(prediction, target)``, such as ``((model(x), y) for x, y in loader)``; or mappings from
                names of arguments of :meth:`forward` to tensors.

        Raises:
            ValueError: there is no batch.

        >>> import torch, likely
        >>> loss_fn = likely.NormalLoss()
        >>> loss_fn.calibrate([(torch.zeros(2), torch.tensor([3.0, 4.0])), (torch.zeros(1), torch.tensor([5.0]))])
        >>> loss_fn.scale.value.square()
        tensor(16.6667, grad_fn=<...>)
        """
        fit_shared(self, batches)

    def _mean(self, prediction: Tensor) -> Tensor:
        """What the target is compared with, in its unit."""
        return prediction

    def _by_form(
        self, prediction: Tensor, target: Tensor, features: Features, index: Any, sample_weight: Any, due: bool = False
    ) -> Tensor:
        """The loss by its functional form; ``due`` tells whether values of the parameters are inspected."""
        self._check(prediction, target)
        factor = None
        if sample_weight is not None:
            factor = row_weight(sample_weight, self._rows(prediction), self.validate_args)
            if (kept := kept_rows(factor)) is not None:
                # Nothing of the other rows may reach the loss or a gradient.
                prediction, target = self._replaced(prediction, kept), self._replaced(target, kept)
                features = harmless_features(features, kept)
        phi = self.parameter_values(prediction, features, index)
        if due:
            self.value_check.warn_if_collapsed(self, phi, prediction, target)
        if sample_weight is None and not self.beta:  # a fused kernel reduces as it goes
            loss = self._nll(prediction, target, phi, self.reduction)
            return loss if self.multiplier == 1 else loss * self.multiplier
        nll = self._nll(prediction, target, phi)
        if self.beta:
            nll = nll * phi["scale"].detach() ** (2 * self.beta)
        nll = nll if self.multiplier == 1 else nll * self.multiplier
        return weighted(nll, self._counted(target), factor, self.reduction)

    def distribution(
        self, prediction: Tensor, *, features: Features = None, index: Tensor | None = None
    ) -> Distribution:
        """The predictive distribution of the target.

        Args:
            prediction: output of the model.
            features: inputs of Predicted parameters, as in :meth:`forward`.
            index: row numbers of this batch, for Data parameters.

        Returns:
            A :class:`torch.distributions.Distribution` with the prediction's shape as its batch.
        """
        check_floating("prediction", prediction)
        with self._unchanged_on_error():
            return self.distribution_of(prediction, self.parameter_values(prediction, features, index))

    def nll_of(self, prediction: Tensor, target: Tensor, phi: Phi) -> Tensor:
        """The negative log-likelihood of each element at given values of the parameters.

        Args:
            prediction: output of a model.
            target: true values.
            phi: every parameter of the likelihood by name, as a tensor that broadcasts to the prediction.

        Returns:
            One value per element, without ``multiplier`` and ``reduction``.

        >>> import torch, likely
        >>> likely.LaplaceLoss().nll_of(torch.zeros(2), torch.tensor([0.0, 1.0]), {"scale": torch.tensor(0.5)})
        tensor([0., 2.])
        """
        return self._nll(prediction, target, phi)

    def extra_repr(self) -> str:
        """Show the options that differ from their defaults in ``repr``.

        Returns:
            ``name=value`` pairs, separated by commas.
        """
        options = {
            "reduction": "mean",
            "full": True,
            "multiplier": 1.0,
            "beta": 0.0,
            "label_smoothing": 0.0,
            "log_input": True,
            "logits": True,
        }
        return ", ".join(f"{k}={getattr(self, k)!r}" for k, v in options.items() if getattr(self, k, v) != v)

    def __prepare_scriptable__(self) -> "LikelihoodLoss":
        raise unscriptable(self)

    def _unchanged_on_error(self) -> AbstractContextManager[None]:
        """Restore the statistics of Predicted parameters if the batch raises an error."""
        return unchanged_on_error([module for module in self._modules.values() if isinstance(module, Predicted)])

    def _can_fuse(self, prediction: Tensor, target: Tensor) -> bool:
        """Whether a fused kernel takes this batch from the stored parameters to the loss, if it can read those too."""
        return (
            self._fused is not None
            and self.reduction != "none"
            and not self.beta
            and is_readable(prediction)
            and is_readable(target, None if self._fused.labels else torch.float32)
            and not target.requires_grad
            and same_device(prediction, target)
            and prediction.numel() > 0
            and available(prediction, self.validate_args)
            and no_transform_active()
        )

    def _job(
        self, prediction: Tensor, target: Tensor, layouts: Sequence[Layout], plain: Callable[..., Tensor]
    ) -> Job | None:
        """The arguments of such a kernel."""
        assert self._fused is not None
        factor = self.multiplier / prediction.numel() if self.reduction == "mean" else self.multiplier
        constant = self._fused.constant if self.full else 0.0
        return Location(KINDS.index(self._fused.kind), tuple(layouts), constant, factor, plain)

    def parameter_values(
        self, prediction: Tensor, features: Features = None, index: Tensor | None = None
    ) -> dict[str, Tensor]:
        """Each parameter's values for a batch, with axes added so that they broadcast to one number per element.

        Args:
            prediction: output of the model.
            features: inputs of Predicted parameters, as in :meth:`forward`.
            index: row numbers of this batch, for Data parameters.

        Returns:
            The values by the name of their parameter.

        >>> import torch, likely
        >>> loss_fn = likely.NormalLoss(scale=likely.Predicted(2, init=3.0))
        >>> loss_fn.parameter_values(torch.zeros(4, 5), features=torch.randn(4, 2))["scale"].shape
        torch.Size([4, 1])
        """
        outer, phi = self._outer(prediction), {}
        if isinstance(features, Mapping) and not features.keys() <= self.slots.keys():
            raise ValueError(
                f"features are for {', '.join(features)}; {type(self).__name__} has {', '.join(self.slots)}"
            )
        for name in self.slots:
            parameter: Any = self._modules[name]
            if isinstance(parameter, Fixed):
                value = parameter(dtype=torch.promote_types(prediction.dtype, torch.float32))
            else:
                inputs = features.get(name) if isinstance(features, Mapping) else features
                value = parameter(features=inputs, index=index)
            phi[name] = self._placed(name, value, outer)
        return phi

    def _placed(self, name: str, value: Tensor, outer: torch.Size) -> Tensor:
        """A parameter's value with axes added, so that it broadcasts to one number per element."""
        if not value.ndim:
            return value
        parameter: Parameter = getattr(self, name)
        shape = aligned(value.shape, parameter, outer)
        if shape is None:
            source = {Data: "index", Predicted: "features"}.get(type(parameter), "its shape")
            raise ValueError(
                f"{name} has shape {tuple(value.shape)} and does not broadcast to the prediction's "
                f"{tuple(outer)}: check {source}"
            )
        return value.reshape(shape)

    def mistake(self, prediction: Tensor) -> str | None:
        """What looks wrong with the first batch, though it can be computed.

        Args:
            prediction: output of the model.

        Returns:
            A sentence that says what to do, or None.
        """
        shape = tuple(prediction.shape)
        for name in self.slots:
            parameter = getattr(self, name)
            if isinstance(parameter, Global) and shape and shape[0] > 1 and parameter.shape == shape:
                return (
                    f"{name} has the shape {shape} of the whole batch, so each value belongs to a place in the batch: "
                    "use likely.Data(n) for one value per training row, or a shape without the first axis"
                )
        return None

    def _replaced(self, values: Tensor, kept: Tensor) -> Tensor:
        """Predictions or targets, with one that the likelihood allows where they are not kept."""
        return torch.where(along(kept, values.ndim), values, self._harmless if values.is_floating_point() else 0)

    def _outer(self, prediction: Tensor) -> torch.Size:
        """The shape to which values of parameters broadcast."""
        return prediction.shape

    def _rows(self, prediction: Tensor) -> torch.Size:
        """The shape of the loss before it is reduced."""
        return self._outer(prediction)

    def _check(self, prediction: Tensor, target: Tensor) -> None:
        check_floating("prediction", prediction)
        check_real("target", target)
        check_same_shape(prediction, target)

    def _counted(self, target: Tensor) -> Tensor | None:
        """The weights of the elements in the denominator of a mean; None if all are one."""
        return None

    def _options(self, reduction: str) -> dict[str, Any]:
        return {"reduction": reduction, "full": self.full, "validate_args": self.validate_args}

    def _nll(self, prediction: Tensor, target: Tensor, phi: Phi, reduction: str = "none") -> Tensor:
        if not hasattr(self, "nll"):
            raise TypeError(f"{type(self).__name__} defines no likelihood: use one of its subclasses")
        return type(self).nll(prediction, target, **phi, **self._options(reduction))

    def distribution_of(self, prediction: Tensor, phi: Phi) -> Distribution:
        """The predictive distribution at given values of the parameters.

        Args:
            prediction: output of a model.
            phi: every parameter of the likelihood by name, as a tensor that broadcasts to the prediction.

        Returns:
            A :class:`torch.distributions.Distribution` with the prediction's shape as its batch.

        >>> import torch, likely
        >>> likely.LaplaceLoss().distribution_of(torch.zeros(3), {"scale": torch.tensor(2.0)}).stddev
        tensor([2.8284, 2.8284, 2.8284])
        """
        if not hasattr(self, "family"):
            raise TypeError(f"{type(self).__name__} defines no distribution: use one of its subclasses")
        return self.family(loc=prediction, **phi)  # type: ignore[call-arg]


def _signature(cls: type[LikelihoodLoss]) -> inspect.Signature:
    """What a constructor takes, with the parameters in place of ``*values`` and what it inherits for ``**options``."""
    named: dict[str, inspect.Parameter] = {}
    for own in list(inspect.signature(cls.__init__).parameters.values())[1:]:
        if own.kind is own.VAR_POSITIONAL:
            named |= _of_slots(cls.slots).parameters
        elif own.kind is not own.VAR_KEYWORD:
            named[own.name] = own
        else:
            inherited = inspect.signature(cls.__mro__[1]).parameters
            named |= {name: p for name, p in inherited.items() if p.kind is p.KEYWORD_ONLY and name not in named}
    return inspect.Signature(list(named.values()))


def _of_slots(slots: Mapping[str, Slot]) -> inspect.Signature:
    return inspect.Signature(
        [
            inspect.Parameter(n, inspect.Parameter.POSITIONAL_OR_KEYWORD, default=s.default, annotation=ParameterLike)
            for n, s in slots.items()
        ]
    )


class ScaleLoss(LikelihoodLoss):
    """Likelihoods of a real target with a scale, which have the option ``beta`` of the β-NLL."""

    def __init__(self, *values: ParameterLike, beta: float = 0.0, **options: Any) -> None:
        if not 0 <= beta <= 1:
            raise ValueError(
                f"beta must lie in [0, 1], got {beta}: 0 is the NLL, 1 follows the squared error's gradients"
            )
        super().__init__(*values, **options)
        self.beta = float(beta)
