"""What a likelihood of many elements costs, against the losses it replaces: on the CPU and, if there is one, a GPU."""

from __future__ import annotations

import math
import subprocess
import sys
from collections.abc import Callable, Iterator

import pandas as pd
import torch
from torch import Tensor
from torch.nn import functional as F

from experiments.benchmarks import _textbook
from experiments.benchmarks._device_timing import copy_bandwidth, milliseconds, peak_bytes
from experiments.benchmarks._timing import cpu_milliseconds
from experiments.benchmarks._turns import step
from experiments.benchmarks._vocabulary_rivals import CUT, LIGER, linear_rivals, softmax_rivals
from experiments.entries import Bar, Context
from experiments.entries.bar import Sign
from experiments.entries.drawing import SERIES, panel, styled, to_svg
from experiments.entries.parts import Picture, Table
from likely import functional

PUBLISHED, LEAN = "ρ, as published, eager", "ρ, a lean textbook, eager"
FIRST_USE = """
import time, torch
from likely import functional
x, y = torch.randn(9, requires_grad=True), torch.randn(9)
start = time.perf_counter()
functional.robust_nll(x, y, alpha=1.0, scale=1.0).backward()
print(time.perf_counter() - start)
"""


def large(context: Context) -> tuple[list[Bar], tuple[Table, ...], tuple[Picture, ...]]:
    """Time forward and backward together, every peer in the same process."""
    times: list[tuple[str, str, float]] = []
    bars: list[Bar] = []
    steps: list[Callable[[list[tuple[str, str, float]]], Iterator[Bar]]] = [lambda t: cpu(t, quick=context.quick)]
    if torch.cuda.is_available():
        steps += [elementwise, softmax, linear_softmax]
    for measure in steps:
        bars.extend(measure(times))
    growth = pd.DataFrame(grown(quick=context.quick), columns=["where", "likelihood", "elements", "ns an element"])
    tables = (
        Table(
            pd.DataFrame(times, columns=["where", "loss", "ms"]).set_index(["where", "loss"]),
            "Median milliseconds of forward and backward. On the GPU the device's own time.",
        ),
        Table(growth.set_index(["where", "likelihood", "elements"]), "Time per element as the batch grows."),
    )
    return bars, tables, (picture(growth),)


def cpu(times: list[tuple[str, str, float]], *, quick: bool) -> Iterator[Bar]:
    """One thread, a batch of 64 small images; ratios are of times in the same round."""
    x, y, alpha, scale = images((64, 3, 64, 64), "cpu")
    ways = {
        "ρ, α and σ an element": step(lambda: functional.robust_nll(x, y, alpha=alpha, scale=scale), x, alpha, scale),
        PUBLISHED: step(lambda: _textbook.published_nll(x, y, alpha, scale), x, alpha, scale),
        LEAN: step(lambda: _textbook.robust_nll(x, y, alpha, scale), x, alpha, scale),
        "mse_loss": step(lambda: F.mse_loss(x, y), x),
        "normal, σ an element": step(lambda: functional.normal_nll(x, y, scale=scale), x, scale),
        "GaussianNLLLoss": step(lambda: F.gaussian_nll_loss(x, y, scale), x, scale),
    }
    rounds = cpu_milliseconds(ways, repeats=5 if quick else 41)
    times.extend(("CPU", str(name), value) for name, value in rounds.median().items())

    def over(what: str, slow: str, fast: str, sign: Sign, bar: float | None) -> Bar:
        ratios = rounds[slow] / rounds[fast]
        spread = float(ratios.quantile(0.75) - ratios.quantile(0.25)) / 2
        return Bar(f"CPU, {what}", float(ratios.median()), sign, bar, "×", spread)

    rho, normal = "ρ, α and σ an element", "normal, σ an element"
    yield over("ρ: faster than as published", PUBLISHED, rho, "≥", 50)
    yield over("ρ: faster than a lean textbook", LEAN, rho, "≥", None)
    yield over("ρ: the time of mse_loss", rho, "mse_loss", "≤", 3)
    yield over("normal: faster than GaussianNLLLoss", "GaussianNLLLoss", normal, "≥", 5)
    first = subprocess.run([sys.executable, "-c", FIRST_USE], capture_output=True, text=True, check=True)
    yield Bar("CPU, the first call", float(first.stdout), "≤", 1, " s")


def elementwise(times: list[tuple[str, str, float]]) -> Iterator[Bar]:
    """50 million float32 on the GPU."""
    where = torch.cuda.get_device_name()
    bytes_a_ms = copy_bandwidth()
    x, y, alpha, scale = images((3 * 2**24,), "cuda")
    one_alpha, one_scale = (torch.tensor(v, device="cuda", requires_grad=True) for v in (1.3, 0.8))
    ways = {
        "ρ, α and σ an element": step(lambda: functional.robust_nll(x, y, alpha=alpha, scale=scale), x, alpha, scale),
        "ρ, global": step(
            lambda: functional.robust_nll(x, y, alpha=one_alpha, scale=one_scale), x, one_alpha, one_scale
        ),
        PUBLISHED: step(lambda: _textbook.published_nll(x, y, alpha, scale), x, alpha, scale),
        LEAN: step(lambda: _textbook.robust_nll(x, y, alpha, scale), x, alpha, scale),
        "mse_loss": step(lambda: F.mse_loss(x, y), x),
        "normal, σ an element": step(lambda: functional.normal_nll(x, y, scale=scale), x, scale),
        "Laplace, σ an element": step(lambda: functional.laplace_nll(x, y, scale=scale), x, scale),
        "Student t, ν and σ an element": step(
            lambda: functional.student_t_nll(x, y, df=alpha + 0.5, scale=scale), x, alpha, scale
        ),
        "GaussianNLLLoss": step(lambda: F.gaussian_nll_loss(x, y, scale), x, scale),
    }
    ms = {name: milliseconds(way) for name, way in ways.items()}
    times.extend((where, name, value) for name, value in ms.items())
    rho, floor = ms["ρ, α and σ an element"], 28 * x.numel() / bytes_a_ms
    times.append((where, f"28 bytes an element at {bytes_a_ms / 1e9:.2f} TB/s", floor))
    yield Bar(f"{where}, ρ: the time of 28 bytes an element", rho / floor, "≤", 1.3, "×")
    yield Bar(f"{where}, ρ: faster than as published", ms[PUBLISHED] / rho, "≥", 15, "×")
    yield Bar(f"{where}, ρ: faster than a lean textbook", ms[LEAN] / rho, "≥", None, "×")
    yield Bar(f"{where}, ρ, global: the time of mse_loss", ms["ρ, global"] / ms["mse_loss"], "≤", 1.1, "×")
    normal = ms["GaussianNLLLoss"] / ms["normal, σ an element"]
    yield Bar(f"{where}, normal: faster than GaussianNLLLoss", normal, "≥", 4, "×")


def softmax(times: list[tuple[str, str, float]]) -> Iterator[Bar]:
    """8192 rows of bfloat16 logits, one temperature per row."""
    where, rows = torch.cuda.get_device_name(), 8192
    for classes in (32000, 128256):
        z = torch.randn(rows, classes, device="cuda", dtype=torch.bfloat16, requires_grad=True)
        y = torch.randint(0, classes, (rows,), device="cuda")
        t = (torch.rand(rows, device="cuda") + 0.5).requires_grad_()

        def ours(z: Tensor = z, y: Tensor = y, t: Tensor = t) -> Tensor:
            return functional.softmax_nll(z, y, temperature=t)

        def eager(z: Tensor = z, y: Tensor = y, t: Tensor = t) -> Tensor:
            return F.cross_entropy(z.float() / t.unsqueeze(1), y)

        def plain(z: Tensor = z, y: Tensor = y) -> Tensor:
            return F.cross_entropy(z, y)

        ways: dict[str, Callable[[], Tensor]] = {
            "softmax, T a row": ours,
            "eager z/T": eager,
            "cross_entropy, no temperature": plain,
            **softmax_rivals(z, y),
        }
        ms = {f"{name}, {classes}": milliseconds(step(way, z, t)) for name, way in ways.items()}
        times.extend((where, name, value) for name, value in ms.items())
        fused, by_hand, without, *liger = ms.values()
        if liger:
            yield Bar(f"{where}, softmax {classes}: the time of Liger", fused / liger[0], "≤", None, "×")
        yield Bar(f"{where}, softmax {classes}: faster than cross_entropy", without / fused, "≥", 2, "×")
        yield Bar(f"{where}, softmax {classes}: faster than eager z/T", by_hand / fused, "≥", 10, "×")
        z.grad = t.grad = None
        memory = (z.nbytes + peak_bytes(step(ours, z, t))) / (2 * z.nbytes)
        yield Bar(f"{where}, softmax {classes}: the memory of logits and gradient", memory, "≤", 1.01, "×")


def linear_softmax(times: list[tuple[str, str, float]]) -> Iterator[Bar]:
    """8192 hidden states of width 4096 over 128,256 words, bfloat16; against z/T on materialised logits."""
    where, rows, width, classes = torch.cuda.get_device_name(), 8192, 4096, 128256
    h = (torch.randn(rows, width, device="cuda") / width**0.5).bfloat16().requires_grad_()
    w = torch.randn(classes, width, device="cuda").bfloat16().requires_grad_()
    y = torch.randint(0, classes, (rows,), device="cuda")
    t = (torch.rand(rows, device="cuda") + 0.5).requires_grad_()
    ways = {
        "linear softmax": lambda: functional.linear_softmax_nll(h, w, y, t),
        "materialised, eager z/T": lambda: F.cross_entropy((h @ w.T).float() / t.unsqueeze(1), y),
        "materialised, our softmax": lambda: functional.softmax_nll(h @ w.T, y, temperature=t),
        "materialised, cross_entropy, no temperature": lambda: F.cross_entropy(h @ w.T, y),
        **linear_rivals(h, w, y),
    }
    ms, memory = {}, {}
    for name, way in ways.items():
        ms[name] = milliseconds(step(way, h, w, t), repeats=5)
        h.grad = w.grad = t.grad = None
        memory[name] = peak_bytes(step(way, h, w, t))
        times.append((where, f"{name} ({memory[name] / 2**30:.2f} GiB)", ms[name]))
    ours, eager = "linear softmax", "materialised, eager z/T"
    of = f"{where}, linear softmax"
    yield Bar(f"{of}: the memory of materialised logits", memory[ours] / memory[eager], "≤", 1 / 8, "×")
    yield Bar(f"{of}: the time of materialised logits", ms[ours] / ms[eager], "≤", 1.1, "×")
    for name in (LIGER, CUT):
        yield Bar(f"{of}: the time of {name}", ms[ours] / ms.get(name, math.nan), "≤", None, "×")
    with torch.no_grad():
        limit = milliseconds(lambda: ((z := h @ w.T) @ w, z.T @ h), repeats=5)
    times.append((where, "linear softmax, its three matrix products", limit))
    yield Bar(f"{of}: the time of its matrix products", ms[ours] / limit, "≤", 1.1, "×")


def grown(*, quick: bool) -> Iterator[tuple[str, str, int, float]]:
    """Nanoseconds an element of forward and backward, α and σ global, as the batch grows."""
    devices = ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]
    for device in devices:
        sizes = [10**3, 10**5] if quick else [10**3, 10**5, 10**7] + [10**9] * (device == "cuda")
        for size in sizes:
            x = torch.randn(size, device=device, requires_grad=True)
            y = torch.zeros(size, device=device)
            alpha, scale = (torch.tensor(v, device=device, requires_grad=True) for v in (1.3, 0.8))
            for name, way in growing(x, y, alpha, scale).items():
                on_cpu = device == "cpu"
                ms = cpu_milliseconds({name: way}, repeats=9)[name].median() if on_cpu else milliseconds(way, repeats=5)
                yield device, name, size, 1e6 * ms / size


def growing(x: Tensor, y: Tensor, alpha: Tensor, scale: Tensor) -> dict[str, Callable[[], None]]:
    """The two likelihoods whose growth is shown."""
    return {
        "robust": step(lambda: functional.robust_nll(x, y, alpha=alpha, scale=scale), x, alpha, scale),
        "normal": step(lambda: functional.normal_nll(x, y, scale=scale), x, scale),
    }


@styled
def picture(growth: pd.DataFrame) -> Picture:
    """Time per element against elements, both logarithmic."""
    figure, axes = panel()
    for colour, ((where, name), rows) in zip(SERIES, growth.groupby(["where", "likelihood"], sort=False), strict=False):
        axes.loglog(rows["elements"], rows["ns an element"], marker="o", color=colour, label=f"{name}, {where}")
    axes.set_xlabel("elements")
    axes.set_ylabel("ns an element, forward and backward")
    axes.legend()
    return Picture(
        to_svg(figure),
        "Time per element falls as the cost of a call is shared by more elements, then stays level.",
        "Cost grows linearly: once a call's own cost is shared by enough elements, each takes the same time.",
    )


def images(shape: tuple[int, ...], device: str) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Prediction, target, α in (0, 3) and σ, all but the target learning."""
    x, y = torch.randn(shape, device=device, requires_grad=True), torch.randn(shape, device=device)
    return x, y, (3 * torch.rand_like(y)).requires_grad_(), (torch.rand_like(y) + 0.3).requires_grad_()
