"""The table of docs/torch-losses.md: torch's machinery x losses x kinds of parameters, one test per cell."""

import pytest
import torch
from tests.losses.torch_features import FEATURES, KINDS, LOSSES, ROWS, All, all_inputs, near

from pairwise import together

# Forward mode loads derivatives that torch itself still writes in TorchScript.
pytestmark = pytest.mark.filterwarnings("ignore:`torch.jit.(script|trace|trace_method)` is deprecated")


@together("kind", KINDS)
@together("loss", LOSSES)
@together("feature", FEATURES)
def test_cell(feature, loss, kind):
    FEATURES[feature](loss, kind)


@pytest.fixture(scope="module")
def every():
    """All cells, and one program of them for any number of rows."""
    module = All().eval()
    rows = torch.export.Dim("rows", min=2)
    inputs = all_inputs()
    return module, torch.export.export(module, inputs, dynamic_shapes=tuple({0: rows} for _ in inputs))


def more_rows():
    return [torch.cat([t, t]) for t in all_inputs()]


def test_exported_programs(every):
    module, program = every
    near(program.module()(*more_rows()), module(*more_rows()))


@pytest.mark.heavy
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::UserWarning")
def test_onnx_files(every, tmp_path):
    pytest.importorskip("onnxscript")
    runtime = pytest.importorskip("onnxruntime")
    module, program = every
    torch.onnx.export(program, f=tmp_path / "losses.onnx", verbose=False)
    session = runtime.InferenceSession(tmp_path / "losses.onnx")
    given = {i.name: t.numpy() for i, t in zip(session.get_inputs(), more_rows(), strict=True)}
    got = torch.from_numpy(session.run(None, given)[0])
    for name, value, expected in zip(module.names, got, module(*more_rows()), strict=True):
        torch.testing.assert_close(value, expected, rtol=1e-4, atol=1e-4, msg=lambda m, n=name: f"{n}: {m}")
    assert len(more_rows()[0]) == ROWS * 2
