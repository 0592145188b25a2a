"""A temperature for every token of a language model."""

from collections.abc import Sequence
from typing import cast

from torch import Tensor, nn

from likely._standardize import unchanged_on_error
from likely._validation import unscriptable
from likely.functional import linear_softmax_nll
from likely.losses._base import TEMPERATURE, as_parameter
from likely.parameters import Predicted


class TokenTemperature(nn.Module):
    r"""The softmax likelihood of a causal language model, with a temperature predicted for every token.

    ``width`` is that of the hidden states, ``hidden`` the sizes of the head's ReLU layers (none: linear). The head
    starts at a temperature of 1 everywhere, and ``isolated=True`` lets it learn without touching the model. The call
    takes the last hidden states, the output layer's weight and the token ids: state :math:`i` predicts token
    :math:`i + 1`, and ``ignore_index`` masks tokens. Logits never exist all at once
    (:func:`~likely.functional.linear_softmax_nll`).

    At generation, divide logits by :meth:`temperature`, or equally the hidden states before the output layer.

    >>> import torch, likely
    >>> head, output = likely.TokenTemperature(16), torch.nn.Linear(16, 1000, bias=False)
    >>> states, tokens = torch.randn(2, 7, 16), torch.randint(0, 1000, (2, 7))
    >>> head(states, output.weight, tokens).backward()
    >>> head.temperature(states).shape
    torch.Size([2, 7])
    """

    def __init__(
        self,
        width: int,
        *,
        hidden: Sequence[int] = (),
        isolated: bool = False,
        ignore_index: int = -100,
        label_smoothing: float = 0.0,
    ) -> None:
        super().__init__()
        predicted = Predicted(width, hidden=hidden, isolated=isolated, weights="zero")
        self.parameter = as_parameter("temperature", predicted, TEMPERATURE)
        self.ignore_index, self.label_smoothing = ignore_index, label_smoothing

    def temperature(self, states: Tensor) -> Tensor:
        """One positive number a token, in float32, for states (…, tokens, width)."""
        return cast(Tensor, self.parameter(features=states.float()))

    def forward(self, states: Tensor, weight: Tensor, tokens: Tensor, *, bias: Tensor | None = None) -> Tensor:
        """The mean NLL of every token given those before it."""
        if states.ndim < 2 or tokens.shape != states.shape[:-1]:
            raise ValueError(
                f"tokens have shape {tuple(tokens.shape)}, the states {tuple(states.shape)}: "
                "give token ids (batch, tokens) and states (batch, tokens, width)"
            )
        states = states[..., :-1, :]
        with unchanged_on_error([self.parameter]):
            return linear_softmax_nll(
                states,
                weight,
                tokens[..., 1:],
                self.temperature(states),
                bias=bias,
                ignore_index=self.ignore_index,
                label_smoothing=self.label_smoothing,
            )

    def __prepare_scriptable__(self) -> "TokenTemperature":
        raise unscriptable(self)
