"""A value that all rows share."""

from torch import Tensor, nn

from likely.parameters._parameter import Parameter


class Global(Parameter):
    """A value shared by all rows, learned with the model; the same in training and evaluation.

    Args:
        shape: shape of one example's values, which must broadcast to one example's prediction: ``()`` (the default) for
            one value, ``(C, 1, 1)`` for one per channel, ``(C, H, W)`` for one per pixel.
        init: initial value: a number, or values that broadcast to ``shape``; by default (None) the loss estimates it
            from the first training batch, or takes 1 where there is no unit, as for a temperature.
        constraint: :class:`torch.distributions.transforms.Transform` from the real numbers to the allowed values, such
            as :class:`likely.constraints.Exp`; by default (None) the loss chooses it.

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
        if not self.ready:
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
        return self._constrain(self.unconstrained(features, index))
