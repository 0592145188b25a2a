"""The softmax likelihood of a linear layer over a large vocabulary, and a temperature per token of a language model."""

from collections.abc import Sequence
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from likely import _kernels as kernels
from likely._standardize import unchanged_on_error
from likely._validation import check_floating, check_positive
from likely.likelihoods.softmax import check_range, per_row, softmax_nll
from likely.parameters import Predicted
from likely.parameters._slot import TEMPERATURE, as_parameter

__all__ = ["TokenTemperature", "linear_softmax_nll"]


def linear_softmax_nll(
    hidden: Tensor,
    weight: Tensor,
    target: Tensor,
    temperature: Tensor | float = 1.0,
    *,
    bias: Tensor | None = None,
    ignore_index: int = -100,
    label_smoothing: float = 0.0,
    reduction: str = "mean",
    chunk: int = 1024,
    validate_args: bool | None = None,
) -> Tensor:
    r"""Softmax negative log-likelihood of a linear layer with many classes, computed in chunks of rows.

    It equals ``softmax_nll(hidden @ weight.T + bias, target, temperature=temperature)``, but the logits of at most
    ``chunk`` rows exist at a time. Gradients are computed in the forward pass, so a single backward pass is possible
    and second derivatives are not. Under ``torch.func`` and in forward-mode differentiation all logits are computed.

    Args:
        hidden: hidden states, shape (…, width).
        weight: weight of the output layer, shape (classes, width).
        target: class numbers, shape (…).
        temperature: positive number (1 by default), or a tensor that broadcasts to the target, such as one per token.
        bias: bias of the output layer, shape (classes,); None by default.
        ignore_index: class number of rows that are left out, -100 by default.
        label_smoothing: share of the label, from 0 (the default) to 1, that is spread evenly over all classes.
        reduction: ``"mean"`` (the default) or ``"sum"``.
        chunk: number of rows whose logits exist at a time; fewer need less memory and more time.
        validate_args: whether tensor values are checked; by default (None) on the CPU only.

    Returns:
        A scalar.

    Raises:
        ValueError: shapes do not match, a class is out of range, or the reduction is another.

    See Also:
        :func:`~likely.functional.softmax_nll`, :class:`~likely.TokenTemperature`.

    >>> import torch, likely
    >>> hidden, weight, target = torch.randn(2, 5, 8), torch.randn(1000, 8), torch.randint(0, 1000, (2, 5))
    >>> temperature = torch.full((2, 5), 1.5)
    >>> loss = likely.linear_softmax_nll(hidden, weight, target, temperature)
    >>> logits = (hidden @ weight.T).flatten(0, 1)
    >>> torch.allclose(loss, likely.functional.softmax_nll(logits, target.flatten(), temperature=1.5))
    True
    """
    check_floating("hidden", hidden)
    check_positive("temperature", temperature, validate_args)
    if reduction not in ("mean", "sum"):
        raise ValueError(f"reduction must be mean or sum, got {reduction!r}: a loss per row is softmax_nll's")
    if weight.ndim != 2 or weight.shape[1] != hidden.shape[-1]:
        raise ValueError(
            f"weight has shape {tuple(weight.shape)}, expected (classes, {hidden.shape[-1]}), as nn.Linear's"
        )
    if target.shape != hidden.shape[:-1] or target.is_floating_point():
        raise ValueError(
            f"target must hold class numbers in shape {tuple(hidden.shape[:-1])}, hidden's without its last axis; "
            f"got {target.dtype} in shape {tuple(target.shape)}"
        )
    check_range(target, len(weight), ignore_index, validate_args)
    temperature = per_row(temperature, hidden, target.shape)
    if torch.is_autocast_enabled(hidden.device.type):
        dtype = torch.get_autocast_dtype(hidden.device.type)
        hidden, weight, bias = hidden.to(dtype), weight.to(dtype), bias if bias is None else bias.to(dtype)
    labels = target.reshape(-1).long()
    temperature = temperature.reshape(()) if temperature.numel() == 1 else temperature.expand(target.shape).reshape(-1)
    options: Any = {"ignore_index": ignore_index, "reduction": reduction}
    if not target.numel() or (not torch.compiler.is_compiling() and kernels.transformed()):
        logits = F.linear(hidden, weight, bias).reshape(-1, len(weight))
        options |= {"label_smoothing": label_smoothing, "validate_args": False}
        return softmax_nll(logits, labels, temperature=temperature, **options)
    hidden = hidden.reshape(-1, hidden.shape[-1])
    options |= {"smoothing": label_smoothing, "chunk": chunk}
    return kernels.linear_softmax_nll(hidden, weight, bias, labels, temperature, **options)


class TokenTemperature(nn.Module):
    r"""The softmax likelihood of a causal language model with one predicted temperature per token.

    All temperatures start at 1. The module is called with the last hidden states, the output layer's weight and the
    token ids: state :math:`i` predicts token :math:`i + 1`. The logits are computed in chunks of rows
    (:func:`~likely.functional.linear_softmax_nll`).

    At generation, divide logits by :meth:`temperature`, or equally the hidden states before the output layer.

    Args:
        width: number of features of a hidden state.
        hidden: sizes of the hidden ReLU layers of the temperature's network; none (the default) make it linear.
        isolated: whether the gradient stops at the hidden states, so that the temperature does not affect the model;
            ``False`` by default.
        ignore_index: token id that is left out, -100 by default.
        label_smoothing: share of the label, from 0 (the default) to 1, that is spread evenly over all tokens.

    See Also:
        :class:`~likely.SoftmaxLoss`, :class:`~likely.Predicted`.

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
        """Predict the temperature of every token.

        Args:
            states: hidden states, shape (…, tokens, width).

        Returns:
            Positive numbers in float32, shape (…, tokens).
        """
        return cast(Tensor, self.parameter(features=states.float()))

    def forward(self, states: Tensor, weight: Tensor, tokens: Tensor, *, bias: Tensor | None = None) -> Tensor:
        """Compute the mean NLL of the tokens, each given those before it.

        Args:
            states: last hidden states, shape (…, tokens, width).
            weight: weight of the output layer, shape (vocabulary, width).
            tokens: token ids, shape (…, tokens).
            bias: bias of the output layer, shape (vocabulary,); None by default.

        Returns:
            A scalar.
        """
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
