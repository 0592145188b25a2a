"""The kernels on other processors: with the vectors of any, compiled here; and with ARM's, by an emulator."""

import math
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from kernels.cases import KINDS, SHAPED, assert_close, draw, in_double
from likely._kernels import _native
from likely._numerics.partition import partition
from pairwise import together

HERE = Path(__file__)
KERNELS = HERE.parents[2] / "src" / "likely" / "_kernels"
FLAGS = ["-std=c++17", "-O3", "-fno-exceptions", "-fno-rtti", "-fno-math-errno", "-fno-trapping-math"]
FLAGS += ["-ffp-contract=fast", "-w"]
PROCESSORS = {
    "this": (["c++"], []),
    "aarch64, GCC": (["aarch64-linux-gnu-g++", "-static"], ["qemu-aarch64"]),
    "aarch64, Clang": (["clang++", "--target=aarch64-linux-gnu", "-static"], ["aarch64-linux-gnu-g++", "qemu-aarch64"]),
}


@pytest.fixture(scope="module", params=PROCESSORS)
def tools(request: pytest.FixtureRequest) -> tuple[list[str], list[str]]:
    """A compiler with its options, and the emulator if one is needed."""
    compiler, rest = PROCESSORS[request.param]
    if lacking := [tool for tool in (compiler[0], *rest) if shutil.which(tool) is None]:
        pytest.skip(f"needs {' and '.join(lacking)}")
    return [*compiler, *FLAGS], rest[-1:]


@pytest.fixture(scope="module")
def program(tools: tuple[list[str], list[str]], tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The command that runs elsewhere.cpp on a processor."""
    compiler, emulator = tools
    made = tmp_path_factory.mktemp("elsewhere") / "program"
    source = HERE.with_name("elsewhere.cpp")
    subprocess.run([*compiler, f"-I{KERNELS}", "-o", str(made), str(source), "-lm"], check=True)
    return [*emulator, str(made)]


@pytest.mark.parametrize("source", ["outliers/scores.cpp", "row_store/rule.cpp", "_kernels/head.cpp"])
def test_the_other_sources_compile(tools, tmp_path, source):
    compiler, _ = tools
    subprocess.run([*compiler, "-c", "-o", str(tmp_path / "made.o"), str(KERNELS.parent / source)], check=True)


def run(program: list[str], arguments: list[object], inputs: list[Tensor], sizes: list[int]) -> list[Tensor]:
    numbers = b"".join(t.detach().numpy().astype(np.float32).tobytes() for t in inputs)
    done = subprocess.run([*program, *map(str, arguments)], input=numbers, capture_output=True, check=True)
    return list(torch.from_numpy(np.frombuffer(done.stdout, np.float32).copy()).split(sizes))


def location(program: list[str], kind: str, inputs: list[Tensor]) -> list[Tensor]:
    """The mean, the gradients of all but the target, and every NLL."""
    prediction, target, scale, *rest = inputs
    (shape,) = rest or [torch.ones(1)]
    tables = [torch.from_numpy(t) for t in partition(_native.PARTS, _native.TERMS)]
    n = len(prediction)
    arguments = [_native.KINDS.index(kind), n, len(scale), len(shape)]
    return run(program, arguments, [prediction, target, scale, shape, *tables], [1, n, len(scale), len(shape), n])


@together("kind", KINDS)
@together("n", [1, 5, 777, 70001])
@together("parameters", ["one", "each", "mixed"])
def test_value_and_gradients(program, kind, n, parameters):
    inputs = draw(kind, n, scales=1 if parameters == "one" else n, shapes=n if parameters == "each" else 1)
    mean, d_prediction, d_scale, d_shape, each = location(program, kind, inputs)
    value, gradients = in_double(KINDS[kind], inputs, "mean", torch.ones(()))
    assert_close(mean[0], value, of=1e-5)
    assert_close(each, in_double(KINDS[kind], inputs, "none", torch.ones(n))[0], of=1e-5)
    slopes = [d_prediction, -d_prediction, d_scale, d_shape][: 3 + (kind in SHAPED)]
    for mine, theirs in zip(slopes, gradients, strict=True):
        assert_close(mine, theirs, of=2e-4)


@together("kind", KINDS)
def test_broken_numbers_stay_visible(program, kind):
    for position, value in [(0, math.nan), (2, -1.0), (2, math.nan), *[(3, math.nan)] * (kind in SHAPED)]:
        inputs = [t.detach() for t in draw(kind, 20, scales=20, shapes=20)]
        expected = location(program, kind, inputs)[-1].isfinite()
        expected[3] = False
        inputs[position][3] = value
        mean, *_, each = location(program, kind, inputs)
        assert not mean.isfinite()
        assert (each.isfinite() == expected).all()


@pytest.mark.parametrize("rows", [1, 70])
@pytest.mark.parametrize("classes", [2, 10, 37])
@pytest.mark.parametrize("one", [True, False])
def test_softmax(program, rows, classes, one):
    logits, label = 3 * torch.randn(rows, classes), torch.randint(0, classes, (rows,))
    label[1::5] = -100
    temperature = torch.rand(1 if one else rows) + 0.5
    sizes = [1, rows * classes, len(temperature)]
    loss, d_logits, slope = run(
        program, ["softmax", rows, classes, len(temperature)], [logits, label, temperature], sizes
    )
    leaves = [t.double().requires_grad_() for t in (logits, temperature)]
    expected = F.cross_entropy(leaves[0] / leaves[1].unsqueeze(1), label, label_smoothing=0.1)
    gradients = torch.autograd.grad(expected, leaves)
    assert_close(loss[0], expected.detach(), of=1e-5)
    torch.testing.assert_close(d_logits.view(rows, classes).double(), gradients[0], rtol=1e-4, atol=1e-7)
    torch.testing.assert_close(slope.double(), gradients[1], rtol=1e-4, atol=1e-6)
