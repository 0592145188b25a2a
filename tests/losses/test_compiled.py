"""Losses under ``torch.compile``: the same numbers, few guards, and rows that step as they do without it."""

import copy

import pytest
import torch
from torch import nn

import likely
from likely import _kernels as kernels

# Torch warns about its own use of autograd functions and of TorchScript while it compiles.
pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:.*should not be instantiated"),
]

LOCATIONS = [likely.NormalLoss, likely.LaplaceLoss, likely.StudentTLoss, likely.RobustLoss]
OPTIONS = [
    {"reduction": "sum", "full": False},
    {"reduction": "none"},
    {"multiplier": 2.0},
    {"scale": 0.7},
    {"scale": likely.Global((3,))},
    {"scale": likely.Predicted(4, weights="glorot")},
    {"scale": likely.Predicted(4, (3,), weights="glorot")},
]


@pytest.fixture(autouse=True)
def _nothing_compiled_before():
    torch.compiler.reset()


def compiled(module):
    return torch.compile(module, backend="eager")


@pytest.mark.parametrize(
    ("made", "options"),
    [*((made, {}) for made in LOCATIONS), *((made, o) for made in LOCATIONS[::2] for o in OPTIONS)],
)
def test_gives_what_it_gives_without_the_compiler(made, options):
    plain = made(**copy.deepcopy(options))
    twin = copy.deepcopy(plain)
    x, y, features = torch.randn(6, 3, requires_grad=True), torch.randn(6, 3), torch.randn(6, 4)
    how = {"features": features} if isinstance(options.get("scale"), likely.Predicted) else {}
    losses = [loss_fn(x, y, **how).sum() for loss_fn in (plain, compiled(twin))]
    torch.testing.assert_close(losses[1], losses[0])
    for loss_fn, loss in zip((plain, twin), losses, strict=True):
        loss_fn.slopes = torch.autograd.grad(loss, [x, *loss_fn.parameters()])
    torch.testing.assert_close(twin.slopes, plain.slopes)
    for mine, theirs in zip(twin.buffers(), plain.buffers(), strict=True):
        torch.testing.assert_close(mine, theirs)  # the running moments of features moved once


def test_features_by_name_and_weights_of_rows():
    loss_fn = likely.StudentTLoss(df=likely.Predicted(4), scale=likely.Predicted(2))
    x, y = torch.randn(6, 3), torch.randn(6, 3)
    features = {"df": torch.randn(6, 4), "scale": torch.randn(6, 2)}
    how = {"features": features, "sample_weight": torch.rand(6)}
    loss_fn.eval()
    torch.testing.assert_close(compiled(copy.deepcopy(loss_fn))(x, y, **how), loss_fn(x, y, **how))


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_other_dtypes_are_promoted_as_without_the_compiler(dtype):
    x, y = torch.randn(6, 3), torch.randn(6, 3)
    for loss_fn, prediction in ((likely.NormalLoss(), x.to(dtype)), (likely.NormalLoss().to(dtype), x)):
        expected = loss_fn(prediction, y)
        found = compiled(copy.deepcopy(loss_fn))(prediction, y)
        assert found.dtype == expected.dtype
        torch.testing.assert_close(found, expected)


def test_an_option_that_changes_later_counts():
    loss_fn = likely.NormalLoss()
    fast = compiled(loss_fn)
    x, y = torch.randn(6, 3), torch.randn(6, 3)
    mean = fast(x, y)
    loss_fn.reduction, loss_fn.multiplier = "sum", 2.0
    torch.testing.assert_close(fast(x, y), 36 * mean)


def test_wrong_shapes_are_refused_by_name():
    with pytest.raises(Exception, match="prediction has shape"):
        compiled(likely.NormalLoss())(torch.randn(6, 3), torch.randn(6))


class ByHand(nn.Module):
    """Ten lines of torch, with their guards to compare with."""

    def __init__(self):
        super().__init__()
        self.raw = nn.Parameter(torch.zeros(()))

    def forward(self, prediction, target):
        scale = nn.functional.softplus(self.raw)
        return (0.5 * ((target - prediction) / scale).square() + scale.log()).mean()


def guards(module, *inputs):
    """How many lines a compiled call's guards have."""
    from torch._dynamo.eval_frame import _debug_get_cache_entry_list

    compiled(module)(*inputs)
    (entry,) = _debug_get_cache_entry_list(type(module).forward.__code__)
    return str(entry.guard_manager).count("\n")


@pytest.mark.parametrize("made", [likely.NormalLoss, likely.LaplaceLoss])
def test_a_compiled_call_has_few_guards(made):
    """They cost a small batch more than the loss: it was eight times as many, and 1.1 times the time by hand."""
    inputs = torch.randn(6, 3), torch.randn(6, 3)
    loss_fn = made()
    loss_fn.start(*inputs)
    assert guards(loss_fn, *inputs) < 4 * guards(ByHand(), *inputs)


def test_rows_step_as_they_do_without_the_compiler_and_nothing_of_them_is_compiled():
    plain = likely.NormalLoss(scale=likely.Data(10))
    twin, graphs = copy.deepcopy(plain), []

    def backend(graph, _):
        graphs.append(graph)
        return graph.forward

    fast = torch.compile(twin, backend=backend)
    for _ in range(3):
        index, x, y = torch.randint(0, 10, (6,)), torch.randn(6, 3, requires_grad=True), torch.randn(6, 3)
        losses = [loss_fn(x, y, index=index) for loss_fn in (plain, fast)]
        torch.testing.assert_close(losses[1], losses[0])
        for loss in losses:
            loss.backward()
    torch.testing.assert_close(twin.scale.value, plain.scale.value)
    assert not graphs


@pytest.mark.skipif(not kernels.available(torch.empty(0)), reason="kernels were not compiled here")
@pytest.mark.parametrize("options", [{}, {"alpha": likely.Predicted(4), "scale": likely.Predicted(4)}, {"alpha": 1.0}])
def test_rho_keeps_its_kernel_in_one_graph(options):
    """Its normaliser is tables: as a formula it took seven times as long compiled as it takes without the compiler."""
    graphs = []

    def keep(graph, _):
        graphs.append(graph)
        return graph.forward

    loss_fn = likely.RobustLoss(**options)
    how = {"features": torch.randn(6, 4)} if "scale" in options else {}
    torch.compile(loss_fn, backend=keep, fullgraph=True)(torch.randn(6, 3), torch.randn(6, 3), **how)
    assert any("likely.location_sum" in str(node.target) for graph in graphs for node in graph.graph.nodes)
