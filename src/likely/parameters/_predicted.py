"""Values predicted from features."""

import math
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributions.transforms import Transform

from likely import _kernels as kernels
from likely._standardize import Standardize, unchanged_on_error
from likely._validation import check_floating, may_look
from likely.parameters._parameter import Parameter, Start

_FULL_RATE_FEATURES = (
    6.0  # up to which predicted values learn at the model's rate; chosen on tables of the benchmark `start`
)


def _in_full_precision(device: str) -> AbstractContextManager[Any]:
    """A context without autocast, which would round small numbers; none where autocast is off already."""
    return torch.autocast(device, enabled=False) if torch.is_autocast_enabled(device) else nullcontext()


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
            start at ``init``; or ``"glorot"``, as in the paper.
        spatial: whether features are maps ``(batch, in_features, H, W)`` and the network is a 1×1 convolution; axes
            that are 1 or missing in ``shape`` are averaged over. ``False`` by default.
        init: initial value: a number, or values that broadcast to ``shape``; by default (None) the loss estimates it
            from the first training batch, or takes 1 where there is no unit, as for a temperature.
        constraint: :class:`torch.distributions.transforms.Transform` from the real numbers to the allowed values, such
            as :class:`likely.constraints.Exp`; by default (None) the loss chooses it.

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
    ) -> None:
        if weights not in ("glorot", "zero"):
            raise ValueError(f"weights must be 'glorot' or 'zero'; got {weights!r}")
        if in_features is None and (net is None or normalize):
            raise ValueError("in_features may be None only with net= and normalize=False")
        if net is not None and hidden:
            raise ValueError("give net or hidden, not both")
        self.in_features, self.hidden, self.weights = in_features, tuple(hidden), weights
        self.isolated, self.normalize, self.spatial = isolated, normalize, spatial
        self._given_net = (net,)  # in a tuple, so that it is registered once, as ``net``
        super().__init__(shape, init=init, constraint=constraint)
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
        return min(1.0, _FULL_RATE_FEATURES / (self.in_features or _FULL_RATE_FEATURES))

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
            features = features.to(next(self.net.parameters(), features).dtype)
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
        modules: dict[str, Any] = self._modules  # faster than Module's __getattr__
        if not self.ready or features is None:
            return None
        net, normalizer = modules["net"], modules["normalizer"]
        if type(net) is not nn.Sequential or len(net) != 1 or self.spatial:
            return None
        layer = net[0]
        if type(layer) is not nn.Linear or "start" in self._buffers or kernels.has_hooks(net, layer, normalizer):
            return None
        weight, bias = layer.weight, layer.bias
        if not kernels.head_applies(features, weight, bias):
            return None
        features = features.detach() if self.isolated else features
        if features.is_cuda and self.normalize:
            return None
        moments = normalizer.moments(features) if self.normalize else kernels.unit_moments(features.shape[-1])
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
