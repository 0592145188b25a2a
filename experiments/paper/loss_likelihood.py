"""Figure 1: the normal and the softmax likelihood, their NLLs, and the parameter that fits best."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial

import pandas as pd
import torch
from matplotlib.axes import Axes
from torch import Tensor

from experiments.entries.drawing import INK, MUTED, SERIES, panel, styled, to_svg
from experiments.entries.entry import Context, Result
from experiments.entries.parts import Picture, Table
from experiments.paper._fit import descend
from likely.functional import normal_nll, softmax_nll
from likely.losses import NormalLoss, SoftmaxLoss
from likely.parameters import Global

SCALES = RESIDUALS = (0.5, 1.0, 2.0)
TEMPERATURES = (0.5, 1.0, 2.0, 4.0)
MARGIN = 4.0  # how far the logit of the chosen class stands above the other one
ACCURACIES = (0.6, 0.75, 0.9)
START = 3.0  # where the learned parameters begin: no residual's best scale, no accuracy's best temperature


def run(context: Context) -> Result:
    """Learn a scale for each residual and a temperature for each accuracy, and draw where they come from."""
    scales = [learned_scale(residual) for residual in RESIDUALS]
    temperatures = [learned_temperature(accuracy) for accuracy in ACCURACIES]
    rows = [("normal scale", f"residual {r:g}", r, learned) for r, learned in zip(RESIDUALS, scales, strict=True)]
    for accuracy, learned in zip(ACCURACIES, temperatures, strict=True):
        rows.append(("softmax temperature", f"right {accuracy:.0%}", best_temperature(accuracy), learned))
    frame = pd.DataFrame(rows, columns=["parameter", "data", "closed form", "learned"]).set_index(["parameter", "data"])
    frame["difference"] = frame["learned"] - frame["closed form"]
    worst = float((frame["difference"] / frame["closed form"]).abs().max())
    digits = math.floor(-math.log10(max(worst, 1e-15)))
    return Result(
        "not judged",
        f"Gradient descent on the likelihood finds the best scale and the best temperature to {digits} digits. The "
        "best scale is the size of the residual; the best temperature of a classifier with margin m that is right with "
        "probability a is m / log(a / (1 − a)).",
        tables=(
            Table(
                frame,
                f"What `likely.Global(init={START:g})` learns, against the closed form. The classifier's margin is "
                f"{MARGIN:g}.",
                digits=6,
            ),
        ),
        pictures=(
            _density(),
            _nll(),
            _probability(),
            _softmax_nll(),
            _learned_scales(scales),
            _learned_temperatures(temperatures),
        ),
    )


def learned_scale(residual: float) -> float:
    """The scale of a normal likelihood that has seen this one residual."""
    scale = Global(init=START)
    descend(NormalLoss(scale), torch.zeros(1), torch.tensor([residual], dtype=torch.double))
    return scale.value.item()


def learned_temperature(accuracy: float) -> float:
    """The temperature of a classifier whose margin is always the same and which is right this often."""
    temperature = Global(init=START)
    often = torch.tensor([[accuracy, 1 - accuracy]], dtype=torch.double)
    descend(SoftmaxLoss(temperature), torch.tensor([[MARGIN, 0.0]]), often)
    return temperature.value.item()


def best_temperature(accuracy: float) -> float:
    """Where the softmax gives the chosen class exactly the probability with which it is right."""
    return MARGIN / math.log(accuracy / (1 - accuracy))


def normal(residual: Tensor, scale: Tensor | float) -> Tensor:
    """The normal NLL of each residual."""
    return normal_nll(torch.zeros_like(residual), residual, scale=scale, reduction="none")


def envelope(residual: Tensor) -> Tensor:
    """The NLL when every residual has its own best scale, |r|: all fixed scales touch this curve from above."""
    return normal(residual, residual.abs())


def two_class(margin: Tensor, temperature: float) -> Tensor:
    """The softmax NLL of the true class when its logit stands this far above the other."""
    logits = torch.stack([margin, torch.zeros_like(margin)], dim=1)
    return softmax_nll(logits, torch.zeros(len(margin), dtype=torch.long), temperature=temperature, reduction="none")


def expected_softmax(temperature: Tensor, accuracy: float) -> Tensor:
    """The expected NLL at each temperature of a classifier that is right this often."""
    logits = torch.tensor([MARGIN, 0.0]).expand(len(temperature), 2)
    often = torch.tensor([accuracy, 1 - accuracy]).expand(len(temperature), 2)
    return softmax_nll(logits, often, temperature=temperature, reduction="none")


@styled
def _density() -> Picture:
    residual = torch.linspace(-4, 4, 201)
    figure, axes = panel()
    for scale in SCALES:
        axes.plot(residual, normal(residual, scale).neg().exp(), label=f"scale {scale:g}")
    axes.legend(loc="upper right")
    _label(axes, "Normal: the density", "residual", "density")
    return Picture(
        to_svg(figure),
        "Bell curves of three scales: the narrower, the higher.",
        "A small scale promises much and so has little credit left for the tails.",
    )


@styled
def _nll() -> Picture:
    residual = torch.linspace(0.02, 4, 200)
    figure, axes = panel()
    for scale, colour in zip(SCALES, SERIES, strict=False):
        axes.plot(residual, normal(residual, scale), color=colour, label=f"scale {scale:g}")
        touch = torch.tensor([scale])
        axes.plot(touch, envelope(touch), "o", color=colour, markersize=5)
    axes.plot(residual, envelope(residual), "--", color=INK, linewidth=1.3, label="scale = |residual|")
    axes.set_ylim(-1.5, 5)
    axes.legend(loc="lower right")
    _label(axes, "Normal: its NLL", "|residual|", "NLL")
    return Picture(
        to_svg(figure),
        "NLL against the residual for three scales. A dashed curve touches each from below where its scale is the "
        "residual.",
        "Each fixed scale is a parabola. A free scale follows the dashed curve, which touches a parabola where the "
        "scale equals the residual: an outlier then costs its logarithm, not its square.",
    )


@styled
def _probability() -> Picture:
    margin = torch.linspace(-8, 8, 201)
    figure, axes = panel()
    for temperature in TEMPERATURES:
        axes.plot(margin, two_class(margin, temperature).neg().exp(), label=f"T = {temperature:g}")
    axes.legend(loc="lower right")
    _label(axes, "Softmax: the probability", "logit of the true class − the other", "probability of the true class")
    return Picture(
        to_svg(figure),
        "Sigmoid curves of four temperatures: the higher the temperature, the flatter.",
        "Two classes. A temperature that rises blurs the step from wrong to right.",
    )


@styled
def _softmax_nll() -> Picture:
    margin = torch.linspace(-8, 8, 201)
    figure, axes = panel()
    for temperature in TEMPERATURES:
        axes.plot(margin, two_class(margin, temperature), label=f"T = {temperature:g}")
    axes.axhline(math.log(2), color=MUTED, linestyle=":", linewidth=1.4, label="T → ∞: log 2")
    axes.set_ylim(0, 8)
    axes.legend(loc="upper right")
    _label(axes, "Softmax: its NLL", "logit of the true class − the other", "NLL")
    return Picture(
        to_svg(figure),
        "NLL against the margin for four temperatures: steep for wrong answers when cold, flat when hot.",
        "Hot, a wrong answer costs little and a right one never becomes free: certainty traded for credit.",
    )


def _learned_scales(learned: Sequence[float]) -> Picture:
    curves = [(f"residual {r:g}", partial(_normal_of_scale, residual=r)) for r in RESIDUALS]
    axes_words = ("Normal: the learned scale", "scale")
    return Picture(
        _curves_with_minima(axes_words, torch.logspace(-0.9, 1, 200), curves, learned, top=4),
        "NLL against the scale for three residuals, each with a dot at its minimum.",
        "Dots: the scale found by gradient descent, which is the residual.",
    )


def _normal_of_scale(scale: Tensor, residual: float) -> Tensor:
    return normal(torch.full_like(scale, residual), scale)


def _learned_temperatures(learned: Sequence[float]) -> Picture:
    curves = [(f"right {a:.0%}", partial(expected_softmax, accuracy=a)) for a in ACCURACIES]
    axes_words = ("Softmax: the learned temperature", "temperature")
    return Picture(
        _curves_with_minima(axes_words, torch.logspace(-0.2, 1.6, 200), curves, learned, top=1.8),
        "Expected NLL against the temperature for three accuracies, each with a dot at its minimum.",
        f"A classifier whose margin is always {MARGIN:g}: the less often it is right, the higher the best temperature. "
        "Dots: the temperature found by gradient descent.",
    )


@styled
def _curves_with_minima(
    words: tuple[str, str],
    grid: Tensor,
    curves: Sequence[tuple[str, Callable[[Tensor], Tensor]]],
    minima: Sequence[float],
    top: float,
) -> str:
    figure, axes = panel()
    for (label, curve), minimum, colour in zip(curves, minima, SERIES, strict=False):
        axes.plot(grid, curve(grid), color=colour, label=label)
        at = torch.tensor([minimum], dtype=grid.dtype)
        axes.plot(at, curve(at), "o", color=colour, markersize=5)
    axes.set_xscale("log")
    axes.set_ylim(0, top)
    axes.xaxis.set_major_formatter("{x:g}")
    axes.xaxis.set_minor_formatter("")
    axes.legend(loc="lower right")
    _label(axes, *words, "NLL")
    return to_svg(figure)


def _label(axes: Axes, title: str, xlabel: str, ylabel: str) -> None:
    axes.set_title(title)
    axes.set_xlabel(xlabel)
    axes.set_ylabel(ylabel)
