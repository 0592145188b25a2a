"""Strides change nothing: whatever the layout and the parameter's shape, the result of the contiguous tensors."""

import torch
from torch import Tensor

import likely
from likelihoods import LIKELIHOODS, Likelihood, axes, full
from pairwise import together

every = together("likelihood", LIKELIHOODS, ids=str)
SHAPE = (2, 3, 4, 5)
TWO = (6, 3)


def channels_last(t: Tensor) -> Tensor:
    return t.contiguous(memory_format=torch.channels_last) if t.ndim == 4 else t.T.contiguous().T


def sliced(t: Tensor) -> Tensor:
    wide = torch.zeros(*(2 * n for n in t.shape), dtype=t.dtype)
    part = wide[tuple(slice(1, None, 2) for _ in t.shape)]
    return part.copy_(t)


def transposed(t: Tensor) -> Tensor:
    return t.transpose(0, -1).contiguous().transpose(0, -1)


def negative(t: Tensor) -> Tensor:
    """A view whose memory holds the numbers with their signs turned."""
    return torch.complex(torch.zeros_like(t), -t).conj().imag if t.dtype in (torch.float32, torch.float64) else t


LAYOUTS = {f.__name__: f for f in (transposed, channels_last, sliced, negative)}


def with_gradients(loss_fn, prediction: Tensor, target: Tensor) -> list[Tensor]:
    leaf = prediction.detach().requires_grad_()
    loss = loss_fn(leaf, target)
    weight = torch.linspace(1.0, 2.0, loss.numel(), dtype=loss.dtype).reshape(loss.shape)
    return [loss.detach(), *torch.autograd.grad(loss, [leaf, *loss_fn.parameters()], weight)]


def phi_shapes(outer: tuple[int, ...]) -> set[tuple[int, ...]]:
    """One number with one axis or several, and one number per channel."""
    axes = len(outer) - 1
    return {(1,) * min(1, axes), (1,) * axes, outer[1:2] + (1,) * (axes - 1)}


def agree(got: list[Tensor], expected: list[Tensor]) -> None:
    for a, b in zip(got, expected, strict=True):
        assert a.shape == b.shape
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-4)


@every
@together("shape", [SHAPE, TWO], ids=["pictures", "rows"])
@together("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_every_layout_and_parameter_shape(likelihood: Likelihood, shape, dtype):
    prediction, target = likelihood.draw(*shape)
    prediction = prediction.to(dtype)
    target = target.to(dtype) if target.is_floating_point() else target
    for phi_shape in phi_shapes(tuple(target.shape)):
        for reduction in ("mean", "none"):
            values = {name: likely.Global(phi_shape + axes(v), init=v) for name, v in likelihood.phi.items()}
            loss_fn = likelihood.loss(**values, reduction=reduction)
            expected = with_gradients(loss_fn, prediction, target)
            for layout in LAYOUTS.values():
                agree(with_gradients(loss_fn, layout(prediction), target), expected)
            if target.is_floating_point():
                agree(with_gradients(loss_fn, prediction, transposed(target)), expected)
                agree(with_gradients(loss_fn, channels_last(prediction), sliced(target)), expected)


@every
@together("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_tensors_expanded_from_one_row(likelihood: Likelihood, dtype):
    prediction, target = likelihood.draw(1, 3, dtype=dtype)
    loss_fn = likelihood.loss()
    prediction, target = prediction.expand(4, -1), target.expand(4, *target.shape[1:])
    agree(
        with_gradients(loss_fn, prediction, target),
        with_gradients(loss_fn, prediction.contiguous(), target.contiguous()),
    )


@every
def test_parameters_of_any_layout(likelihood: Likelihood):
    """Expanded and transposed parameters, as a network's heads hand them over."""
    prediction, target = likelihood.draw(4, 3, 5, dtype=torch.float32)
    for layout in (transposed, sliced, negative, lambda t: t[:1].expand(4, *t.shape[1:])):
        phi = {name: full(target.shape, value, torch.float32) for name, value in likelihood.phi.items()}
        phi = {k: layout(v + 0.1 * torch.rand(4, *(1,) * (v.ndim - 1))) for k, v in phi.items()}
        plain = {k: v.clone(memory_format=torch.contiguous_format) for k, v in phi.items()}
        for reduction in ("mean", "none"):
            torch.testing.assert_close(
                likelihood.nll(prediction, target, **phi, reduction=reduction),
                likelihood.nll(prediction, target, **plain, reduction=reduction),
            )


def test_one_scale_with_axes_and_a_transposed_prediction():
    x, y = torch.randn(3, 5).T, torch.randn(5, 3)
    one = likely.NormalLoss(scale=likely.Global(1))(x, y)
    torch.testing.assert_close(one, likely.NormalLoss()(x.contiguous(), y))
    pictures = torch.randn(2, 3, 4, 4).contiguous(memory_format=torch.channels_last)
    three = likely.NormalLoss(scale=likely.Global((1, 1, 1)))(pictures, torch.zeros_like(pictures))
    torch.testing.assert_close(three, likely.NormalLoss()(pictures.contiguous(), torch.zeros(2, 3, 4, 4)))
