"""The base class of parameters: a shape, an initial value and a constraint."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributions.transforms import ComposeTransform, Transform

from likely._validation import check_real, may_look, unscriptable

Start = float | Sequence[float] | Tensor


class Parameter(nn.Module):
    """Base class of the four kinds of parameters: a shape, an initial value and a constraint.

    Args:
        shape: shape of one example's values, which must broadcast to one example's prediction: ``()`` (the default) for
            one value, ``(C, 1, 1)`` for one per channel, ``(C, H, W)`` for one per pixel.
        init: initial value: a number, or values that broadcast to ``shape``; by default (None) the loss estimates it
            from the first training batch, or takes 1 where there is no unit, as for a temperature.
        constraint: :class:`torch.distributions.transforms.Transform` from the real numbers to the allowed values, such
            as :class:`likely.constraints.Exp`; by default (None) the loss chooses it.

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
    ) -> None:
        super().__init__()
        if constraint is not None and not isinstance(constraint, Transform):
            raise TypeError(
                f"constraint must be a torch Transform such as likely.constraints.Exp(), got {constraint!r}"
            )
        self.shape = (shape,) if isinstance(shape, int) else tuple(int(s) for s in shape)
        self.init, self.constraint = init, constraint
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

    @torch.no_grad()
    def begin(self, value: Tensor) -> None:
        """Set the initial value, which was left open; the loss calls it with an estimate from the first training batch.

        Args:
            value: initial values, of the parameter's shape; those that the constraint does not reach are left out.
        """
        assert self.constraint is not None
        level = self.level()
        raw = self._per_output(_inverse(self.constraint, value)).to(level.dtype).reshape(level.shape)
        self.begin_at(torch.where(raw.isfinite(), raw, level))

    @torch.no_grad()
    def begin_at(self, raw: Tensor) -> None:
        """Set the raw initial value; the parameter no longer waits for the first training batch.

        Args:
            raw: numbers before the constraint, in the shape of :meth:`level`.
        """
        self.level().copy_(raw)
        if self.from_data:
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
        # torch hands over a copy of the state. One without this entry is of a parameter whose initial value was given.
        find = state.setdefault if "started" in self._buffers else state.pop
        started = find(f"{prefix}started", torch.tensor(True))
        super()._load_from_state_dict(state, prefix, *rest)
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
