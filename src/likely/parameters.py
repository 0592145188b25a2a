r"""Parameters φ of a likelihood, such as a scale or a temperature: what they depend on, and how many there are.

========================  ==================================================================================
:class:`Fixed`            a constant that does not learn, as in the losses of ``torch.nn``
:class:`Global`           learned values shared by all rows: one, or one per target, channel or pixel
:class:`Data`             learned values per training row
:class:`Predicted`        values predicted from the input by a small network
========================  ==================================================================================

``shape`` is the shape of one example's φ and broadcasts to one example's prediction: ``()`` is a single value,
``(C, 1, 1)`` one per channel, ``(C, H, W)`` one per pixel. ``init`` and ``constraint`` may be left to the loss, which
starts scales from the first training batch and learns them in relative steps, so that the unit of the target does not
matter. The settings of the paper are in :mod:`likely.paper`.
"""

import math
import os
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributions.transforms import ComposeTransform, Transform

from likely import kernels
from likely._hooks import has_hooks
from likely._standardize import Standardize, unchanged_on_error
from likely._validation import check_floating, check_real, may_look, unscriptable
from likely.row_store import RowStore

__all__ = ["Data", "Fixed", "Global", "Parameter", "Predicted"]

Start = float | Sequence[float] | Tensor
_FEATURES = 6.0  # up to which predicted values learn at the model's rate; chosen on tables of the benchmark `start`


class Parameter(nn.Module):
    """Base class of the four kinds of parameters: a shape, an initial value and a constraint.

    Args:
        shape: shape of one example's values, which must broadcast to one example's prediction: ``()`` (the default) for
            one value, ``(C, 1, 1)`` for one per channel, ``(C, H, W)`` for one per pixel.
        init: initial value: a number, or values that broadcast to ``shape``; by default (None) the loss estimates it
            from the first training batch, or takes 1 where there is no unit, as for a temperature.
        constraint: :class:`torch.distributions.transforms.Transform` from the real numbers to the allowed values, such
            as :class:`likely.constraints.Exp`; by default (None) the loss chooses it.
        validate_args: whether tensor values are checked; by default (None) on the CPU only.

    Raises:
        TypeError: ``constraint`` is not a transform.

    See Also:
        :class:`~likely.Fixed`, :class:`~likely.Global`, :class:`~likely.Data`, :class:`~likely.Predicted`.

    >>> import likely
    >>> isinstance(likely.Global(), likely.parameters.Parameter)
    True
    """

    constraint: Transform | None
    started: Tensor
    follows_errors = False  # whether it must keep up with the errors of the model, as a scale must
    from_data = False  # whether the loss sets the initial value, from the first training batch
    waiting = False  # for that batch

    def __init__(
        self,
        shape: int | Sequence[int] = (),
        *,
        init: Start | None = None,
        constraint: Transform | None = None,
        validate_args: bool | None = None,
    ) -> None:
        super().__init__()
        if constraint is not None and not isinstance(constraint, Transform):
            raise TypeError(
                f"constraint must be a torch Transform such as likely.constraints.Exp(), got {constraint!r}"
            )
        self.shape = (shape,) if isinstance(shape, int) else tuple(int(s) for s in shape)
        self.init, self.constraint, self.validate_args = init, constraint, validate_args
        self.ready = False
        if constraint is not None and init is not None:
            self.settle("parameter", constraint, init)

    def settle(self, name: str, constraint: Transform, init: Start, *, from_data: bool = False) -> None:
        """Set the constraint and the initial value where they were left open, and allocate the storage.

        The loss calls it. If two losses share a parameter, the second call has no effect.

        Args:
            name: name of the parameter, for errors.
            constraint: default constraint.
            init: default initial value.
            from_data: whether that value is provisional, until the loss calls :meth:`begin`; False by default.

        Raises:
            ValueError: the initial value does not broadcast to the shape, or the constraint does not allow it.
        """
        if self.ready:
            return
        self.constraint = self.constraint or constraint
        self.from_data = self.waiting = from_data and self.init is None
        self.init = init if self.init is None else self.init
        if isinstance(self.init, Tensor):
            check_real(f"init of {name}", self.init)
        start = torch.as_tensor(self.init, dtype=torch.get_default_dtype()).detach()
        try:
            start = start.expand(self.shape)
        except RuntimeError:
            raise ValueError(f"init of {name} has shape {tuple(start.shape)}, its shape is {self.shape}") from None
        # The inverse is taken in double precision, so that the initial value is exact to rounding.
        raw = _inverse(self.constraint, start.double()).to(start.dtype)
        if may_look(raw, True) and not bool(raw.isfinite().all()):
            raise ValueError(
                f"{name} cannot start at {self.init}: {self.constraint!r} does not reach it; choose another constraint"
            )
        self._build(raw.clone())
        if from_data:
            self.register_buffer("started", torch.tensor(not self.waiting))
        self.ready = True

    def begin(self, value: Tensor) -> None:
        """Set the initial value, which was left open; the loss calls it with an estimate from the first training batch.

        Args:
            value: initial values, of the parameter's shape; those that the constraint does not reach are left out.
        """
        assert self.constraint is not None
        level = self.level()
        with torch.no_grad():
            raw = self._per_output(_inverse(self.constraint, value)).to(level.dtype).reshape(level.shape)
            level.copy_(torch.where(raw.isfinite(), raw, level))
            self.started.fill_(True)
        self.waiting = False

    def level(self) -> Tensor:
        """The raw initial value that all rows share, as it is stored.

        Returns:
            A parameter or a buffer of this module, or of its network.
        """
        raise TypeError("use Fixed, Global, Data or Predicted")

    def _per_output(self, raw: Tensor) -> Tensor:
        """The raw initial value as it is stored."""
        return raw

    def _load_from_state_dict(self, state: dict[str, Any], prefix: str, *rest: Any) -> None:
        # A state without it is of a parameter whose initial value was given.
        started = state.get(f"{prefix}started", torch.tensor(True))
        own = {f"{prefix}started": started} if "started" in self._buffers else {}
        without = {name: value for name, value in state.items() if name != f"{prefix}started"}
        super()._load_from_state_dict({**without, **own}, prefix, *rest)
        self.waiting = self.from_data and not started.is_meta and not bool(started)

    def _build(self, raw: Tensor) -> None:
        raise TypeError("use Fixed, Global, Data or Predicted")

    def unconstrained(self, features: Tensor | None, index: Tensor | None) -> Tensor:
        """The values before the constraint; those of Fixed, which has none.

        Args:
            features: inputs of a Predicted parameter, otherwise ignored.
            index: row numbers for a Data parameter, otherwise ignored.

        Returns:
            Real numbers in the shape that ``forward`` returns.
        """
        raise TypeError("use Fixed, Global, Data or Predicted")

    def _constrain(self, raw: Tensor) -> Tensor:
        return self.constraint(raw)  # type: ignore[misc]

    def __prepare_scriptable__(self) -> "Parameter":
        raise unscriptable(self)

    def _check_ready(self) -> None:
        if not self.ready:
            raise RuntimeError(
                f"this {type(self).__name__} has no constraint or init yet: pass it to a loss, or give both"
            )

    def extra_repr(self) -> str:
        """Show shape, initial value and constraint in ``repr``.

        Returns:
            ``name=value`` pairs, separated by commas.
        """
        start = f"init={self.init:g}" if isinstance(self.init, int | float) else "init=…"
        return ", ".join(
            ([f"shape={self.shape}"] if self.shape else [])
            + (["from data" if self.from_data else start, repr(self.constraint)] if self.ready else [])
        )


def _inverse(constraint: Transform, value: Tensor) -> Tensor:
    """The raw numbers of values; not by ``inv``, which stores a weak reference, where a compiler's graph would end."""
    inverse: Tensor = constraint.inv(value) if isinstance(constraint, ComposeTransform) else constraint._inverse(value)
    return inverse


class Fixed(Parameter):
    """A value that does not learn: ``NormalLoss(scale=Fixed(1))`` is half the squared error.

    Args:
        value: number (1 by default), sequence of numbers or tensor, such as one value per target, channel or pixel. It
            is stored in double precision beside the buffer ``value``, which has the module's dtype, so that losses of
            float64 data, and the module after ``.double()``, use the exact number.

    See Also:
        :class:`~likely.Global`, which learns.

    >>> import torch, likely
    >>> likely.NormalLoss(scale=likely.Fixed(2.0)).scale.value
    tensor(2.)
    >>> likely.Fixed(0.1).double().value
    tensor(0.1000, dtype=torch.float64)
    """

    value: Tensor

    def __init__(self, value: Start = 1.0) -> None:
        if isinstance(value, Tensor):
            check_real("value", value)
        wide = torch.as_tensor(value, dtype=torch.float64).detach().clone()
        super().__init__(tuple(wide.shape))
        self.register_buffer("value", wide.to(torch.get_default_dtype()))
        self._wide = wide
        self.ready = True

    def forward(
        self, features: Tensor | None = None, index: Tensor | None = None, *, dtype: torch.dtype | None = None
    ) -> Tensor:
        """The value.

        Args:
            features: ignored.
            index: ignored.
            dtype: floating-point type of the result, if it is more precise than the buffer; None by default.

        Returns:
            A tensor of shape ``shape``.
        """
        if dtype is None or dtype == self.value.dtype or dtype.itemsize < self.value.dtype.itemsize:
            return self.value
        return self._in(dtype, self.value)

    def unconstrained(self, features: Tensor | None, index: Tensor | None) -> Tensor:
        """The value, which has no constraint.

        Args:
            features: ignored.
            index: ignored.

        Returns:
            A tensor of shape ``shape``.
        """
        return self.value

    def _in(self, dtype: torch.dtype, value: Tensor) -> Tensor:
        """``value`` in ``dtype``, with all digits unless the buffer was overwritten with another number."""
        if value.is_meta:
            return value.to(dtype)
        wide = self._wide.to(value.device)
        return torch.where(wide.to(value.dtype) == value, wide, value.to(wide.dtype)).to(dtype)

    def _apply(self, fn: Any, recurse: bool = True) -> "Fixed":
        before = self.value
        super()._apply(fn, recurse)
        if self.value.dtype != before.dtype and not before.is_meta:
            self.value.copy_(self._in(self.value.dtype, before))
        if not self.value.is_meta and self.value.device.type != "mps":  # which has no float64
            self._wide = self._wide.to(self.value.device)
        return self

    def extra_repr(self) -> str:
        """Show the value, or its shape, in ``repr``.

        Returns:
            The value, or ``shape=…`` if there are several.
        """
        return f"{self.value.item():g}" if self.value.numel() == 1 else f"shape={self.shape}"


class Global(Parameter):
    """A value shared by all rows, learned with the model; the same in training and evaluation.

    Args:
        shape: shape of one example's values, which must broadcast to one example's prediction: ``()`` (the default) for
            one value, ``(C, 1, 1)`` for one per channel, ``(C, H, W)`` for one per pixel.
        init: initial value: a number, or values that broadcast to ``shape``; by default (None) the loss estimates it
            from the first training batch, or takes 1 where there is no unit, as for a temperature.
        constraint: :class:`torch.distributions.transforms.Transform` from the real numbers to the allowed values, such
            as :class:`likely.constraints.Exp`; by default (None) the loss chooses it.
        validate_args: whether tensor values are checked; by default (None) on the CPU only.

    Attributes:
        raw: the stored :class:`torch.nn.Parameter`, before the constraint.

    See Also:
        :class:`~likely.Data` (one value per training row), :class:`~likely.Predicted` (values from features).

    >>> import torch, likely
    >>> scale = likely.Global(init=2.0, constraint=likely.constraints.Exp())
    >>> scale.raw
    Parameter containing:
    tensor(0.6931, requires_grad=True)
    >>> scale.value
    tensor(2., grad_fn=<...>)
    """

    raw: nn.Parameter

    def _build(self, raw: Tensor) -> None:
        self.raw = nn.Parameter(raw)

    def level(self) -> Tensor:
        """The raw value.

        Returns:
            The parameter ``raw``.
        """
        return self.raw

    @property
    def value(self) -> Tensor:
        """The constrained value, shape ``shape``, with gradient."""
        return self.forward()

    def unconstrained(self, features: Tensor | None, index: Tensor | None) -> Tensor:
        """The raw value, before the constraint.

        Args:
            features: ignored.
            index: ignored.

        Returns:
            A tensor of shape ``shape``.
        """
        self._check_ready()
        return self.raw

    def forward(self, features: Tensor | None = None, index: Tensor | None = None) -> Tensor:
        """The constrained value.

        Args:
            features: ignored.
            index: ignored.

        Returns:
            A tensor of shape ``shape``.
        """
        if not self.ready:
            self._check_ready()
        return self._constrain(self.raw)


class Data(Parameter):
    """One value per training row; rows outside the training set have none.

    The values are stored in a :class:`likely.row_store.RowStore` and updated during ``backward``, so they are not
    passed to an optimizer. Under a ``GradScaler`` their gradients are scaled up: set ``clip=None`` and keep the default
    RMSProp, which does not depend on the scale; bfloat16 needs no scaler.

    Args:
        n: number of training rows.
        shape: shape of one example's values, which must broadcast to one example's prediction: ``()`` (the default) for
            one value, ``(C, 1, 1)`` for one per channel, ``(C, H, W)`` for one per pixel.
        init: initial value: a number, or values that broadcast to ``shape``; by default (None) the loss estimates it
            from the first training batch, or takes 1 where there is no unit, as for a temperature.
        constraint: :class:`torch.distributions.transforms.Transform` from the real numbers to the allowed values, such
            as :class:`likely.constraints.Exp`; by default (None) the loss chooses it.
        fallback: value in evaluation mode: ``"mean"`` over all rows, or ``"init"``; by default (None) evaluation raises
            an error.
        validate_args: whether tensor values are checked; by default (None) on the CPU only.
        store: where the values are: ``"device"`` (the default), with the model; ``"host"``, in the memory of the host;
            or the path of a file.
        dtype: floating-point type of the stored values; by default (None) torch's default. With ``torch.bfloat16``
            steps are rounded at random, so that small ones add up.
        sharded: whether each process of :mod:`torch.distributed` stores a part of the rows; by default each stores all.
        optimizer: rule of the updates: ``"rmsprop"`` (the default, as in the paper), ``"adagrad"`` or ``"sgd"``.
        lr: learning rate of the rows, 0.1 by default.
        decay: decay of RMSProp's running mean square, 0.9 by default.
        eps: added to the root of the mean square, 1e-8 by default.
        clip: largest norm of a row's gradient, 1 by default; None does not clip.
        weight_decay: pull of the raw values towards zero at each update of a row, 0 by default.

    Attributes:
        table: the :class:`likely.row_store.RowStore` with the unconstrained values, once a loss has the parameter.

    Raises:
        ValueError: ``n`` is not a positive integer, or ``fallback`` is unknown.

    See Also:
        :class:`~likely.IndexedDataset`, which adds row numbers to batches.

    >>> import torch, likely
    >>> loss_fn = likely.SoftmaxLoss(temperature=likely.Data(3, lr=0.5))
    >>> logits = torch.tensor([[4.0, 0.0], [4.0, 0.0]])
    >>> loss_fn(logits, torch.tensor([0, 1]), index=torch.tensor([0, 2])).backward()
    >>> loss_fn.temperature.value   # a right label cools, a wrong one heats, row 1 was not seen
    tensor([0.6065, 1.0000, 1.6487])
    """

    table: RowStore
    start: Tensor

    def __init__(
        self,
        n: int,
        shape: int | Sequence[int] = (),
        *,
        init: Start | None = None,
        constraint: Transform | None = None,
        fallback: str | None = None,
        validate_args: bool | None = None,
        store: str | os.PathLike[str] = "device",
        dtype: torch.dtype | None = None,
        sharded: bool = False,
        optimizer: str = "rmsprop",
        lr: float = 0.1,
        decay: float = 0.9,
        eps: float = 1e-8,
        clip: float | None = 1.0,
        weight_decay: float = 0.0,
    ) -> None:
        if not hasattr(n, "__index__") or n < 1:
            raise ValueError(f"n must be the number of training rows, a positive integer; got {n!r}")
        if fallback not in (None, "mean", "init"):
            raise ValueError(f"fallback must be None, 'mean' or 'init'; got {fallback!r}")
        if fallback == "mean" and sharded:
            raise ValueError("fallback='mean' needs all rows, and a sharded table has a part of them: use 'init'")
        self.n, self.fallback = int(n), fallback
        self.table_options: dict[str, Any] = {
            "store": store,
            "dtype": dtype,
            "sharded": sharded,
            "optimizer": optimizer,
            "lr": lr,
            "decay": decay,
            "eps": eps,
            "clip": clip,
            "weight_decay": weight_decay,
        }
        super().__init__(shape, init=init, constraint=constraint, validate_args=validate_args)

    def _build(self, raw: Tensor) -> None:
        # Rows that start from the data are stored relative to a start that they share, wherever they are stored.
        rows = (torch.zeros_like(raw) if self.from_data else raw).expand(self.n, *self.shape)
        self.table = RowStore(rows, validate_args=self.validate_args, **self.table_options)
        self.register_buffer("start", raw, persistent=self.from_data)

    def level(self) -> Tensor:
        """The raw initial value, to which rows that start from the data are added.

        Returns:
            The buffer ``start``.
        """
        return self.start

    def _shifted(self, rows: Tensor) -> Tensor:
        return rows + self.start if self.from_data else rows

    def _values_of(self, rows: Tensor) -> Tensor:
        return self._constrain(self._shifted(_at_least_float32(rows)))

    @property
    def value(self) -> Tensor:
        """The constrained values of all rows, shape ``(n, *shape)``; of a sharded table those of this process."""
        self._check_ready()
        return self._values_of(self.table.rows)

    def unconstrained(self, features: Tensor | None, index: Tensor | None) -> Tensor:
        """The raw values of the rows ``index``, for training.

        Args:
            features: ignored.
            index: row numbers, shape (batch,).

        Returns:
            A tensor of shape ``(batch, *shape)``, whose gradient updates the rows.
        """
        self._check_ready()
        return self._shifted(self.table(index))

    def forward(self, features: Tensor | None = None, index: Tensor | None = None) -> Tensor:
        """The values of the rows ``index`` in training, the fallback in evaluation.

        Args:
            features: ignored.
            index: row numbers, shape (batch,); not needed in evaluation.

        Returns:
            A tensor of shape ``(batch, *shape)`` in training, ``shape`` in evaluation.

        Raises:
            RuntimeError: in evaluation mode without a fallback.
        """
        if self.training:
            return self._constrain(self.unconstrained(features, index))
        self._check_ready()
        if self.fallback == "mean":
            sums = [self._values_of(rows.to(self.start.device)).sum(0) for rows, _ in self.table.chunks()]
            return (torch.stack(sums).sum(0) / self.n).to(self.start.device)
        if self.fallback == "init":
            return self._constrain(self.start)
        raise RuntimeError(
            "Data parameters belong to training rows and are undefined in evaluation: pass fallback='mean' or "
            "'init' to Data, or use Global or Predicted"
        )

    # As torch.compiler.disable does; the decorator itself would load the compiler with `import likely`.
    forward._torchdynamo_disable = True  # type: ignore[attr-defined]

    def extra_repr(self) -> str:
        """Show number of rows, shape, initial value and constraint in ``repr``.

        Returns:
            ``name=value`` pairs, separated by commas.
        """
        return ", ".join(filter(None, [f"n={self.n}", super().extra_repr()]))


def _in_full_precision(device: str) -> AbstractContextManager[Any]:
    """A context without autocast, which would round small numbers; none where autocast is off already."""
    return torch.autocast(device, enabled=False) if torch.is_autocast_enabled(device) else nullcontext()


def _at_least_float32(rows: Tensor) -> Tensor:
    return rows.to(torch.promote_types(rows.dtype, torch.float32))


class Predicted(Parameter):
    r"""Values predicted from ``features`` by a small network.

    Features have the shape ``(batch, in_features)``, or ``(batch, …, in_features)`` for one value per position of a
    sequence. A batch that raises an error, or whose features are not finite, leaves the running mean and standard
    deviation of the features unchanged.

    Args:
        in_features: number of features per row; None is possible with ``net`` and ``normalize=False``.
        shape: shape of one example's values, which must broadcast to one example's prediction: ``()`` (the default) for
            one value, ``(C, 1, 1)`` for one per channel, ``(C, H, W)`` for one per pixel.
        net: module that maps features to raw values, which are added to the raw initial value; by default (None) a
            network with ``hidden`` layers.
        hidden: sizes of the hidden ReLU layers; none (the default) make the network linear.
        isolated: whether the gradient stops at the features, so that the parameter does not affect the model; ``False``
            by default.
        normalize: whether features are standardised by their running mean and standard deviation, as in the paper;
            ``True`` by default.
        weights: initial weights of the network: ``"zero"`` (the default) for the last layer, which makes all values
            start at ``init``; ``"glorot"``, as in the paper, or ``"he"``.
        spatial: whether features are maps ``(batch, in_features, H, W)`` and the network is a 1×1 convolution; axes
            that are 1 or missing in ``shape`` are averaged over. ``False`` by default.
        init: initial value: a number, or values that broadcast to ``shape``; by default (None) the loss estimates it
            from the first training batch, or takes 1 where there is no unit, as for a temperature.
        constraint: :class:`torch.distributions.transforms.Transform` from the real numbers to the allowed values, such
            as :class:`likely.constraints.Exp`; by default (None) the loss chooses it.
        validate_args: whether tensor values are checked; by default (None) on the CPU only.

    Raises:
        ValueError: ``weights`` or ``shape`` is not one of the above, or both ``net`` and ``hidden`` are given.

    See Also:
        :class:`~likely.Global`, :class:`~likely.Supervised` (which takes features from a layer of the model).

    >>> import torch, likely
    >>> loss_fn = likely.NormalLoss(scale=likely.Predicted(8))
    >>> x, y, h = torch.zeros(5, 3), torch.ones(5, 3), torch.randn(5, 8)
    >>> loss_fn(x, y, features=h)   # every scale starts at 1, the root mean square of the residuals
    tensor(1.4189, grad_fn=<...>)
    """

    start: Tensor

    def __init__(
        self,
        in_features: int | None,
        shape: int | Sequence[int] = (),
        *,
        net: nn.Module | None = None,
        hidden: Sequence[int] = (),
        isolated: bool = False,
        normalize: bool = True,
        weights: str = "zero",
        spatial: bool = False,
        init: Start | None = None,
        constraint: Transform | None = None,
        validate_args: bool | None = None,
    ) -> None:
        if weights not in ("glorot", "he", "zero"):
            raise ValueError(f"weights must be 'glorot', 'he' or 'zero'; got {weights!r}")
        if in_features is None and (net is None or normalize):
            raise ValueError("in_features may be None only with net= and normalize=False")
        if net is not None and hidden:
            raise ValueError("give net or hidden, not both")
        self.in_features, self.hidden, self.weights = in_features, tuple(hidden), weights
        self.isolated, self.normalize, self.spatial = isolated, normalize, spatial
        self._given_net = (net,)  # in a tuple, so that it is registered once, as ``net``
        super().__init__(shape, init=init, constraint=constraint, validate_args=validate_args)
        if spatial and len(self.shape) not in (0, 2, 3):
            raise ValueError(f"with spatial=True shape is (), (H, W) or (C, H, W); got {self.shape}")

    def _build(self, raw: Tensor) -> None:
        self.normalizer = Standardize(self.in_features) if self.normalize else nn.Identity()  # type: ignore[arg-type]
        channels = (self.shape[0] if len(self.shape) == 3 else 1) if self.spatial else math.prod(self.shape)
        raw = self._per_output(raw)
        (net,) = self._given_net
        self.has_own_net = net is None
        if net is not None:
            self.net, self._given_net = net, (None,)
            # If it is zero, there is nothing to add to the network's output.
            if self.from_data or not may_look(raw, True) or raw.any():
                self.register_buffer("start", raw)
        else:
            self.net = self._mlp(channels, raw.flatten())

    def _per_output(self, raw: Tensor) -> Tensor:
        """One number per output of the network, which has one per channel if it is spatial."""
        if not self.spatial:
            return raw
        return raw.reshape(raw.shape[0] if len(self.shape) == 3 else 1, -1).mean(1)

    @property
    def rate(self) -> float:
        """The learning rate that suits the network, relative to the model's."""
        return min(1.0, _FEATURES / (self.in_features or _FEATURES))

    def slow_parameters(self) -> list[nn.Parameter]:
        """The parameters of the network but for the last bias, which is the common level of the values.

        Returns:
            The parameters, in the order of the network's.
        """
        every = list(self.net.parameters())
        return every[:-1] if self.has_own_net else every

    def level(self) -> Tensor:
        """The raw value that the network adds to: its last bias, or a buffer where the network was given.

        Returns:
            A parameter or a buffer.
        """
        return self.net[-1].bias if self.has_own_net else self.start  # type: ignore[index]

    def _mlp(self, outputs: int, bias: Tensor) -> nn.Sequential:
        sizes = (self.in_features, *self.hidden, outputs)
        layers: list[nn.Module] = []
        for fan_in, fan_out in pairwise(sizes):
            linear = nn.Linear(fan_in, fan_out)  # type: ignore[arg-type]
            if self.weights == "he":
                nn.init.kaiming_uniform_(linear.weight, nonlinearity="relu")
            else:
                nn.init.xavier_uniform_(linear.weight)
            nn.init.zeros_(linear.bias)
            layers += [linear, nn.ReLU()]
        last = layers[-2]
        assert isinstance(last, nn.Linear)
        if self.weights == "zero":
            nn.init.zeros_(last.weight)
        last.bias.data.copy_(bias)
        return nn.Sequential(*layers[:-1])

    def forward(self, features: Tensor | None = None, index: Tensor | None = None) -> Tensor:
        """Predict the values of every row.

        Args:
            features: inputs of the network, shape (batch, …, in_features), or (batch, in_features, H, W) if spatial.
            index: ignored.

        Returns:
            A tensor of shape ``(batch, …, *shape)``.

        Raises:
            ValueError: features are missing or have another shape.
        """
        with unchanged_on_error([self]):
            raw = self.unconstrained(features, index)
            with _in_full_precision(raw.device.type):
                return self._constrain(raw)

    def unconstrained(self, features: Tensor | None, index: Tensor | None) -> Tensor:
        """Predict the raw values of every row, before the constraint.

        Args:
            features: as in :meth:`forward`.
            index: ignored.

        Returns:
            A tensor of shape ``(batch, …, *shape)``.
        """
        self._check_ready()
        features = self._check_features(features)
        with _in_full_precision(features.device.type):
            if features.dtype.itemsize < 4:
                features = features.float()
            inputs = features.movedim(1, -1) if self.spatial else features
            inputs = inputs.detach() if self.isolated else inputs
            return self._shaped(self.net(self.normalizer(inputs)), inputs.shape[:-1])

    def head(self, features: Tensor | None) -> kernels.Head | None:
        """The arguments of a kernel that computes the raw values of a small batch; for internal use.

        Like ``forward``, it updates the running statistics of the features.

        Args:
            features: as in :meth:`forward`.

        Returns:
            The kernel's arguments; None if the network must be called instead.
        """
        self._check_ready()
        features = self._check_features(features)
        modules: dict[str, Any] = self._modules  # faster than Module's __getattr__
        net, normalizer = modules["net"], modules["normalizer"]
        if type(net) is not nn.Sequential or len(net) != 1 or self.spatial:
            return None
        layer = net[0]
        if type(layer) is not nn.Linear or "start" in self._buffers or has_hooks(net, layer, normalizer):
            return None
        weight, bias = layer.weight, layer.bias
        if not kernels.head_applies(features, weight, bias):
            return None
        features = features.detach() if self.isolated else features
        if features.is_cuda and self.normalize:
            return None
        moments = normalizer.moments(features) if self.normalize else kernels.as_they_are(features.shape[-1])
        shape = (*features.shape[:-1], *self.shape)
        return None if moments is None else kernels.Head(features, weight, bias, moments, shape)

    def forget(self, head: kernels.Head) -> None:
        """Restore the running statistics that :meth:`head` updated; for internal use.

        Args:
            head: what :meth:`head` returned.
        """
        if isinstance(self.normalizer, Standardize):
            self.normalizer.put_back(head.moments)

    def _shaped(self, raw: Tensor, outer: torch.Size) -> Tensor:
        if self.spatial:
            raw = raw.movedim(-1, 1)
            raw = raw + self.start[:, None, None] if "start" in self._buffers else raw
            height, width = self.shape[-2:] or (1, 1)
            raw = raw.mean(-2, keepdim=True) if height == 1 else raw
            raw = raw.mean(-1, keepdim=True) if width == 1 else raw
            if raw.shape[-2:] != (height, width):
                raise ValueError(f"features give maps of {tuple(raw.shape[-2:])}, but shape is {(height, width)}")
            return raw.reshape(raw.shape[0], *self.shape)
        try:
            raw = raw.reshape(*outer, *self.shape)
        except RuntimeError:
            raise ValueError(f"net returned shape {tuple(raw.shape)}, expected {(*outer, *self.shape)}") from None
        return raw + self.start if "start" in self._buffers else raw

    def _check_features(self, features: Tensor | None) -> Tensor:
        if features is None:
            raise ValueError(
                "a Predicted parameter needs features=, the inputs of its network (e.g. the last hidden layer)"
            )
        check_floating("features", features)
        axis = 1 if self.spatial else -1
        if self.spatial and features.ndim != 4:
            raise ValueError(f"with spatial=True features are (batch, channels, H, W), got {tuple(features.shape)}")
        if features.ndim < 2 or (self.in_features is not None and features.shape[axis] != self.in_features):
            raise ValueError(
                f"features have shape {tuple(features.shape)}, Predicted expects {self.in_features} on axis {axis}"
            )
        return features

    def extra_repr(self) -> str:
        """Show sizes, initial value and constraint in ``repr``.

        Returns:
            ``name=value`` pairs, separated by commas.
        """
        flags = [name for name in ("isolated", "spatial") if getattr(self, name)]
        return ", ".join(filter(None, [str(self.in_features), super().extra_repr(), *flags]))
