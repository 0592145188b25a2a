"""The cumulative logit likelihood of ordered classes, whose cut points learn."""

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn
from torch.distributions import constraints
from torch.distributions.transforms import Transform
from torch.nn.functional import logsigmoid

from likely._validation import check_floating, check_real, fits, may_look, promote, reduce
from likely.constraints import ShiftedSoftplus
from likely.likelihoods._distribution import OfForm, ranked_score
from likely.likelihoods._loss import LikelihoodLoss
from likely.likelihoods._record import register
from likely.parameters import Fixed, Global, Parameter
from likely.parameters._slot import ParameterLike, Slot

__all__ = ["Ordinal", "OrdinalLoss", "ordinal_nll"]


class Increasing(Transform):
    """Map real numbers on the last axis to increasing ones: the first is unchanged, the others become distances.

    >>> import torch
    >>> from likely.likelihoods.ordinal import Increasing
    >>> Increasing()(torch.tensor([-1.0, 0.0, 0.0]))
    tensor([-1.,  0.,  1.])
    """

    bijective = True
    domain = constraints.real_vector
    codomain = constraints.real_vector
    distance = ShiftedSoftplus(1e-4)  # whose floor float32 can still tell from no distance

    def _call(self, x: Tensor) -> Tensor:
        return torch.cat([x[..., :1], self.distance(x[..., 1:])], -1).cumsum(-1)

    def _inverse(self, y: Tensor) -> Tensor:
        return torch.cat([y[..., :1], self.distance.inv(y.diff(dim=-1))], -1)

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other)

    def __hash__(self) -> int:
        return hash(type(self))


def ordinal_nll(
    prediction: Tensor,
    target: Tensor,
    *,
    cutpoints: Tensor | Sequence[float],
    reduction: str = "mean",
    validate_args: bool | None = None,
) -> Tensor:
    r"""Negative log-likelihood of ordered classes 0 … K - 1 by cumulative logits.

    :math:`P(y \le k) = \sigma(c_k - x)` for a prediction :math:`x` and increasing cut points :math:`c_k`. With
    :math:`c_{-1} = -\infty` and :math:`c_{K-1} = \infty`,

    .. math:: \ell = -\log \sigma(c_y - x) - \log \sigma(x - c_{y-1}) - \log(1 - e^{c_{y-1} - c_y}),

    a form that keeps all digits. Classes out of range and cut points that do not increase are refused on the CPU; on a
    GPU values are checked under ``validate_args=True`` only, and such classes are replaced by the nearest.

    Args:
        prediction: real numbers, any shape; the larger, the higher the class.
        target: class numbers from 0 to K - 1, of a shape that broadcasts with the prediction's.
        cutpoints: K - 1 increasing numbers on the last axis; the axes before it broadcast to the prediction.
        reduction: ``"mean"``, ``"sum"`` or ``"none"``.
        validate_args: whether tensor values are checked; by default on the CPU only.

    Returns:
        A scalar, or one value per element under ``reduction="none"``.

    See Also:
        :class:`~likely.OrdinalLoss`, the module with parameters that learn.

    >>> import torch
    >>> from likely.functional import ordinal_nll
    >>> ordinal_nll(torch.tensor([0.0, 1.0]), torch.tensor([0, 2]), cutpoints=[-1.0, 1.0])
    tensor(1.0032)
    """
    check_floating("prediction", prediction)
    check_real("target", target)
    if not isinstance(cutpoints, Tensor):
        dtype = torch.promote_types(prediction.dtype, torch.float32)
        cutpoints = torch.as_tensor(cutpoints, dtype=dtype, device=prediction.device)
    _check_values(target, cutpoints, validate_args)
    prediction, cutpoints = promote(prediction, cutpoints=cutpoints)
    outer = torch.broadcast_shapes(prediction.shape, target.shape)
    if not fits(cutpoints.shape[:-1], outer):
        raise ValueError(
            f"cutpoints {tuple(cutpoints.shape)} do not broadcast to {(*outer, cutpoints.shape[-1])}: the prediction's "
            "shape, and one number fewer than there are classes"
        )
    lower, upper = _ends(target.expand(outer), cutpoints)
    distance = (upper - lower).clamp(min=torch.finfo(upper.dtype).tiny)
    nll = -(logsigmoid(upper - prediction) + logsigmoid(prediction - lower) + _log1mexp(distance))
    return reduce(nll, reduction)


def _log1mexp(x: Tensor) -> Tensor:
    """log(1 - e⁻ˣ) for x > 0."""
    near = x < 1
    return torch.where(near, torch.log(-torch.expm1(-x.clamp(max=1))), torch.log1p(-torch.exp(-x.clamp(min=1))))


def _check_values(target: Tensor, cutpoints: Tensor, validate_args: bool | None) -> None:
    if cutpoints.ndim == 0 or cutpoints.shape[-1] == 0:
        raise ValueError("cutpoints needs a last axis with one number fewer than there are classes")
    if may_look(cutpoints, validate_args) and not bool((cutpoints.detach().diff(dim=-1) > 0).all()):
        raise ValueError("cutpoints must increase along the last axis: sort them, and leave some distance between them")
    classes = cutpoints.shape[-1] + 1
    if may_look(target, validate_args) and bool(
        ((target < 0) | (target >= classes) | (target != target.round())).any()
    ):
        raise ValueError(f"target must hold classes 0 to {classes - 1}, because there are {classes - 1} cutpoints")


def _ends(target: Tensor, cutpoints: Tensor) -> tuple[Tensor, Tensor]:
    """The cut points below and above a class; infinite at either end."""
    end = torch.full_like(cutpoints[..., :1], torch.inf)
    table = torch.cat([-end, cutpoints, end], -1).expand(*target.shape, -1)
    label = target.long().clamp(0, cutpoints.shape[-1]).unsqueeze(-1)
    return table.gather(-1, label).squeeze(-1), table.gather(-1, label + 1).squeeze(-1)


class Ordinal(OfForm, nll=ordinal_nll):
    """The distribution of ordered classes 0 … K - 1 by cumulative logits: P(X ≤ k) = σ(cutpoints[k] - loc).

    Args:
        loc: prediction; the larger, the higher the class.
        cutpoints: K - 1 increasing numbers on the last axis.
        validate_args: whether parameters and values are checked; None (the default) follows torch's setting.

    >>> import torch
    >>> from likely.distributions import Ordinal
    >>> d = Ordinal(torch.tensor(0.0), torch.tensor([-1.0, 1.0]))
    >>> d.cdf(torch.tensor(1.0)), d.icdf(torch.tensor(0.5)), d.mean
    (tensor(0.7311), tensor(1.), tensor(1.))
    """

    arg_constraints: ClassVar = {"loc": constraints.real, "cutpoints": constraints.real_vector}
    has_enumerate_support = True

    def __init__(self, loc: Tensor, cutpoints: Tensor, validate_args: bool | None = None) -> None:
        shape = torch.broadcast_shapes(loc.shape, cutpoints.shape[:-1])
        self.loc, self.cutpoints = loc.expand(shape), cutpoints.expand(*shape, -1)
        super().__init__(shape, validate_args=validate_args)

    @constraints.dependent_property(is_discrete=True, event_dim=0)
    def support(self) -> Any:
        """The classes."""
        return constraints.integer_interval(0, self.cutpoints.shape[-1])

    @property
    def _reached(self) -> Tensor:
        """P(X ≤ k) of every class but the last."""
        return torch.sigmoid(self.cutpoints - self.loc.unsqueeze(-1))

    @property
    def _beyond(self) -> Tensor:
        """P(X > k) of every class but the last."""
        return torch.sigmoid(self.loc.unsqueeze(-1) - self.cutpoints)

    @property
    def mean(self) -> Tensor:
        """The mean of the class numbers."""
        return self._beyond.sum(-1)

    @property
    def variance(self) -> Tensor:
        """The variance of the class numbers."""
        beyond = self._beyond
        odd = 2 * torch.arange(beyond.shape[-1], device=beyond.device) + 1
        return (odd * beyond).sum(-1) - beyond.sum(-1).square()

    def cdf(self, value: Tensor) -> Tensor:
        """P(X ≤ value).

        Args:
            value: real numbers, of a shape that broadcasts with the batch.

        Returns:
            Probabilities, in the broadcast shape.
        """
        whole = value.floor()
        _, upper = _ends(whole.expand(torch.broadcast_shapes(whole.shape, self.batch_shape)), self.cutpoints)
        return torch.where(whole < 0, 0.0, torch.sigmoid(upper - self.loc))

    def icdf(self, value: Tensor) -> Tensor:
        """The first class with at least this probability at or below it.

        Args:
            value: probabilities from 0 to 1, of a shape that broadcasts with the batch.

        Returns:
            Class numbers, in the broadcast shape.
        """
        return (self._reached < value.unsqueeze(-1)).sum(-1).to(self.loc.dtype)

    def enumerate_support(self, expand: bool = True) -> Tensor:
        """All class numbers, along a new first axis.

        Args:
            expand: whether they are repeated over the batch; otherwise its axes have length 1.

        Returns:
            Class numbers in the dtype of ``loc``, of shape ``(K,) + batch_shape``.
        """
        classes = torch.arange(self.cutpoints.shape[-1] + 1).to(self.loc).view(-1, *[1] * self.loc.ndim)
        return classes.expand(-1, *self.batch_shape) if expand else classes

    def sample(self, sample_shape: Any = ()) -> Tensor:
        """Draw class numbers, without gradients.

        Args:
            sample_shape: shape of independent draws, () by default.

        Returns:
            Class numbers in the dtype of ``loc``, in the shape ``sample_shape + batch_shape``.
        """
        with torch.no_grad():
            return self.icdf(torch.rand(self._extended_shape(sample_shape), device=self.loc.device))


class OrdinalLoss(LikelihoodLoss, nll=ordinal_nll, family=Ordinal, cutpoints=Slot(Increasing(), 0.0)):
    r"""The cumulative logit likelihood of ordered classes, whose cut points learn.

    Args:
        cutpoints: K - 1 increasing numbers, which are fixed, or a parameter whose shape ends in K - 1, such as
            ``Data(n, (K - 1,))``. Default: ``Global((classes - 1,))``, where all classes start equally likely for a
            prediction of zero.
        classes: number of classes K; required if ``cutpoints`` is not given.
        reduction: ``"mean"``, ``"sum"`` or ``"none"`` (one value per element).
        full: has no effect, because this likelihood has no constant term; accepted as in all losses.
        multiplier: positive factor of the loss; the predictive distribution does not depend on it.
        validate_args: whether tensor values are checked; by default (None) on the CPU only, where that is cheap.

    See Also:
        :class:`~likely.SoftmaxLoss`, :func:`~likely.functional.ordinal_nll` (the function).

    >>> import torch
    >>> from likely.losses import OrdinalLoss
    >>> loss_fn = OrdinalLoss(classes=3)
    >>> loss_fn.cutpoints.value
    tensor([-0.6931,  0.6931], grad_fn=<CumsumBackward0>)
    >>> loss_fn(torch.zeros(3), torch.tensor([0, 1, 2]))
    tensor(1.0986, grad_fn=<MeanBackward0>)
    """

    cutpoints: Parameter
    _harmless = 0.0  # a class

    def __init__(
        self,
        cutpoints: ParameterLike | Sequence[float] = None,
        *,
        classes: int | None = None,
        **options: Any,
    ) -> None:
        if cutpoints is None:
            if classes is None or classes < 2:
                raise ValueError(f"give classes=, the number of ordered classes, at least 2; got {classes}")
            cutpoints = Global((classes - 1,))
        as_is = isinstance(cutpoints, Parameter | nn.Parameter)  # a bare nn.Parameter is refused with all others
        parameter: Any = cutpoints if as_is else Fixed(cutpoints)  # type: ignore[arg-type]
        if not parameter.shape or (classes is not None and parameter.shape[-1] != classes - 1):
            raise ValueError(f"cutpoints has shape {parameter.shape}: its last axis is one shorter than the classes")
        if isinstance(parameter, Fixed):
            _check_values(torch.zeros(()), parameter.value, True)
        elif isinstance(parameter, Parameter) and parameter.init is None:
            parameter.init = torch.linspace(0, 1, parameter.shape[-1] + 2)[1:-1].logit()
        super().__init__(cutpoints=parameter, **options)

    def _outer(self, prediction: Tensor) -> torch.Size:
        return torch.Size((*prediction.shape, self.cutpoints.shape[-1]))

    def _rows(self, prediction: Tensor) -> torch.Size:
        return prediction.shape

    def _options(self, reduction: str) -> dict[str, Any]:
        return {"reduction": reduction, "validate_args": self.validate_args}


register(
    OrdinalLoss,
    support=constraints.nonnegative_integer,
    crps=lambda forecast, y: ranked_score(forecast, forecast._reached.numpy(), y),
    start=lambda y, weight: np.zeros(y.shape[1:]),  # the cut points take the shares
    parameter_axes=lambda y: {"cutpoints": (max(int(y.max()), 1),)},
)
